"""Sizing: everything the arithmetic says about one launch, and its part of the report document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvdiag.diagnosis import provenance
from kvdiag.diagnosis.ledger.sizing import requests
from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.automatic import FractionCheck, with_automatic
from kvdiag.diagnosis.ledger.sizing.budget import FORMULA, Budget, compute, implied_fraction
from kvdiag.diagnosis.ledger.sizing.cell import CellSize, cell_size
from kvdiag.diagnosis.ledger.sizing.estimate import Estimate
from kvdiag.diagnosis.ledger.sizing.free_memory import Fractions, fractions, needed_free, wanted_free
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.limits import Limit, LimitedBy, cap_binds, decide
from kvdiag.diagnosis.ledger.sizing.stored import to_document

LineReference = Callable[[tuple[int, int]], object]


def _number(line: tuple[int, int]) -> int:
    """The bare number, in a document of one file."""
    return line[1]


@dataclass(frozen=True, slots=True)
class RequestCheck:
    """Whether the limit on running requests holds anything back.

    state     "cleared": the pool fills before the limit is reached; "binding": requests of full length at the limit
              leave part of the pool unused; "unknown"
    formulas  the release's formula with its numbers, for each way of counting that gives the reported limit
    """

    reported: int
    state: str
    sentence: str
    formulas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """SGLang's sizing of one launch, redone; `lines` are (file, line) of the readings it starts from."""

    inputs: SizingInputs
    budget: Budget | None
    cell: CellSize | None
    limit: Limit
    requests: RequestCheck | None
    wanted_free: float | None
    needed_free: float | None
    fractions: Fractions | None
    implied_fraction: Estimate | None = None
    automatic: FractionCheck | None = None
    lines: tuple[tuple[int, int], ...] = ()

    @property
    def limited_by(self) -> LimitedBy:
        """What limits the pool, in the report document's word."""
        return self.limit.kind

    @property
    def bytes_per_token(self) -> int | None:
        """Bytes one token takes on one rank; None on hybrid pools, where no single figure says it."""
        family = self.inputs.family
        if self.cell is None or family is None or family.is_hybrid:
            return None
        size = self.cell.stored or self.cell.charged
        return round(
            self.cell.charged.value if self.cell.basis == "geometry" and not _differs(self.cell) else size.value
        )

    def to_document(self, line_reference: LineReference = _number) -> dict[str, object]:
        """`kv_cache` of the report document; `inputs` are what a what-if starts from.

        line_reference  how the document names a line of (file, number): with several files, by both
        """
        family = self.inputs.family
        bounds = None
        if self.bytes_per_token is not None and self.cell is not None:
            size = self.cell.stored or self.cell.charged
            bounds = {
                "low": round(size.low),
                "high": round(size.high),
                "basis": self.cell.basis,
                "note": self.cell.note,
            }
        return {
            "family": family.shown if family else None,
            "tokens": self.inputs.tokens,
            "gib_per_rank": None if self.inputs.pools.gib is None else round(self.inputs.pools.gib, 6),
            "bytes_per_token": self.bytes_per_token,
            "bytes_per_token_bounds": bounds,
            "budget": _budget(self.budget, self.inputs, [line_reference(line) for line in self.lines])
            if self.budget
            else None,
            "limited_by": self.limit.kind.value,
            "limit": _limit(self.limit),
            "requests": None
            if self.requests is None
            else {
                "reported": self.requests.reported,
                "state": self.requests.state,
                "sentence": self.requests.sentence,
                "formulas": list(self.requests.formulas),
            },
            "wanted_free_gib": None if self.wanted_free is None else round(self.wanted_free, 4),
            "fractions": None
            if self.fractions is None
            else {
                "observed": self.inputs.fraction,
                "smallest_that_starts": self.fractions.starts_from,
                "keeps_wanted_free": self.fractions.keeps_wanted,
                "largest_that_fits": self.fractions.fits,
                "wanted_free_gib": None if self.wanted_free is None else round(self.wanted_free, 4),
                "why": self.fractions.why or None,
            },
            "implied_fraction": None if self.implied_fraction is None else self.implied_fraction.rounded(3),
            "automatic_fraction": None if self.automatic is None else self.automatic.to_document(),
            "provenance": provenance.to_document(self.inputs.release),
            "inputs": to_document(self.inputs),
        }


def size_inputs(inputs: SizingInputs) -> Sizing:
    """The sizing of a launch given in numbers."""
    printed = inputs.fraction is not None and inputs.fraction_basis is None
    inputs, automatic = with_automatic(inputs)
    budget = compute(inputs)
    wanted = wanted_free(inputs)
    sure = budget if not inputs.fraction_doubt else None
    return Sizing(
        inputs=inputs,
        budget=budget,
        cell=budget.cell if budget else cell_size(inputs),
        limit=decide(inputs, budget, automatic.sentence if automatic is not None else ""),
        requests=check_requests(inputs),
        wanted_free=wanted,
        needed_free=needed_free(inputs),
        fractions=fractions(inputs, sure, cap_binds(inputs), wanted) if sure else None,
        implied_fraction=None if printed else implied_fraction(inputs),
        automatic=automatic,
    )


