"""What an automatic fraction is made of, as a log shows it: the card's total, the chunk, the graphs, the release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvdiag.diagnosis.cards import known_capacity, totals_near
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphsDisabled, GraphSizes
from kvdiag.diagnosis.events.distributed import CapacityFallback
from kvdiag.diagnosis.events.hardware import CardTable, DeviceNamed
from kvdiag.diagnosis.events.kv_pool import PostCapturePool
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.sizing.fraction import Machine, automatic, default_chunk
from kvdiag.diagnosis.ledger.sizing.inputs import AutomaticFraction, Family, FractionCandidate, SizingInputs
from kvdiag.diagnosis.ledger.sizing.readings import readings_of
from kvdiag.diagnosis.ledger.sizing.release import Release, release
from kvdiag.diagnosis.units import MIB

_ERAS = (
    "0.2.15", "0.3.6", "0.4.0", "0.4.5", "0.4.6", "0.4.7", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.7", "0.5.8",
    "0.5.10", "0.5.14", "0.5.15", "0.5.17", "0.5.21", "0.5.23",
)  # fmt: skip
"""First releases of the rules and defaults that an automatic fraction follows."""
_MOST = 24
"""Candidates beyond which naming them says nothing."""
_CONTEXT = 2048.0
"""MiB that contexts, communicators and a display may hold of a card before the first reading."""
_LATENT_GRAPH = 1536.0
"""MiB set aside for prefill graphs of MLA models, 0.5.10 and later."""


@dataclass(frozen=True, slots=True)
class _Card:
    """A card's total in MiB, the words that say where it is from, and how it is known (AutomaticFraction.card)."""

    mib: float
    words: str
    known: str


def automatic_fraction(launch: Launch, inputs: SizingInputs) -> AutomaticFraction | None:
    """What SGLang may have taken; None where a line prints the fraction, or no readings could use it."""
    if inputs.fraction is not None or readings_of(inputs.ranks) is None:
        return None
    sure = bool(launch.commands) and bool(launch.arguments) and launch.value("config") is None
    if inputs.platform == "npu":
        return AutomaticFraction(sure=sure, why="the total that an NPU reports is not in the log")
    if inputs.multimodal and inputs.release.reaches("0.4.9") is not False:
        return AutomaticFraction(sure=sure, why="the vision tower, whose size lowers it, is not in the log")
    cards, needs_card = _cards(launch, inputs), False
    found: dict[tuple[float, str], list[int]] = {}  # value and what it rests on, to the places of its eras
    for place, (first, end) in enumerate(zip(_ERAS, (*_ERAS[1:], None), strict=True)):
        at = _at(inputs, first, end)
        if at is None:
            continue
        needs_card = at >= release("0.4.5")
        if needs_card and not cards:
            return AutomaticFraction(sure=sure, why="the card's total is not in the log")
        for card in cards if needs_card else [None]:
            for machine, words in _machines(launch, inputs, card, at):
                value = automatic(machine, at)
                said = ", ".join(part for part in (card.words if card else "", words) if part)
                found.setdefault((value, said), []).append(place)
                if inputs.platform == "hip" and at >= release("0.5.4"):
                    said = f"{said}, ×0.85 by AITER attention"
                    found.setdefault((round(value * 0.85, 6), said), []).append(place)
    if len({value for value, _ in found}) > _MOST:
        return AutomaticFraction(sure=sure, why="the release and the card are too open")
    candidates = [
        FractionCandidate(value, _named(inputs, places), rests_on) for (value, rests_on), places in found.items()
    ]
    return AutomaticFraction(tuple(candidates), sure, cards[0].known if cards and needs_card else "")


def _at(inputs: SizingInputs, first: str, end: str | None) -> Release | None:
    """A release of an era that the log may come from; None where the range rules the era out."""
    exact = inputs.release.exact
    if exact is not None:
        return exact if exact >= release(first) and (end is None or exact < release(end)) else None
    return release(first) if inputs.release.may(first, end) else None


def _named(inputs: SizingInputs, places: Sequence[int]) -> str:
    """The releases of some eras in words: "0.5.8 up to 0.5.14"."""
    if inputs.release.exact is not None:
        return str(inputs.release.exact)
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return ", ".join(
        f"{_ERAS[first]} up to {_ERAS[last + 1]}" if last + 1 < len(_ERAS) else f"{_ERAS[first]} and later"
        for first, last in runs
    )


def _cards(launch: Launch, inputs: SizingInputs) -> list[_Card]:
    """The card's total as nvidia-smi gives it: printed, else by its name, else by an overflow's or the free memory.

    torch counts less than nvidia-smi prints, so an overflow's capacity leads to the known total just above it.
    """
    printed: list[float] = [event.smallest for event in launch.each(CapacityFallback) if event.smallest is not None]
    if printed:
        return [_Card(min(printed), f"{min(printed):,.0f} MiB a card", "printed")]
    tables = [event.total / MIB for event in launch.each(CardTable) if event.total is not None]
    if tables:
        return [_Card(min(tables), f"{min(tables):,.0f} MiB a card", "printed")]
    if inputs.unified_memory:
        return []
    for named in launch.each(DeviceNamed):
        size = known_capacity(named.name or "")
        if size is not None:
            return [_Card(size / MIB, f"{size / MIB:,.0f} MiB a card by its name", "name")]
    sizes = [event.capacity for event in launch.each(DeviceOutOfMemory) if event.capacity is not None]
    openings = [rank.opening for rank in inputs.ranks if rank.opening is not None]
    if sizes:
        near = totals_near(min(sizes) / MIB, 0.02 * min(sizes) / MIB)
        return [_Card(mib, f"{mib:,} MiB a card by the overflow's message", "name") for mib in near]
    if openings and inputs.platform in (None, "cuda"):
        most = max(openings) * 1024
        near = totals_near(most, max(_CONTEXT, 0.03 * most))
        return [_Card(mib, f"{mib:,} MiB a card by what was free", "free") for mib in near]
    return []


