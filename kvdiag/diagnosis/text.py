"""A report for the terminal: the verdict first, then the budget, the findings and what was checked."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kvdiag.diagnosis.endings import failing_ranks
from kvdiag.diagnosis.excerpt import excerpt
from kvdiag.diagnosis.left_out import left_out
from kvdiag.diagnosis.report import Report
from kvdiag.diagnosis.rules.rule import flags_beside
from kvdiag.diagnosis.units import one_sided

NAMES = {
    "distributed": "Communicators",
    "weights": "Weights",
    "kv_cache": "KV cache",
    "swa_kv_cache": "KV cache, sliding window",
    "mamba_state": "Mamba state",
    "indexer_cache": "Indexer cache",
    "request_table": "Request table",
    "cuda_graphs": "CUDA graphs",
    "workspace": "Workspaces",
    "lora": "LoRA",
    "buffers": "Buffers",
    "other": "Other",
    "unexplained": "Unexplained",
}
CARD_PARTS = {
    "pytorch": "Held by PyTorch",
    "private_pools": "In private pools",
    "reserved_unallocated": "Reserved, not allocated",
    "own": "Own, outside PyTorch",
    "others": "Other processes",
    "outside": "Outside PyTorch",
    "free": "Free",
}
_COLOURS = {"critical": "31", "warning": "33", "advice": "34", "info": "2", "ready": "32", "failed": "31", "bold": "1"}
WIDTH = 100


def render(report: Report, form: str, colour: bool = False) -> str:
    """The report as json (one line), text, markdown or html."""
    if form == "json":
        return report.to_json() + "\n"
    if form == "markdown":
        from kvdiag.diagnosis.markdown import to_markdown

        return printable(to_markdown(report.document))
    return "".join(f"{line}\n" for line in _Terminal(report.document, colour).lines())


def printable(text: str) -> str:
    """Text without control codes: a log's words must not drive a terminal, nor turn the reading order."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text)


def line_reference(line: int | dict[str, int] | None, names: list[str]) -> str:
    """L52, or node1.log:52 where the upload has several files."""
    if line is None:
        return ""
    if isinstance(line, dict):
        return f"{names[line['file']]}:{line['line']}" if line["file"] < len(names) else f"L{line['line']}"
    return f"L{line}"


def summed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A rank's entries by pool, model and kind of graphs, sizes added and lines joined, in the order taken."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for entry in entries:
        key = (entry["pool"], entry["model"], entry.get("graphs") or "")
        row = found.setdefault(key, {**entry, "gib": 0.0, "lines": []})
        row["gib"] += entry["gib"]
        row["lines"] = [*row["lines"], *(x for x in entry["lines"] if x not in row["lines"])]
    return list(found.values())


def entry_in_words(entry: Mapping[str, Any]) -> str:
    """The name of what took memory: "Prefill graphs", "KV cache, draft"."""
    graphs = entry.get("graphs")
    name = f"{graphs.capitalize()} graphs" if graphs else NAMES[entry["pool"]]
    return name + (", draft" if entry["model"] == "draft" else "")


def number(value: Any) -> str:
    """A figure as a reader wants it: integers with separators, GiB with two decimals."""
    if isinstance(value, bool) or value is None:
        return "none" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return signed(value, 2) if isinstance(value, float) else str(value)


def signed(value: float, digits: int) -> str:
    """A figure with so many decimals; a real minus sign before what is below zero, none before what rounds to it."""
    text = f"{value:,.{digits}f}"
    return text.replace("-", "" if float(text.replace(",", "")) == 0 else "−")


def context_of(launch: Mapping[str, Any]) -> int | None:
    """Tokens one request may use: as the server's limits say, else as the arguments do."""
    limit = (launch.get("limits") or {}).get("context_len")
    given = ((launch.get("arguments") or {}).get("context_length") or {}).get("value")
    found = limit if limit is not None else given
    return found if isinstance(found, int) and found > 0 else None


def request_length(remedy: dict[str, Any], context: int | None) -> int | None:
    """Tokens of the requests that a remedy counts: the context's, or those of the context it sets."""
    to = str(remedy.get("to"))
    return int(to) if remedy.get("flag") == "--context-length" and to.isdecimal() else context