def check_requests(inputs: SizingInputs) -> RequestCheck | None:
    """The reported max_running_requests against the pool and against the release's own clamps."""
    reported, tokens, context = inputs.running_requests, inputs.tokens, inputs.context_length
    if reported is None:
        return None
    if not tokens or not context:
        return RequestCheck(reported, "unknown", "the log lacks the pool's tokens or the context length")
    formulas = list(dict.fromkeys(limit.formula for limit in requests.matching_limits(inputs, tokens)))
    room = reported * context
    if room < tokens:
        return RequestCheck(
            reported,
            "binding",
            f"{reported:,} requests of {context:,} tokens fill {100 * room / tokens:.0f} % of the pool: "
            "the limit binds before the pool does",
            tuple(formulas),
        )
    return RequestCheck(
        reported,
        "cleared",
        f"max_running_requests {reported:,} does not shrink the pool; it is reached only when requests average "
        f"under {tokens // max(1, reported):,} tokens",
        tuple(formulas),
    )


def _differs(cell: CellSize) -> bool:
    """Whether the pool stores another size than the release charges."""
    stored = cell.stored
    return stored is not None and not stored.low * 0.999 <= cell.charged.value <= stored.high * 1.001


def _budget(budget: Budget, inputs: SizingInputs, lines: list[object]) -> dict[str, object]:
    way = budget.arithmetic
    names = []
    for candidate in budget.candidates:
        if candidate.fits is not False:
            names.append(
                {
                    "assumes": list(candidate.arithmetic.assumptions) or [describe(candidate.arithmetic)],
                    "tokens": int(candidate.tokens.value),
                }
            )
    return {
        "mem_fraction_static": round(budget.fraction, 6),
        "printed_fraction": inputs.fraction if inputs.fraction_basis is None else None,
        "fraction_basis": inputs.fraction_basis or "printed",
        "opening_gib": round(budget.readings.opening.value, 6),
        "after_weights_gib": round(budget.readings.after_weights.value, 6),
        "reserve_gib": round(budget.reserve, 6),
        "kv_gib": round(budget.kv.value, 6),
        "measured_gib": None if inputs.measured is None else round(inputs.measured, 4),
        "kv_gib_low": round(budget.kv.low, 6),
        "kv_gib_high": round(budget.kv.high, 6),
        "state_gib": round(way.state_gib(budget.kv.value), 6) if way and way.state_gib(budget.kv.value) else None,
        "tokens": int(budget.tokens.value) if budget.tokens else None,
        "tokens_low": int(budget.tokens.low) if budget.tokens else None,
        "tokens_high": int(budget.tokens.high) if budget.tokens else None,
        "memory_tokens": int(budget.memory_tokens.value) if budget.memory_tokens else None,
        "error_percent": None if budget.error_percent is None else round(budget.error_percent, 3),
        "formula": FORMULA,
        "smallest_fraction": round(budget.smallest_fraction, 4),
        "opening_rank": budget.readings.opening_rank,
        "smallest_rank": budget.readings.smallest_rank,
        "charged_bytes_per_token": round(way.bytes_per_reported_token) if way else None,
        "counted_as": describe(way) if way else None,
        "candidates": names,
        "lines": lines,
    }


def describe(way: Arithmetic) -> str:
    """One way of counting, in words."""
    words = []
    if way.window is not None:
        words.append(f"window pools {way.split.value}")
    if way.state_of:
        words.append("request states first")
    if way.headroom:
        words.append(f"{way.headroom:,} tokens added for the draft (0.4.3–0.5.6)")
    if not way.likely:
        words.append("as a neighbouring release counts; the wording alone speaks against it")
    words.extend(way.assumptions)
    if way.family is Family.DSV4:
        words.append("the byte rate the log prints")
    return "; ".join(words) or "budget over bytes per token"


def _limit(limit: Limit) -> dict[str, object]:
    return {
        "sentence": limit.sentence,
        "gap_gib": None if limit.gap is None else round(limit.gap, 4),
        "unexplained_gib": None if limit.unexplained is None else round(limit.unexplained, 4),
        "fault": limit.fault,
        "fault_gib": None if limit.fault_gib is None else round(limit.fault_gib, 4),
        "smallest_rank": limit.smallest,
        "costs": [{"rank": cost.rank, "gib": round(cost.gib, 4), "tokens": cost.tokens} for cost in limit.costs],
    }
