"""Remedies priced from the launch's own figures: by the what-if arithmetic where the sizing closes, else linearly.

Linear, as SGLang's own sizing is: tokens change by Δfraction × opening / bytes a token; free memory by as much and by
what the draft's pool takes. Exact up to a page and the print.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from kvdiag.diagnosis.events.cuda_graph import GraphSizes
from kvdiag.diagnosis.events.host_memory import HostMemoryShort
from kvdiag.diagnosis.events.kv_pool import KVPoolAllocated
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.ledger.model import Ledger, Model, Pool, Reading
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.ledger.what_if import Change, Scenario, Starts, scenario_of
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.rules.judgements import (
    cap,
    decode_graph_flag,
    flag_is_given,
    fullest,
    has_window,
    is_in_command,
    kv_dtype,
    looks_capped,
    no_feasible_fraction,
    speaks_of_late_release,
    stated_fraction,
    twice_the_ranks,
)
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Remedy
from kvdiag.diagnosis.units import GIB, Bytes, format_gib, format_tokens, to_gib

FRACTION = "--mem-fraction-static"
OTHERS = "other processes"
CONTAINER_MEMORY = Remedy("container memory", Direction.RAISE, cost="It costs host memory that others could use.")
TRAINER_OFFLOAD = Remedy(
    "trainer offload",
    Direction.SET,
    cost="It costs time: the trainer's weights and optimizer go to the host and back.",
)
NEWER_LOADER = Remedy(
    "upgrade",
    Direction.SET,
    to="0.5.19 or later",
    cost="It costs an upgrade; the pool then takes what the fraction allows.",
)
OWN_HOST_RATIO = 2.0  # SGLang's own --hicache-ratio
HOST_RESERVE = 10.74  # GB: the 10 GiB of host memory that SGLang keeps back
_STATES_TOLD = 3  # states this many times the KV pool are no default's (0.9), nor speculation's beside it
PRINT = 0.0056 * GIB  # two readings of two decimals each

FREE_AT_END = "that available_gpu_mem at the end of the start is what is wanted"
FREE_AGAIN = "check available_gpu_mem at the end of the next start."
ACCURACY = "without calibrated scales accuracy can drop: compare answers before you keep it"
FASTER_STEPS = "more, shorter prefill steps for long prompts"


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes a token on one rank: the target's pools, the draft's, and the share of a budget the KV pool gets.

    guessed  whether a flag that the log does not tell may have set the states, so that more memory is all tokens'
    """

    target: float
    draft: float
    share: float = 1.0
    guessed: bool = False


def cell(case: Case) -> Cell | None:
    """From the pools of the rank with the fewest tokens; None where no line prints them."""
    ledger = _smallest_pool(case)
    if ledger is None:
        return None
    tokens, size = ledger.kv_tokens or 1, ledger.kv_size or Bytes(1)
    draft = sum(p.size for p in ledger.draft_pools if p.size is not None)
    state = ledger.mamba_size or 0
    pinned = case.launch.number_of("max_mamba_cache_size") is not None
    share = 1.0 if pinned or not state else size / (size + state)
    known = pinned or bool(case.launch.server_args or case.launch.commands)
    return Cell(size / tokens, draft / tokens, share, not known and state > _STATES_TOLD * size)


def cell_lines(case: Case) -> tuple[LogLine, ...]:
    """The lines of the pools that the bytes a token are of: the pool of all tokens first, then the window's."""
    ledger = _smallest_pool(case)
    pools = [] if ledger is None else [p for p in ledger.pools if p.model is Model.TARGET and p.lines]
    return tuple(p.lines[0] for p in sorted(pools, key=lambda p: (p.sliding_window, -(p.tokens or 0))))


def _smallest_pool(case: Case) -> Ledger | None:
    """The rank with the fewest tokens, of those whose pools' sizes are known."""
    known = [x for x in case.ledgers if x.kv_tokens and x.kv_size]
    return min(known, key=lambda x: x.kv_tokens or 0, default=None)


def priced(case: Case, change: Change) -> dict[str, Effect] | None:
    """What a change does to tokens, free memory and concurrent requests, by SGLang's own arithmetic.

    None where the sizing does not tell, {} where the launch would not start.
    """
    if case.sizing is None or case.sizing.budget is None:
        return None
    answer = scenario_of(case.sizing, change)
    if answer.refused is not None:
        return {} if answer.starts is Starts.NO else None
    return effects_of(answer)


