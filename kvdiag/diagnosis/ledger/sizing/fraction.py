"""mem_fraction_static when nobody sets it, by release, and the multiplications that act even on a given value."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.release import Release, ReleaseRange, release

_TABLES: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = (
    # first release, then (ranks at least, fraction)
    ("0.4.0", ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))),
    ("0.3.6", ((16, 0.79), (8, 0.82), (4, 0.85), (2, 0.87), (1, 0.88))),
    ("0.2.15", ((16, 0.79), (8, 0.83), (4, 0.85), (2, 0.87), (1, 0.88))),
)
_SPECULATION_FREE = ("NGRAM",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the automatic fraction looks at; sizes in MiB, as nvidia-smi gives them.

    card          total memory of the smallest visible card; None when it cannot be read
    chunk         chunked_prefill_size in effect (max_prefill_tokens when chunking is off)
    graph_batch   largest decode batch that is captured
    prefill_graph MiB set aside for prefill graphs: tokens and sizes, or 1536 on MLA
    """

    card: float | None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_attention: bool = False
    speculative: str | None = None
    chunk: int | None = None
    graph_batch: int | None = None
    prefill_graph: float = 0.0
    disaggregation: str | None = None
    decode_requests: int | None = None
    draft_tokens: int = 1
    deepep: bool = False
    post_capture: bool = False
    xpu: bool = False


def automatic(machine: Machine, at: Release) -> float:
    """The fraction SGLang takes when none is given.

    Source: 0.3–0.5.2 server_args.py, __post_init__(); 0.5.3–0.5.17 server_args.py, _handle_gpu_memory_settings();
    0.5.19+ arg_groups/memory_hook.py, handle_gpu_memory_settings().
    """
    ranks = machine.tp * machine.pp
    if at < release("0.4.5"):
        return _by_ranks(machine.tp, at)
    if at < release("0.4.6"):
        if machine.card is None or machine.card <= 81_920:
            return _by_ranks(machine.tp, at)
        return (machine.card - 13_312) / machine.card
    if at < release("0.4.7"):
        if machine.card is None or machine.card <= 81_920:
            return _by_ranks(ranks, at)
        value = 0.88
        if machine.card > 98_304:
            value = min(value + 49_152 * (1 - value) / machine.card, (machine.card - 18_432) / machine.card)
        return value
    if not machine.card:
        return 0.95 if at >= release("0.5.21") else 0.88
    reserved = _reserved_by_card(machine, ranks, at) if at < release("0.5.3") else _reserved(machine, ranks, at)
    return round((machine.card - reserved) / machine.card, 3)


def default_chunk(card: float | None, at: Release) -> int:
    """chunked_prefill_size where nobody sets it, by the card's MiB (0.5.3 and later; 0.4.8–0.5.2 have no 4096 class).

    Source: server_args.py, _handle_gpu_memory_settings(); 0.5.19+ arg_groups/memory_hook.py.
    """
    if not card:
        return 4096
    if at < release("0.5.3"):
        return 2048 if card < 35 * 1024 else 8192 if card < 160 * 1024 else 16_384
    small = 20 if at >= release("0.5.21") else 35
    if card < small * 1024:
        return 2048
    return 4096 if card < 60 * 1024 else 8192 if card < 160 * 1024 else 16_384


def default_graph_batch(card: float | None, tp: int, at: Release) -> int:
    """Largest captured decode batch where nobody sets it, by the card's MiB (0.5.3 and later).

    Source: server_args.py, _handle_gpu_memory_settings(); 0.5.19+ arg_groups/memory_hook.py.
    """
    if not card:
        return 160
    many = tp >= 4
    if card < 20 * 1024:
        return 8
    if card < 35 * 1024:
        if at >= release("0.5.21"):
            return 160 if many else 48
        return 80 if many else 24 if at >= release("0.5.4") else 16
    if card < 60 * 1024:
        return 160 if many else 32
    if card < 160 * 1024:
        return 512 if many else 256
    return 512


