"""What a remedy promises: its figures where the log carries them, else the reason in words; and its command.

Every remedy passes here after its rule made it, so that no rule predicts in a way of its own.
"""

from __future__ import annotations

import dataclasses

from kvdiag.diagnosis.events.host_memory import HostMemoryShort
from kvdiag.diagnosis.events.kv_pool import KVPoolAllocated
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.ledger.what_if import Change, Scenario, Starts, scenario_of
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import FRACTION, OWN_HOST_RATIO, cell, effects_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Remedy
from kvdiag.diagnosis.units import GIB

_SIZED = {  # flags that SGLang's sizing knows, with the field of Change and its type
    "mem_fraction_static": ("mem_fraction_static", float),
    "max_total_tokens": ("max_total_tokens", int),
    "max_running_requests": ("max_running_requests", int),
    "context_length": ("context_length", int),
    "tp_size": ("tp_size", int),
    "kv_cache_dtype": ("kv_cache_dtype", str),
    "max_mamba_cache_size": ("max_mamba_cache_size", int),
    "mamba_full_memory_ratio": ("mamba_full_memory_ratio", float),
    "swa_full_tokens_ratio": ("swa_full_tokens_ratio", float),
    "cuda_graph_max_bs": ("cuda_graph_max_bs", int),
    "cuda_graph_max_bs_decode": ("cuda_graph_max_bs", int),
}
_FIGURES = ("kv_tokens", "total_tokens", "free_gib", "requests", "host_gib")

_NOT_IN_LOG = "No figures are predicted:"
_BESIDE = {  # flags that the sizing does not know, and what they act on
    "chunked_prefill_size": "The pool stays as it is; a batch's temporaries change with its tokens.",
    "max_prefill_tokens": "The pool stays as it is; a batch's temporaries change with its tokens.",
    "quantization": f"{_NOT_IN_LOG} the log does not say what the weights take in another format.",
    "pp_size": f"{_NOT_IN_LOG} how the layers would divide over the stages is not in the log.",
    "cpu_offload_gb": f"{_NOT_IN_LOG} each GiB set here is one less on the GPU, and the log does not say how many it"
    " takes.",
    "kt_num_gpu_experts": f"{_NOT_IN_LOG} what one expert takes is not in the log.",
    "speculative_algorithm": f"{_NOT_IN_LOG} the log does not show what the draft takes.",
    "cuda_graph_bs": f"{_NOT_IN_LOG} which sizes to leave out is yours to choose; the largest take most.",
    "cuda_graph_bs_decode": f"{_NOT_IN_LOG} which sizes to leave out is yours to choose; the largest take most.",
    "cuda_graph_max_bs_prefill": f"{_NOT_IN_LOG} the log does not say what each prefill size takes.",
    "piecewise_cuda_graph_max_tokens": f"{_NOT_IN_LOG} the log does not say what each prefill size takes.",
    "dcp_size": f"{_NOT_IN_LOG} the tokens of the whole group grow with the ranks that share them, less what each keeps"
    " of its own.",
    "mamba_ssm_dtype": "States of half the width take half the memory; how much of it becomes slots is not predicted.",
    "hicache_size": f"{_NOT_IN_LOG} the log does not say how much host memory was free.",
    "hicache_ratio": f"{_NOT_IN_LOG} the log does not say how much host memory was free.",
    "page_size": f"{_NOT_IN_LOG} it depends on how long the requests are.",
    "num_reserved_decode_tokens": f"{_NOT_IN_LOG} it depends on how long the requests grow.",
    "max_running_requests": "The pool stays as it is; fewer or more requests share it.",
    "context_length": "The pool stays as it is; the table of requests shrinks with it.",
    "enable_hierarchical_cache": "The pool on the GPU stays as it is; what it takes of the host is not predicted: the"
    " log does not tell what a token takes.",
    "cuda_graph_max_bs": "The pool stays as it is; what smaller graphs take is not in the log.",
    "cuda_graph_max_bs_decode": "The pool stays as it is; what smaller graphs take is not in the log.",
    "schedule_conservativeness": "It moves no memory.",
    "enable_eplb": f"{_NOT_IN_LOG} how evenly experts can be spread is not in the log.",
}
_NOTHING = "It moves no KV tokens."
_OF_DRAFT_STATES = ("max_running_requests", "speculative_num_draft_tokens")


def completed(case: Case, remedy: Remedy) -> Remedy | None:
    """A remedy with its prediction and its command; None where the launch would not start with it."""
    remedy = dataclasses.replace(remedy, command=_command(case, remedy))
    if not remedy.flag.startswith("--"):
        return remedy
    name = remedy.flag[2:].replace("-", "_")
    change = change_of(case, remedy)
    answer = None if change is None or case.sizing is None else scenario_of(case.sizing, change, case.launch.arguments)
    if answer is not None and answer.refused is None:
        told = {key: value for key, value in remedy.effect.items() if key not in _FIGURES}
        effect = {**told, **effects_of(answer)}
    else:
        if answer is not None and answer.starts is Starts.NO and name in ("mem_fraction_static", "max_total_tokens"):
            return None
        effect = remedy.effect
    if name == "max_total_tokens":  # where it binds, the pool is as large as it says
        effect = {
            key: dataclasses.replace(e, low=e.low or e.after, high=e.high or e.after) for key, e in effect.items()
        }
    effect = {**effect, **_at_the_overflow(case, remedy)}
    words = (_one_sided(answer), _words(case, name, effect, answer))
    return dataclasses.replace(remedy, effect=effect, note=_joined(remedy.note, *words))