def effects_of(answer: Scenario) -> dict[str, Effect]:
    """The figures of a scenario that differ from the launch's own, each with its interval; sizes in GiB."""
    effect: dict[str, Effect] = {}
    for name, figure, digits in (
        ("kv_tokens", answer.tokens, 0),
        ("total_tokens", answer.total_tokens, 0),
        ("free_gib", answer.free_gib, 4),
        ("requests", answer.requests, 0),
        ("host_gib", answer.host_gb, 4),
    ):
        if figure is None or figure.after is None or figure.before == figure.after:
            continue
        factor = 1e9 / GIB if name == "host_gib" else 1
        known = figure.after if figure.bound is None else None  # of a bound, the far end may not be known
        low = known if figure.low is None else figure.low
        high = known if figure.high is None else figure.high
        ends = (
            None if x is None else round(x * factor, digits or None) for x in (figure.before, figure.after, low, high)
        )
        effect[name] = Effect(*ends)
    return effect


def fraction_effect(case: Case, change: float) -> dict[str, Effect]:
    """What a change of the fraction does to tokens and to free memory; {} where the launch does not tell."""
    fraction = case.fraction
    if fraction is not None and 0 < fraction + change < 1:
        known = priced(case, Change(mem_fraction_static=round(fraction + change, 4)))
        if known is not None:
            return known
    effect: dict[str, Effect] = {}
    opening, size = case.opening_size, cell(case)
    if opening is None:
        return effect
    tokens, free = case.tokens, case.free_at_end
    draft = size.draft / size.target if size is not None else 0.0
    if size is not None and tokens is not None and not size.guessed:
        per_byte = size.share / size.target
        after = tokens + change * opening * per_byte
        if after <= 0:
            return {}
        margin = PRINT * per_byte + 1
        effect["kv_tokens"] = Effect(
            tokens, round(after), max(0, math.floor(after - margin)), math.ceil(after + margin)
        )
    if free is not None:
        effect["free_gib"] = _left_free(free, -change * opening * (1 + draft), PRINT * (1 + draft))
    return effect


def _left_free(free: Reading, more: float, margin: float) -> Effect:
    """What stays free when so many more bytes of it do."""
    left = free.available + more
    ends = (round(x / GIB, 4) for x in (left, left - margin, left + margin))
    return Effect(to_gib(free.available, 4), *ends)


def lower_fraction(case: Case, by: Bytes | None, note: str = "") -> Remedy | None:
    """Lower the fraction so that `by` more bytes stay free; None where no fraction is left to go to."""
    if no_feasible_fraction(case) is not None:
        return None
    fraction = stated_fraction(case)
    if by is not None and by <= 0:
        by = None  # the figures show no shortage, so that they do not tell its size
    if fraction is None or not case.opening_size or by is None:
        to = _step_down(fraction, by, case.card)
        if by is not None and to is not None and case.card:
            words = f"It makes room for {format_gib(by)}, measured by the card; {FREE_AGAIN}"
        elif to is not None:
            words = starting_value("the log does not say what was missing", FREE_AT_END)
        else:
            words = _step_unseen(case, by, up=False) if fraction is None and by is not None else ""
        return Remedy(
            FRACTION,
            Direction.LOWER,
            before=None if fraction is None else f"{fraction:g}",
            to=to,
            cost="It costs KV tokens: the pool shrinks by what is set free.",
            note=" ".join(x for x in (note, words) if x),
        )
    size = cell(case)
    draft = 1 + (size.draft / size.target if size is not None else 0.0)
    target = math.floor((fraction - by / (case.opening_size * draft)) * 1000 - 1e-9) / 1000
    if target <= 0:
        return None
    effect = fraction_effect(case, target - fraction)
    tokens = effect.get("kv_tokens")
    if size is not None and case.tokens is not None and tokens is None:
        return None  # no pool would be left
    return Remedy(
        FRACTION,
        Direction.LOWER,
        before=f"{fraction:g}",
        to=f"{target:g}",
        effect=effect,
        cost=_loss(tokens),
        note=note,
    )


