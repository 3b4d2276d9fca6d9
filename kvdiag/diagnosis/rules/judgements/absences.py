"""What a launch does not have, so that a rule about it does not apply."""

from __future__ import annotations

from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostPool
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, DeepSeekV4Pools, MambaPool, RequestsCapped
from kvdiag.diagnosis.events.platform import MemorySaver, TrainerLine, trainer_of
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.requests import StateSlotsExhausted
from kvdiag.diagnosis.rules.judgements.arguments import (
    asks_for_offload,
    attends_in_data_parallel,
    flag_is_given,
    has_draft,
    is_in_command,
    size_of,
    stages_in_pipeline,
)
from kvdiag.diagnosis.rules.judgements.overflows import overflows
from kvdiag.diagnosis.rules.judgements.pools import has_window, loads_a_draft
from kvdiag.diagnosis.rules.rule import Case


def without_draft(case: Case) -> str | None:
    """No draft model speculates."""
    drafted = loads_a_draft(case) or any(has_draft(x) for x in case.earlier)
    return None if drafted else "no draft model speculates"


def without_state(case: Case) -> str | None:
    """No layer keeps a state."""
    hybrid = (
        case.launch.has(MambaPool, StateSlotsExhausted) or case.launch.number_of("max_mamba_cache_size") is not None
    )
    hybrid = hybrid or any(e.slots for e in case.launch.each(RequestsCapped))
    hybrid = hybrid or getattr(case.launch.series.last, "mamba_usage", None) is not None
    return None if hybrid else "the model has no pool of states"


def without_window(case: Case) -> str | None:
    """No layer has a sliding window with a pool of its own."""
    windowed = has_window(case) or case.launch.has(DeepSeekV4Budget, DeepSeekV4Pools)
    windowed = windowed or case.launch.series.peak_swa_usage is not None
    windowed = windowed or is_in_command(case, "swa_full_tokens_ratio")
    return None if windowed else "the model has no pool for sliding-window layers"


def without_pipeline(case: Case) -> str | None:
    """One stage holds all layers."""
    return None if stages_in_pipeline(case) > 1 else "one pipeline stage holds all layers"


def without_host_tier(case: Case) -> str | None:
    """No host tier."""
    tier = flag_is_given(case, "enable_hierarchical_cache", "hicache_size") or case.launch.has(
        HostPool, HostMemoryShort
    )
    return None if tier else "no host tier is used"


def without_data_parallel(case: Case) -> str | None:
    """One rank serves all requests."""
    printed = {*case.launch.rank_ids, *(e.rank for e in case.launch.each(ServerLimits))}
    dp = size_of(case, "dp_size", "DP") > 1 or attends_in_data_parallel(case) or any("DP" in rank for rank in printed)
    return None if dp else "requests are not spread over data-parallel ranks"


def without_offload(case: Case) -> str | None:
    """All weights are to lie on the GPU."""
    return None if asks_for_offload(case) else "no offload to the host is asked for"


def without_trainer(case: Case) -> str | None:
    """No trainer shares the GPUs, as far as the log tells."""
    shared = case.launch.has(TrainerLine, MemorySaver) or any(trainer_of(e.line) for e in overflows(case))
    return None if shared else "no trainer speaks in this log"


def without_earlier_start(case: Case) -> str | None:
    """Nothing to compare with."""
    return None if case.earlier else "the upload holds no earlier start"
