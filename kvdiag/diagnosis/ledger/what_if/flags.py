"""What each flag changes in a launch, one function a flag; the fraction has its own place in forward.py."""

from __future__ import annotations

from dataclasses import replace

from kvdiag.diagnosis.cards import is_amd
from kvdiag.diagnosis.ledger.sizing import dsa, mha
from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT
from kvdiag.diagnosis.ledger.sizing.free_memory import needed_free, wanted_free
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.linear import DEFAULT_RATIO
from kvdiag.diagnosis.ledger.sizing.requests import rows_at
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.forward import CannotTell, Launch

CARD_ROOM = 0.6
"""GiB by which another card's context, and its total as torch counts it, may differ from this one's."""


def changed_launch(sizing: Sizing, base: Launch, change: Change) -> Launch:
    """The launch with every changed flag but the fraction. Raises CannotTell where the log cannot carry a change."""
    launch = base
    for step in (_card, _draft, _ranks, _dtype, _cap, _window, _states, _request_table, _graphs):
        launch = step(sizing, launch, change)
    return launch


def for_card(sizing: Sizing, change: Change) -> Sizing:
    """The sizing with the free memory that another card wants; the same without another card."""
    total = change.card_size
    if total is None:
        return sizing
    inputs = replace(sizing.inputs, ranks=tuple(replace(rank, capacity=total.gib) for rank in sizing.inputs.ranks))
    return replace(sizing, wanted_free=wanted_free(inputs), needed_free=needed_free(inputs))


