"""The KV pool: what holds it down, how much is free beside it, which way the fraction may turn."""

from __future__ import annotations

import re

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.failure import CaptureFailed, Killed, NoRoomForPool, PoolRefused
from kvdiag.diagnosis.events.kv_pool import (
    DeepSeekV4Budget,
    DeepSeekV4Pools,
    MaxTotalTokensTooLarge,
    PoolBelowContext,
    SlidingWindowPool,
    SlidingWindowUsage,
)
from kvdiag.diagnosis.events.requests import RequestTooLong
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch, Retraction
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.ledger.model import Ledger, Model, Moment, Reading
from kvdiag.diagnosis.rules.judgements.arguments import (
    attends_in_data_parallel,
    flag_is_given,
    has_draft,
    is_in_command,
    ranks_in_tensor_group,
    stages_in_pipeline,
    unified_device,
)
from kvdiag.diagnosis.rules.judgements.overflows import memory_ran_out
from kvdiag.diagnosis.rules.judgements.places import is_before
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import Bytes, ceil_step

Batch = PrefillBatch | DecodeBatch


def refusals(case: Case) -> list[NoRoomForPool]:
    """SGLang's own refusals for want of a pool."""
    return case.launch.each(NoRoomForPool)


def below_zero(case: Case) -> list[PoolRefused]:
    """Refusals of a pool for which the weights leave less than nothing."""
    return [e for e in case.launch.each(PoolRefused) if e.available is not None and e.available <= 0]


def cap(case: Case) -> int | None:
    """--max-total-tokens, where it binds: the pool equals it, to the page.

    Where no argument tells it, as SGLang repeats it when a draft's pool, profiled later, has room for less.
    """
    repeated = case.launch.first(MaxTotalTokensTooLarge)
    wanted, tokens = case.launch.number_of("max_total_tokens") or (repeated.wanted if repeated else None), case.tokens
    if not wanted or tokens is None:
        return None
    page = case.launch.number_of("page_size") or 1
    return int(wanted) if 0 <= wanted - tokens <= max(page, 256 if page == 1 else page) else None


def reserve(case: Case) -> Bytes | None:
    """What SGLang leaves outside the static budget: opening × (1 − fraction)."""
    if case.opening_size is None or case.fraction is None:
        return None
    return Bytes(round(case.opening_size * (1 - case.fraction)))


def minimum_fraction(case: Case) -> float | None:
    """The fraction below which no pool is left: 1 − after weights / before them; as SGLang prints it, where it does."""
    for refusal in refusals(case):
        if refusal.minimum:
            return refusal.minimum
    if case.opening_size is None or case.after_weights is None or not case.opening_size:
        return None
    return 1 - case.after_weights.available / case.opening_size


def least_that_starts(case: Case) -> float | None:
    """The smallest multiple of 0.001 that starts: the sizing's, else the next one above the minimum."""
    known = case.sizing.fractions if case.sizing is not None else None
    if known is not None and known.starts_from is not None:
        return known.starts_from
    minimum = minimum_fraction(case)
    return None if minimum is None else ceil_step(minimum)


def stated_fraction(case: Case) -> float | None:
    """The fraction in force: the argument's, else the one in SGLang's refusal."""
    if case.fraction is not None:
        return case.fraction
    return next((r.fraction for r in refusals(case) if r.fraction is not None), None)


def has_window(case: Case) -> bool:
    """Whether the model has a pool for sliding-window layers."""
    return case.launch.has(SlidingWindowPool, SlidingWindowUsage)


def excess_after_pool(case: Case) -> Bytes | None:
    """Free memory after the target's pool beyond the reserve, on the rank that has least.

    Where nothing caps the pool it is nought: more means that the budget was measured too small.
    """
    kept = reserve(case)
    if kept is None or case.after_pool is None or cap(case) is not None:
        return None
    return Bytes(case.after_pool.available - kept)


