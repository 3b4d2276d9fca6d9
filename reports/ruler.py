"""The fraction ruler: which way to turn --mem-fraction-static, drawn from the engine's numbers.

Inline SVG with coordinates in per cent, so that it needs neither a script nor a style attribute. What is not known is
left out: without an upper bound there is no zone on the right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from kvdiag.diagnosis.units import floor_step
from reports import words
from reports.document import Document, Launch, LineRef, dig, launches, line_refs, listed
from reports.fractions import least_that_starts

FLAG = "--mem-fraction-static"

# A phone's ruler, and a letter of a mark's words, in px; the padding around the ruler gives a little more.
_PHONE, _LETTER, _PADDING, _APART = 280.0, 7.4, 8.0, 6.0
_FIGURE = 5  # letters of a fraction alone
_MOST_TICKS = 8  # on a phone: what lies at both ends needs more room than what is centred

# The wedge stands on y = 74 and is 44 high at a fraction of 1.
_FOOT, _HEIGHT = 74.0, 44.0


@dataclass(frozen=True, slots=True)
class Zone:
    """A stretch of the ruler: bad, ok or thin."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A fraction that was tried (solid) or is offered (hollow). Words before and after the text stay off phones."""

    kind: str
    x: float
    y: float
    text: str
    before: str = ""
    after: str = ""
    bad: bool = False
    words_left: bool = False
    words_above: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """A fraction of the scale. `spare` ones stay off phones, where not all have room beside each other."""

    x: float
    text: str
    place: str
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Ruler:
    """All that the template draws."""

    zones: tuple[Zone, ...]
    ticks: tuple[Scale, ...]
    marks: tuple[Mark, ...]
    wedge: tuple[float, float] | None
    arrow: tuple[float, float] | None
    low_words: str
    high_words: str
    thin_words: str
    caption: str
    spoken: str
    lines: tuple[LineRef, ...]


def advised_fraction(launch: Launch) -> tuple[float, str] | None:
    """The fraction the first finding advises, and raise or lower; None when no finding turns this knob."""
    for finding in listed(launch, "findings"):
        for remedy in listed(finding, "remedies"):
            if remedy.get("flag") == FLAG and remedy.get("direction") in ("raise", "lower", "set"):
                try:
                    to = float(remedy["to"])
                except (KeyError, TypeError, ValueError):
                    continue
                direction = remedy["direction"]
                if direction == "set":
                    known = dig(launch, "kv_cache", "fractions", "observed")
                    direction = "raise" if known is None or to > known else "lower"
                return to, direction
    return None