def change_of(case: Case, remedy: Remedy) -> Change | None:
    """The change that a remedy asks for; None where it names no value, or a flag that the sizing does not know."""
    name, to = remedy.flag.lstrip("-").replace("-", "_"), remedy.to
    if remedy.direction is Direction.REMOVE:
        return {"max_total_tokens": Change(max_total_tokens=0), "speculative_algorithm": Change(draft=False)}.get(name)
    if name == "enable_dp_attention":
        tp = int(case.launch.number_of("tp_size") or 1)
        return Change(dp_attention=tp) if tp > 1 else None
    if name == "enable_hierarchical_cache":
        return Change(hicache_ratio=OWN_HOST_RATIO)
    if name not in _SIZED or to is None:
        return None
    field, kind = _SIZED[name]
    try:
        return Change.read({field: kind(to)})
    except ValueError:
        return None


def _at_the_overflow(case: Case, remedy: Remedy) -> dict[str, Effect]:
    """What a lower fraction would have left free at the moment of an overflow of the start or of serving.

    The pool gives up Δfraction × what was free before loading: as the log prints it, else between what the allocator
    holds and the card's capacity.
    """
    if remedy.flag != FRACTION or remedy.direction is not Direction.LOWER or not remedy.before or not remedy.to:
        return {}
    oom = judgements.memory_ran_out(case)
    if not isinstance(oom, DeviceOutOfMemory) or oom.free is None or oom.capacity is None:
        return {}
    size = cell(case)
    drafts = 1 + (size.draft / size.target if size is not None else 0.0)  # their pools shrink with the target's
    step = (float(remedy.before) - float(remedy.to)) * drafts
    most = case.opening_size or oom.capacity
    least = case.opening_size or oom.allocated or oom.capacity
    low, high = (round((oom.free + step * size) / GIB, 4) for size in sorted((least, most)))
    return {"free_at_overflow_gib": Effect(round(oom.free / GIB, 4), round((low + high) / 2, 4), low, high)}


def _one_sided(answer: Scenario | None) -> str:
    """Which way a figure is open, where the log does not show what every rank keeps whole; "" where none is."""
    if answer is None or answer.refused is not None:
        return ""
    figures = (answer.tokens, answer.total_tokens, answer.free_gib)
    bound = next((x.bound for x in figures if x is not None and x.bound is not None), None)
    return "" if bound is None else f"{bound.capitalize()} that: what every rank keeps whole is not in the log."


def _words(case: Case, name: str, effect: dict[str, Effect], answer: Scenario | None) -> str:
    """What is not predicted, and why; "" where all is."""
    if "kv_tokens" in effect:
        free = "free_gib" in effect or "free_at_overflow_gib" in effect or case.free_at_end is not None
        return "" if free else "What stays free at the end is not predicted: the log has no line of it."
    if effect.keys() & set(_FIGURES):
        return ""
    if answer is not None and answer.refused is None:
        return "By SGLang's own arithmetic it moves neither tokens nor free memory here."
    if name in _OF_DRAFT_STATES and any(ledger.mamba_speculative for ledger in case.ledgers):
        return "The states of draft tokens shrink with it; what of that becomes KV tokens is not predicted."
    if name.startswith("hicache_") and any(short.free is not None for short in case.launch.each(HostMemoryShort)):
        return "What all ranks may take together is not predicted."
    if name in _BESIDE:
        return _BESIDE[name]
    if name not in _SIZED and name != "enable_dp_attention":
        return _NOTHING
    missing = lines_missing(case)
    if missing:
        return f"Tokens are not predicted: the log has no {', no '.join(missing[:3])}."
    if answer is not None and answer.refused is not None and answer.starts is not Starts.NO:
        return f"{_NOT_IN_LOG} {answer.refused}."
    return f"{_NOT_IN_LOG} the log does not tell by how much."


def lines_missing(case: Case) -> list[str]:
    """The lines that a prediction of tokens would need and the log does not have, as a reader knows them."""
    first = next(iter(case.ledgers), None)
    impossible = " between 0 and 1" if case.launch.value("mem_fraction_static") is not None else ""
    wanted = (
        (
            judgements.stated_fraction(case) is not None,
            f"mem_fraction_static{impossible} (server_args, or the launch command)",
        ),
        (case.opening_size is not None, '"Load weight begin" line'),
        (case.after_weights is not None, '"Load weight end" line'),
        (
            case.tokens is not None or case.launch.has(KVPoolAllocated) or (first is not None and first.kv_size),
            '"KV Cache is allocated" line',
        ),
    )
    return [name for there, name in wanted if not there]


def _command(case: Case, remedy: Remedy) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words of the launch command that go and those that come; None where there is no value to write.

    One flag, or the several that a change needs.
    """
    flag, to = remedy.flag, remedy.to
    if not flag.startswith("--"):
        return None
    name = flag[2:].replace("-", "_")
    now = case.launch.value(name)
    old = () if remedy.before in (None, "None", "False") or now is None else (flag, str(remedy.before))
    if remedy.direction is Direction.REMOVE:
        return ((flag,) if now is True or now is None else (flag, str(now))), ()
    if name == "enable_dp_attention":
        tp = int(case.launch.number_of("tp_size") or 1)
        return ((), (flag, "--dp-size", str(tp))) if tp > 1 else None
    if to is None:
        return ((), (flag,)) if remedy.direction is Direction.SET and name.startswith(("enable_", "disable_")) else None
    return old, (flag, to)


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


__all__ = ["change_of", "completed", "lines_missing"]
