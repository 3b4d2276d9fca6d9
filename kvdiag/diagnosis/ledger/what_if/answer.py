"""Scenario: the answer to a what-if, each figure with its interval, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kvdiag.diagnosis.ledger.what_if.moves import Move


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure before and after a change, with the bounds of the later value; None where the log does not tell.

    bound  "at most" or "at least" where the log does not show a part of the weights that every rank keeps whole:
           the true figure lies on one side of `after`. A bound that is then None is not known
    """

    before: float | None
    after: float | None
    low: float | None = None
    high: float | None = None
    bound: str | None = None

    @property
    def word(self) -> str:
        """How the later value is to be said: "about", "at most" or "at least"."""
        return self.bound or "about"

    def to_document(self, digits: int) -> dict[str, float | str | None]:
        """Rounded; whole numbers where digits is 0."""

        def shown(value: float | None) -> float | None:
            if value is None:
                return None
            return int(value) if digits == 0 else round(value, digits)

        figures: dict[str, float | str | None] = {
            "before": shown(self.before),
            "after": shown(self.after),
            "low": shown(self.after if self.low is None and self.bound is None else self.low),
            "high": shown(self.after if self.high is None and self.bound is None else self.high),
        }
        return figures if self.bound is None else {**figures, "bound": self.bound}


class Starts(StrEnum):
    """Whether a changed launch starts."""

    YES = "yes"
    NO = "no"
    NO_FRACTION = "no fraction"  # it would start, but with no fraction as asked
    UNKNOWN = "not known"  # the log does not tell


@dataclass(frozen=True, slots=True)
class FlagChange:
    """One flag of the launch command with another value; `after` None where it is taken out."""

    flag: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a changed launch would have. Tokens are of one rank, requests of the whole server.

    starts     whether the changed launch starts
    refused    where it does not, or nobody knows: why, in one sentence. Figures that are still sure may stand beside it
    validity   the limits of the model, in words
    cautions   what speaks against the change
    wanted_free_gib  what a change should leave free; needed_free_gib what any launch needs, less on a shared memory
    opening_gib   free before the weights, on a card of another size; None on the log's own
    boundary_gib  where the static fraction ends, from the start of the card
    moves         what each pool of the rank takes more than in the log; () where it does not start
    starts_from   smallest fraction that starts; at least that where tokens are "at most", None where "at least"
    keeps_wanted  largest fraction that leaves the wanted free memory
    equations     each step with its numbers
    command    the new launch command; None where the log does not show which flags were given
    """

    starts: Starts
    refused: str | None = None
    opening_gib: Figure | None = None
    boundary_gib: Figure | None = None
    fraction: Figure | None = None
    tokens: Figure | None = None
    kv_gib: Figure | None = None
    free_gib: Figure | None = None
    requests: Figure | None = None
    request_tokens: int | None = None
    total_tokens: Figure | None = None
    host_gb: Figure | None = None
    wanted_free_gib: float | None = None
    needed_free_gib: float | None = None
    starts_from: float | None = None
    keeps_wanted: float | None = None
    moves: tuple[Move, ...] = ()
    equations: tuple[str, ...] = ()
    validity: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    flags: tuple[FlagChange, ...] = field(default=())
    command: str | None = None

    def to_document(self) -> dict[str, Any]:
        """JSON values. Host memory in 10^9 bytes a rank, other sizes in GiB."""

        def figure(value: Figure | None, digits: int) -> dict[str, float | str | None] | None:
            return None if value is None else value.to_document(digits)

        return {
            "starts": self.starts.value,
            "refused": self.refused,
            "opening_gib": figure(self.opening_gib, 4),
            "boundary_gib": figure(self.boundary_gib, 4),
            "moves": [move.to_document() for move in self.moves],
            "fraction": figure(self.fraction, 4),
            "tokens": figure(self.tokens, 0),
            "total_tokens": figure(self.total_tokens, 0),
            "kv_gib": figure(self.kv_gib, 4),
            "free_gib": figure(self.free_gib, 4),
            "requests": figure(self.requests, 0),
            "request_tokens": self.request_tokens,
            "host_gb": figure(self.host_gb, 4),
            "wanted_free_gib": self.wanted_free_gib,
            "needed_free_gib": self.needed_free_gib,
            "starts_from": self.starts_from,
            "keeps_wanted": self.keeps_wanted,
            "equations": list(self.equations),
            "validity": list(self.validity),
            "cautions": list(self.cautions),
            "flags": [{"flag": x.flag, "from": x.before, "to": x.after} for x in self.flags],
            "command": self.command,
        }
