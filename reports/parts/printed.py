"""What the log printed of its troubles, and what of it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports import words
from reports.document import dig, line_refs, listed
from reports.log_pieces import EvidenceLine, Piece, pieces_of
from reports.parts.launch import ShownLaunch


@dataclass
class Printed(ShownLaunch):
    """What the panels of exceptions and of the log show."""

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
        return (
            len(self.oom)
            + (self.launch.get("oom_untold") or 0)
            + len(self.traces)
            + (1 if self.failure and not self.traces and not self.oom else 0)
        )

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