def low_ranks(case: Case) -> list[Ledger]:
    """Ranks with clearly less memory after loading than the others of their pipeline stage."""
    limits = case.thresholds
    groups: dict[str, list[tuple[Bytes, Ledger]]] = {}
    for ledger in case.ledgers:
        after = ledger.reading(Moment.WEIGHTS_END)
        if after is not None:
            part = re.search(r"PP\d+", ledger.rank)
            groups.setdefault(part[0] if part else "", []).append((after.available, ledger))
    low: list[Ledger] = []
    for group in groups.values():
        if len(group) < 2:
            continue
        sizes = sorted(size for size, _ in group)
        middle = sizes[len(sizes) // 2]
        spread = max(limits.rank_spread, round(limits.rank_spread_share * (case.card or 0)))
        if middle - sizes[0] >= spread:
            low += [ledger for size, ledger in group if middle - size >= spread]
    return low


def stage_weights(case: Case) -> dict[int, Bytes]:
    """What the target's weights take on each pipeline stage, by its number."""
    found: dict[int, Bytes] = {}
    for ledger in case.ledgers:
        part = re.search(r"PP(\d+)", ledger.rank)
        begin, end = ledger.reading(Moment.WEIGHTS_BEGIN), ledger.reading(Moment.WEIGHTS_END)
        if part and begin is not None and end is not None:
            used = Bytes(begin.available - end.available)
            found[int(part[1])] = max(used, found.get(int(part[1]), Bytes(0)))
    if not found:
        for loaded in case.launch.each(WeightsLoaded):
            part = re.search(r"PP(\d+)", loaded.rank)
            if part and loaded.used is not None and int(part[1]) not in found:
                found[int(part[1])] = loaded.used
    return found


def uneven_stages(case: Case) -> bool:
    """Whether pipeline stages differ by whole layers."""
    sizes = list(stage_weights(case).values())
    return len(sizes) > 1 and max(sizes) - min(sizes) > case.thresholds.stage_spread * max(sizes)


def has_room(case: Case) -> bool:
    """Whether clearly more is free at the end than is wanted."""
    return not case.goes_on_capturing and _is_room(case, case.free_at_end)


def _is_room(case: Case, free: Reading | None) -> bool:
    return free is not None and free.available > case.thresholds.room_share * case.wanted_range[1]


def is_thin(case: Case) -> bool:
    """Whether less than half of what is wanted is free at the end."""
    free = case.free_at_end
    return free is not None and free.available < case.thresholds.thin_share * case.wanted_range[0]


def loader_memory_held(case: Case) -> bool:
    """Whether loading buffers were alive while the budget was measured: much more stays free than the reserve."""
    if has_window(case) or stages_in_pipeline(case) > 1 or case.ledgers and case.ledgers[0].mamba_size:
        return False
    if looks_capped(case):
        return False  # what came back is then another program's
    if memory_came_back(case) is not None and not low_ranks(case):
        return True
    excess = excess_after_pool(case)
    if excess is not None:
        if loads_a_draft(case):  # up to 0.5.13 the target's pool leaves room for the draft's
            known = [sum(p.size for p in x.draft_pools if p.size is not None) for x in case.ledgers if x.draft_pools]
            if not known:
                return False
            excess = Bytes(excess - max(known))
        least = max(case.thresholds.reserve_excess, case.thresholds.reserve_excess_share * (case.opening_size or 0))
        return excess > least and not low_ranks(case)
    tokens, free = case.tokens, case.free_at_end
    return (
        cap(case) is None
        and tokens is not None
        and free is not None
        and tokens <= case.thresholds.pool_tiny_tokens
        and tokens % 1024 != 0  # a round number was asked for
        and (case.context_length is None or tokens < case.context_length)
        and free.available > 2 * case.thresholds.room_share * case.wanted_range[1]
        and case.launch.number_of("max_total_tokens") is None
        and not low_ranks(case)
    )


def loads_a_draft(case: Case) -> bool:
    """Whether a draft model speculates: by the arguments, a second load, a second pool or graphs of drafting."""
    loads: dict[str, int] = {}
    begun: dict[str, int] = {}
    for event in case.launch.each(WeightsLoaded):
        loads[event.rank] = loads.get(event.rank, 0) + 1
    for step in case.launch.each(WeightsBegin):
        begun[step.rank] = begun.get(step.rank, 0) + 1
    several = any(n > 1 for n in (*loads.values(), *begun.values()))
    return has_draft(case) or several or any(x.draft_pools for x in case.ledgers) or _drafting_is_captured(case)


def _drafting_is_captured(case: Case) -> bool:
    """Whether graphs are a draft's, or check drafts where no argument says that they come from no model."""
    words = ("draft",) if case.launch.arguments else ("draft", "verify")
    kinds = {event.kind or "" for event in case.launch.each(GraphBegin)}
    kinds |= {event.kind or "" for event in case.launch.each(GraphEnd)}
    return any(word in kind for kind in kinds for word in words)


def memory_came_back(case: Case) -> Bytes | None:
    """How much free memory rose after the target's pool, where no draft explains it; None where it did not."""
    if cap(case) is not None or loads_a_draft(case) or unified_device(case) is not None:
        return None
    least = max(case.thresholds.reserve_excess, case.thresholds.came_back_share * (case.opening_size or 0))
    best: Bytes | None = None
    for ledger in case.ledgers:
        pool = ledger.reading(Moment.POOL_END)
        if pool is None:
            continue
        later = [r.available for r in ledger.readings if is_before(pool.line, r.line)]
        rise = Bytes(max(later) - pool.available) if later else Bytes(0)
        if rise > least and (best is None or rise > best):
            best = rise
    return best


def draft_memory_returned(case: Case) -> Bytes | None:
    """Memory that came back while a draft's pool was built, beyond what the pool took."""
    rises = [draft.available - target.available for target, draft in readings_around_draft_pool(case)]
    return max((Bytes(rise) for rise in rises if rise > case.thresholds.returned_memory), default=None)


def readings_around_draft_pool(case: Case) -> list[tuple[Reading, Reading]]:
    """Each rank's readings before and after its draft's pool; the begin of a capture is after it in a cut log."""
    found = []
    for ledger in case.ledgers:
        target, draft = ledger.reading(Moment.POOL_END), ledger.reading(Moment.POOL_END, Model.DRAFT)
        if target is None:
            continue
        later = [r for r in ledger.readings if is_before(target.line, r.line)]
        if draft is None and later and later[0].moment is Moment.CUDA_GRAPH_BEGIN and loads_a_draft(case):
            found.append((target, later[0]))
        elif draft is not None and not any(is_before(r.line, draft.line) for r in later):
            found.append((target, draft))  # else the draft loaded or graphs were captured in between: an older order
    return found


def cause_of_room(case: Case) -> str | None:
    """The rule that explains memory left free at the end; None where only the fraction does."""
    if cap(case) is not None:
        return "max-total-tokens-cap"
    if uneven_stages(case):
        return "pp-uneven-layers"
    if low_ranks(case):
        return "min-over-ranks"
    if loader_memory_held(case):
        return "loader-memory-still-referenced"
    if draft_memory_returned(case) is not None:
        return "draft-embed-dup-after-sizing"
    return None


def looks_capped(case: Case) -> bool:
    """Whether --max-total-tokens may set the pool, where the log has no arguments: fewer tokens than the log's own
    count of what the memory holds, or a round count that takes far less than what stays free."""
    tokens, free = case.tokens, case.free_at_end or case.after_pool
    if not tokens or free is None or not _is_room(case, free) or tells_of_a_cap(case):
        return False
    held = [budget.tokens for budget in case.launch.each(DeepSeekV4Budget) if budget.tokens]
    if held:
        return tokens < _CUT_SHARE * min(held)
    sizes = [x.kv_size for x in case.ledgers if x.kv_size is not None]
    if sizes:
        return _is_round(tokens, 1000, 1024) and 4 * max(sizes) < free.available
    tiny = tokens <= _TINY_FOR_A_CARD and free.available > 4 * case.wanted_range[1]
    return tokens == case.context_length or _is_round(tokens, 100_000, 16_384) or (tiny and _is_round(tokens, 1024))


def tells_of_a_cap(case: Case) -> bool:
    """Whether the log tells if --max-total-tokens is set: a command with flags does, a part of the arguments not."""
    told = case.launch.arguments
    return "max_total_tokens" in told or bool(case.launch.commands and told)


_TINY_FOR_A_CARD = 65_536
"""As few tokens beside tens of GiB free were asked for where their count is round."""

_CUT_SHARE = 0.98
"""Of what a rank counts for itself, the share that rounding and a smaller rank leave at least."""


def _is_round(tokens: int, *units: int) -> bool:
    return any(tokens % unit == 0 for unit in units)


def most_in_use(case: Case) -> int | None:
    """The tokens that all requests admitted at once can use, where that is a small share of the pool; None elsewhere.

    What the pool has beyond them only keeps prefixes.
    """
    tokens, context = case.tokens, case.context_length
    limit = case.limits.max_running_requests if case.limits is not None else None
    limit = limit or int(case.launch.number_of("max_running_requests") or 0)
    if not tokens or not context or not limit or cap(case) is not None:
        return None
    most = limit * context
    return most if 0 < most <= case.thresholds.workload_share * tokens else None


def fraction_limits_pool(case: Case) -> bool:
    """Whether the fraction, and nothing else, keeps the pool small while memory is left."""
    if not has_room(case) or cause_of_room(case) is not None or case.fraction is None:
        return False
    excess = excess_after_pool(case)
    if excess is None:
        return not (stages_in_pipeline(case) > 1 or has_window(case))
    return excess <= max(case.thresholds.reserve_excess, 0.02 * (case.opening_size or 0))


def no_feasible_fraction(case: Case) -> tuple[Case, Case] | None:
    """A launch that was refused for want of a pool and one that overflowed, at fractions close together.

    Both in one launch are two starts of which the log holds only the errors.
    """
    if refusals(case) and memory_ran_out(case) is not None:
        return case, case
    refused: list[tuple[float, Case]] = []
    overflowed: list[tuple[float, Case]] = []
    for one in (*case.earlier, case, *case.later):
        fraction = stated_fraction(one)
        if fraction is None:
            continue
        if refusals(one):
            refused.append((fraction, one))
        elif memory_ran_out(one) is not None:
            overflowed.append((fraction, one))
    for low, first in refused:
        for high, second in overflowed:
            if 0 <= high - low <= case.thresholds.fractions_apart + 1e-9 and case in (first, second):
                return first, second
    return None


def may_raise_fraction(case: Case) -> bool:
    """Whether raising the fraction can be offered at all: nothing overflowed, nothing is thin, nothing else binds."""
    return (
        memory_ran_out(case) is None
        and not is_thin(case)
        and cause_of_room(case) is None
        and most_in_use(case) is None
        and not looks_capped(case)
        and not no_feasible_fraction(case)
        and not case.launch.has(CaptureFailed)
        and not was_killed(case)
    )


def was_killed(case: Case) -> bool:
    """Whether a kill ended it: where host and GPU share one memory, filling what was free may be its reason."""
    return case.outcome.outcome == "failed" and case.launch.has(Killed)


def is_short(case: Case) -> bool:
    """Whether the pool holds less than one request of full length, by its figures or by SGLang's own warning."""
    if case.launch.has(PoolBelowContext):
        return True
    tokens, context = case.tokens, case.context_length
    return tokens is not None and context is not None and 0 < tokens < context


def is_healthy(case: Case) -> bool:
    """Whether nothing about the launch's memory deserves a change."""
    free = case.free_at_end
    if free is None or case.outcome.outcome == "failed" or memory_ran_out(case) is not None:
        return False
    least, most = case.wanted_range
    thin = case.thresholds.thin_share * (case.wanted_free or most)
    if free.available < thin or has_room(case) or is_short(case):
        return False
    return free.available >= least and not case.launch.has(Retraction)


def fullest(case: Case) -> Batch | None:
    """The batch line at which the pool was fullest; among equals the one with most of the window pool idle."""
    series = case.launch.series
    known = [p for p in (series.fullest, *series.points, series.last) if p is not None and p.usage is not None]
    return max(known, key=lambda p: (p.usage or 0.0, -(p.swa_usage or 0.0)), default=None)


def pool_by_usage(case: Case) -> tuple[int, DecodeBatch] | None:
    """The pool's size by a batch line, tokens / usage, where the usage is large enough for its two decimals."""
    known = [p for p in case.launch.series.points if isinstance(p, DecodeBatch) and p.tokens and (p.usage or 0) >= 0.2]
    best = max(known, key=lambda p: p.usage or 0.0, default=None)
    return None if best is None or not best.usage else (round((best.tokens or 0) / best.usage), best)


def window_tokens(case: Case) -> tuple[int, int] | None:
    """Tokens of the full and of the window pool: as printed, else by the ratio."""
    for pool in case.launch.each(SlidingWindowPool):
        if pool.full_tokens and pool.swa_tokens:
            return pool.full_tokens, pool.swa_tokens
    for pools in case.launch.each(DeepSeekV4Pools):
        if pools.full and pools.swa:
            return pools.full, pools.swa
    ratio = case.launch.number_of("swa_full_tokens_ratio")
    for budget in case.launch.each(DeepSeekV4Budget):
        if budget.tokens:
            return budget.tokens, round(budget.tokens * (ratio or 0.1))
    if ratio and case.tokens:
        return case.tokens, round(case.tokens * ratio)
    return None


def is_windows_limit(case: Case, limit: int) -> bool:
    """Whether the longest request that is taken is as long as the window pool, which is the smaller one."""
    tokens = window_tokens(case)
    if tokens is None:
        return False
    full, window = tokens
    return window < full and 0.97 * window - 512 <= limit <= 1.02 * window


def refused_by_pool(case: Case) -> list[RequestTooLong]:
    """Refusals for length of which the pool is the limit."""
    found = [e for e in case.launch.each(RequestTooLong) if e.limit]
    tokens, context = case.tokens, case.context_length
    kept = []
    for event in found:
        limit = event.limit or 0
        if context is not None and limit >= 0.95 * context:
            continue
        if tokens is not None:
            near = -1 <= tokens - limit <= 64 or limit <= 0.5 * tokens
            if near and (context is None or limit < context - 64):
                kept.append(event)
        elif context is not None or all((limit + pad) % 1024 for pad in range(9)):
            kept.append(event)
    return kept


_FORMATS = (  # bytes a parameter; scales and layers left as they are come on top, which the threshold leaves room for
    (r"fp4|nvfp4|mxfp4|int4|w4a|awq|gptq|4bit|autoround|auto-round|gpt-oss|q4|kimi-k2", 0.56),
    (r"fp8|int8|w8a8|8bit", 1.0),
)


def checkpoint_share(case: Case, *, sharded: bool = False) -> float | None:
    """Bytes of the checkpoint that fall to one rank when all is split; None where the name tells too little.

    Layers that are replicated on purpose make it no measure, unless `sharded` asks for it all the same.
    """
    path = case.launch.value("model_path")
    if not isinstance(path, str) or flag_is_given(case, "cpu_offload_gb", "lora_paths"):
        return None
    if attends_in_data_parallel(case) and not sharded:
        return None
    name = path.rstrip("/").rsplit("/", 1)[-1].lower()
    sizes = [float(x) for x in re.findall(r"(?<![a-z\d.])(\d+(?:\.\d+)?)b(?![a-z])", name)]
    if not any(sizes) or re.search(r"\d+e(?![a-z])|\dx\d", name):  # "17b-16e" and "8x7b" name experts, not parameters
        return None
    loaded = case.launch.first(WeightsLoaded)
    words = f"{name} {case.launch.value('quantization') or ''} {loaded.quantization if loaded else ''}".lower()
    width = next((size for pattern, size in _FORMATS if re.search(pattern, words)), 2.0)
    if "float32" in f"{case.launch.value('dtype') or ''}":
        width = 4.0
    return max(sizes) * 1e9 * width / (ranks_in_tensor_group(case) * stages_in_pipeline(case))


def low_automatic_fraction(case: Case) -> float | None:
    """The fraction in force, where it is low and nobody asked for it."""
    fraction = stated_fraction(case)
    if fraction is None or fraction > case.thresholds.auto_fraction_low:
        return None
    found = case.launch.arguments.get("mem_fraction_static")
    chosen = found is not None and found.origin == "adjusted" and not _names_fraction(case)
    if is_in_command(case, "mem_fraction_static") and not chosen:
        return None
    if case.launch.commands:
        return fraction
    # Without a command only a value that nobody would type tells: SGLang rounds to three decimals.
    return fraction if abs(fraction * 100 - round(fraction * 100)) > 0.01 else None


def _names_fraction(case: Case) -> bool:
    """Whether a pasted command sets the fraction."""
    return any(re.search(r"mem[-_]fraction[-_]static", c.line.text) for c in case.launch.commands)


def vanished_before_pool(case: Case) -> Bytes | None:
    """Memory that the printed figures leave for a pool although SGLang found none; None where they agree."""
    kept, after = reserve(case), case.after_weights
    plain = [r for r in refusals(case) if r.minimum is None]
    if not plain or kept is None or after is None or has_window(case) or case.launch.has(PoolRefused):
        return None
    room = Bytes(after.available - kept)
    return room if room > case.thresholds.memory_fell and not low_ranks(case) else None


def weights_used(case: Case) -> Bytes | None:
    """What the target's weights took on the first rank that says so, without what was given back during capture."""
    loaded = next((e for e in case.launch.each(WeightsLoaded) if e.used is not None), None)
    if loaded is None or loaded.used is None:
        return None
    back = sum(e.used for e in case.launch.each(GraphEnd, rank=loaded.rank) if e.used is not None and e.used < 0)
    return Bytes(loaded.used + back)