def _card(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """On a card of another size: what is taken before the weights, and what the start takes, stay as in this log."""
    total = change.card_size
    if change.card is None or total is None:
        return launch
    inputs = sizing.inputs
    if inputs.unified_memory:
        raise CannotTell(
            "GPU and host share one memory in this log: what was free before the weights tells nothing of a card"
        )
    if inputs.platform not in (None, "cuda", "hip"):
        raise CannotTell(f"what a start takes on {inputs.platform} tells nothing of a GPU")
    if is_amd(change.card) is not (inputs.platform == "hip"):
        raise CannotTell(
            "the cards are of two makers: what driver and libraries take before the weights is not the same there"
        )
    sizes = [rank.capacity for rank in inputs.ranks if rank.capacity is not None]
    if not sizes:
        raise CannotTell(
            "the log names neither its card nor the card's total, so what was taken before the first reading is not "
            "known"
        )
    if max(sizes) - min(sizes) > CARD_ROOM:
        raise CannotTell("the ranks of this log have cards of several sizes")
    taken = min(sizes) - launch.opening
    if taken < 0:
        raise CannotTell("more memory was free before the weights than the log's card is known to have")
    more = total.gib - min(sizes)
    return replace(
        launch,
        opening=launch.opening + more,
        after_weights=launch.after_weights + more,
        room=launch.room + more,
        shaky=launch.shaky + CARD_ROOM,
        notes=(
            *launch.notes,
            f"{change.card} is taken to have {total.gib:.2f} GiB, {taken:.2f} of them gone before the weights as in "
            f"this log; ± {CARD_ROOM:g} GiB for another driver and context",
            "chunked prefill and the largest graph are taken as in this log; where they are not given, SGLang chooses "
            "them by the card",
            "whether the card runs this model's number formats and kernels, and how fast, is not asked",
        ),
    )


def running_limit(sizing: Sizing, launch: Launch, change: Change, tokens: int) -> int | None:
    """How many requests one DP worker may run at once."""
    inputs = sizing.inputs
    if change.max_running_requests is not None:
        limit = change.max_running_requests // max(1, _dp(inputs, change))
        limit = min(max(1, limit), max(1, tokens // 2))
    else:
        known = rows_at(inputs, tokens)
        if known is None:
            return None
        limit = known
    slots = change.max_mamba_cache_size
    if slots is not None:
        limit = min(limit, slots // _slots_per_request(inputs))
    return limit


def _dp(inputs: SizingInputs, change: Change) -> int:
    return change.dp_attention or (inputs.dp if inputs.dp_attention else 1)


def _draft(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """Without the draft: its weights and pool are free again; since 0.5.14 the budget grows by the weights too."""
    if change.draft is None:
        return launch
    draft = sizing.inputs.draft
    if change.draft:
        if draft is not None:
            return launch
        raise CannotTell("the log has no draft model: neither its weights nor its pool are known")
    if draft is None:
        return launch
    if draft.weights is None:
        raise CannotTell("the log does not show what the draft's weights took")
    way = replace(launch.arithmetic, headroom=0)
    graphs = draft.graphs or 0.0
    notes = ("what the draft's graphs took is counted where the log prints it",)
    if draft.before_pool is True:
        way = _scaled(way, launch.target_cell / way.bytes_per_reported_token) if launch.target_cell else way
        return replace(
            launch,
            arithmetic=way,
            after_weights=launch.after_weights + draft.weights,
            draft_cell=0.0,
            draft_weights=launch.draft_weights - draft.weights,
            graphs=launch.graphs - graphs,
            shaky=launch.shaky + HALF_DIGIT,
            notes=(*launch.notes, *notes),
        )
    return replace(
        launch,
        arithmetic=way,
        draft_cell=0.0,
        draft_weights=launch.draft_weights - draft.weights,
        graphs=launch.graphs - graphs,
        shaky=launch.shaky + HALF_DIGIT,
        notes=(*launch.notes, *notes),
    )


def _ranks(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """Other tensor parallelism: weights by t/t′, KV heads divided anew; or DP attention over the same ranks."""
    inputs = sizing.inputs
    if change.dp_attention is not None and change.dp_attention != (inputs.dp if inputs.dp_attention else 1):
        return _dp_attention(sizing, launch, change.dp_attention, change.tp_size or inputs.tp)
    if change.tp_size is None or change.tp_size == inputs.tp:
        return launch
    now, then = inputs.tp, change.tp_size
    if inputs.dp_attention:
        raise CannotTell("under DP attention the parts of the weights that --tp-size divides are not in the log")
    if inputs.family is Family.DSV4 or (inputs.family is Family.LINEAR and launch.arithmetic.state > 0):
        raise CannotTell("how this model's states divide over other ranks is not in the log")
    usage = launch.opening - launch.after_weights
    draft = _draft_within(inputs, launch)
    ratio = _head_ratio(inputs, now, then)
    way = _scaled(launch.arithmetic, ratio)
    after = launch.opening - usage * now / then
    more = then > now
    return replace(
        launch,
        arithmetic=way,
        after_weights=after,
        target_cell=launch.target_cell * ratio,
        weights=launch.weights + (usage - draft) * (now / then - 1),
        draft_weights=launch.draft_weights + draft * (now / then - 1),
        bound="at most" if more else "at least",
        least_after=launch.after_weights if more else None,
        most_after=None if more else launch.after_weights,
        notes=(
            *launch.notes,
            f"weights are taken to divide over the ranks ({usage:.2f} × {now}/{then} GiB); norms, routers and low-rank "
            f"parts that every rank keeps whole do not, so tokens are {'at most' if more else 'at least'} this",
            "the new ranks are taken to be cards like these",
        ),
    )


def _draft_within(inputs: SizingInputs, launch: Launch) -> float:
    """GiB of a draft that were taken before the pool was sized, so that the weights' usage holds them."""
    draft = inputs.draft
    if draft is None or draft.weights is None or draft.before_pool is not True or launch.draft_weights:
        return 0.0
    return draft.weights


def _head_ratio(inputs: SizingInputs, now: int, then: int) -> float:
    """By what a token's bytes change: KV heads a rank, then over now. Latent attention keeps its size."""
    if inputs.family in (Family.MLA, Family.DSA):
        return 1.0
    geometry = inputs.geometry
    if geometry is None or not geometry.kv_heads:
        raise CannotTell("the model's number of KV heads is not known, so another --tp-size cannot be sized")
    for heads in (geometry.kv_heads, geometry.swa_kv_heads or geometry.kv_heads):
        if then <= heads and heads % then:
            raise CannotTell(f"{heads} KV heads do not divide over {then} ranks")
    return mha.heads_per_rank(geometry.kv_heads, then) / mha.heads_per_rank(geometry.kv_heads, now)


def _dp_attention(sizing: Sizing, launch: Launch, groups: int, tp: int) -> Launch:
    """Attention on `groups` parts of the ranks, each with requests and tokens of its own."""
    inputs = sizing.inputs
    if tp % groups:
        raise CannotTell(f"--dp-size {groups} does not divide --tp-size {tp}")
    if inputs.family not in (Family.MLA, Family.DSA):
        raise CannotTell("how attention weights and KV heads divide anew under DP attention is not in the log")
    return replace(
        launch,
        notes=(
            *launch.notes,
            "attention weights are then kept by more ranks, which the log cannot size: tokens of a rank are at most "
            "this, and the gain is in the sum over the DP ranks",
        ),
        bound="at most" if groups > (inputs.dp if inputs.dp_attention else 1) else "at least",
    )


def _dtype(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    if change.kv_cache_dtype is None:
        return launch
    inputs = sizing.inputs
    now, then = mha.element_size(inputs.kv_dtype), mha.element_size(change.kv_cache_dtype)
    if now == then:
        return launch
    if inputs.family is Family.DSV4:
        raise CannotTell("this model mixes formats in one rate; the log does not show the rate of another format")
    charged = stored = _size_ratio(now, then)
    if inputs.family is Family.DSA:
        charged, stored = _sparse_ratio(inputs, now, then)
    return replace(
        launch,
        arithmetic=_scaled(launch.arithmetic, charged),
        target_cell=launch.target_cell * stored,
        draft_cell=launch.draft_cell * _size_ratio(now, then),
    )


def _size_ratio(now: float, then: float) -> float:
    """Bytes of a value in one format over another; FP4 has one scale of two bytes a 16 values beside it."""

    def size(element: float) -> float:
        return element + 1 / 16 if element == 0.5 else element

    return size(then) / size(now)


def _sparse_ratio(inputs: SizingInputs, now: float, then: float) -> tuple[float, float]:
    if 0.5 in (now, then):
        raise CannotTell("FP4 pools are not known for this model")
    geometry = inputs.geometry
    if geometry is None or not geometry.index_dim:
        before, after = (1284.0, 788.0) if now == 2.0 else (788.0, 1284.0)
        return after / before, after / before
    old, new = (
        dsa.bytes_per_token(geometry, name, inputs.platform, inputs.release, inputs.pp)
        for name in (inputs.kv_dtype, "fp8_e4m3" if then == 1.0 else "bfloat16")
    )
    return new.charged / old.charged, new.stored / old.stored


def _cap(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    if change.max_total_tokens is None:
        return launch
    return replace(launch, arithmetic=replace(launch.arithmetic, cap=change.max_total_tokens or None))


def _window(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    if change.swa_full_tokens_ratio is None:
        return launch
    way = launch.arithmetic
    if sizing.inputs.family is not Family.SWA:
        raise CannotTell("this launch has no sliding-window pool that --swa-full-tokens-ratio could size")
    if way.window_tokens is not None:
        raise CannotTell("the running requests size this window pool, so --swa-full-tokens-ratio is ignored")
    if way.window is None:
        raise CannotTell("the log prints one sum for both pools, which does not show what the ratio moves")
    cell = way.window.full + change.swa_full_tokens_ratio * way.window.window
    scale = cell / way.bytes_per_reported_token
    return replace(
        launch,
        arithmetic=replace(way, ratio=change.swa_full_tokens_ratio, cell=way.cell.times(scale)),
        target_cell=launch.target_cell * scale,
    )


def _states(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """Request states by another ratio or another number of slots."""
    inputs, way = sizing.inputs, launch.arithmetic
    asked = change.max_mamba_cache_size
    by_requests = (
        inputs.family is Family.LINEAR
        and not inputs.radix_cache
        and inputs.max_mamba_cache_size is None
        and inputs.max_running_requests is not None
    )
    if asked is None and by_requests and change.max_running_requests is not None:
        asked = max(1, change.max_running_requests // max(1, _dp(inputs, change)))
    if change.mamba_full_memory_ratio is None and asked is None:
        return launch
    if inputs.family is not Family.LINEAR or way.state <= 0:
        raise CannotTell("this launch keeps no request states")
    if asked is not None:
        slots = inputs.pools.state_slots
        if not slots:
            raise CannotTell("the log does not print the number of state slots")
        state = way.state * asked / slots
        return replace(launch, arithmetic=replace(way, state=state, state_scales=False))
    if not way.state_scales:
        raise CannotTell("the number of state slots is set, so --mamba-full-memory-ratio is ignored")
    assert change.mamba_full_memory_ratio is not None
    now = DEFAULT_RATIO if inputs.mamba_ratio is None else inputs.mamba_ratio
    then = change.mamba_full_memory_ratio
    state = way.state * (then / (1 + then)) / (now / (1 + now))
    return replace(launch, arithmetic=replace(way, state=state))


def _request_table(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """The table of requests × context, outside the budget; and the tokens a draft's requests add up to 0.5.6."""
    inputs = sizing.inputs
    if change.max_running_requests is None and change.context_length is None:
        return launch
    way = launch.arithmetic
    if change.max_running_requests is not None and way.headroom and inputs.max_running_requests:
        way = replace(way, headroom=int(way.headroom * change.max_running_requests / inputs.max_running_requests))
    context, running = inputs.context_length, inputs.running_requests
    if context is None or running is None:
        if change.context_length is not None and context is None and running is None:
            raise CannotTell("the log does not print context length and request limit, so their table is not known")
        return replace(launch, arithmetic=way)
    rows = running
    if change.max_running_requests is not None:
        rows = max(1, change.max_running_requests // max(1, _dp(inputs, change)))
    return replace(launch, arithmetic=way, rows=rows, context=change.context_length or context)


def _graphs(sizing: Sizing, launch: Launch, change: Change) -> Launch:
    """Fewer or more captured batch sizes: between no change and in proportion."""
    if change.cuda_graph_max_bs is None:
        return launch
    inputs = sizing.inputs
    sizes = [rank.graphs for rank in inputs.ranks if rank.graphs is not None]
    if not sizes or not inputs.cuda_graph_max_bs:
        raise CannotTell("the log does not show what captured graphs take, or up to which batch")
    share = max(0.0, max(sizes)) * (change.cuda_graph_max_bs / inputs.cuda_graph_max_bs - 1)
    note = "graph memory grows with the batch less than in proportion; the figure is the middle between both"
    return replace(
        launch,
        graphs=launch.graphs + share / 2,
        shaky=launch.shaky + abs(share) / 2,
        notes=(*launch.notes, note),
    )


def _scaled(way: Arithmetic, ratio: float) -> Arithmetic:
    """With another size of a token."""
    window = way.window
    if window is not None:
        window = replace(window, full=window.full * ratio, window=window.window * ratio)
    return replace(way, cell=way.cell.times(ratio), window=window)


def _slots_per_request(inputs: SizingInputs) -> int:
    """State slots a request needs, from the reported limit where it is the slots' quotient; 3 otherwise."""
    slots, running = inputs.pools.state_slots, inputs.running_requests
    if slots and running:
        for each in (1, 3, 4, 5):
            if slots // each == running:
                return each
    return 3 if inputs.radix_cache else 1
