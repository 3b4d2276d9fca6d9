"""Lines made to be slow: every expression of every declaration gets through them, or is given up."""

import io
import json

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.events import DECLARATIONS, Matcher
from kvdiag.diagnosis.events.pattern import PATIENCE, Declaration
from kvdiag.diagnosis.lines import Log, LogLine

LENGTH = 60_000  # characters; of a longer line no more is looked at
MODULES = sorted({declaration.event.__module__ for declaration in DECLARATIONS})
RECORD = "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB"


def evil(declaration: Declaration) -> list[str]:
    """Starts without end, ends without start, long runs before and behind what finds the line."""
    literal, sample = declaration.literals[0], declaration.samples[0]
    runs = ("1", "a", " ", "1.", ", ", "(")
    texts = [part * (LENGTH // len(part)) for part in (literal, sample)]
    texts += [literal + run * (LENGTH // len(run)) for run in runs]
    texts += [run * (LENGTH // len(run)) + literal for run in runs[:3]]
    return texts


@pytest.mark.parametrize("module", MODULES)
def test_no_expression_takes_time_that_grows_with_the_square(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does takes minutes on such a line, and is given up after ten seconds; the others take milliseconds."""
    monkeypatch.setattr("kvdiag.diagnosis.events.expression.TIMEOUT_S", 10.0)
    monkeypatch.setattr("kvdiag.diagnosis.events.pattern.TIMEOUT_S", 10.0)
    given_up = []
    for declaration in DECLARATIONS:
        if declaration.event.__module__ == module:
            for text in evil(declaration):
                try:
                    declaration.read(LogLine(0, 1, text))
                except TimeoutError:
                    given_up.append((declaration.event.__name__, declaration.phrase.pattern[:60], text[:40]))
    assert given_up == []


def test_every_declaration_has_literals_that_find_its_lines_before_an_expression_does() -> None:
    assert [d.event.__name__ for d in DECLARATIONS if not d.literals or min(map(len, d.literals)) < 3] == []


def test_an_expression_that_takes_too_long_is_given_up_and_the_log_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdiag.diagnosis.events.expression.TIMEOUT_S", 1e-9)
    hostile = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. " + "1" * 50_000
    report = diagnose(Log("x", io.BytesIO(f"{RECORD}\n{hostile}\n{RECORD}\n".encode())))
    (launch,) = report.document["launches"]
    assert launch["oom"] == []
    assert launch["ranks"][0]["readings"][0]["available_gib"] == 21.63
    json.loads(report.to_json())


def test_after_some_of_them_long_lines_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def give_up(self: Declaration, line: LogLine, text: str) -> None:
        tried.append(line.number)
        raise TimeoutError

    monkeypatch.setattr(Declaration, "read_candidate", give_up)
    matcher = Matcher()
    long = "Load weight begin. " + "a" * 20_000
    for number in range(1, 100):
        assert matcher.claims(LogLine(0, number, long)) == []
    assert len(tried) == PATIENCE
    matcher.claims(LogLine(0, 100, "Load weight begin. avail mem=1.00 GB"))
    assert tried[-1] == 100  # a short one is still read
