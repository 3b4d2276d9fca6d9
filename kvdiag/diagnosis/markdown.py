"""A report as Markdown for an issue thread: verdict, figures, findings. Log text stands in fences only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kvdiag.diagnosis.endings import failing_ranks
from kvdiag.diagnosis.left_out import left_out
from kvdiag.diagnosis.text import (
    CARD_PARTS,
    NAMES,
    alike,
    before_in_words,
    budget_in_words,
    card_of,
    context_of,
    effects_in_words,
    entry_in_words,
    flags_of,
    has_one_reading,
    identity,
    is_capped,
    levers_in_words,
    line_reference,
    no_reading_in_words,
    one_reading_in_words,
    overflow_in_words,
    overflowed_card,
    printed_before,
    signed,
    summed,
    threshold_in_words,
    whose_memory,
)

MAX_EVIDENCE = 4


def to_markdown(document: dict[str, Any], link: str | None = None) -> str:
    """The document as Markdown; `link` is where the report can be read."""
    names = [file["name"] for file in document["upload"]["files"]]
    parts: list[str] = []
    for launch in document["launches"]:
        parts.extend(_launch(launch, names, len(document["launches"]) > 1))
    if missing := left_out(document):
        parts.append(f"{missing}\n")
    if not document["launches"]:
        parts.append("No line of an SGLang server was found.")
    held = [threshold_in_words(one) for one in document.get("thresholds") or []]
    if held:
        parts.append(f"Thresholds other than kvdiag's own: {'; '.join(code(x) for x in held)}.\n")
    foot = f"kvdiag {document['engine']}" + (f" · [report]({link})" if link else "")
    return "\n".join([*parts, f"<sub>{foot}</sub>", ""])


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no link, no mention, no HTML."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = re.sub(r"([\\`*_{}\[\]()#+!|~])", r"\\\1", flat)
    return re.sub(r"([@:])(?=\w|/)", lambda m: f"{m[1]}\N{WORD JOINER}", flat)


def fenced(text: str) -> str:
    """Text in a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def code(text: str) -> str:
    """Text as inline code."""
    flat = " ".join(text.split())
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if "`" in flat else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def _launch(launch: dict[str, Any], names: list[str], several: bool) -> Iterator[str]:
    head = f"Launch {launch['number']}: {launch['outcome']}" if several else launch["outcome"].capitalize()
    yield f"### {head}"
    yield ""
    if facts := " · ".join(escape(fact) for fact in identity(launch)):
        yield facts
        yield ""
    yield f"**{escape(launch['verdict'])}**"
    yield ""
    yield from _memory(launch, names)
    oom = overflowed_card(launch)
    if oom is not None:
        where = escape(line_reference(oom["line"], names))
        yield from _head(f"Memory of {overflow_in_words(oom)}")
        for share in oom["card"]:
            yield f"| {CARD_PARTS[share['part']]} | {signed(share['gib'], 2)} | {share['basis']} | {where} |"
        yield f"| The card | {signed(oom['capacity_gib'], 2)} | printed | {where} |"
        yield ""
    budget = (launch["kv_cache"] or {}).get("budget")
    if budget and budget.get("kv_gib") is not None:
        limit = escape(str(launch["kv_cache"].get("limited_by") or "unknown").replace("_", " "))
        yield f"Budget: {budget_in_words(budget)}" + ("." if is_capped(budget) else f"; limited by {limit}.")
        yield ""
    for finding in launch["findings"]:
        rule = f"{code(finding['rule'])}, {finding['confidence']}"
        yield f"- **{finding['severity']}** {escape(finding['summary'])} ({rule})"
        for remedy in finding["remedies"]:
            to = f" to {code(remedy['to'])}" if remedy["to"] is not None else ""
            to = f" from {code(remedy['from'])}{to}" if to and remedy["from"] is not None else to
            beside = flags_of(remedy)
            to += f" with {code(beside)}" if beside else ""
            told = "".join(f" {escape(said)}" for said in (remedy.get("note"), remedy["cost"]) if said)
            what = "upgrade" if remedy["flag"] == "upgrade" else f"{remedy['direction']} {code(remedy['flag'])}"
            if remedy.get("as_under"):
                yield f"  - {what}{to}: as under {code(remedy['as_under'])}."
                continue
            yield f"  - {what}{to}{escape(_effects(remedy, context_of(launch)))}.{told}"
    if levers := list(levers_in_words(launch)):
        yield ""
        yield "What other settings would buy:"
        yield ""
        for name, figures, cost in levers:
            yield f"- {code(name) if name.startswith('--') else escape(name)}: {escape(figures)}" + (
                f" ({escape(cost)})" if cost else ""
            )
    evidence = [e for finding in launch["findings"] for e in finding["evidence"][:MAX_EVIDENCE]]
    if evidence:
        yield ""
        yield "<details><summary>Lines</summary>"
        yield ""
        cited = (f"{line_reference(e['line'], names)}  {e['text']}" for e in evidence)
        yield fenced("\n".join(dict.fromkeys(cited)))
        yield ""
        yield "</details>"
    yield ""