def ruler_of(document: Document, launch: Launch) -> Ruler | None:
    """The ruler of a launch, None when the log does not say where its fraction lies."""
    known = dig(launch, "kv_cache", "fractions") or {}
    redone = dig(launch, "kv_cache", "budget") or {}
    observed = _number(known.get("observed"), redone.get("mem_fraction_static"))
    least = least_that_starts(launch)
    keeps = _down(_number(known.get("keeps_wanted_free"), known.get("keeps_wanted")))
    most = _down(_number(known.get("largest_that_fits")))
    if observed is None or (least is None and keeps is None):
        return None
    advised = advised_fraction(launch)
    to = advised[0] if advised else None
    others = _other_tries(document, launch, observed)
    seen = [value for value in (observed, least, keeps, most, to, *others) if value is not None]
    low = min(0.7, int((min(seen) - 0.02) * 20) / 20)
    further = to if to is not None and abs(to - observed) > 0.004 else keeps
    if further is not None and further > observed:
        low = min(low, int((observed - 0.2) / 0.8 * 20) / 20)  # the words of the mark stand on its left
    # The ticks start at `low` and end at 1.
    step = 0.05 if low >= 0.55 else 0.1 if low >= 0.4 else 0.2
    low = max(0.0, low if step == 0.05 else int(low / step + 1e-9) * step)

    def at(value: float) -> float:
        return round(max(0.0, min(100.0, (value - low) / (1 - low) * 100)), 2)

    def height(value: float) -> float:
        if least is None or value <= least or least >= 1:
            return _FOOT
        return round(_FOOT - _HEIGHT * min(1.0, (value - least) / (1 - least)), 1)

    zones = []
    good_from, good_to = (least if least is not None else low), 1.0
    if least is not None and least > low:
        zones.append(Zone("bad", 0.0, at(least)))
    if most is not None and most < 1:
        zones.append(Zone("bad", at(most), round(100 - at(most), 2)))
        good_to = most
    if keeps is not None and good_from <= keeps < good_to:
        zones.append(Zone("thin", at(keeps), round(at(good_to) - at(keeps), 2)))
        good_to = keeps
    if good_to > good_from:
        zones.append(Zone("ok", at(good_from), round(at(good_to) - at(good_from), 2)))

    marks = _marks(launch, observed, to, keeps, others, at, height)
    count = round((1 - low) / step)
    ticks = []
    for n in range(count + 1):
        value = low + n * step
        place = "start" if n == 0 else "end" if n == count else "middle"
        spare = count >= _MOST_TICKS and (count - n) % 2 == 1
        ticks.append(Scale(at(value), f"{value:.2f}", place, spare))
    wanted = wanted_free(launch)
    thin_words = f"less than {wanted} GiB free above {words.fraction(keeps)}" if keeps is not None and wanted else ""
    lines = tuple(line_refs(redone.get("lines"))) or _reading_lines(launch, redone)
    return Ruler(
        zones=tuple(zones),
        ticks=tuple(ticks),
        marks=tuple(marks),
        wedge=(at(least), round(100 - at(least), 2)) if least is not None and least < 1 else None,
        arrow=(at(observed), at(to)) if to is not None and abs(to - observed) > 0.004 else None,
        low_words=f"cannot start below {words.fraction(least)}" if least is not None and least > low else "",
        high_words=f"does not fit above {words.fraction(most)}" if most is not None and most < 1 else "",
        thin_words=thin_words,
        caption=_caption(launch, least, others),
        spoken=_spoken(observed, least, keeps, most, to, advised[1] if advised else None, wanted),
        lines=lines,
    )


def _reading_lines(launch: Launch, redone: dict[str, Any]) -> tuple[LineRef, ...]:
    """The lines of the two readings the budget starts from: before and after the weights."""
    found = []
    for name, moment in (("opening_gib", "weights_begin"), ("after_weights_gib", "weights_end")):
        for rank in listed(launch, "ranks"):
            lines = [
                reading.get("line")
                for reading in listed(rank, "readings")
                if reading.get("moment") == moment
                and reading.get("model") != "draft"
                and reading.get("available_gib") == redone.get(name)
            ]
            if lines:
                found += line_refs(lines[:1])
                break
    return tuple(found)


def wanted_free(launch: Launch) -> str:
    """The free memory wanted at the end, in words: "5", "1.5"."""
    value = _number(dig(launch, "kv_cache", "wanted_free_gib"), dig(launch, "kv_cache", "fractions", "wanted_free_gib"))
    return f"{value:.1f}".removesuffix(".0") if value is not None else ""


def _marks(
    launch: Launch,
    observed: float,
    to: float | None,
    keeps: float | None,
    others: dict[float, str],
    at: Any,
    height: Any,
) -> list[Mark]:
    failed = launch.get("outcome") == "failed"
    tokens = dig(launch, "kv_cache", "tokens")
    text = f"{words.fraction(observed)} failed" if failed else f"now {words.fraction(observed)}"
    if failed and dig(launch, "failure", "kind") == "sizing":
        text = f"{words.fraction(observed)} refused"
    marks = []
    now_left = observed > 0.85
    if to is not None and abs(to - observed) > 0.004:
        # The words stand outside the two marks, unless another mark or the edge is there.
        now_left = to > observed
        crowded = any(value > to for value in others) or at(to) > 85
        left = crowded if to > observed else True
        marks.append(Mark("to", at(to), height(to), f"{words.fraction(to)} advised", words_left=left))
    elif keeps is not None and abs(keeps - observed) > 0.004 and not failed:
        now_left = keeps > observed
        # Near the right edge the fraction alone has room; the line below the ruler says what it keeps.
        free = f" keeps {wanted_free(launch)} GiB free" if at(keeps) < 82 or not now_left else ""
        place = {"words_left": not now_left, "words_above": not free}
        marks.append(Mark("to", at(keeps), height(keeps), words.fraction(keeps), after=free, **place))
    held = f"{words.tokens(tokens)} tokens" if tokens and not failed else ""
    if now_left and at(observed) < 20:
        held = ""  # no room for more than the fraction
    before, after = (f"{held}, ", "") if held and now_left else ("", f", {held}") if held else ("", "")
    marks.append(Mark("now", at(observed), height(observed), text, before, after, bad=failed, words_left=now_left))
    for value, outcome in others.items():
        marks.append(
            Mark(
                "now",
                at(value),
                height(value),
                f"{words.fraction(value)} {outcome}",
                bad=outcome != "ran",
                words_left=value < observed,
            )
        )
    return [_within(mark, marks) for mark in marks]