def starting_value(why: str, check: str) -> str:
    """The words for a value that no figure of the log gives."""
    return f"Starting value, not computed: {why}. Afterwards check {check}."


def _step_down(fraction: float | None, by: Bytes | None, card: Bytes | None) -> str | None:
    """A fraction to try where the figures do not close: as much lower as the overflow asks, at least two hundredths."""
    if fraction is None:
        return None
    step = max(0.02, by / card if by is not None and card else 0.05)
    return f"{max(0.1, math.floor((fraction - step) * 100) / 100):g}"


def _step_unseen(case: Case, size: Bytes, *, up: bool) -> str:
    """How far to turn a fraction whose value the log does not print; "" where no size of the card is known."""
    whole = case.opening_size or case.card
    if not whole or size <= 0:
        return ""
    step = math.floor(size / whole * 1000) / 1000 if up else ceil_fraction(size / whole)
    if not 0 < step < 1:
        return ""
    return f"By {'about' if up else 'at least'} {step:g}; the log does not print what it is now."


def _loss(tokens: Effect | None) -> str:
    if tokens is None or not tokens.before or tokens.after is None:
        return "It costs KV tokens: the pool shrinks by what is set free."
    lost = tokens.before - tokens.after
    return f"It costs {format_tokens(round(lost))} KV tokens, {100 * lost / tokens.before:.0f} % of the pool."


def raise_fraction(case: Case, to: float | None, note: str = "") -> Remedy | None:
    """Raise the fraction to a value; None where no fraction is feasible."""
    if no_feasible_fraction(case) is not None:
        return None
    fraction = stated_fraction(case)
    if to is None or to <= (fraction or 0) or to >= 1:
        return Remedy(
            FRACTION,
            Direction.RAISE,
            before=None if fraction is None else f"{fraction:g}",
            cost="It costs memory that activations and graphs would have.",
            note=note,
        )
    effect = {} if fraction is None else fraction_effect(case, to - fraction)
    opening = case.opening_size
    taken = "" if opening is None or fraction is None else f"{format_gib(round((to - fraction) * opening))} of "
    return Remedy(
        FRACTION,
        Direction.RAISE,
        before=None if fraction is None else f"{fraction:g}",
        to=f"{to:g}",
        effect=effect,
        cost=f"It costs {taken}the memory that activations and graphs would have.",
        note=note,
    )


def raise_above(case: Case, minimum: float | None) -> Remedy | None:
    """Raise the fraction above the least that starts, so that graphs and activations have room beside the pool.

    What stays outside is what SGLang's own defaults leave, or half of what the weights leave where that is less; on a
    card of unknown size it is a little above that least. None for a fraction at its end.
    """
    if minimum is None or minimum >= 1:
        is_at_its_end = (stated_fraction(case) or 0) >= case.thresholds.fraction_hopeless
        return None if is_at_its_end else raise_fraction(case, None)
    share, rest = minimum + 0.02, "The value is a little above it: the log does not say how large the card is."
    if case.opening_size:
        slack = case.thresholds.weights_slack * case.wanted_range[1]
        if case.after_weights is not None:
            slack = min(slack, case.after_weights.available / 2)
        share, rest = 1 - slack / case.opening_size, "The value leaves room for graphs and activations beside the pool."
    to = ceil_fraction(max(minimum + 0.002, min(case.thresholds.fraction_hopeless, share)))
    least = f"{ceil_fraction(minimum):g} is the least that starts at all."
    return raise_fraction(case, to, f"{least} {rest}" if to > minimum + 0.003 else least)


def raise_by_room(case: Case) -> Remedy | None:
    """Raise the fraction until only what is wanted stays free at the end."""
    free, fraction, opening = case.free_at_end, case.fraction, case.opening_size
    if free is None:
        return None
    spare = free.available - case.wanted_range[1]
    if fraction is None or opening is None:
        return raise_fraction(case, None, _step_unseen(case, Bytes(spare), up=True) if fraction is None else "")
    size = cell(case)
    draft = 1 + (size.draft / size.target if size is not None else 0.0)
    return raise_fraction(case, math.floor((fraction + spare / (opening * draft)) * 1000) / 1000)


