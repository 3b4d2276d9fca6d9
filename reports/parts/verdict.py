"""The verdict: the outcome and the turn of the knob in words, the ruler, the counts, the key numbers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from kvdiag.diagnosis.endings import stage_of_end
from reports import words
from reports.document import dig, listed
from reports.numbers import Key, key_numbers
from reports.parts.causes import Causes
from reports.parts.memory import Memory
from reports.ruler import Ruler, advised_fraction, ruler_of

# "Ready, nothing to fix.", "Failed while the KV pool is made."
_OUTCOME = re.compile(r"^(?:Ready|Failed|Incomplete)(?:, nothing to fix| at the stage [\w ]+| while [\w ]+)?[.:]\s+")


@dataclass
class Verdict(Memory, Causes):
    """What the banner and the row of key numbers say."""

    @cached_property
    def tab_title(self) -> str:
        tokens = dig(self.launch, "kv_cache", "tokens")
        said = f", {words.tokens(tokens)} tokens" if tokens and self.outcome == "ready" else ""
        turn = self.turn[1] if self.outcome == "failed" and self.turn else ""
        return f"{self.title}, {self.verdict_word}{said}{', ' + turn.lower() if turn else ''}"

    @cached_property
    def verdict_word(self) -> str:
        if not self.has_launch:
            return "No server start"
        if self.outcome == "ready":
            return "Ready"
        if self.outcome == "incomplete":
            return "Incomplete"
        stage = stage_of_end(self.launch)
        return "Died while serving" if stage == "serving" else "Cannot start" if stage else "Failed"

    @cached_property
    def verdict_line(self) -> str:
        verdict = str(self.launch.get("verdict") or "")
        # The outcome stands beside the sentence already.
        rest = _OUTCOME.sub("", verdict)
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
        """The severities that no finding has, said in words: "0 critical, 0 warnings" reads as a check done."""
        found = {severity for severity, _ in self.counts}
        return ", ".join(
            words.of_severity(0, severity) for severity in ("critical", "warning") if severity not in found
        )

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
    def keys(self) -> list[Key]:
        return key_numbers(self.launch, self.budget, self.before)
