"""What was asked for: flags, parallel sizes, the spelling of flags in this launch's release."""

from __future__ import annotations

import re

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.kv_pool import KVCacheDtype, KVPoolAllocated
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.ledger.sizing import unified
from kvdiag.diagnosis.rules.rule import Case


def flag_is_given(case: Case, *names: str) -> bool:
    """Whether one of these arguments is on, by the command or by SGLang's own line."""
    return any(case.launch.value(n) not in (None, False, 0, "None", "") for n in names)


def is_in_command(case: Case, name: str) -> bool:
    """Whether the pasted command names an argument."""
    found = case.launch.arguments.get(name)
    return found is not None and found.origin != "default"


def has_draft(case: Case) -> bool:
    """Whether a draft model speculates."""
    algorithm = case.launch.value("speculative_algorithm")
    return isinstance(algorithm, str) and algorithm.upper() not in ("NONE", "NGRAM")


def ranks_in_tensor_group(case: Case) -> int:
    """Tensor-parallel size: as given, else as the rank prefixes count."""
    return size_of(case, "tp_size", "TP")


def twice_the_ranks(case: Case) -> str | None:
    """Twice the tensor-parallel size as a value to set; None where the log does not tell the size.

    Of a fragment the highest rank may not be the last: what it makes is taken for the size where it is one, a power of
    two. TP0 and TP1 speak in any group, so that two ranks tell nothing.
    """
    size = ranks_in_tensor_group(case)
    known = case.launch.number_of("tp_size") is not None or bool(case.launch.commands)
    return str(2 * size) if known or (size > 2 and size & (size - 1) == 0) else None


def stages_in_pipeline(case: Case) -> int:
    """Pipeline stages."""
    return size_of(case, "pp_size", "PP")


def size_of(case: Case, argument: str, prefix: str) -> int:
    """A parallel size by its argument, else by the highest number in the ranks' prefixes."""
    given = case.launch.number_of(argument)
    if given:
        return int(given)
    seen = case.launch.highest(prefix)
    return 1 if seen is None else seen + 1


def attends_in_data_parallel(case: Case) -> bool:
    """Whether attention runs data parallel: each rank then keeps all heads."""
    dp = case.launch.number_of("dp_size")
    if flag_is_given(case, "enable_dp_attention"):
        return dp is None or dp > 1
    return any(re.search(r"DP\d+ (?:PP\d+ )?TP[1-9]", rank) for rank in case.launch.rank_ids)


def speaks_of_late_release(case: Case) -> bool:
    """Whether the launch has the flags of 0.5.14 and later, by its arguments, its wording or its release."""
    late = ("cuda_graph_max_bs_decode", "cuda_graph_config", "cuda_graph_bs_decode")
    if any(n in case.launch.arguments for n in late) or case.launch.releases.reaches("0.5.14"):
        return True
    kinds = [(e.kind or "").split()[-1:] for e in case.launch.each(GraphBegin)]
    kinds += [(e.kind or "").split()[-1:] for e in case.launch.each(GraphEnd)]
    return any(k in (["decode"], ["prefill"], ["verify"]) for k in kinds)


def decode_graph_flag(case: Case) -> str:
    """The flag that bounds decode graphs, as this launch spells it."""
    for name in ("cuda_graph_bs", "cuda_graph_bs_decode"):
        if is_in_command(case, name):
            return "--" + name.replace("_", "-")
    return "--cuda-graph-max-bs-decode" if speaks_of_late_release(case) else "--cuda-graph-max-bs"


def kv_dtype(case: Case) -> str | None:
    """The KV cache's element type: as its own line or the pool's has it, else as the argument asks."""
    said = [event.dtype for event in case.launch.each(KVCacheDtype) if event.dtype and not event.draft]
    if said:
        return said[-1]
    for pool in case.launch.each(KVPoolAllocated):
        if pool.dtype:
            return pool.dtype
    asked = case.launch.value("kv_cache_dtype")
    return asked if isinstance(asked, str) and asked != "auto" else None


def is_eight_bit(case: Case) -> bool:
    """Whether the KV cache is stored in 8 bits or fewer."""
    return any(word in (kv_dtype(case) or "") for word in ("fp8", "float8", "fp4", "float4", "int8"))


def is_latent(case: Case) -> bool:
    """Whether the pool is one of latent attention (MLA): one buffer, the same on every tensor rank."""
    pools = case.launch.each(KVPoolAllocated)
    return any(p.kv is not None for p in pools[:1])


def known_release(case: Case) -> str | None:
    """The release that the log names; None where only its wording tells."""
    exact = case.launch.releases.exact
    return None if exact is None else str(exact)


def sees_images(case: Case) -> bool:
    """Whether the model takes images, by its name."""
    loaded = case.launch.first(WeightsLoaded)
    words = f"{case.launch.value('model_path') or ''} {loaded.architecture if loaded else ''}"
    return bool(re.search(r"VL\b|VL-|-VL|Vision|vision|Llava|llava|Omni|OCR|ConditionalGeneration", words))


def inbalance_switch(case: Case) -> tuple[str, str]:
    """The environment variable, and its value, that switches the balance check off in this release."""
    if case.launch.releases.reaches("0.5.9"):
        return "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK", "false"
    return "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", "1"


def asks_for_offload(case: Case) -> bool:
    """Whether the command asks to keep weights on the host."""
    names = [n for n in case.launch.arguments if n.startswith("kt_")]
    return bool(names) or flag_is_given(case, "cpu_offload_gb", "offload_group_size")


def keeps_experts(case: Case) -> bool:
    """Whether the command keeps a number of experts on the GPU."""
    return (case.launch.number_of("kt_num_gpu_experts") or 0) > 0


def unified_device(case: Case) -> Event | None:
    """The line that shows a device whose memory is the host's."""
    return unified.unified_device(case.launch)
