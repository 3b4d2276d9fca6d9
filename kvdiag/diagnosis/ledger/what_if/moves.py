"""Moves: what a change gives to each pool and takes from it, in the ledger's own words, so that it can be drawn."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.model import Model, Pool
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.ledger.what_if.forward import Launch, table_gib, tokens_before, tokens_of


@dataclass(frozen=True, slots=True)
class Move:
    """GiB that one pool of a rank takes more; negative where it takes less."""

    pool: Pool
    model: Model
    gib: float

    def to_document(self) -> dict[str, str | float]:
        """As an entry of the ledger's document."""
        return {"pool": self.pool.value, "model": self.model.value, "gib": round(self.gib, 6)}


def moves_of(sizing: Sizing, base: Launch, then: Launch) -> tuple[Move, ...]:
    """Every pool that a change moves. Their sum is what the changed launch takes more, but for another card's room."""
    before, after = tokens_before(sizing, base), tokens_of(sizing, base, then)
    full, window = (
        now - earlier
        for now, earlier in zip(_attention(sizing, then, after), _attention(sizing, base, before), strict=True)
    )
    moved = (
        Move(Pool.WEIGHTS, Model.TARGET, then.weights),
        Move(Pool.KV_CACHE, Model.TARGET, full),
        Move(Pool.SWA_KV_CACHE, Model.TARGET, window),
        Move(Pool.MAMBA_STATE, Model.TARGET, then.state_gib() - base.state_gib()),
        Move(Pool.WEIGHTS, Model.DRAFT, then.draft_weights),
        Move(Pool.KV_CACHE, Model.DRAFT, then.draft_gib(after) - base.draft_gib(before)),
        Move(Pool.CUDA_GRAPHS, Model.TARGET, then.graphs),
        Move(Pool.REQUEST_TABLE, Model.TARGET, table_gib(sizing, then, after) - table_gib(sizing, base, before)),
    )
    return tuple(move for move in moved if move.gib)


def _attention(sizing: Sizing, launch: Launch, tokens: float) -> tuple[float, float]:
    """GiB of the target's full and window pools; a window pool that requests size does not move with the tokens."""
    way, pools = launch.arithmetic, sizing.inputs.pools
    share = 0.0
    if way.window is not None and way.window_tokens is None:
        share = way.ratio * way.window.window / way.bytes_per_reported_token
    elif way.window is None and pools.full_gib and pools.swa_gib:
        share = pools.swa_gib / (pools.full_gib + pools.swa_gib)
    gib = launch.target_gib(tokens)
    return gib * (1 - share), gib * share
