"""Two to ten launches beside each other: which change moved how much memory, and what else differs.

The difference is the engine's (kvdiag.diagnosis.compare); here it is arranged, with the first launch as the baseline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.http import HttpRequest

from ingest.models import StoredReport, Upload
from reports import charts, words
from reports.deployments_series import NEWEST_FIRST, newest_of_each
from reports.deployments_starts import times_of
from reports.document import Launch, dig, launch_number, launches, listed
from reports.finding_cards import shown_findings
from reports.launch_tabs import state_words
from reports.models import Baseline
from reports.page import ReportPage
from reports.pools import POOLS, entry_name, pool_of
from reports.steps import timeline_of
from teams import access
from teams.models import Deployment

MOST = 10
MOST_CHOICES = 12
LETTERS = "ABCDEFGHIJ"
_ID = re.compile(r"^([\w-]{8,80})(?:\.(\d{1,5}))?$")


@dataclass(frozen=True, slots=True)
class Column:
    """One launch of the comparison."""

    letter: str
    upload: Upload
    key: str
    url: str
    page: ReportPage
    heading: str

    @property
    def launch(self) -> Launch:
        return self.page.launch

    @property
    def state(self) -> str:
        return state_words(self.page.launch)


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of a row, with its change against the baseline."""

    text: str
    delta: str = ""
    tone: str = ""
    severity: str = ""


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One row of the differences; `same` when every launch says the same."""

    name: str
    cells: tuple[Cell, ...]
    same: bool
    pool: str = ""
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One step of an explained difference."""

    name: str
    pool: str
    gib: float
    tokens: int | None
    values: str


def asked_launches(values: list[str]) -> list[tuple[str, int | None]]:
    """Ids and launch numbers out of what was given: ids, "id.2", or whole links; at most ten, each once."""
    found: dict[tuple[str, int | None], None] = {}
    for value in " ".join(values).replace(",", " ").split():
        try:
            parts = urlsplit(value)
        except ValueError:  # "http://[" and the like: no link of ours
            continue
        inside = re.search(r"/r/([\w-]+)(?:\.\w+)?/?$", parts.path)
        if inside and (parts.scheme or value.startswith("/")):
            number = launch_number(parse_qs(parts.query).get("launch", [""])[0])
            found[(inside.group(1), number)] = None
        elif match := _ID.match(value):
            found[(match.group(1), int(match.group(2)) if match.group(2) else None)] = None
    return list(found)[:MOST]


def comparison_context(request: HttpRequest) -> dict[str, Any]:
    """Everything the page shows; without two launches, what the reader has to give."""
    values = request.GET.getlist("r")
    wanted = asked_launches(values)
    columns, missing = _columns(request, wanted, by_time=request.GET.get("order") == "time")
    asked = " ".join(values).split()
    context: dict[str, Any] = {"columns": columns, "missing": missing, "asked": asked, "most": MOST}
    context["not_links"] = bool(asked) and not wanted
    if len(columns) < 2:
        deployment, choices = _choices(request, columns[0].upload if columns else None)
        times = times_of(choices)
        return context | {
            "choices": [(report, times[report.pk]) for report in choices],
            "choices_are": f"Other starts of {deployment.name}" if deployment else "The newest reports of your teams",
            "choices_deployment": deployment,
            "example": request.build_absolute_uri("/r/"),
        }
    first, last = columns[0], columns[-1]
    groups = _groups(columns)
    everything = request.GET.get("rows") == "all"
    hidden = sum(row.same for _, rows in groups for row in rows)
    shown = [(name, [row for row in rows if everything or not row.same]) for name, rows in groups]
    explained = [_explained(first, column) for column in columns[1:]]
    free = _free_figure(first, last)
    return context | {
        "explained": explained,
        "summary": explained[-1]["summary"] if explained else "",
        "warnings": _warnings(columns),
        "budgets": charts.budgets_compared([(c.letter, _bar_words(c), c.page.budget) for c in columns]),
        "free_figure": free,
        "groups": [(name, rows) for name, rows in shown if rows],
        "hidden": hidden,
        "everything": everything,
        "swap": "?" + urlencode([("r", column.key) for column in reversed(columns)]),
        "all_rows": "?" + urlencode([("r", column.key) for column in columns] + [("rows", "all")]),
        "some_rows": "?" + urlencode([("r", column.key) for column in columns]),
        "baselines": [
            "?" + urlencode([("r", other.key) for other in (column, *(c for c in columns if c is not column))])
            for column in columns
        ],
    }


