"""One launch of a report document, arranged for the page: every section with what it shows, or why it has nothing.

Pure: a document in, values out. The site, a shared page and the offline file render the same.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from reports import charts, words
from reports.budget import Budget, Card, Share, budget_of, spell_ranks, split_at_boundary
from reports.commands import DiffLine, command_diff, full_command
from reports.document import Document, Launch, LineRef, dig, launches, line_refs, listed
from reports.levers import ShownLever, levers_of
from reports.numbers import Key, key_numbers
from reports.ruler import FLAG, Ruler, advised_fraction, ruler_of
from reports.steps import Phase, Step, held_up, leading_rank, steps_of, timeline_of

# Findings below these start folded, whatever their number.
_ALWAYS_OPEN = ("critical", "warning")

EFFECT_NAMES = {
    "kv_tokens": "KV tokens",
    "kv_gib": "KV cache",
    "free_gib": "Free when ready",
    "draft_kv_gib": "Draft KV cache",
    "weights_gib": "Weights",
    "cuda_graphs_gib": "CUDA graphs",
    "host_gib": "Host memory",
    "requests": "Requests at once",
    "running_requests": "Requests at once",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a log line: plain, the dimmed clock ("ts"), or a marked figure ("mark")."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line a finding rests on."""

    ref: LineRef | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of a remedy's expected effect, already in words."""

    name: str
    before: str
    after: str
    span: str


