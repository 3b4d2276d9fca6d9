"""The corpus in other clothes: another carrier, other ranks' turns, foreign lines, a cut, a wrap. Figures stay.

Each perturbation is made by a seeded generator from a log of the corpus, and must score what the plain log scores.
"""

import io
import json
import random
import re
import textwrap
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
from tests.diagnosis.test_corpus import CASES, CORPUS, document, figures

Lines = list[str]
Perturbation = Callable[[Lines, random.Random], Lines]

RECORD = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
RANKED = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d((?: [A-Z_]+\d+)+)\]")
MOMENTS = ("weights_begin", "weights_end", "pool_end", "cuda_graph_begin", "cuda_graph_end")
FOREIGN = (
    "INFO 03-25 10:11:12 probe.py:12] nothing of note",
    '{"level": "info", "msg": "probe ok"}',
    "health check passed in 12 ms",
)


def stamps(lines: Lines) -> list[datetime]:
    """When each line was written: at its own time, or at that of the record before it."""
    now = datetime(2020, 1, 1)
    found = []
    for text in lines:
        record = RECORD.match(text)
        now = datetime.fromisoformat(record[0][1:]) if record else now + timedelta(microseconds=1)
        found.append(now)
    return found


def docker_json(lines: Lines, chance: random.Random) -> Lines:
    return [
        json.dumps(
            {"log": f"{text}\n", "stream": "stderr", "time": f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z"}, ensure_ascii=False
        )
        for text, at in zip(lines, stamps(lines), strict=True)
    ]


def kubectl_timestamps(lines: Lines, chance: random.Random) -> Lines:
    return [f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z {text}" for text, at in zip(lines, stamps(lines), strict=True)]


def journald(lines: Lines, chance: random.Random) -> Lines:
    return [f"{at:%b %d %H:%M:%S} host-a sglang[4242]: {text}" for text, at in zip(lines, stamps(lines), strict=True)]


def compose(lines: Lines, chance: random.Random) -> Lines:
    return [f"sglang-1  | {text}" for text in lines]


def github_actions(lines: Lines, chance: random.Random) -> Lines:
    return [f"{at:%Y-%m-%dT%H:%M:%S.%f}0Z {text}" for text, at in zip(lines, stamps(lines), strict=True)]


def email_quote(lines: Lines, chance: random.Random) -> Lines:
    return [f"> {text}" for text in lines]


def other_turns(lines: Lines, chance: random.Random) -> Lines:
    """The ranks of each run of records take turns anew; each rank's own order stays."""
    out: Lines = []
    run: list[tuple[str, str]] = []

    def flush() -> None:
        queues: dict[str, Lines] = {}
        for rank, text in run:
            queues.setdefault(rank, []).append(text)
        while queues:
            rank = chance.choice(sorted(queues))
            out.append(queues[rank].pop(0))
            if not queues[rank]:
                del queues[rank]
        run.clear()

    for text in lines:
        found = RANKED.match(text)
        # A summary stands behind all ranks' graphs, and a step of one rank's never crosses it.
        if found and "max_total_num_tokens" not in text and "\r" not in text and "batch" not in text:
            run.append((found[1], text))
        else:
            flush()
            out.append(text)
    flush()
    return out


def foreign_lines(lines: Lines, chance: random.Random) -> Lines:
    out: Lines = []
    for text in lines:
        if RECORD.match(text) and chance.random() < 0.3:
            out.append(chance.choice(FOREIGN))
        out.append(text)
    return out


PERTURBATIONS = (
    docker_json,
    kubectl_timestamps,
    journald,
    compose,
    github_actions,
    email_quote,
    other_turns,
    foreign_lines,
)


@cache
def lines_of(case: str) -> tuple[str, ...]:
    return tuple((CORPUS / case / "log.txt").read_bytes().decode("utf-8", "replace").split("\n"))


def is_plain(case: str) -> bool:
    """Whether the log stands as the server printed it: in a log that is in clothes already, more would be a guess."""
    lines = [text for text in lines_of(case) if text.strip()]
    records = sum(RECORD.match(text) is not None for text in lines)
    return records > 0.25 * len(lines) and sum(map(len, lines)) < 300_000


PLAIN = [case for case in CASES if is_plain(case)]


def diagnosed(lines: Lines) -> dict[str, Any]:
    return diagnose(Log("log.txt", io.BytesIO("\n".join(lines).encode()))).document


def score(found: dict[str, Any]) -> list[Any]:
    """Outcome, limits, arguments and every figure of every rank."""
    return [
        (
            launch["outcome"],
            (launch["failure"] or {}).get("kind"),
            (launch["failure"] or {}).get("stage"),
            {key: value for key, value in launch["limits"].items() if key != "line"},
            {name: argument["value"] for name, argument in launch["arguments"].items()},
            {(rank["id"], model): figures(rank, model) for rank in launch["ranks"] for model in ("target", "draft")},
            [{key: value for key, value in oom.items() if key != "line"} for oom in launch["oom"]],
        )
        for launch in found["launches"]
    ]


def test_enough_of_the_corpus_is_plain() -> None:
    assert len(PLAIN) >= 15


@pytest.mark.parametrize("perturb", PERTURBATIONS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("case", PLAIN)
def test_the_perturbed_log_scores_what_the_plain_log_scores(case: str, perturb: Perturbation) -> None:
    lines = perturb(list(lines_of(case)), random.Random(f"{case} {perturb.__name__}"))
    assert score(diagnosed(lines)) == score(document(case))


def readings(found: dict[str, Any]) -> set[tuple[Any, ...]]:
    return {
        (launch["number"], rank["id"], reading["moment"], reading["model"], reading["available_gib"], reading["line"])
        for launch in found["launches"]
        for rank in launch["ranks"]
        for reading in rank["readings"]
        if reading["moment"] in MOMENTS
    }


@pytest.mark.parametrize("case", PLAIN)
def test_a_cut_log_has_the_readings_before_the_cut_and_no_other(case: str) -> None:
    chance = random.Random(f"cut {case}")
    lines = list(lines_of(case))
    for _ in range(3):
        at = chance.randrange(1, len(lines))
        cut = readings(diagnosed(lines[:at]))
        assert {r for r in readings(document(case)) if r[-1] <= at} >= {r for r in cut if r[3] == "target"}
        assert len(cut) == len({r for r in readings(document(case)) if r[-1] <= at})


# A run of 150 blanks within its command, of which a wrap makes lines of blanks alone.
BLANKS_WITHIN = "gptoss-20b-dummy-bench-shell-two-launches"


@pytest.mark.parametrize("wrap", ["hard", "at blanks"])
@pytest.mark.parametrize("width", [80, 100, 120, 132])
@pytest.mark.parametrize("case", PLAIN)
def test_a_log_wrapped_at_a_width_scores_what_the_plain_log_scores(case: str, width: int, wrap: str) -> None:
    cut = _wrapped if wrap == "hard" else _wrapped_at_blanks
    whole = score(document(case))
    found = score(diagnosed([part for text in lines_of(case) for part in cut(text, width)]))
    assert len(found) == len(whole)
    for part, expected in zip(found, whole, strict=True):
        if case == BLANKS_WITHIN:
            assert part[4].items() <= expected[4].items()
            part, expected = (*part[:4], *part[5:]), (*expected[:4], *expected[5:])
        assert part == expected


def _wrapped(text: str, width: int) -> Lines:
    """As a terminal does, in the middle of a word."""
    text = text.rsplit("\r", 1)[-1]
    return [text[n : n + width] for n in range(0, len(text), width)] or [""]


def _wrapped_at_blanks(text: str, width: int) -> Lines:
    """As an editor or a mail program does."""
    return textwrap.wrap(text.rsplit("\r", 1)[-1], width, break_on_hyphens=False) or [""]