def vision_factor(layers: int, hidden: int) -> float:
    """What an automatic fraction is multiplied by for a vision tower (0.4.9 and later).

    0.95 × clamp(1 − 0.1·(layers·hidden² / (24·1024²) − 1), 0.8, 1.05).
    Source: 0.4.9–0.5.17 server_args.py, adjust_mem_fraction_for_vlm(); 0.5.19+ arg_groups/memory_hook.py.
    """
    complexity = layers * hidden**2 / (24 * 1024**2)
    return 0.95 * min(1.05, max(0.8, 1 - 0.1 * (complexity - 1)))


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A factor SGLang puts on the fraction after the server_args line, and why."""

    factor: float
    reason: str


def hidden_multipliers(
    releases: ReleaseRange,
    platform: str | None,
    attention_backend: str | None,
    context: int | None,
    multimodal: bool,
) -> tuple[Multiplier, ...]:
    """Factors that may act on the printed fraction without being in it; the caller tests them against the readings.

    Multimodal: ×0.95 in 0.3.0–0.4.4, ×0.90 in 0.4.5–0.4.6, at model start. AITER with a context over 8192: ×0.85;
    from 0.5.4 on server_args already prints the product.
    Source: 0.3.0–0.4.6 model_runner.py, __init__(); 0.4.7–0.5.3 model_runner.py; 0.5.4+ server_args.py.
    """
    factors = []
    if multimodal and releases.may("0.3.0", "0.4.5"):
        factors.append(Multiplier(0.95, "multimodal model, ×0.95 at model start (0.3.0–0.4.4)"))
    if multimodal and releases.may("0.4.5", "0.4.7"):
        factors.append(Multiplier(0.90, "multimodal model, ×0.90 at model start (0.4.5–0.4.6)"))
    backend = (attention_backend or "").lower()
    rocm = platform == "hip" and backend in ("", "aiter") or backend == "aiter"
    long = context is None or context > 8192
    if rocm and long and releases.may("0.4.7", "0.5.4"):
        factors.append(Multiplier(0.85, "AITER attention with a context over 8192, ×0.85 (0.4.7–0.5.3)"))
    return tuple(factors)


def _by_ranks(ranks: int, at: Release) -> float:
    table = next(rows for first, rows in _TABLES if at >= release(first) or first == _TABLES[-1][0])
    return next((value for least, value in table if ranks >= least), 0.88)


def _reserved_by_card(machine: Machine, ranks: int, at: Release) -> float:
    """MiB set aside in 0.4.7–0.5.2: by card class, ranks, speculation and DP attention."""
    card = machine.card or 0.0
    if card < 35 * 1024:
        gib = 2.8 + ranks / 10
    elif card < 90 * 1024:
        gib = 9.5 + ranks / 2
    elif card < 160 * 1024:
        gib = 12 + ranks / 2
    else:
        gib = 32.0
    reserved = gib * 1024
    algorithm = (machine.speculative or "").upper()
    if algorithm:
        reserved += 6144 if algorithm == "STANDALONE" and at >= release("0.5.2") else 2048
    if machine.dp_attention:
        reserved += 4096
    return reserved


def _reserved(machine: Machine, ranks: int, at: Release) -> float:
    """MiB set aside from 0.5.3 on: activations of a chunk, graphs, and a part for every rank."""
    card = machine.card or 0.0
    if machine.post_capture and at >= release("0.5.17"):
        return (1536 if at >= release("0.5.21") else 512) + 128 * ranks
    batch = machine.graph_batch or default_graph_batch(card, machine.tp, at)
    chunk = max(machine.chunk or default_chunk(card, at), 2048)
    role = machine.disaggregation if at >= release("0.5.15") else None
    if role == "decode":
        chunk = max((machine.decode_requests or batch) * max(1, machine.draft_tokens), 2048)
    reserved = 512 + 1.5 * chunk + 128 * ranks
    if role != "prefill":
        reserved += 2 * batch
    if machine.dp_attention and role != "prefill":
        reserved += 3 * batch * machine.dp
        if batch > 300:
            reserved += 1.5 * batch * machine.dp
    graphs = machine.prefill_graph if role != "decode" else 0.0
    floor = 10 * 1024 if card > 60 * 1024 else 0.0
    # up to 0.5.7 prefill graphs come on top of the floor, later they are part of what it covers
    reserved = max(reserved + graphs, floor) if at >= release("0.5.8") else max(reserved, floor) + graphs
    algorithm = (machine.speculative or "").upper()
    if algorithm and at < release("0.5.14") and algorithm not in _SPECULATION_FREE:
        if algorithm == "STANDALONE":
            reserved += 6144
        else:
            reserved += 4096 if at >= release("0.5.10") else 2048
    if machine.deepep and role != "prefill" and at >= release("0.5.15"):
        reserved += 2048
    if machine.xpu and at >= release("0.5.21"):
        reserved += 2048
    return reserved