@dataclass(frozen=True, slots=True)
class ShownRemedy:
    """A change with its command, what it is expected to do and what it costs. `note` says what else to know."""

    title: str
    diff: tuple[DiffLine, ...]
    effects: tuple[Effect, ...]
    cost: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """One finding as its card shows it. `anchor` never changes for a rule within a launch."""

    rule: str
    anchor: str
    severity: str
    confidence: str
    summary: str
    why: str
    formula: str
    ranks: str
    evidence: tuple[EvidenceLine, ...]
    more_evidence: int
    remedies: tuple[ShownRemedy, ...]
    open: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the budget's table: a pool, a part of one, or the line where the static budget ends."""

    kind: str
    name: str
    pool: str = ""
    gib: float | None = None
    percent: float | None = None
    tokens: float | None = None
    basis: str | None = None
    lines: tuple[LineRef, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """A server argument: its value, and the value before SGLang changed it where the log tells."""

    name: str
    value: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Tab:
    """One launch of several."""

    number: int
    outcome: str
    state: str
    words: str
    current: bool
    width: float = 0.0
    left: float = 0.0


@dataclass
class ReportPage:
    """What the report page shows for one launch. Sections are worked out when the template asks for them."""

    document: Document
    number: int = 1
    name: str = ""
    launch: Launch = field(init=False)

    def __post_init__(self) -> None:
        found = launches(self.document)
        chosen = [launch for launch in found if launch.get("number") == self.number]
        self.launch = chosen[0] if chosen else (found[-1] if found else {})
        self.number = self.launch.get("number") or 1

    # --- header -------------------------------------------------------------------------------------------------------

    @cached_property
    def has_launch(self) -> bool:
        return bool(self.launch)

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        return listed(self.document, "upload", "files")

    @cached_property
    def title(self) -> str:
        if self.name:
            return self.name
        model = words.base_name(dig(self.launch, "model", "path"))
        names = [str(file.get("name")) for file in self.files if file.get("name")]
        return model or (names[0] if names else "Report")

    @cached_property
    def outcome(self) -> str:
        outcome = self.launch.get("outcome")
        return outcome if outcome in ("ready", "failed", "incomplete") else "incomplete"

    @cached_property
    def state(self) -> str:
        """The outcome in words for the header: "Ready in 6 min 02 s"."""
        return state_words(self.launch)

    @cached_property
    def facts(self) -> list[tuple[str, str]]:
        launch = self.launch
        facts = [("Model", self._model_words()), ("GPUs", self._gpu_words()), ("SGLang", self._release_words())]
        facts += [("Layout", self._layout_words()), ("Started", words.stamp(launch.get("started_at")))]
        return [(name, value) for name, value in facts if value]

    def _model_words(self) -> str:
        model = dig(self.launch, "model") or {}
        name = words.base_name(model.get("path")) or model.get("architecture") or ""
        extra = model.get("quantization") or model.get("dtype") or ""
        extra = str(extra).removeprefix("torch.")
        extra = {"bfloat16": "BF16", "float16": "FP16"}.get(extra, extra)
        return f"{name}, {extra}" if name and extra else name

    def _gpu_words(self) -> str:
        gpu = dig(self.launch, "gpu") or {}
        count = gpu.get("count") or len(listed(self.launch, "ranks")) or None
        name = re.sub(r"^NVIDIA\s+|\s+(Blackwell Server Edition|Server Edition)$", "", str(gpu.get("name") or ""))
        capacity = gpu.get("capacity_gib")
        if count is None:
            return ""
        text = f"{count} × {name}" if name else f"{count} GPU{'s' if count != 1 else ''}"
        return f"{text}, {words.gib(capacity, 1)} GiB" if capacity else text

    def _release_words(self) -> str:
        version = dig(self.launch, "version") or {}
        if version.get("exact"):
            return str(version["exact"])
        first, before = version.get("from"), version.get("before")
        if first and before:
            return f"{first} or later, before {before}"
        return f"{first} or later" if first else f"before {before}" if before else ""

    def _layout_words(self) -> str:
        layout = dig(self.launch, "parallel") or {}
        parts = [f"{key.upper()} {layout[key]}" for key in ("tp", "pp", "dp", "ep") if (layout.get(key) or 1) > 1]
        nodes = layout.get("nodes")
        if nodes and (parts or nodes > 1):
            parts.append("one node" if nodes == 1 else f"{nodes} nodes")
        return ", ".join(parts)

    @cached_property
    def tab_title(self) -> str:
        tokens = dig(self.launch, "kv_cache", "tokens")
        said = f", {words.tokens(tokens)} tokens" if tokens and self.outcome == "ready" else ""
        turn = self.turn[1] if self.outcome == "failed" and self.turn else ""
        return f"{self.title}, {self.verdict_word}{said}{', ' + turn.lower() if turn else ''}"

    @cached_property
    def tabs(self) -> list[Tab]:
        found = launches(self.document)
        if len(found) < 2:
            return []
        differing = _differing_flags(found)
        last = max((launch.get("last_line") or 0) for launch in found) or 1
        tabs = []
        for launch in found:
            first, end = _bare_line(launch.get("first_line")), _bare_line(launch.get("last_line"))
            said = [words.short_stamp(launch.get("started_at")), *differing(launch), short_end(launch)]
            tabs.append(
                Tab(
                    number=launch.get("number") or 1,
                    outcome=launch.get("outcome") or "incomplete",
                    state={"ready": "Ready", "failed": "Failed"}.get(str(launch.get("outcome")), "Incomplete"),
                    words=", ".join(part for part in said if part),
                    current=launch is self.launch,
                    left=round(first / last * 100, 3) if isinstance(last, int) else 0.0,
                    width=round(max(0.4, (end - first) / last * 100), 3) if isinstance(last, int) else 0.0,
                )
            )
        return tabs

    # --- verdict ------------------------------------------------------------------------------------------------------

    @cached_property
    def verdict_word(self) -> str:
        if not self.has_launch:
            return "No server start"
        if self.outcome == "ready":
            return "Ready"
        if self.outcome == "incomplete":
            return "Incomplete"
        stage = self.launch.get("stage")
        return "Died while serving" if stage == "serving" else "Cannot start" if stage else "Failed"

    @cached_property
    def verdict_line(self) -> str:
        verdict = str(self.launch.get("verdict") or "")
        # The outcome stands beside the sentence already.
        rest = re.sub(r"^(?:Ready|Failed|Incomplete)(?:, nothing to fix| at the stage [\w ]+)?[.:]\s+", "", verdict)
        return rest[:1].upper() + rest[1:] if rest else verdict or "The log says too little for a verdict."

    @cached_property
    def turn(self) -> tuple[str, str] | None:
        """The turn of the knob: icon and words; None where the log gives no direction."""
        advised = advised_fraction(self.launch)
        if advised:
            return ("up", "Raise the fraction") if advised[1] == "raise" else ("down", "Lower the fraction")
        for finding in listed(self.launch, "findings"):
            if finding.get("severity") not in ("critical", "warning"):
                continue
            for remedy in listed(finding, "remedies")[:1]:
                verb = {"raise": "Raise", "lower": "Lower", "remove": "Drop", "set": "Set"}.get(remedy.get("direction"))
                if verb:
                    mark = {"Raise": "up", "Lower": "down"}.get(verb, "advice")
                    return mark, f"{verb} {remedy.get('flag')}"
        if self.outcome == "ready" and self.ruler:
            return "hold", "Leave the fraction"
        return None

    @cached_property
    def ruler(self) -> Ruler | None:
        return ruler_of(self.document, self.launch)

    @cached_property
    def counts(self) -> list[tuple[str, int]]:
        found = Counter(finding.severity for finding in self.findings)
        return [(severity, found[severity]) for severity in words.SEVERITIES if found[severity]]

    @cached_property
    def none_of(self) -> str:
        """The severities that no finding has, said in words: "0 critical, 0 warning" reads as a check done."""
        found = {severity for severity, _ in self.counts}
        return ", ".join(f"0 {severity}" for severity in ("critical", "warning") if severity not in found)

    @cached_property
    def confidence(self) -> str:
        order = ("possible", "likely", "certain")
        worst = self.findings[:1]
        return worst[0].confidence if worst and worst[0].confidence in order else ""

    @cached_property
    def coverage(self) -> str:
        read, of = dig(self.launch, "coverage", "read"), dig(self.launch, "coverage", "of")
        return f"{read} of {of} facts read" if isinstance(read, int) and isinstance(of, int) else ""

    @cached_property
    def before(self) -> Launch | None:
        """The launch before this one in the same upload."""
        found = launches(self.document)
        at = next((index for index, launch in enumerate(found) if launch is self.launch), 0)
        return found[at - 1] if at > 0 else None

    @cached_property
    def keys(self) -> list[Key]:
        return key_numbers(self.launch, self.budget, self.before)

    # --- budget -------------------------------------------------------------------------------------------------------

    @cached_property
    def budget(self) -> Budget:
        return budget_of(self.launch)

    @cached_property
    def budget_figure(self) -> charts.Figure | None:
        if len(self.budget.cards) > 1:
            return charts.memory_by_rank(self.budget)
        return charts.memory_budget(self.budget)

    @cached_property
    def ranks_figure(self) -> charts.Figure | None:
        """The other view: every rank, or of uneven ranks the largest group alone."""
        if self.budget.ranks < 2:
            return None
        if len(self.budget.cards) > 1:
            return charts.memory_budget(self.budget)
        return charts.memory_by_rank(self.budget, each=True) if self.budget.ranks <= charts.MOST_BARS else None

    @cached_property
    def views(self) -> list[tuple[str, str, bool]]:
        """The budget's views: (key, words, pressed)."""
        if self.ranks_figure is None:
            return []
        main = self.budget.main
        assert main is not None
        if len(self.budget.cards) > 1:
            groups = len(self.budget.cards)
            return [("first", f"{groups} groups of ranks", True), ("second", f"{main.name} enlarged", False)]
        return [("first", f"Folded × {main.count}", True), ("second", "Every rank", False)]

    @cached_property
    def budget_words(self) -> str:
        main = self.budget.main
        if main is None:
            return ""
        if self.budget.ranks == 1:
            return "one GPU"
        if len(self.budget.cards) == 1:
            apart = f" within {words.gib(max(self.budget.spread, 0.01))} GiB"
            both = "both agree" if self.budget.ranks == 2 else f"all {self.budget.ranks} agree"
            return f"one GPU; {both}{apart}"
        odd = self.budget.ranks - main.count
        return f"{self.budget.ranks} GPUs; {main.count} alike, {odd} {'differs' if odd == 1 else 'differ'}"

    @cached_property
    def budget_spoken(self) -> str:
        main = self.budget.main
        if main is None:
            return ""
        said = ", ".join(f"{share.name} {words.gib(share.gib)}" for share in main.shares)
        return f"Memory of {main.name}, GiB: {said}, of {words.gib(main.opening)}. The table below says the same."

    @cached_property
    def rows(self) -> list[Row]:
        return budget_rows(self.budget)

    @cached_property
    def earlier(self) -> list[Row]:
        """What was taken before the first reading, outside the identity."""
        rank = leading_rank(self.launch) or {}
        return [
            Row("earlier", str(entry.get("pool")), gib=entry["gib"], lines=tuple(line_refs(entry.get("lines"))))
            for entry in listed(rank, "earlier")
            if isinstance(entry.get("gib"), (int, float)) and entry["gib"] >= 0.005
        ]

    @cached_property
    def capacity(self) -> dict[str, Any] | None:
        gpu = dig(self.launch, "gpu")
        if isinstance(gpu, dict) and gpu.get("capacity_gib"):
            return gpu
        value = self.budget.main.capacity if self.budget.main else None
        return {"capacity_gib": value, "basis": "printed"} if value else None

    @cached_property
    def rank_table(self) -> list[tuple[Card, list[float | None]]]:
        """Groups of ranks against pools, for the table twin of uneven ranks; at most 64 rows, the odd ones first."""
        if len(self.budget.cards) < 2:
            return []
        cards = [*self.budget.cards[1:64], self.budget.cards[0]]
        return [(card, [card.of(pool) for pool in self.budget.pools]) for card in cards]

    # --- findings -----------------------------------------------------------------------------------------------------

    @cached_property
    def findings(self) -> list[ShownFinding]:
        return shown_findings(self.launch)

    @cached_property
    def cleared(self) -> list[dict[str, Any]]:
        found = [entry for entry in listed(self.launch, "cleared") if isinstance(entry, dict)]
        asked = dig(self.launch, "kv_cache", "requests") or {}
        if asked.get("state") == "cleared" and not any("max_running_requests" in str(e.get("claim")) for e in found):
            claim = f"max_running_requests={asked.get('reported')} does not limit the KV cache."
            found.append({"claim": claim, "because": str(asked.get("sentence") or ""), "lines": []})
        return found

    @cached_property
    def passed(self) -> list[dict[str, Any]]:
        return listed(self.launch, "checks", "passed")

    @cached_property
    def not_applicable(self) -> list[dict[str, Any]]:
        return listed(self.launch, "checks", "not_applicable")

    @cached_property
    def not_run(self) -> list[dict[str, Any]]:
        return listed(self.launch, "not_run")

    @cached_property
    def levers(self) -> list[ShownLever]:
        return levers_of(self.launch)

    # --- start and serving --------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[Step]:
        return steps_of(self.launch)

    @cached_property
    def timeline(self) -> list[Phase]:
        return timeline_of(self.launch)

    @cached_property
    def held_up(self) -> list[str]:
        return held_up(self.launch)

    @cached_property
    def step_rank(self) -> str:
        rank = leading_rank(self.launch)
        return str(rank.get("id") or "") if rank else ""

    @cached_property
    def waterfall_figure(self) -> charts.Figure | None:
        return charts.waterfall(self.steps)

    @cached_property
    def serving(self) -> dict[str, Any] | None:
        serving = self.launch.get("serving")
        return serving if isinstance(serving, dict) else None

    @cached_property
    def serving_figure(self) -> charts.Figure | None:
        points = [point for point in listed(self.serving, "series") if isinstance(point, dict)]
        return charts.serving(points) if points else None

    @cached_property
    def serving_facts(self) -> list[tuple[str, str]]:
        serving = self.serving or {}
        facts = [
            ("Decode batches", words.tokens(serving.get("decode_batches"))),
            ("Prefill batches", words.tokens(serving.get("prefill_batches"))),
            ("Peak use of the pool", words.percent(_times(serving.get("peak_token_usage"), 100), 0)),
            ("Peak running", words.tokens(serving.get("peak_running"))),
            ("Peak queue", words.tokens(serving.get("peak_queue"))),
            ("Retractions", words.tokens(serving.get("retractions"))),
        ]
        return [(name, value) for name, value in facts if value]

    # --- configuration ------------------------------------------------------------------------------------------------

    @cached_property
    def arguments(self) -> list[tuple[str, str, list[Argument]]]:
        groups: dict[str, list[Argument]] = {"given": [], "adjusted": [], "default": []}
        for name, argument in (dig(self.launch, "arguments") or {}).items():
            if not isinstance(argument, dict):
                continue
            before = _spell(argument["from"]) if "from" in argument else ""
            shown = Argument(str(name), _spell(argument.get("value")), before)
            groups.setdefault(str(argument.get("origin") or "default"), []).append(shown)
        names = {"given": "Set by you", "adjusted": "Changed by the engine", "default": "Default"}
        return [(key, names.get(key, key), found) for key, found in groups.items() if found]

    @cached_property
    def given_count(self) -> int:
        return next((len(found) for key, _, found in self.arguments if key == "given"), 0)

    @cached_property
    def command(self) -> str:
        return full_command(dig(self.launch, "arguments") or {})

    @cached_property
    def changed_since(self) -> list[str]:
        """Arguments that differ from the launch before."""
        if self.before is None:
            return []
        now, then = dig(self.launch, "arguments") or {}, dig(self.before, "arguments") or {}
        return [name for name in now if name in then and dig(now, name, "value") != dig(then, name, "value")]

    # --- exceptions and the log ---------------------------------------------------------------------------------------

    @cached_property
    def failure(self) -> dict[str, Any] | None:
        failure = self.launch.get("failure")
        return failure if isinstance(failure, dict) else None

    @cached_property
    def failure_title(self) -> str:
        kind = words.FAILURES.get(str(dig(self.failure, "kind")), "Failed")
        stage = words.STAGES.get(str(dig(self.failure, "stage") or ""), "")
        return f"{kind} while {stage}" if stage and stage != "serving" else f"{kind} while serving" if stage else kind

    @cached_property
    def failure_lines(self) -> list[EvidenceLine]:
        message = str(dig(self.failure, "message") or "")
        refs = line_refs(dig(self.failure, "lines") or [])
        return [EvidenceLine(refs[0] if refs else None, (Piece(message),))] if message else []

    @cached_property
    def traces(self) -> list[dict[str, Any]]:
        """Chained exceptions, the root cause first, where the engine tells them."""
        return [trace for trace in listed(self.launch, "exceptions") if isinstance(trace, dict)]

    @cached_property
    def oom(self) -> list[dict[str, Any]]:
        return [entry for entry in listed(self.launch, "oom") if isinstance(entry, dict)]

    @cached_property
    def exception_count(self) -> int:
        return len(self.oom) + len(self.traces) + (1 if self.failure and not self.traces and not self.oom else 0)

    @cached_property
    def line_count(self) -> int:
        return sum(file.get("lines") or 0 for file in self.files)

    @cached_property
    def rank_count(self) -> int:
        return len(listed(self.launch, "ranks"))

    @cached_property
    def masked_words(self) -> str:
        masked = dig(self.document, "upload", "masked") or {}
        said = [
            f"{count} {kind.replace('_', ' ')}{'' if count == 1 else 's'}" for kind, count in masked.items() if count
        ]
        return "redacted: " + ", ".join(said) if said else "nothing to redact"

    @cached_property
    def gaps(self) -> list[tuple[str, dict[str, Any]]]:
        return [(str(file.get("name")), file["gap"]) for file in self.files if isinstance(file.get("gap"), dict)]

    @cached_property
    def not_understood(self) -> list[EvidenceLine]:
        return [
            EvidenceLine((line_refs(entry.get("line")) or [None])[0], pieces_of(str(entry.get("text") or "")))
            for entry in listed(self.launch, "not_understood")
            if isinstance(entry, dict)
        ]

    @cached_property
    def sections(self) -> list[tuple[str, str, str]]:
        """The side list: (anchor, name, count)."""
        if not self.has_launch:
            return [("verdict", "Verdict", ""), ("log", "Log", words.tokens(self.line_count))]
        found = [
            ("verdict", "Verdict", ""),
            ("budget", "Memory budget", ""),
            ("findings", "Findings", str(len(self.findings))),
            ("whatif", "What if", ""),
            ("waterfall", "Waterfall and time", ""),
            ("serving", "Serving", ""),
            ("config", "Configuration", str(self.given_count) if self.given_count else ""),
            ("exceptions", "Exceptions", str(self.exception_count)),
            ("log", "Log", words.tokens(self.line_count)),
        ]
        hidden = set() if self.what_if else {"whatif"}
        return [entry for entry in found if entry[0] not in hidden]

    @cached_property
    def what_if(self) -> bool:
        """True when the budget can be redone for other settings."""
        redone = dig(self.launch, "kv_cache", "budget") or {}
        return redone.get("opening_gib") is not None and redone.get("after_weights_gib") is not None

    @cached_property
    def fractions_named(self) -> set[str]:
        """Fractions that a sentence of this launch may name, as they are spelled."""
        known = dig(self.launch, "kv_cache", "fractions") or {}
        values = [value for value in known.values() if isinstance(value, float) and value < 1]
        for finding in listed(self.launch, "findings"):
            for remedy in listed(finding, "remedies"):
                if remedy.get("flag") == FLAG:
                    values += [float(v) for v in (remedy.get("from"), remedy.get("to")) if _is_fraction(v)]
        return {spelled for value in values for spelled in (words.fraction(value), f"{value:g}", f"{value:.2f}")}


# --- pieces -----------------------------------------------------------------------------------------------------------

# A journal's own date and unit, then SGLang's bracket with clock and rank; either may stand alone.
_CLOCK = re.compile(r"^(?=\[|[A-Z][a-z]{2} )(?:[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+: ?)?(?:\[[^\]\n]{8,60}\])?")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:\s?(?:GB|GiB|MiB|MB))?(?![\w])")


