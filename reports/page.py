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
from reports.budget import Budget, Card, budget_of
from reports.budget_table import Row, budget_rows
from reports.commands import full_command
from reports.configuration import Argument, argument_groups
from reports.document import Document, Launch, dig, launches, line_refs, listed
from reports.finding_cards import ShownFinding, shown_findings
from reports.header import facts_of
from reports.launch_tabs import Tab, state_words, tabs_of
from reports.levers import ShownLever, levers_of
from reports.log_pieces import EvidenceLine, Piece, pieces_of
from reports.numbers import Key, key_numbers
from reports.overflow import Overflow, overflow_of
from reports.ruler import FLAG, Ruler, advised_fraction, ruler_of
from reports.steps import Phase, Step, held_up, leading_rank, steps_of, timeline_of


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
        return facts_of(self.launch)

    @cached_property
    def tab_title(self) -> str:
        tokens = dig(self.launch, "kv_cache", "tokens")
        said = f", {words.tokens(tokens)} tokens" if tokens and self.outcome == "ready" else ""
        turn = self.turn[1] if self.outcome == "failed" and self.turn else ""
        return f"{self.title}, {self.verdict_word}{said}{', ' + turn.lower() if turn else ''}"

    @cached_property
    def tabs(self) -> list[Tab]:
        return tabs_of(launches(self.document), self.launch, self.files)

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
    def overflow(self) -> Overflow | None:
        """The card when an allocation failed, where no reading tells the budget."""
        return None if self.budget.main else overflow_of(self.launch)

    @cached_property
    def pool_set_by(self) -> str:
        """What sets the pool's size, and how far the arithmetic holds, as one sentence; "" where nothing is known."""
        if dig(self.launch, "kv_cache", "budget") is None and dig(self.launch, "kv_cache", "tokens") is None:
            return ""
        return words.sentence(dig(self.launch, "kv_cache", "limit", "sentence") or "")

    @cached_property
    def budget_words(self) -> str:
        main = self.budget.main
        if main is None:
            return self.overflow.words if self.overflow else ""
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
        return self._outside("earlier")

    @cached_property
    def later(self) -> list[Row]:
        """What was taken after the last reading: it is not off the free memory."""
        return self._outside("later")

    def _outside(self, when: str) -> list[Row]:
        rank = leading_rank(self.launch) or {}
        return [
            Row(when, str(entry.get("pool")), gib=entry["gib"], lines=tuple(line_refs(entry.get("lines"))))
            for entry in listed(rank, when)
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
        return argument_groups(self.launch)

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
            f"{count} {kind.replace('_', ' ')}{'' if count == 1 else 'es' if kind.endswith('s') else 's'}"
            for kind, count in masked.items()
            if count
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


def _times(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None


def _is_fraction(value: Any) -> bool:
    try:
        return 0 < float(value) < 1
    except (TypeError, ValueError):
        return False