def _within(mark: Mark, marks: list[Mark]) -> Mark:
    """The mark with its words inside the ruler and off the other marks.

    What a phone has no room for stays off it: all but the fraction, on the other side where there is none on this one.
    """
    if mark.words_above or _length(mark.text) <= _room(mark, marks):
        return mark
    figure = re.search(r"\d\.\d+", mark.text)
    if figure is None:
        return mark
    before, after = mark.text[: figure.start()], mark.text[figure.end() :]
    short = replace(mark, text=figure.group(), before=mark.before + before, after=after + mark.after)
    if _length(short.text) <= _room(short, marks):
        return short
    turned = replace(mark, words_left=not mark.words_left)
    if _length(turned.text) <= _room(turned, marks):
        return turned
    turned = replace(short, words_left=not mark.words_left)
    if _length(turned.text) <= _room(turned, marks):
        return turned
    # The caption has the fraction; a wide ruler shows its words on the side towards the middle.
    return replace(short, text="", before=short.before + short.text, words_left=mark.x > 50)


def _length(text: str) -> float:
    return len(text) * _LETTER


def _room(mark: Mark, marks: list[Mark]) -> float:
    """The px that a mark's words have on a phone, up to the edge or the next mark on their side."""
    room = (mark.x if mark.words_left else 100 - mark.x) / 100 * _PHONE + _PADDING - _APART
    for other in marks:
        if other.x != mark.x and (other.x < mark.x) is mark.words_left:
            toward = other.words_left is not mark.words_left and not other.words_above
            gap = abs(mark.x - other.x) / 100 * _PHONE - 2 * _APART
            room = min(room, gap - _FIGURE * _LETTER if toward else gap)
    return room


def _other_tries(document: Document, launch: Launch, observed: float) -> dict[float, str]:
    """Fractions that the upload's other launches tried, and how each ended; one word each."""
    tries: dict[float, str] = {}
    for other in launches(document):
        value = _number(dig(other, "kv_cache", "budget", "mem_fraction_static"))
        if other is launch or value is None or abs(value - observed) < 0.006 or len(tries) >= 2:
            continue
        ended = {"gpu_oom": "OOM", "sizing": "refused"}.get(str(dig(other, "failure", "kind")), "failed")
        tries[value] = ended if other.get("outcome") == "failed" else "ran"
    return tries


def _caption(launch: Launch, least: float | None, others: dict[float, str]) -> str:
    if others:
        return "the other launches of this log are marked too"
    if least is None:
        return "where this start lies"
    observed = dig(launch, "kv_cache", "budget", "mem_fraction_static")
    tokens = dig(launch, "kv_cache", "tokens")
    if tokens and observed is not None:
        held = f"{words.tokens(tokens)} at {words.fraction(observed)}"
        return f"the wedge is the KV cache, none below {words.fraction(least)}, {held}"
    return f"the wedge is the KV cache, none below {words.fraction(least)}"


def _spoken(
    observed: float,
    least: float | None,
    keeps: float | None,
    most: float | None,
    to: float | None,
    turn: str | None,
    wanted: str,
) -> str:
    said = [f"mem-fraction-static is {words.fraction(observed)}"]
    if least is not None:
        said.append(f"below {words.fraction(least)} the server cannot start")
    if keeps is not None and wanted:
        said.append(f"up to {words.fraction(keeps)} at least {wanted} GiB stays free")
    if most is not None:
        said.append(f"above {words.fraction(most)} it does not fit")
    if to is not None:
        said.append(f"advised {words.fraction(to)}: {turn}")
    return "; ".join(said) + "."


def _down(value: float | None) -> float | None:
    return None if value is None else floor_step(value)


def _number(*values: Any) -> float | None:
    return next((float(value) for value in values if isinstance(value, (int, float))), None)