def pieces_of(text: str, *figures: Any) -> tuple[Piece, ...]:
    """A log line cut into its clock, plain stretches and the figures that are evidence."""
    pieces: list[Piece] = []
    clock = _CLOCK.match(text)
    at = 0
    if clock and clock.group():
        pieces.append(Piece(clock.group(), "ts"))
        at = clock.end()
    wanted = {round(float(figure), 4) for figure in figures if isinstance(figure, (int, float))}
    if wanted:
        for match in _NUMBER.finditer(text, at):
            number = re.sub(r"[^\d.]", "", match.group())
            if number and round(float(number), 4) in wanted:
                pieces += [Piece(text[at : match.start()]), Piece(match.group(), "mark")]
                at = match.end()
    pieces.append(Piece(text[at:]))
    return tuple(piece for piece in pieces if piece.text)


def shown_findings(launch: Launch) -> list[ShownFinding]:
    """A launch's findings in the document's order within each severity, each with an anchor of its own."""
    found = [finding for finding in listed(launch, "findings") if isinstance(finding, dict)]
    found.sort(key=lambda finding: _rank(str(finding.get("severity"))))
    seen: Counter[str] = Counter()
    shown = []
    for finding in found:
        rule = str(finding.get("rule") or "finding")
        seen[rule] += 1
        anchor = f"finding-{rule}" if seen[rule] == 1 else f"finding-{rule}-{seen[rule]}"
        severity = finding.get("severity") if finding.get("severity") in words.SEVERITIES else "info"
        shown.append(_shown(finding, rule, anchor, str(severity), first=not shown))
    return shown