def _columns(
    request: HttpRequest, asked: list[tuple[str, int | None]], *, by_time: bool = False
) -> tuple[list[Column], int]:
    """The launches, in the order asked for; one upload alone gives all its launches. Counts what was not found.

    by_time  the choice came from a list: the pinned baseline of their deployment first, then the oldest
    """
    chosen: list[tuple[Upload, dict[str, Any], int]] = []
    missing = 0
    for public_id, number in asked:
        upload = access.visible(Upload, to=request.user).filter(public_id=public_id).first()
        report = upload.report if upload else None
        if upload is None or report is None or not launches(report.document):
            missing += 1
            continue
        numbers = [launch.get("number") or 1 for launch in launches(report.document)]
        if number is not None:
            picked = [number] if number in numbers else []
            missing += not picked
        else:
            picked = numbers[-MOST:] if len(asked) == 1 else numbers[-1:]
        chosen += [(upload, report.document, one) for one in picked]
    if by_time:
        pinned = set(
            Baseline.objects.filter(deployment__in={each.deployment_id for each, _, _ in chosen}).values_list(
                "report__upload", flat=True
            )
        )
        chosen.sort(key=lambda one: (one[0].pk not in pinned, one[0].created_at, one[0].pk, one[2]))
    columns = []
    for letter, (upload, document, number) in zip(LETTERS, chosen, strict=False):
        page = ReportPage(document, number, name=upload.name)
        many = len(launches(document)) > 1
        url = f"/r/{upload.public_id}/" + (f"?launch={number}" if many else "")
        when = words.short_stamp(page.launch.get("started_at")) or f"{upload.created_at:%-d %b, %H:%M}"
        heading = f"{when}, launch {number}" if many else when
        columns.append(Column(letter, upload, f"{upload.public_id}.{number}", url, page, heading))
    alike = Counter(column.heading for column in columns)
    for at, column in enumerate(columns):
        if alike[column.heading] > 1:
            exact = words.stamp(column.launch.get("started_at")) or f"{column.upload.created_at:%Y-%m-%d %H:%M:%S}"
            columns[at] = replace(column, heading=exact)
    return columns, missing


def _choices(request: HttpRequest, chosen: Upload | None) -> tuple[Deployment | None, tuple[StoredReport, ...]]:
    """What a signed-in reader may add by a tick: other starts of one deployment, else the newest reports of the teams.

    Strangers get none: their reports are known by their links alone.
    """
    if not access.is_person(request.user):
        return None, ()
    visible = access.visible(StoredReport, to=request.user).filter(launch_count__gt=0).exclude(upload__team=None)
    visible = visible.select_related("upload", "upload__deployment").defer("document")
    visible = visible.order_by(*NEWEST_FIRST)
    if chosen is not None:
        visible = visible.exclude(upload=chosen)
        if chosen.deployment is not None:
            others = newest_of_each(visible.filter(upload__deployment=chosen.deployment), MOST_CHOICES)
            if others:
                return chosen.deployment, others
    return None, newest_of_each(visible, MOST_CHOICES)


