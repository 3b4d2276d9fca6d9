"""The engine: bytes in, a report out. No clock, no network, no database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from kvdiag.diagnosis.lines import Log
    from kvdiag.diagnosis.report import Report
    from kvdiag.diagnosis.rules.checking import Checked
    from kvdiag.diagnosis.rules.thresholds import Thresholds


def diagnose(
    *logs: BinaryIO | Log,
    limits: Any = None,
    on_phase: Callable[[str, int], None] | None = None,
    thresholds: Thresholds | None = None,
    is_masked: bool = False,
    on_failure: Callable[[str], None] | None = None,
) -> Report:
    """The report on one upload: its launches, in the order they started.

    thresholds  the rules' own where None; Thresholds.read() makes others from names and values
    is_masked   the logs are copies that masked_copy made: nothing is hidden in them again, so their pseudonyms stay
    on_failure  called with the id of a rule that raised, within its exception, which is logged where this is None

    Never raises on what a log says. Raises errors.UnreadableLog and errors.LogTooLarge for what is no readable text.
    """
    from kvdiag.diagnosis.events import Matcher
    from kvdiag.diagnosis.launches import split_launches
    from kvdiag.diagnosis.ledger.booking import book
    from kvdiag.diagnosis.ledger.sizing import size
    from kvdiag.diagnosis.limits import DEFAULT_LIMITS
    from kvdiag.diagnosis.lines import LineReader, Log
    from kvdiag.diagnosis.model_config import ModelConfigs
    from kvdiag.diagnosis.outcome import judge
    from kvdiag.diagnosis.report import Report
    from kvdiag.diagnosis.rules.checking import check_all
    from kvdiag.diagnosis.rules.rule import Case
    from kvdiag.diagnosis.rules.thresholds import DEFAULT_THRESHOLDS

    held = thresholds or DEFAULT_THRESHOLDS
    tell = on_phase or (lambda phase, count: None)
    named = [log if isinstance(log, Log) else Log(str(getattr(log, "name", "log")), log) for log in logs]
    matcher = Matcher()
    reader = LineReader(
        named,
        matcher.phrases,
        limits,
        dense=matcher.dense,
        bars=matcher.bars,
        opening=matcher.opening,
        on_progress=lambda count: tell("reading", count),
        masker=not is_masked,
    )
    tell("reading", 0)
    beside = ModelConfigs()
    launches = split_launches(beside.take(matcher.read(reader)), (limits or DEFAULT_LIMITS).launches)
    tell("ledger", 0)
    cases: list[Case] = []
    for launch in launches:
        ledgers = book(launch)
        sizing = size(launch, ledgers, beside.config, held.wanted)
        cases.append(Case(launch, ledgers, judge(launch), sizing, tuple(cases), held))
    for number, case in enumerate(cases, 1):
        case.later = tuple(cases[number:])
    tell("rules", 0)

    def checked() -> Iterator[tuple[Case, Checked]]:
        for case in cases:
            yield case, check_all(case, on_failure)
            case.launch.series.forget_points()  # written by now, and no rule looks at another launch's

    report = Report.of(checked(), reader.files, dict(reader.masked), held)
    for case in cases:
        case.later = ()  # starts that know each other would stay until the collector comes round
    tell("done", 0)
    return report


__all__ = ["diagnose"]