def _rank(severity: str) -> int:
    return words.SEVERITIES.index(severity) if severity in words.SEVERITIES else len(words.SEVERITIES)


def _shown(finding: dict[str, Any], rule: str, anchor: str, severity: str, *, first: bool) -> ShownFinding:
    lines: dict[Any, tuple[str, list[Any]]] = {}
    for piece in listed(finding, "evidence"):
        refs = line_refs(piece.get("line"))
        key = refs[0] if refs else piece.get("text")
        lines.setdefault(key, (str(piece.get("text") or ""), []))[1].append(piece.get("value"))
    evidence = [
        EvidenceLine(key if isinstance(key, LineRef) else None, pieces_of(text, *figures))
        for key, (text, figures) in lines.items()
    ]
    return ShownFinding(
        rule=rule,
        anchor=anchor,
        severity=severity,
        confidence=str(finding.get("confidence") or ""),
        summary=str(finding.get("summary") or rule),
        why=str(finding.get("why") or ""),
        formula=str(finding.get("formula") or ""),
        ranks=spell_ranks([str(rank) for rank in listed(finding, "ranks")]) if any(listed(finding, "ranks")) else "",
        evidence=tuple(evidence[:4]),
        more_evidence=max(0, len(evidence) - 4),
        remedies=tuple(_remedy(remedy) for remedy in listed(finding, "remedies")),
        open=first or severity in _ALWAYS_OPEN,
    )