def _bar_words(column: Column) -> str:
    launch = column.launch
    fraction = dig(launch, "kv_cache", "budget", "mem_fraction_static")
    tokens = dig(launch, "kv_cache", "tokens")
    free = column.page.budget.main.free if column.page.budget.main else None
    parts = [
        f"fraction {words.fraction(fraction)}" if fraction is not None else "",
        f"{words.tokens(tokens)} tokens" if tokens else "no pool",
        f"{words.gib(free)} free" if free is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _warnings(columns: list[Column]) -> list[str]:
    """What makes a comparison doubtful. It is shown all the same."""
    said = []
    for name, spell in (
        ("models", lambda c: words.base_name(dig(c.launch, "model", "path")) or dig(c.launch, "model", "architecture")),
        ("GPUs", lambda c: dig(c.launch, "gpu", "name")),
        ("GPU counts", lambda c: len(listed(c.launch, "ranks")) or None),
    ):
        seen = list(dict.fromkeys(str(value) for column in columns if (value := spell(column)) is not None))
        if len(seen) > 1:
            said.append(f"These launches have different {name}: {', '.join(seen[:4])}. Read the differences with care.")
    return said


# --- The difference, explained ----------------------------------------------------------------------------------------

_CAUSES = {
    "opening": "Free memory before loading",
    "weights": "Weights",
    "fraction": "--mem-fraction-static",
    "states": "Request states taken first",
    "cell": "Bytes per token",
    "draft": "What is counted for the draft",
    "cap": "--max-total-tokens",
    "rest": "Rounding and what the arithmetic does not explain",
}


def _explained(first: Column, other: Column) -> dict[str, Any]:
    """The engine's comparison of a launch with the baseline, its steps in words."""
    from kvdiag.diagnosis.compare import compare

    found = compare(first.launch, other.launch)
    moves = [
        Move(
            _CAUSES.get(step["cause"], str(step["cause"])),
            "kv",
            step["gib"],
            step.get("tokens"),
            _values(step.get("from"), step.get("to")),
        )
        for step in found.get("steps") or ()
        if abs(step["gib"]) >= 0.005 or step.get("tokens") or step["cause"] == "rest"
    ]
    return {
        "letter": other.letter,
        "summary": found.get("summary") or "",
        "of": found.get("of"),
        "moves": moves,
        "gib": dig(found, "gib", "difference"),
        "tokens": dig(found, "tokens", "difference"),
        "why_not": found.get("why_not"),
    }


def _values(before: Any, after: Any) -> str:
    if before is None and after is None or before == after:
        return ""
    return f"{'none' if before is None else f'{before:,}'} → {'none' if after is None else f'{after:,}'}"


def _moved(step: dict[str, Any]) -> tuple[str, str]:
    """The name and the shown pool of a step of the free memory's difference."""
    if step["cause"] == "opening":
        return "Free memory before loading", "free"
    if step["cause"] in ("rest", "unexplained"):
        return "Not explained", "unexplained"
    entry = {"pool": step["cause"], "model": step.get("model")}
    return entry_name(entry), pool_of(entry)


def _free_figure(first: Column, last: Column) -> charts.Figure | None:
    from kvdiag.diagnosis.compare import compare

    free = compare(first.launch, last.launch).get("free")
    if not free:
        return None
    taken: dict[tuple[str, str], float] = {}
    for step in free["steps"]:
        key = _moved(step)
        taken[key] = taken.get(key, 0.0) - step["gib"]
    order = list(POOLS)
    moves = [(name, pool, gib) for (name, pool), gib in taken.items() if abs(gib) >= 0.005]
    moves.sort(key=lambda move: -1 if move[1] == "free" else order.index(move[1]))
    if not moves:
        return None
    ends = free["gib"]
    names = (f"{first.letter}: free after start", f"{last.letter}: free after start")
    return charts.difference((names[0], ends["from"]), (names[1], ends["to"]), moves)


# --- Rows -------------------------------------------------------------------------------------------------------------


def _groups(columns: list[Column]) -> list[tuple[str, list[CompareRow]]]:
    return [
        ("Budget, GiB per GPU", _budget_rows(columns)),
        ("Arguments", _argument_rows(columns)),
        ("Findings", _finding_rows(columns)),
        ("Release and layout", _layout_rows(columns)),
        ("Time", _time_rows(columns)),
    ]


def _figure_row(
    name: str,
    values: list[Any],
    spell: Callable[[Any], str],
    signed: Callable[[float], str],
    *,
    pool: str = "",
    better: int = 0,
    close: float = 0.0,
) -> CompareRow:
    """A row of numbers; `better` is +1 where more is good, −1 where less is, 0 where neither."""
    base = values[0]
    cells = []
    for index, value in enumerate(values):
        if value is None:
            cells.append(Cell("none"))
            continue
        delta, tone = "", ""
        if index and isinstance(base, (int, float)) and abs(value - base) > close:
            delta = signed(value - base)
            tone = "" if not better else "good" if (value > base) == (better > 0) else "bad"
        elif index and base is None:
            delta = signed(value)
        cells.append(Cell(spell(value), delta, tone))
    known = [value for value in values if value is not None]
    same = not known or (len(known) == len(values) and max(known) - min(known) <= close)
    return CompareRow(name, tuple(cells), same, pool)


def _signed_tokens(value: float) -> str:
    return ("+" if value > 0 else "−") + words.tokens(abs(value))


def _budget_rows(columns: list[Column]) -> list[CompareRow]:
    rows = []
    for pool, name in POOLS.items():
        values = [c.page.budget.main.of(pool) if c.page.budget.main else None for c in columns]
        if any(value is not None for value in values):
            label = "Free at the end" if pool == "free" else name
            rows.append(_figure_row(label, values, words.gib, words.signed_gib, pool=pool, close=0.0049))
    first = [c.page.budget.main.opening if c.page.budget.main else None for c in columns]
    rows.append(_figure_row("First reading", first, words.gib, words.signed_gib, close=0.0049))
    tokens = [dig(c.launch, "kv_cache", "tokens") for c in columns]
    rows.append(_figure_row("KV tokens", tokens, words.tokens, _signed_tokens, better=1))
    per_token = [dig(c.launch, "kv_cache", "bytes_per_token") for c in columns]
    rows.append(_figure_row("Bytes per token", per_token, words.tokens, _signed_tokens, better=-1))
    return rows


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else repr(value)


def _argument_rows(columns: list[Column]) -> list[CompareRow]:
    names: dict[str, None] = {}
    for column in columns:
        names |= dict.fromkeys(dig(column.launch, "arguments") or {})
    rows = []
    for name in names:
        shown = [dig(c.launch, "arguments", name) for c in columns]
        texts = ["not shown" if one is None else _spell(dig(one, "value")) for one in shown]
        told = {text for text in texts if text != "not shown"}
        rows.append(CompareRow(name, tuple(Cell(text) for text in texts), len(told) < 2, is_code=True))
    return rows


def _finding_rows(columns: list[Column]) -> list[CompareRow]:
    by_column = [{finding.rule: finding for finding in shown_findings(c.launch)} for c in columns]
    rules: dict[str, None] = {}
    for found in by_column:
        rules |= dict.fromkeys(found)
    rows = []
    for rule in rules:
        cells = []
        for index, found in enumerate(by_column):
            finding, before = found.get(rule), by_column[0].get(rule)
            if finding is None:
                gone = bool(index and before)
                cells.append(Cell("gone" if gone else "none", tone="good" if gone else ""))
            else:
                said = (
                    ""
                    if not index
                    else "new"
                    if before is None
                    else "same"
                    if before.summary == finding.summary
                    else ""
                )
                cells.append(Cell(finding.summary, said, severity=finding.severity))
        present = [rule in found for found in by_column]
        summaries = {found[rule].summary for found in by_column if rule in found}
        rows.append(CompareRow(rule, tuple(cells), all(present) and len(summaries) == 1, is_code=True))
    return rows


def _layout_rows(columns: list[Column]) -> list[CompareRow]:
    rows = []
    for name in ("SGLang", "Layout", "GPUs", "Model"):
        texts = [dict(c.page.facts).get(name, "not known") for c in columns]
        rows.append(CompareRow(name, tuple(Cell(text) for text in texts), len(set(texts)) == 1))
    return rows


def _signed_time(value: float) -> str:
    return ("+" if value > 0 else "−") + words.duration(abs(value))


def _time_rows(columns: list[Column]) -> list[CompareRow]:
    ready = [c.launch.get("ready_after_s") for c in columns]
    rows = [_figure_row("Start-up", ready, words.duration, _signed_time, better=-1, close=0.05)]
    phases = [{phase.name: phase.seconds for phase in timeline_of(c.launch) if phase.lines} for c in columns]
    for name in dict.fromkeys(name for found in phases for name in found):
        values = [found.get(name) for found in phases]
        if any(value is not None for value in values):
            rows.append(_figure_row(name, values, words.duration, _signed_time, better=-1, close=0.05))
    return rows