def _machines(launch: Launch, inputs: SizingInputs, card: _Card | None, at: Release) -> Iterator[tuple[Machine, str]]:
    """The machine as one release sees it; two where the log leaves open whether prefill graphs are counted."""
    draft = inputs.draft
    algorithm = launch.value("speculative_algorithm")
    chunk, chunk_words = _chunk(launch, inputs, card, at)
    batch = _graph_batch(launch)
    plain = Machine(
        card=card.mib if card else None,
        tp=inputs.tp,
        pp=inputs.pp,
        dp=inputs.dp,
        dp_attention=inputs.dp_attention,
        speculative=algorithm if isinstance(algorithm, str) else draft.algorithm if draft else None,
        chunk=chunk,
        graph_batch=batch,
        disaggregation=inputs.disaggregation,
        decode_requests=inputs.max_running_requests,
        draft_tokens=(draft.draft_tokens if draft else None) or 1,
        deepep=launch.value("moe_a2a_backend") == "deepep",
        post_capture=launch.has(PostCapturePool),
        xpu=inputs.platform == "xpu",
    )
    words = [f"{inputs.tp * inputs.pp} ranks" if inputs.tp * inputs.pp > 1 else "1 rank"]
    if at >= release("0.5.3"):
        words.append(chunk_words)
        words.append(f"graphs up to {batch:,}" if batch else "")
    base = ", ".join(word for word in words if word)
    for size in _prefill_graphs(launch, inputs, chunk or default_chunk(plain.card, at), at):
        said = f"{base}, {size:,.0f} MiB for prefill graphs" if size else base
        yield replace(plain, prefill_graph=size), said


def _chunk(launch: Launch, inputs: SizingInputs, card: _Card | None, at: Release) -> tuple[int | None, str]:
    """chunked_prefill_size before DP attention divides it; max_prefill_tokens where chunking is off.

    Source: server_args.py, __post_init__(): the memory settings come before _handle_data_parallelism().
    """
    limits = launch.last(ServerLimits)
    given = launch.number_of("chunked_prefill_size")
    size = None if given is None else int(given)
    if size is None and limits is not None and limits.chunked_prefill_size is not None:
        size = limits.chunked_prefill_size
        if size > 0 and inputs.dp_attention and at >= release("0.4.6"):
            size *= max(1, inputs.dp)
    if size is not None and size <= 0:
        whole = launch.number_of("max_prefill_tokens") or (limits.max_prefill_tokens if limits else None) or 16_384
        return int(whole), f"{int(whole):,} tokens a prefill"
    return size, "" if size is None else f"chunks of {size:,}"


def _graph_batch(launch: Launch) -> int | None:
    """The largest decode batch to capture, as the command has it; None where the card decides."""
    for name in ("cuda_graph_max_bs", "cuda_graph_max_bs_decode"):
        given = launch.number_of(name)
        if given:
            return int(given)
    for name in ("cuda_graph_bs", "cuda_graph_bs_decode"):
        sizes = launch.value(name)
        if isinstance(sizes, list) and sizes and all(isinstance(size, int) for size in sizes):
            return max(size for size in sizes if isinstance(size, int))
    return None


def _prefill_graphs(launch: Launch, inputs: SizingInputs, chunk: int, at: Release) -> list[float]:
    """MiB set aside for prefill graphs: none, what the rule gives, or both where the log does not tell.

    Source: 0.5.5–0.5.13 server_args.py, _handle_gpu_memory_settings(); 0.5.14+ the same, later memory_hook.py.
    """
    if at < release("0.5.5"):
        return [0.0]
    captured = any("prefill" in (e.kind or "") or "piecewise" in (e.kind or "") for e in launch.each(GraphBegin))
    captured |= any(e.kind in ("num tokens", "prefill shape") for e in launch.each(CaptureProgress))
    if at < release("0.5.10"):
        if not captured and launch.value("enable_piecewise_cuda_graph") is not True:
            return [0.0]
        if at < release("0.5.8"):
            tokens = int(launch.number_of("piecewise_cuda_graph_max_tokens") or 4096)
            return [tokens / (4 if at < release("0.5.7") else 8)]
        return [8.0 * _sizes(launch, chunk)]
    off = any(e.kind == "prefill" for e in launch.each(GraphsDisabled)) or any(
        launch.value(name) is True for name in ("disable_piecewise_cuda_graph", "disable_prefill_cuda_graph")
    )
    if off:
        return [0.0]
    size = _LATENT_GRAPH if inputs.family in (Family.MLA, Family.DSA) else 8.0 * _sizes(launch, chunk)
    return [size] if captured else [0.0, size]


def _sizes(launch: Launch, chunk: int) -> int:
    """How many prefill sizes are captured: as the log lists them, else those up to a chunk.

    Source: server_args.py, _generate_piecewise_cuda_graph_tokens().
    """
    listed = [event.sizes for event in launch.each(GraphSizes) if event.kind == "num tokens" and event.sizes]
    if listed:
        return max(len(sizes) for sizes in listed)
    bars = [event.total for event in launch.each(CaptureProgress) if event.kind != "batches" and event.total]
    if bars:
        return max(bars)
    steps = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, chunk + 1, 512))
    return sum(1 for step in steps for size in range(*step) if size <= chunk)