def _remedy(remedy: dict[str, Any]) -> ShownRemedy:
    verb = {"raise": "Raise", "lower": "Lower", "set": "Set", "remove": "Remove"}.get(str(remedy.get("direction")), "")
    flag = str(remedy.get("flag") or "")
    to = remedy.get("to")
    if not flag.startswith("--") and flag.islower():
        verb, flag = ("", flag.capitalize()) if verb in ("Set", "") else (verb, flag)  # "Upgrade to …"
    title = " ".join(part for part in (verb, flag, f"to {to}" if to not in (None, "") else "") if part)
    effects = tuple(
        effect
        for name, change in (dig(remedy, "effect") or {}).items()
        if isinstance(change, dict)
        for effect in [_effect(str(name), change)]
        if effect
    )
    words_of = (str(remedy.get("cost") or ""), str(remedy.get("note") or ""))
    return ShownRemedy(title, tuple(command_diff(remedy)), effects, *words_of)


def _effect(name: str, change: dict[str, Any]) -> Effect | None:
    before, after, low, high = (change.get(key) for key in ("from", "to", "low", "high"))
    if after is None and before is None:
        return None
    is_gib = name.endswith("_gib")
    spell = words.gib if is_gib else words.tokens if isinstance(after or before, int) else _spell
    unit = " GiB" if is_gib else ""
    guess = words.about(after) if name.endswith("tokens") and isinstance(after, int) else spell(after)
    span = []
    if isinstance(before, (int, float)) and isinstance(after, (int, float)) and before > 0:
        share = (after / before - 1) * 100
        span.append(words.signed_gib(after - before) if is_gib else f"{share:+.0f} %".replace("-", "−"))
    if low is not None and high is not None:
        span.append(f"{spell(low)} to {spell(high)}")
    return Effect(
        EFFECT_NAMES.get(name, name.replace("_gib", "").replace("_", " ").capitalize()),
        spell(before) if before is not None else "none",
        f"≈ {guess}{unit}" if after is not None else "none",
        ", ".join(span),
    )