def raise_to_wanted(case: Case) -> Remedy | None:
    """Raise the fraction as far as SGLang's own arithmetic leaves what is wanted; None where there is no room to, or
    what limits the pool or what is free at the end is not known."""
    fraction, free, sizing = case.fraction, case.free_at_end, case.sizing
    if fraction is None or free is None or case.has_graphs_after_end:
        return None
    if sizing is None or sizing.fractions is None or sizing.limited_by.value != "memory":
        return None
    to = sizing.fractions.keeps_wanted
    if to is None or to <= fraction or free.available <= case.wanted_range[1]:
        return None
    return raise_fraction(case, to)


def ceil_fraction(value: float) -> float:
    """To thousandths, upwards: a minimum must be reached."""
    return math.ceil(value * 1000 - 1e-9) / 1000


def is_npu(case: Case) -> bool:
    """Whether the device is an Ascend NPU, which has no 8-bit format of the KV cache."""
    return case.launch.value("device") == "npu" or case.launch.value("attention_backend") == "ascend"


def eight_bit_kv(case: Case) -> Remedy | None:
    """Store the KV cache in 8 bits, with the caveat that always goes with it; None where the device lacks the
    format, or a cap sets the pool."""
    if is_npu(case):
        return None
    if cap(case) is not None or looks_capped(case):
        return None  # --max-total-tokens sets the pool: smaller tokens would only leave more free
    effect = priced(case, Change(kv_cache_dtype="fp8_e4m3"))
    note = ""
    if effect is None and _doubles(case):
        tokens = case.tokens or 0
        page = int(case.launch.number_of("page_size") or 1)
        effect = {"kv_tokens": Effect(tokens, 2 * tokens, 2 * tokens - page, 2 * tokens + page)}
        note = "Keys and values of half the width: the same memory holds twice the tokens."
    return Remedy(
        "--kv-cache-dtype",
        Direction.SET,
        to="fp8_e4m3",
        effect=effect or {},
        note=note,
        cost=f"It costs precision: {ACCURACY}; not every attention backend takes it.",
    )


def _doubles(case: Case) -> bool:
    """Whether keys and values of 16 bits are all that the pool's memory holds, and nothing caps its tokens."""
    pool = case.launch.first(KVPoolAllocated)
    plain = pool is not None and pool.k is not None and pool.v is not None
    wide = "16" in (kv_dtype(case) or "bfloat16")
    hybrid = has_window(case) or any(x.mamba_size or x.draft_pools for x in case.ledgers)
    return plain and wide and not hybrid and case.tokens is not None and cap(case) is None


def remedies(*offers: Remedy | None) -> tuple[Remedy, ...]:
    """The offers that can be made."""
    return tuple(offer for offer in offers if offer is not None)


def knob(
    case: Case,
    flag: str,
    direction: Direction,
    to: str | None = None,
    cost: str = "",
    note: str = "",
    effect: dict[str, Effect] | None = None,
) -> Remedy:
    """A remedy on any other flag, with its present value where the launch tells."""
    name = flag.lstrip("-").replace("-", "_")
    now = case.launch.value(name) if flag.startswith("--") else None
    before = None if now is None or isinstance(now, list | dict) else str(now)
    return Remedy(flag, direction, before=before, to=to, effect=effect or {}, cost=cost, note=note)


ROWS = 256
"""Requests at once that a table of a default length is cut down to: what few servers exceed."""


def fewer_rows(case: Case, need: Bytes) -> Remedy | None:
    """A shorter table of requests, where nobody set its length and it takes a good part of what is missing.

    The table lies outside the static budget: its memory is free again, and the pool stays as it is.
    """
    limits, free = case.limits, case.free_at_end
    booked = [x.taken(Pool.REQUEST_TABLE, model=Model.TARGET) for x in case.ledgers]
    table = min((size for size in booked if size is not None), default=None)
    if table is None or limits is None or not limits.max_running_requests or not limits.context_len:
        return None
    given = case.launch.number_of("max_running_requests") is not None
    if given or limits.max_running_requests < 2 * ROWS or (case.launch.number_of("dp_size") or 1) > 1:
        return None
    shorter = Bytes(request_table_bytes(ROWS, limits.context_len))
    freed = Bytes(table - shorter)
    if 4 * freed < need:
        return None
    return knob(
        case,
        "--max-running-requests",
        Direction.SET,
        to=str(ROWS),
        cost=f"It costs concurrency: more than {ROWS} requests wait.",
        note=f"The table of requests shrinks from {format_gib(table)} to {format_gib(shorter)}; the pool stays.",
        effect={} if free is None else {"free_gib": _left_free(free, freed, PRINT)},
    )


