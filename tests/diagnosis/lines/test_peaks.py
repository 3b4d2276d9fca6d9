"""Peaks are exact, whatever is sampled."""

import random
import re

import pytest

from kvdiag.diagnosis.peaks import Peaks, above

LINE = (
    b"[2025-03-08 12:29:13 TP0] Decode batch, #running-req: %d, #token: 9, token usage: %.2f, mamba usage: 0.90, "
    b"#queue-req: %d\n"
)


@pytest.mark.parametrize("figure", [-1, 0, 1, 8, 9, 10, 47, 99, 100, 199, 200, 347, 999])
def test_the_expression_matches_just_the_higher_numbers(figure: int) -> None:
    higher = re.compile(above(figure))
    assert [n for n in range(2000) if higher.fullmatch(str(n))] == list(range(figure + 1, 2000))


@pytest.mark.parametrize("figure", [-1, 0, 9, 46, 89, 90, 98, 99])
def test_the_expression_matches_just_the_higher_uses(figure: int) -> None:
    higher = re.compile(above(figure, hundredths=True))
    assert [n for n in range(101) if higher.fullmatch(f"{n / 100:.2f}")] == list(range(figure + 1, 101))


def test_every_new_height_is_found() -> None:
    rng = random.Random(9)
    peaks = Peaks()
    highest = [-1, -1, -1]
    for _ in range(60):
        rows = [(rng.randrange(300), rng.random() ** 3, rng.randrange(50)) for _ in range(40)]
        block = b"".join(LINE % row for row in rows)
        seen = peaks.new(block)
        for at, key in enumerate((b"#running-req: ", b", token usage: ", b"#queue-req: ")):
            best = max(rows, key=lambda row: row[at])[at]
            figure = round(best * 100) if at == 1 else best
            if figure > highest[at]:
                highest[at] = figure
                lines = [block[block.rfind(b"\n", 0, end) + 1 : block.find(b"\n", end)] for end in seen]
                printed = b"%.2f" % best if at == 1 else b"%d" % best
                assert any(key + printed in line for line in lines)
    assert peaks.highest["mamba usage: "] == 90


def test_pools_that_were_all_full_are_no_failure() -> None:
    full = b", full token usage: 1.00, swa token usage: 1.00, mamba usage: 1.00, token usage: 1.00, #running-req: 3\n"
    peaks = Peaks()
    assert len(peaks.new(full)) == 5
    for _ in range(40):
        assert peaks.new(full) == []
    assert len(peaks.new(full.replace(b"req: 3", b"req: 4"))) == 1