def budget_rows(budget: Budget) -> list[Row]:
    """The table twin of the main card: pools with their parts, the boundary's line, the free rest."""
    card = budget.main
    if card is None:
        return []
    per_token = budget.bytes_per_token

    def tokens(gib: float) -> float | None:
        return gib * 2**30 / per_token if per_token else None

    def pool_rows(shares: tuple[Share, ...]) -> list[Row]:
        rows = []
        for share in shares:
            for part in (share, *share.parts):
                kind = "pool" if part is share else "sub"
                percent = part.gib / card.opening * 100 if card.opening else None
                known = (part.gib, percent, tokens(part.gib), part.basis, part.lines)
                rows.append(Row(kind, part.name, share.pool, *known, words=part.what))
        return rows

    inside, outside = split_at_boundary(card)
    rows = pool_rows(inside)
    if budget.boundary is not None:
        spelled = ""
        if budget.fraction is not None:
            spelled = f"{words.fraction(budget.fraction)} × {words.gib(card.opening)}; "
        if budget.over is not None:
            rows.append(
                Row(
                    "line",
                    "of these over the static budget",
                    gib=budget.over,
                    basis="derived",
                    lines=budget.boundary_lines,
                    words=f"it ends at {words.gib(budget.boundary)}",
                )
            )
        else:
            rest = f"what follows is paid from the reserve of {words.gib(budget.reserve)}"
            rows.append(
                Row(
                    "line",
                    "static budget ends here",
                    gib=budget.boundary,
                    basis="derived",
                    lines=budget.boundary_lines,
                    words=spelled + rest,
                )
            )
    return rows + pool_rows(outside)


