"""A what-if scenario in the panel's words: the same for the page that holds it from the start and for its script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvdiag.diagnosis.units import one_sided, times_or_percent
from reports import words
from reports.charts import Figure
from reports.commands import DiffLine, command_diff, command_to_copy
from reports.document import dig


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result of a scenario: "KV tokens", "≈ 193,800", "+22 %, 190,000 to 195,000"."""

    key: str
    name: str
    figure: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownScenario:
    """What the panel says of a scenario.

    tone    of the verdict: good | warning | critical | info
    limits  what the answer rests on and where it ends, in sentences
    diff    the lines of the launch command that change
    copied  what is copied of them; "" for nothing
    """

    tone: str
    text: str
    outcomes: tuple[Outcome, ...]
    equation: str
    limits: tuple[str, ...]
    diff: tuple[DiffLine, ...]
    copied: str
    figure: Figure | None

    def to_json(self) -> dict[str, Any]:
        """As the panel's script takes it, without the drawing."""
        return asdict(replace(self, figure=None))


NAMES = {"tokens": "KV tokens", "requests": "Requests at once", "free": "Free when ready"}


def shown_scenario(
    found: dict[str, Any], *, is_observed: bool, arguments: dict[str, Any] | None = None
) -> ShownScenario:
    """The words of an answer of reports/what_if.py.

    is_observed  nothing differs from the launch: its figures are no predictions
    arguments    of the launch, where the reader may see them all
    """
    changes = [_command(flag) for flag in found.get("flags") or []]
    verdict = found["verdict"]
    host = dig(found, "host_gb", "after")
    limits = [f"Host memory: about {host:.1f} GB (10⁹ bytes) a rank"] if host else []
    return ShownScenario(
        tone=verdict["tone"],
        text=f"As observed. {verdict['text']}" if is_observed else verdict["text"],
        outcomes=_outcomes(found, is_observed),
        equation="\n".join(words.minus(each) for each in found.get("equations") or []),
        limits=tuple(
            words.sentence(each) for each in (*limits, *(found.get("cautions") or []), *(found.get("validity") or []))
        ),
        diff=tuple(line for change in changes for line in command_diff(change)),
        copied=command_to_copy(changes, arguments or {}),
        figure=found.get("figure"),
    )


def refused_scenario(sentence: str) -> ShownScenario:
    """What the panel says of settings that cannot be meant."""
    outcomes = tuple(Outcome(key, name, "not known", "") for key, name in NAMES.items())
    return ShownScenario("warning", sentence, outcomes, "", (), (), "", None)


def _outcomes(found: dict[str, Any], is_observed: bool) -> tuple[Outcome, ...]:
    dead, untold = found["verdict"]["tone"] == "critical", bool(found.get("refused"))
    guess = "" if is_observed else "≈ "
    tokens, requests, free = (dig(found, name, "after") for name in ("tokens", "requests", "free_gib"))
    wanted, each = found.get("wanted_free_gib"), found.get("request_tokens")
    unknown = ("none", "it does not start") if dead else ("not known", "the log does not tell")
    if found.get("starts") == "no fraction":
        unknown = ("none", "no fraction does it")
    told = {key: unknown if key == "tokens" else (unknown[0], "") for key in NAMES}
    if untold:
        tokens = requests = free = None  # figures beside a refusal are no answer
    if tokens is not None and not dead:
        end = one_sided(found["tokens"].get("low"), found["tokens"].get("high"))
        figure = words.tokens(tokens) if is_observed else words.about(end[1] if end else tokens)
        notes = ["as observed"] if is_observed else [_change(found["tokens"]), _span(found["tokens"], words.tokens)]
        told["tokens"] = (_word(found["tokens"], guess) + figure, _joined(notes))
    if requests is not None and not dead:
        told["requests"] = (
            _word(found["requests"], guess) + words.tokens(requests),
            f"of {words.tokens(each)} tokens each" if each else "",
        )
    if free is not None and not dead:
        notes = ["as observed" if is_observed else _span(found["free_gib"], words.gib)]
        notes += [f"wanted {wanted:.1f}".removesuffix(".0")] if wanted else []
        told["free"] = (f"{guess}{words.gib(free)} GiB", _joined(notes))
    return tuple(Outcome(key, name, *told[key]) for key, name in NAMES.items())


def _word(figure: dict[str, Any], guess: str) -> str:
    """How a figure is said: "at most ", where the log shows one side of it, else as any prediction."""
    return f"{figure['bound']} " if figure.get("bound") else guess


def _joined(parts: list[str]) -> str:
    return ", ".join(part for part in parts if part)


def _span(figure: dict[str, Any], spell: Callable[[Any], str]) -> str:
    low, high = figure.get("low"), figure.get("high")
    return "" if low is None or high is None or spell(low) == spell(high) else f"{spell(low)} to {spell(high)}"


def _change(figure: dict[str, Any]) -> str:
    before, after = figure.get("before"), figure.get("after")
    if not before or after is None:
        return ""
    share = (after / before - 1) * 100
    if share >= 200:
        return times_or_percent(before, after)
    return "" if abs(share) < 0.05 else words.minus(f"{share:+.{1 if abs(share) < 10 else 0}f} %")


def _command(flag: dict[str, Any]) -> dict[str, Any]:
    """A changed flag as a remedy writes its command; "" is a switch, None is no flag."""

    def spelled(value: Any) -> list[Any]:
        return [] if value is None else [flag["flag"]] if value == "" else [flag["flag"], str(value)]

    return {"command": {"from": spelled(flag.get("from")), "to": spelled(flag.get("to"))}}