def _memory(launch: dict[str, Any], names: list[str]) -> Iterator[str]:
    failing = failing_ranks(launch)
    for rank, ids, apart in alike(launch["ranks"], failing)[:2]:
        if rank["opening_gib"] is None:
            yield from _table(no_reading_in_words(ids, failing), summed(rank["entries"]), names)
            continue
        if has_one_reading(rank):
            yield escape(one_reading_in_words(rank, ids, failing, names))
            yield ""
            yield from _table("Before the reading", summed(printed_before(rank)), names)
            continue
        yield from _head(f"Memory of {whose_memory(ids, failing, apart)}")
        yield from _rows(summed(rank["entries"]), names)
        where = escape(line_reference(rank.get("free_line"), names))
        yield f"| Free | {signed(rank['free_gib'], 2)} | printed | {where} |"
        yield from _rows(summed(rank.get("later") or []), names, lambda row: f"then {NAMES[row['pool']]}")
        where = escape(line_reference(rank["opening_line"], names)) if rank.get("opening_line") is not None else ""
        yield f"| First reading | {signed(rank['opening_gib'], 2)} | {rank.get('opening_basis') or ''} | {where} |"
        card, earlier = card_of(rank), summed(rank.get("earlier") or [])
        yield from _rows(earlier, names, before_in_words)
        if card is not None:
            where = escape(line_reference(earlier[-1]["lines"][0], names)) if earlier[-1]["lines"] else ""
            yield f"| The card | {signed(card, 2)} | {rank['capacity_basis']} | {where} |"
        yield ""


def _table(title: str, rows: Sequence[Mapping[str, Any]], names: list[str]) -> Iterator[str]:
    """A table of entries; nothing where there are none."""
    if rows:
        yield from _head(title)
        yield from _rows(rows, names)
        yield ""


def _head(title: str) -> Iterator[str]:
    yield f"| {escape(title)} | GiB | basis | lines |"
    yield "| --- | ---: | --- | --- |"


def _rows(
    rows: Sequence[Mapping[str, Any]], names: list[str], name: Callable[[Mapping[str, Any]], str] = entry_in_words
) -> Iterator[str]:
    for row in rows:
        where = " ".join(escape(line_reference(x, names)) for x in row["lines"][:4])
        yield f"| {name(row)} | {signed(row['gib'], 2)} | {row['basis']} | {where} |"


def _effects(remedy: dict[str, Any], context: int | None) -> str:
    """What a remedy changes in few words: ": KV tokens 18,186 → about 29,847"."""
    changes = effects_in_words(remedy, context)
    told = [f"{name} {f'{before} → ' if before else ''}{after}" for name, before, after, _ in changes]
    return f": {', '.join(told)}" if told else ""