def state_words(launch: Launch) -> str:
    """How a launch ended, for a badge: "Ready in 24.0 s", "Failed at the KV cache"."""
    outcome, stage = launch.get("outcome"), str(launch.get("stage") or "")
    if outcome == "ready":
        took = words.duration(launch.get("ready_after_s"))
        return f"Ready in {took}" if took else "Ready"
    noun = words.STAGE_NOUNS.get(stage, "")
    if outcome == "failed":
        return "Died while serving" if stage == "serving" else f"Failed at {noun}" if noun else "Failed"
    return f"Ends at {noun}" if noun else "Incomplete"


def short_end(launch: Launch) -> str:
    """Why a launch ended, in two or three words for a tab."""
    if launch.get("outcome") != "failed":
        return ""
    kind = str(dig(launch, "failure", "kind") or "")
    said = {"gpu_oom": "out of memory", "sizing": "refused", "host_oom": "host out of memory"}.get(kind, kind)
    stage = str(dig(launch, "failure", "stage") or "")
    where = {"cuda_graph": " in capture", "weights": " in loading", "serving": " while serving"}.get(stage, "")
    return f"{said}{where}" if kind != "sizing" else said


def _differing_flags(found: list[Launch]) -> Any:
    """A function that spells, for a launch, the one flag in which the launches differ (two at most)."""
    values: dict[str, set[str]] = {}
    for launch in found:
        for name, argument in (dig(launch, "arguments") or {}).items():
            values.setdefault(str(name), set()).add(_spell(dig(argument, "value")))
    noise = {"random_seed", "nccl_port", "dist_init_addr", "port", "log_level"}
    differing = [name for name, seen in values.items() if len(seen) > 1 and name not in noise]
    differing.sort(key=lambda name: name != "mem_fraction_static")
    named = {"mem_fraction_static": "fraction"}

    def spell(launch: Launch) -> list[str]:
        return [
            f"{named.get(name, name)} {_spell(dig(launch, 'arguments', name, 'value'))}"
            for name in differing[:1]
            if dig(launch, "arguments", name) is not None
        ]

    return spell


def _spell(value: Any) -> str:
    """An argument's value as Python prints it, so that it can be found in the log."""
    return value if isinstance(value, str) else repr(value)


def _bare_line(value: Any) -> int:
    refs = line_refs(value)
    return refs[0].line if refs else 0


def _times(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None


def _is_fraction(value: Any) -> bool:
    try:
        return 0 < float(value) < 1
    except (TypeError, ValueError):
        return False
