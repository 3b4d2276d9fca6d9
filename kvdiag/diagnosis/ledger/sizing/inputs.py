"""SizingInputs: every number of one launch that SGLang's own sizing depends on, as the log gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange


class Family(StrEnum):
    """How a model keeps its attention state, and so which arithmetic sizes the pool."""

    MHA = "mha"
    MLA = "mla"
    DSA = "dsa"
    SWA = "swa"
    LINEAR = "mamba"
    DSV4 = "dsv4"
    OTHER = "other"

    @property
    def shown(self) -> str:
        """The word of the report document: both sparse families are "sparse"."""
        return "sparse" if self in (Family.DSA, Family.DSV4) else self.value

    @property
    def is_hybrid(self) -> bool:
        """Two pools share the budget, so that bytes over tokens says nothing of one token."""
        return self in (Family.SWA, Family.LINEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Free GPU memory of one rank at the moments that matter, in GiB as printed; None where not printed.

    opening        before the target's weights ("Load weight begin")
    after_weights  when the pool is sized: after the target's weights, and the draft's where they load before it
    after_least    the least of after_weights where the log starts later: what is free after the pools, and the pools
    usage          what the target's weights took ("mem usage"), to find a missing opening
    pool_end       after the target's pools ("Memory pool end")
    after_pool     the highest later reading before graphs: shows memory that came back after sizing
    end            last start-up reading
    lowest         the lowest reading from the target's pool on: memory may come back before the end
    graphs         what the captures of the target took, summed
    tokens         tokens of its own full pool; `pool` GiB of all its target KV pools
    """

    id: str
    opening: float | None = None
    after_weights: float | None = None
    after_least: float | None = None
    usage: float | None = None
    pool_end: float | None = None
    after_pool: float | None = None
    end: float | None = None
    lowest: float | None = None
    graphs: float | None = None
    capacity: float | None = None
    tokens: int | None = None
    pool: float | None = None
    stage: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedPools:
    """What the pool lines of the smallest rank print: tokens, and GiB to two decimals.

    figures                how many printed sizes make up `gib`, for the rounding: K and V apart are two
    state_gib              all request states; `speculative_state_gib` is the part of them for draft tokens
    """

    tokens: int | None = None
    gib: float | None = None
    figures: int = 1
    full_gib: float | None = None
    swa_tokens: int | None = None
    swa_gib: float | None = None
    state_slots: int | None = None
    state_gib: float | None = None
    speculative_state_gib: float | None = None
    indexer_gib: float | None = None
    bytes_per_full_token: float | None = None
    available_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """A speculative draft: its weights, its pool, and its parameters; GiB as printed, None where not.

    before_pool  whether its weights were loaded before the target's pool was sized (0.5.14 and later)
    has_path     whether --speculative-draft-model-path is set, without which no budget pays for it; None if not told
    """

    algorithm: str | None = None
    weights: float | None = None
    tokens: int | None = None
    pool: float | None = None
    figures: int = 1
    steps: int | None = None
    top_k: int | None = None
    draft_tokens: int | None = None
    before_pool: bool | None = None
    graphs: float | None = None
    layers: int = 1
    has_path: bool | None = None


@dataclass(frozen=True, slots=True)
class FractionCandidate:
    """A fraction that some releases take when none is given, and the figures it rests on."""

    value: float
    releases: str
    rests_on: str


@dataclass(frozen=True, slots=True)
class AutomaticFraction:
    """What SGLang may have taken where no line prints the fraction.

    sure  the launch command is in the log and gives no fraction
    card  how the card's total is known: "printed", by its "name", by what was "free"; "" where the rule needs none
    why   why there is no candidate
    """

    candidates: tuple[FractionCandidate, ...] = ()
    sure: bool = False
    card: str = ""
    why: str = ""


SMALL_CARD_SHARE = 0.2
"""The share of a small card beyond which not even the least is wanted: it would leave no pool."""


@dataclass(frozen=True, slots=True)
class FreeWanted:
    """Free memory wanted at the end of a start, in GiB, by the card's size.

    full   on a card of `card` and more; below in proportion, never under `least` or SMALL_CARD_SHARE of a small card
    thin   a smaller share of it is thin, at the end and on the way to it
    shared share of a memory that the host has as well, wanted free there at the least
    """

    full: float = 5.0
    card: float = 60.0
    least: float = 1.5
    thin: float = 0.5
    shared: float = 0.2

    def on(self, card: float, unified: bool = False) -> float:
        """GiB wanted on a card of so many GiB; more of it where the host lives in the same memory."""
        alone = max(min(self.least, SMALL_CARD_SHARE * card), self.full * min(1.0, card / self.card))
        return max(alone, self.shared * card) if unified else alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingInputs:
    """One launch in numbers. A figure the log does not give is None; ratios and sizes are the effective arguments.

    fraction_basis  "derived" or "assumed" where no line prints the fraction and SGLang's own is taken
    fraction_doubt  why that one may not be the one in effect; "" without a doubt
    measured        GiB of the budget as SGLang measured it, less request states, where a build prints it: a check
    reserved        GiB of the budget the log says are kept for something else (0.5.19 and later, multimodal)
    post_capture    whether the pool was sized again after the graphs (0.5.17 and later, where asked for)
    """

    ranks: tuple[RankMemory, ...] = ()
    fraction: float | None = None
    fraction_given: bool | None = None
    fraction_basis: str | None = None
    fraction_doubt: str = ""
    automatic: AutomaticFraction | None = None
    measured: float | None = None
    release: ReleaseRange = field(default_factory=ReleaseRange)
    platform: str | None = None
    attention_backend: str | None = None
    family: Family | None = None
    geometry: Geometry | None = None
    model: str | None = None
    architecture: str | None = None
    kv_dtype: str | None = None
    multimodal: bool = False
    unified_memory: bool = False
    reserved: float = 0.0
    post_capture: bool = False
    page_size: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    dcp: int = 1
    nodes: int = 1
    dp_attention: bool = False
    pools: PrintedPools = field(default_factory=PrintedPools)
    draft: DraftModel | None = None
    tokens: int | None = None
    running_requests: int | None = None
    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    context_length: int | None = None
    chunked_prefill_size: int | None = None
    cuda_graph_max_bs: int | None = None
    radix_cache: bool = True
    overlap_schedule: bool = True
    disaggregation: str | None = None
    swa_ratio: float | None = None
    swa_window: int | None = None
    mamba_ratio: float | None = None
    max_mamba_cache_size: int | None = None
    mamba_extra_buffer: bool = False
    hicache_ratio: float | None = None
    hicache_gb: float | None = None
    hicache: bool = False
    refused: bool = False
    wanted: FreeWanted = field(default_factory=FreeWanted)

    @property
    def world(self) -> int:
        """How many ranks the launch has: TP × PP (every DP-attention rank is one of them)."""
        return max(1, self.tp) * max(1, self.pp)

    @property
    def attention_tp(self) -> int:
        """Over how many ranks one attention layer's heads are divided.

        Source: layers/dp_attention.py, compute_dp_attention_world_info(): tp // dp under DP attention.
        """
        return max(1, self.tp // max(1, self.dp)) if self.dp_attention else max(1, self.tp)