def more_ranks(case: Case) -> Remedy:
    """Twice the tensor ranks, each with half of the weights."""
    cost = "It costs as many more GPUs, each with a smaller share of the weights."
    return knob(case, "--tp-size", Direction.RAISE, to=twice_the_ranks(case), cost=cost)


def smaller_weights(case: Case) -> Remedy:
    """Weights in a smaller format."""
    cost = "It costs precision: compare answers before you keep it."
    return knob(case, "--quantization", Direction.SET, cost=cost)


def smaller_graphs(case: Case) -> Remedy:
    """Capture smaller batches: up to half the largest, where the log tells which that is."""
    flag = decode_graph_flag(case)
    largest = largest_captured(case) if "max-bs" in flag else None
    to = None if largest is None or largest < 2 else str(largest // 2)
    words = "half of the largest batch captured" if to is not None else ""
    return knob(
        case,
        flag,
        Direction.LOWER,
        to=to,
        cost="It costs speed for batches above the largest captured size.",
        note=starting_value(words, "what is free after the capture's end") if words else "",
    )


def largest_captured(case: Case) -> int | None:
    """The largest batch that decode graphs are made for: by its argument, the list of sizes, or the bar at work."""
    for name in ("cuda_graph_max_bs_decode", "cuda_graph_max_bs"):
        given = case.launch.number_of(name)
        if given is not None and given >= 1:
            return int(given)
    lists = [e.sizes for e in case.launch.each(GraphSizes) if e.sizes and "token" not in (e.kind or "")]
    bars = [e.size for e in case.launch.each(CaptureProgress) if e.size and (e.kind or "batches") == "batches"]
    known = [max(sizes) for sizes in lists] or bars
    return max(known, default=None)


def smaller_chunk(case: Case, sign: Event | None = None, tokens: int | None = None) -> Remedy:
    """Shorter prefill steps: so short that in proportion the batch that failed would fit, at most half as long.

    tokens  of the batch that failed, where its line is there
    """
    flag = "--chunked-prefill-size"
    given = (case.limits.chunked_prefill_size if case.limits else None) or case.launch.number_of("chunked_prefill_size")
    chunk = int(given) if given is not None and given > 1 else tokens
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    if chunk is None or chunk < 1024:
        return knob(case, flag, Direction.LOWER, cost=f"It costs {FASTER_STEPS}.")
    fits = chunk // 2 if not tried or free is None else min(chunk // 2, int(chunk * free / tried))
    to = max(512, fits // 256 * 256)
    words = starting_value("half of the present size", "that the same batch passes")
    effect = {}
    if tried and free is not None:
        after = round(tried * to / max(chunk, tokens or 0) / GIB, 4)
        effect = {"batch_gib": Effect(to_gib(tried, 4), after, after, round(tried / GIB, 4))}
        words = "In proportion to a batch's tokens; parts that do not grow with them shrink less."
    lower = knob(case, flag, Direction.LOWER, to=str(to), cost=f"It costs {FASTER_STEPS}.", note=words)
    return dataclasses.replace(lower, effect=effect)


def fewer_requests(case: Case) -> Remedy:
    """Fewer running requests: four fifths of the most that ran, and no more than ran when the pool was fullest."""
    peak, full = case.launch.series.peak_running, fullest(case)
    ran = full.running if full is not None and full.running else peak
    to = None if not peak or peak < 2 else str(max(1, min(int(peak * 0.8), ran or peak)))
    words = starting_value("four fifths of the most that ran, or what ran in a full pool", "that none is pushed back")
    return knob(
        case,
        "--max-running-requests",
        Direction.LOWER,
        to=to,
        cost="It costs concurrency: others wait.",
        note="" if to is None else words,
    )


def more_conservative(case: Case) -> Remedy:
    """Admit requests later: SGLang's own conservativeness where less is set, else a third more."""
    now = case.launch.number_of("schedule_conservativeness")
    to = "1" if now is not None and now < 1 else f"{1.3 * (now or 1):g}"
    return knob(
        case,
        "--schedule-conservativeness",
        Direction.RAISE,
        to=to,
        cost="It costs concurrency: requests are admitted later.",
        note=starting_value("SGLang's own value, or a third more than now", "that no request is pushed back"),
    )


def prefill_graph_knobs(case: Case) -> tuple[Remedy, ...]:
    """Fewer or no prefill graphs, by the flags of this launch's release."""
    fewer = "It costs speed of prefill for the sizes that are left out."
    none = "It costs speed of prefill."
    if speaks_of_late_release(case) and not is_in_command(case, "piecewise_cuda_graph_max_tokens"):
        return (
            knob(case, "--cuda-graph-max-bs-prefill", Direction.LOWER, cost=fewer),
            knob(case, "--disable-prefill-cuda-graph", Direction.SET, cost=none),
        )
    smaller = knob(case, "--piecewise-cuda-graph-max-tokens", Direction.LOWER, cost=fewer)
    if flag_is_given(case, "enable_piecewise_cuda_graph"):
        return smaller, knob(case, "--enable-piecewise-cuda-graph", Direction.REMOVE, cost=none)
    return smaller, knob(case, "--disable-piecewise-cuda-graph", Direction.SET, cost=none)


def host_tier(case: Case) -> Remedy | None:
    """A host tier for evicted prefixes, where there is none yet."""
    if flag_is_given(case, "enable_hierarchical_cache"):
        return None
    return knob(
        case,
        "--enable-hierarchical-cache",
        Direction.SET,
        cost="It costs host memory; it keeps evicted prefixes, and does not raise the number that runs at once.",
    )


def host_tier_knobs(case: Case) -> tuple[Remedy, ...]:
    """A smaller host tier, by the flag that sets its size here; in proportion to what this rank found free."""
    short = case.launch.first(HostMemoryShort)
    share = most = None
    if short is not None and short.wanted and short.free is not None:
        kept = HOST_RESERVE if short.free >= short.wanted else 0.0  # up to 0.4.9 the message prints it among the free
        share = max(0.0, short.free - kept) / short.wanted
        most = math.floor(short.free - kept)
    sized = (case.launch.number_of("hicache_size") or 0) > 0
    flags: tuple[str, ...] = ("--hicache-size",) if sized else ("--hicache-ratio",)
    if not sized and not is_in_command(case, "hicache_ratio"):
        flags = ("--hicache-ratio", "--hicache-size")
    return tuple(_smaller_tier(case, flag, share, most, short) for flag in flags)


def _smaller_tier(
    case: Case, flag: str, share: float | None, most: int | None, short: HostMemoryShort | None
) -> Remedy:
    now = case.launch.number_of(flag[2:].replace("-", "_"))
    least = 1.0 if flag == "--hicache-ratio" else 0.0  # a host tier below the pool is refused or of no use
    value = None if not now or share is None or share >= 1 else math.floor(now * share * 20) / 20
    if value is not None and value <= least:
        value = None
    note = "" if value is None else "In proportion to what this rank found free; other ranks take theirs beside it."
    if not now and most is not None and most >= 1 and share is not None and share < 1:
        size = f"{most} GB" if flag == "--hicache-size" else f"{share:.2f} of what it is now"
        note = f"To {size} at most, which is what this rank found free; other ranks take theirs beside it."
        if flag == "--hicache-ratio" and share * OWN_HOST_RATIO <= 1:
            refused = "" if case.launch.releases.reaches("0.5.17") else ", which releases before 0.5.17 refuse"
            note += f" Of SGLang's own {OWN_HOST_RATIO:g} that is less than the pool on the GPU{refused}."
    lower = knob(
        case,
        flag,
        Direction.LOWER,
        to=None if value is None else f"{value:g}",
        cost="It costs kept prefixes: the host tier holds fewer tokens.",
        note=note,
    )
    if value is None or not now or short is None or not short.wanted:
        return lower
    after = round(short.wanted * value / now * 1e9 / GIB, 4)
    effect = {"host_gib": Effect(round(short.wanted * 1e9 / GIB, 4), after, after, after)}
    return dataclasses.replace(lower, effect=effect)