def threshold_in_words(one: dict[str, Any]) -> str:
    """An overridden threshold of the document: "free_wanted 8 GiB instead of 5"."""
    unit = "" if one["unit"] == "share" else f" {one['unit']}"
    return f"{one['name']} {_plain_number(one['value'])}{unit} instead of {_plain_number(one['default'])}"


def _plain_number(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def is_capped(budget: dict[str, Any]) -> bool:
    """Whether --max-total-tokens cuts the tokens that the budget's memory would hold."""
    tokens, by_memory = budget.get("tokens"), budget.get("memory_tokens")
    return tokens is not None and by_memory is not None and by_memory > tokens


def budget_in_words(budget: dict[str, Any]) -> str:
    """SGLang's arithmetic with its figures: what the memory holds, and how far that is from the printed count."""
    shown = (
        f"{budget['after_weights_gib']:.2f} − {budget['opening_gib']:.2f} × (1 − "
        f"{budget['mem_fraction_static']:g}) = {budget['kv_gib']:.3f} GiB".replace("-", "−")
    )
    tokens, error = budget.get("tokens"), budget.get("error_percent")
    if tokens is None:
        return shown
    if is_capped(budget):
        return f"{shown} ≈ {budget['memory_tokens']:,} tokens by memory; capped at {tokens:,} by --max-total-tokens"
    if error is None:
        return f"{shown} ≈ {tokens:,} tokens"
    off = f"{abs(error):.2f}"
    told = "as printed" if float(off) == 0 else f"{off} % {'above' if error > 0 else 'below'} the printed count"
    return f"{shown} ≈ {tokens:,} tokens ({told})"


def overflowed_card(launch: dict[str, Any]) -> dict[str, Any] | None:
    """The first overflow whose message accounts for the card, of a launch without a reading of free memory."""
    if any(rank["opening_gib"] is not None for rank in launch["ranks"]):
        return None
    return next((oom for oom in launch["oom"] if oom.get("card")), None)


def overflow_in_words(oom: dict[str, Any]) -> str:
    """Whose card, and when: "GPU 3 when 0.66 GiB were asked for"."""
    gpu = f"GPU {oom['gpu']}" if oom["gpu"] is not None else ""
    who = ", ".join(x for x in (oom["rank"], gpu) if x) or "the GPU"
    asked = f"{oom['tried_gib']:.2f} GiB were asked for" if oom["tried_gib"] is not None else "the allocation failed"
    return f"{who} when {asked}"


class Alike(NamedTuple):
    """Ranks whose memory is told as one.

    rank   the one whose figures are shown; the first of `ids`
    apart  the most by which their first readings, or what they have free, differ, in GiB
    """

    rank: dict[str, Any]
    ids: list[str]
    apart: float


def alike(ranks: list[dict[str, Any]], failing: Sequence[str] = ()) -> list[Alike]:
    """Ranks grouped by what they took, to 0.05 GiB, and by what they had, to 1 GiB.

    The largest group comes first. Each shows the rank that has least free, as the verdict does; of those, the fullest.
    Before them comes a group with a failing rank, and that rank stands for it.

    What only the summary line shows (buffers after the last capture) parts no group: one rank prints that line.
    """
    groups: dict[tuple[Any, ...], list[list[dict[str, Any]]]] = {}
    for rank in ranks:
        rows = [r for r in summed(rank["entries"]) if r["pool"] != "buffers" and abs(r["gib"]) >= 0.05]
        key = tuple((r["pool"], r["model"], round(r["gib"] * 20)) for r in rows)
        same = groups.setdefault((*key, rank["opening_gib"] is None), [])
        near = next((group for group in same if _had_as_much(group[0], rank)), None)
        if near is None:
            same.append([rank])
        else:
            near.append(rank)
    found = [_shown_of(group, failing) for same in groups.values() for group in same]
    return sorted(found, key=lambda group: (group.rank["id"] not in failing, -len(group.ids)))


def _shown_of(group: list[dict[str, Any]], failing: Sequence[str]) -> Alike:
    """Ranks that are alike, with the one that stands for them before the others."""

    def standing(rank: dict[str, Any]) -> tuple[Any, ...]:
        free = rank["free_gib"]
        return rank["id"] in failing, free is not None, -(free or 0.0), len(rank["entries"])

    first = max(group, key=standing)
    columns = ([r[key] for r in group if r[key] is not None] for key in ("opening_gib", "free_gib"))
    apart = max((max(column) - min(column) for column in columns if column), default=0.0)
    others = (rank for rank in group if rank is not first)
    return Alike(first, [rank["id"] or "the GPU" for rank in (first, *others)], apart)


def whose_memory(ids: list[str], failing: Sequence[str] = (), apart: float = 0.0) -> str:
    """Whose memory a table shows: "TP0", "each of 7 GPUs alike", "TP4, which failed".

    apart  by how many GiB they differ; where that is more than nothing, it says whose figures are shown
    """
    failed = [rank for rank in ids if rank in failing]
    if len(ids) == 1:
        return f"{ids[0]}, which failed" if failed else ids[0]
    alike_ones = f"each of {len(ids)} GPUs alike"
    if not failed:
        return alike_ones + (f", to within {apart:.2f} GiB ({ids[0]} is shown)" if apart >= 0.005 else "")
    if len(failed) == len(ids):
        return f"{alike_ones}, which failed"
    others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"{alike_ones}; {failed[0]}{others} failed"


def _had_as_much(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the first readings of two ranks, and what they have free, differ by less than 1 GiB."""
    pairs = [(one[key], other[key]) for key in ("opening_gib", "free_gib")]
    return all(a is None or b is None or abs(a - b) < 1 for a, b in pairs)


def layout_in_words(launch: Mapping[str, Any]) -> str:
    """How ranks are laid out: "TP 8, DP 2, 2 nodes"; "at least 5 TP ranks seen" where no argument tells it."""
    sizes = launch.get("parallel") or {}
    seen = launch.get("parallel_seen") or []
    several = {key: sizes[key] for key in ("tp", "pp", "dp", "ep") if (sizes.get(key) or 1) > 1}
    parts = [f"{key.upper()} {size}" for key, size in several.items() if key not in seen]
    if (sizes.get("nodes") or 1) > 1:
        parts.append(f"{sizes['nodes']} nodes")
    bounds = {key: size for key, size in several.items() if key in seen}
    if len(bounds) == 1:
        parts += [f"at least {size} {key.upper()} ranks seen" for key, size in bounds.items()]
    elif bounds:
        parts.append(f"at least {', '.join(f'{key.upper()} {size}' for key, size in bounds.items())} seen")
    return ", ".join(parts)


def gpus_in_words(launch: Mapping[str, Any], count: int, name: str) -> str:
    """How many GPUs the log shows: "8 × H200"; "1 of 3 GPUs in the log" where the arguments tell of more."""
    sizes, seen = launch.get("parallel") or {}, launch.get("parallel_seen") or []
    all_of_them = (sizes.get("tp") or 1) * (sizes.get("pp") or 1)
    if count < all_of_them:
        whole = f"{'at least ' if seen else ''}{all_of_them}"  # by the highest number that a rank's prefix has
        return f"{count} of {whole} × {name} in the log" if name else f"{count} of {whole} GPUs in the log"
    bound = "at least " if (launch.get("gpu") or {}).get("at_least") else ""
    return f"{bound}{count} × {name or 'GPU'}"


def identity(launch: dict[str, Any]) -> Iterator[str]:
    """Model, GPUs, driver, layout and release of a launch, as far as the log tells."""
    path = launch["model"]["path"] or launch["model"]["architecture"]
    if path:
        yield str(path).rstrip("/").rsplit("/", 1)[-1]
    gpu = launch.get("gpu") or {}
    if gpu.get("count"):
        yield gpus_in_words(launch, gpu["count"], gpu.get("name") or "")
    if gpu.get("driver"):
        yield f"driver {gpu['driver']}"
    if layout := layout_in_words(launch):
        yield layout
    release = launch["version"]
    if release.get("exact"):
        yield f"SGLang {release['exact']}"
    elif release.get("from") or release.get("before"):
        since, before = release.get("from"), release.get("before")
        yield "SGLang " + ", ".join(
            x for x in (f"{since} or later" if since else "", f"before {before}" if before else "") if x
        )


def has_one_reading(rank: dict[str, Any]) -> bool:
    """Whether nothing is booked between a rank's first reading and its last: a table would have one figure."""
    return rank["opening_gib"] is not None and not rank["entries"] and not rank.get("later")


def is_whole(rank: dict[str, Any]) -> bool:
    """Whether a rank's figures are shares of its first reading, as those of steps that came before it are not."""
    sizes = [row["gib"] for row in (*rank["entries"], *(rank.get("later") or []))]
    return all(size <= rank["opening_gib"] + 0.01 for size in (*sizes, rank["free_gib"] or 0.0))


def one_reading_in_words(
    rank: dict[str, Any], ids: list[str], failing: Sequence[str] = (), names: Sequence[str] = ()
) -> str:
    """The sentence in place of that table."""
    line = line_reference(rank.get("opening_line"), list(names))
    where = f" ({line})" if line else ""
    return (
        f"Memory of {whose_memory(ids, failing)}: the log has one reading of free memory only,"
        f" {rank['opening_gib']:.2f} GiB{where}; {beside_one_reading(rank)}."
    )


def beside_one_reading(rank: Mapping[str, Any]) -> str:
    """What else the log tells of a rank with one reading."""
    if printed_before(rank):
        return "what lines before it print is below"
    return "what each step of the start took is not in it"


def printed_before(rank: Mapping[str, Any]) -> list[Any]:
    """What lines print of the memory that was taken before a rank's first reading."""
    return [row for row in rank.get("earlier") or [] if row["basis"] == "printed"]


def no_reading_in_words(ids: list[str], failing: Sequence[str] = ()) -> str:
    """The heading of what a rank's lines print, where the log has nothing of what is free."""
    return f"What lines print of the memory of {whose_memory(ids, failing)} (none tells what was free)"


def before_in_words(row: Mapping[str, Any]) -> str:
    """The name of what was taken before the first reading."""
    named = {"unexplained": "Not named", "other": "Host, others"}.get(row["pool"], NAMES[row["pool"]])
    return f"before it: {named}"


def card_of(rank: Mapping[str, Any]) -> float | None:
    """The card's size in GiB where what was taken before the first reading leads up to it; else None."""
    earlier, size = rank.get("earlier") or [], rank.get("capacity_gib")
    if size is None or not earlier:
        return None
    whole = rank["opening_gib"] + sum(row["gib"] for row in earlier)
    return size if abs(whole - size) < 0.011 else None


class _Terminal:
    """One document, line by line."""

    def __init__(self, document: dict[str, Any], colour: bool) -> None:
        self.document = document
        self.colour = colour
        self.names = [file["name"] for file in document["upload"]["files"]]
        self.request_tokens: int | None = None  # the length of request that a launch's counts of requests are of

    def paint(self, text: str, tone: str) -> str:
        text = printable(text)
        return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m" if self.colour and tone in _COLOURS else text

    def lines(self) -> Iterator[str]:
        for launch in self.document["launches"]:
            yield from self._launch(launch)
        if missing := left_out(self.document):
            yield missing
        held = [threshold_in_words(one) for one in self.document.get("thresholds") or []]
        if held:
            yield printable(f"Thresholds other than kvdiag's own: {'; '.join(held)}")
        masked = self.document["upload"]["masked"]
        if masked:
            yield "Masked: " + ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in masked.items())

    def _launch(self, launch: dict[str, Any]) -> Iterator[str]:
        self.request_tokens = context_of(launch)
        several = len(self.document["launches"]) > 1
        facts = [f"Launch {launch['number']}"] if several else []
        facts += [launch["outcome"], *identity(launch)]
        yield self.paint(printable(" · ".join(facts)), launch["outcome"])
        yield self.paint(launch["verdict"], "bold")
        yield ""
        yield from self._memory(launch)
        yield from self._budget(launch)
        for finding in launch["findings"]:
            yield from self._finding(finding)
        yield from self._levers(launch)
        for cleared in launch.get("cleared") or []:
            yield printable(f"cleared  {cleared['claim']}. {cleared['because']}")
        checks = launch.get("checks") or {}
        passed = len(checks.get("passed") or [])
        counts = [
            f"{passed} check{'s' if passed != 1 else ''} passed",
            f"{len(checks.get('not_applicable') or [])} do not apply" if checks.get("not_applicable") else "",
            f"{len(launch['not_run'])} could not run" if launch["not_run"] else "",
        ]
        yield ", ".join(text for text in counts if text) + "."
        unread = launch["not_understood"]
        if unread:
            where = ", ".join(line_reference(e["line"], self.names) for e in unread[:6])
            told = (
                "1 line speaks of memory and was"
                if len(unread) == 1
                else f"{len(unread)} lines speak of memory and were"
            )
            yield f"{told} not understood: {where}."
        yield ""

    def _memory(self, launch: dict[str, Any]) -> Iterator[str]:
        failing = failing_ranks(launch)
        groups = [g for g in alike(launch["ranks"], failing) if g.rank["opening_gib"] is not None or g.rank["entries"]]
        for rank, ids, apart in groups[:3]:
            opening = rank["opening_gib"]
            if opening is None:
                yield printable(f"{no_reading_in_words(ids, failing)}, GiB")
                yield from self._entries(rank["entries"])
                yield ""
                continue
            if has_one_reading(rank):
                yield printable(one_reading_in_words(rank, ids, failing, self.names))
                yield from self._entries(printed_before(rank))
                yield ""
                continue
            yield printable(f"Memory of {whose_memory(ids, failing, apart)}, GiB")
            whole = opening if is_whole(rank) else None
            yield from self._entries(rank["entries"], whole)
            yield self._row("Free", rank["free_gib"], whole, "printed", [rank.get("free_line")])
            for row in summed(rank.get("later") or []):
                yield self._row(f"  then {NAMES[row['pool']]}", row["gib"], whole, row["basis"], row["lines"])
            yield self._row("First reading", opening, whole, rank.get("opening_basis"), [rank.get("opening_line")])
            card, earlier = card_of(rank), summed(rank.get("earlier") or [])
            for row in earlier:
                yield self._row(f"  {before_in_words(row)}", row["gib"], None, row["basis"], row["lines"])
            if card is not None:
                yield self._row("The card", card, None, rank["capacity_basis"], earlier[-1]["lines"][:1])
            yield ""
        if len(groups) > 3:
            yield f"and {len(groups) - 3} more groups of ranks: see the report page or --format json.\n"
        oom = overflowed_card(launch)
        if oom is not None:
            yield printable(f"Memory of {overflow_in_words(oom)}, GiB")
            for share in oom["card"]:
                name = CARD_PARTS[share["part"]]
                yield self._row(name, share["gib"], oom["capacity_gib"], share["basis"], [oom["line"]])
            yield self._row("The card", oom["capacity_gib"], oom["capacity_gib"], "printed", [oom["line"]])
            yield ""

    def _entries(self, entries: list[dict[str, Any]], opening: float | None = None) -> Iterator[str]:
        for row in summed(entries):
            yield self._row(entry_in_words(row), row["gib"], opening, row["basis"], row["lines"])

    def _row(self, name: str, size: float, opening: float | None, basis: str | None, lines: list[Any]) -> str:
        """One line of the table; without `opening`, what is no share of the first reading has no percentage."""
        share = size / opening if opening else 0.0
        bar = "█" * round(24 * min(max(share, 0), 1)) or ("▏" if opening and size > 0.005 else "")
        where = " ".join(line_reference(x, self.names) for x in lines[:4] if x is not None)
        percent = "" if opening is None else f"{signed(100 * share, 1)}%"
        return f"  {name:<26}{signed(size, 2):>9}  {percent:>6}  {bar:<24} {basis or '':<8} {where}".rstrip()

    def _budget(self, launch: dict[str, Any]) -> Iterator[str]:
        cache = launch["kv_cache"] or {}
        budget = cache.get("budget")
        if not budget or budget.get("kv_gib") is None:
            return
        yield f"Budget: {budget_in_words(budget)}"
        limit = (cache.get("limited_by") or "unknown").replace("_", " ")
        told = ((cache.get("limit") or {}).get("sentence") or "").removeprefix(f"{limit}: ")
        if is_capped(budget):
            told = ""  # the budget's line says it
        named = f"Limited by: {limit}. " if limit != "unknown" or not told else ""
        yield printable(f"{named}{told[:1].upper()}{told[1:]}{'.' if told else ''}".rstrip())
        yield ""

    def _levers(self, launch: dict[str, Any]) -> Iterator[str]:
        """What other settings would buy, one line each."""
        rows = list(levers_in_words(launch))
        if rows:
            yield "What other settings would buy"
            for name, figures, cost in rows:
                yield printable(f"  {name.ljust(max(34, len(name) + 1))} {figures}")
                yield from [printable(f"      {cost}")] if cost else []
            yield ""

    def _finding(self, finding: dict[str, Any]) -> Iterator[str]:
        ranks = finding["ranks"]
        who = (
            f" ({ranks[0]} and {len(ranks) - 1} more)"
            if len(ranks) > 1
            else f" ({ranks[0]})"
            if ranks and ranks[0]
            else ""
        )
        yield f"{self.paint(finding['severity'], finding['severity'])}  {printable(finding['summary'])}{printable(who)}"
        yield f"  {finding['rule']}, {finding['confidence']}"
        for item in finding["evidence"][:4]:
            figures = item["value"], item["figure"], finding["summary"]
            line = excerpt(item["text"].strip(), WIDTH * 2, *figures)
            yield printable(f"    {line_reference(item['line'], self.names)}  {line}")
        if finding.get("formula"):
            yield printable(f"    {finding['formula']}")
        for remedy in finding["remedies"]:
            yield from self._remedy(remedy)
        yield ""

    def _remedy(self, remedy: dict[str, Any]) -> Iterator[str]:
        change = "upgrade" if remedy["flag"] == "upgrade" else f"{remedy['direction']} {remedy['flag']}"
        if remedy["from"] is not None and remedy["to"] is not None:
            change += f" from {remedy['from']} to {remedy['to']}"
        elif remedy["to"] is not None:
            change += f" to {remedy['to']}"
        beside = flags_of(remedy)
        if beside:
            change += f" with {beside}"
        if remedy.get("as_under"):
            yield printable(f"  → {change}: as under {remedy['as_under']}")
            return
        yield printable(f"  → {change}")
        for name, before, after, between in effects_in_words(remedy, self.request_tokens):
            became = f"{before} → {after}" if before else after
            yield printable(f"      {name}: {became}{f' ({between})' if between else ''}")
        for sentence in (remedy.get("note"), remedy["cost"]):
            if sentence:
                yield printable(f"      {sentence}")


def effects_in_words(remedy: dict[str, Any], context: int | None) -> Iterator[tuple[str, str, str, str]]:
    """What a remedy changes: each figure's name, what it is, "about" what it becomes and between what; "" where not
    known."""
    for figure, effect in remedy["effect"].items():
        if effect.get("to") is None:
            continue
        low, high = (number(effect.get(end)) for end in ("low", "high"))
        between = f"{low} to {high}" if low != high and "low" in effect and "high" in effect else ""
        word, to = one_sided(effect.get("low"), effect.get("high")) or ("about", effect["to"])
        before = number(effect["from"]) if effect.get("from") is not None else ""
        name = figure.replace("_", " ").replace("kv ", "KV ").replace(" gib", " GiB")
        if figure == "requests" and (length := request_length(remedy, context)):
            name = f"requests of {length:,} tokens"
        yield name, before, f"{word} {number(to)}", between


def levers_in_words(launch: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What other settings would buy: the flags, the figures and the cost of each."""
    for lever in launch.get("levers") or []:
        flags = " ".join(f"{f['flag']} {f['to'] or ''}".strip() for f in lever["flags"] if f["to"] is not None)
        tokens, free = lever["total_tokens"] or lever["tokens"], lever["free_gib"]
        word = f"{tokens.get('bound') or '≈'} "
        same = tokens["after"] == tokens["before"]
        # With several data-parallel ranks a single one has less: the verdict tells that one's tokens.
        summed_up = lever["tokens"] is not None and tokens["after"] != lever["tokens"]["after"]
        count = f"{word}{tokens['after']:,} tokens{' in all' if summed_up else ''}"
        figures = ["as many tokens" if same else count]
        figures += [f"{free['after']:.2f} GiB free"] if free and free["after"] is not None else []
        figures += [f"{lever['host_gb']['after']:.1f} GB (10^9) of host RAM a rank"] if lever["host_gb"] else []
        yield flags or lever["what"], ", ".join(figures), "; ".join(lever["costs"])


def flags_of(remedy: Mapping[str, Any]) -> str:
    """What a remedy's command sets beside its own flag."""
    return flags_beside(remedy["flag"], remedy["to"], (remedy.get("command") or {}).get("to") or ())


_WHAT_IF = (
    ("fraction", "Fraction", ""),
    ("tokens", "KV tokens a rank", ""),
    ("total_tokens", "KV tokens in all", ""),
    ("kv_gib", "KV cache", " GiB"),
    ("free_gib", "Free at the end", " GiB"),
    ("requests", "Requests at once", ""),
    ("host_gb", "Host memory a rank", " GB (10^9)"),
)


def what_if_lines(answer: dict[str, Any]) -> list[str]:
    """A scenario for the terminal: what it would have, why, and what to launch."""
    out = [answer["refused"]] if answer["refused"] else []
    for key, name, unit in _WHAT_IF:
        figure = answer[key]
        if figure is None or figure["after"] is None:
            continue
        end = one_sided(figure["low"], figure["high"])
        shown = f"{figure['after']:g}" if key == "fraction" else number(end[1] if end else figure["after"])
        word = figure.get("bound") or ("" if key == "fraction" else "about")
        before = figure["before"]
        change = "" if before is None else (f"{before:g}" if key == "fraction" else number(before)) + " → "
        between = ""
        if None not in (figure["low"], figure["high"]) and figure["low"] != figure["high"]:
            between = f"  ({number(figure['low'])} to {number(figure['high'])})"
        of = f" of {answer['request_tokens']:,} tokens" if key == "requests" and answer["request_tokens"] else ""
        out.append(f"{name + of:<34} {change}{f'{word} ' if word else ''}{shown}{unit}{between}")
    if answer["wanted_free_gib"] is not None:
        needed = answer.get("needed_free_gib") or answer["wanted_free_gib"]
        own = f", {needed:.2f} GiB of them for the launch itself" if needed < answer["wanted_free_gib"] else ""
        shared = f"{own}, the rest for the host that shares the memory" if own else ""
        out.append(f"Wanted free at the end: {answer['wanted_free_gib']:.2f} GiB{shared}.")
    if answer["starts_from"] is not None:
        keeps = f"; up to {answer['keeps_wanted']:.3f} keeps the wanted free memory" if answer["keeps_wanted"] else ""
        least = " at the least" if (answer["tokens"] or {}).get("bound") == "at most" else ""
        out.append(f"Starts from {answer['starts_from']:.3f}{least}{keeps}.")
    for head, key in (("Equations", "equations"), ("It costs", "cautions"), ("Holds where", "validity")):
        if answer[key]:
            out += ["", head, *(f"  {line}" for line in answer[key])]
    if answer["command"]:
        out += ["", "Launch", f"  {answer['command']}"]
    return out


MAX_ARGUMENTS = 20
_OF_ONE_START = frozenset({"random_seed", "port", "nccl_port", "dist_init_addr", "host"})  # they size nothing


def compare_lines(answer: dict[str, Any]) -> list[str]:
    """An explained difference for the terminal."""
    out = [answer["summary"], ""] if answer.get("summary") else []
    for step in answer.get("steps") or []:
        if abs(step["gib"]) < 0.0005 and not step["tokens"] and step["from"] == step["to"]:
            continue  # it is the same on both sides
        tokens = f"{step['tokens']:>+12,}".replace("-", "−") if step["tokens"] is not None else ""
        change = f"{number(step['from'])} → {number(step['to'])}" if step["from"] is not None else ""
        gib = f"{step['gib']:>+8.3f}".replace("-", "−")
        out.append(f"  {gib} GiB {tokens}  {step['what']}  {change}".rstrip())
    changed = [x for x in answer.get("arguments") or () if x["name"] not in _OF_ONE_START]
    if changed:
        out += ["", "Arguments that differ"]
        out += [f"  --{x['name'].replace('_', '-')}: {x['from']} → {x['to']}"[:WIDTH] for x in changed[:MAX_ARGUMENTS]]
    if answer.get("why_not") and str(answer["why_not"]) not in (answer.get("summary") or ""):
        out.append(str(answer["why_not"]))
    return out
