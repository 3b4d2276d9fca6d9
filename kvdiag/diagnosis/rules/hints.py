"""Advice that SGLang, PyTorch or a library prints beside an error, where this launch's figures speak against it.

Each hint is named with the words it is printed in, so that a reader finds it in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvdiag.diagnosis.events.distributed import UnbalancedMemory
from kvdiag.diagnosis.events.failure import CaptureFailed, ExitCode
from kvdiag.diagnosis.events.kv_pool import MaxTotalTokensTooLarge, PoolBelowContext
from kvdiag.diagnosis.events.libraries import AllocatorAssertion, CommunicationBufferShort, DisguisedError
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.requests import PreallocationFull, RequestTooLong, StateSlotsExhausted
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Cleared
from kvdiag.diagnosis.units import format_gib, format_tokens


def contradicted(case: Case, named: set[str]) -> Iterator[Cleared]:
    """The printed hints that do not hold; `named` are the rules that found something."""
    for hint in _HINTS:
        yield from hint(case, named)


def _raise_the_fraction(case: Case, named: set[str]) -> Iterator[Cleared]:
    refused = judgements.refusals(case)
    if not refused:
        return
    claim = '"try to increase --mem-fraction-static" does not help here'
    minimum = judgements.minimum_fraction(case)
    if "no-feasible-fraction" in named:
        yield Cleared(
            claim, "A little higher the launch overflows: something else has to become smaller.", _of(refused)
        )
    elif "other-process-takes-memory-during-startup" in named:
        because = "The printed figures leave room for a pool: something took memory in between."
        yield Cleared('"try to increase --mem-fraction-static" misses the cause', because, _of(refused))
    elif minimum is not None and minimum > case.thresholds.fraction_hopeless:
        least = judgements.least_that_starts(case)
        because = f"The least that starts is {least:.3f}, which leaves nothing to run in: the weights are too large."
        yield Cleared(claim, because, _of(refused))


def _fewer_requests_for_states(case: Case, named: set[str]) -> Iterator[Cleared]:
    below = judgements.below_zero(case)
    if below and "weights-exceed-static-budget" in named:
        because = (
            f"The weights leave {format_gib(below[0].available or 0)} of the budget, less than nothing: no number of"
            " requests or draft tokens makes that positive."
        )
        yield Cleared('"(1) reduce --max-running-requests" does not help here', because, _of(below))


def _capture(case: Case, named: set[str]) -> Iterator[Cleared]:
    failed = [e for e in case.launch.each(CaptureFailed) if _lists_solutions(e)]
    if not failed:
        return
    if "capture-error-not-memory" in named:
        free = judgements.free_at(case, failed[0].line)
        left = "" if free is None else f"; {format_gib(free)} were free"
        yield Cleared(
            'The "Possible solutions" under the failed capture do not apply: neither --mem-fraction-static nor'
            " --cuda-graph-max-bs",
            f"They are printed whatever the reason is, and this one is no shortage of memory{left}.",
            _of(failed),
        )
    elif "prefill-graph-oom" in named:
        yield Cleared(
            '"set --cuda-graph-max-bs to a smaller value" does not help here',
            "It bounds decode graphs; these are graphs of prefill sizes.",
            _of(failed),
        )


def _lists_solutions(failed: CaptureFailed) -> bool:
    """Whether SGLang lists its solutions under a failure; where their lines are missing, by its wording."""
    if "Piecewise CUDA Graph failed" not in failed.line.text:
        return True
    return any(text.lstrip().startswith("Possible s") for text in failed.line.following(14))


def _fragments(case: Case, named: set[str]) -> Iterator[Cleared]:
    for oom in judgements.overflows(case):
        hint = next((x for x in ("expandable_segments", "max_split_size_mb") if x in oom.line.text), None)
        held = judgements.held_unused(oom)
        if hint is None or held is None or not oom.tried or held >= oom.tried:
            continue
        if "allocator-fragmentation" in named:
            return
        yield Cleared(
            f"PyTorch's hint at {hint} does not apply",
            f"{format_gib(held)} lie reserved and unused, and {format_gib(oom.tried)} were asked for: in one piece they"
            " would not have been enough either. The hint stands in every such message.",
            (oom.line,),
        )
        return


def _slow_rank(case: Case, named: set[str]) -> Iterator[Cleared]:
    if "slow-rank-in-load" in named:
        yield Cleared(
            '"unexpected failures (e.g., OOM)" names an overflow that nobody reports',
            "The waiting rank guesses; no rank of this log overflowed.",
            _of(judgements.slow_load(case)),
        )


def _killer(case: Case, named: set[str]) -> Iterator[Cleared]:
    codes = [e for e in case.launch.each(ExitCode) if "OOM killer" in e.line.text and e.code not in (None, -9, 9, 137)]
    if codes and "host-oom-kill" not in named:
        yield Cleared(
            '"a common cause is the OS OOM killer" does not apply',
            f"The hint stands beside every exit code; this one is {codes[0].code}, and only -9 is a kill.",
            _of(codes),
        )


def _cap_below_zero(case: Case, named: set[str]) -> Iterator[Cleared]:
    if "negative-token-budget" in named:
        lines = [e for e in case.launch.each(MaxTotalTokensTooLarge) if (e.profiled or 0) < 0]
        if lines:
            yield Cleared(
                "--max-total-tokens, which the line names, is not the cause",
                "The profiled value itself is below zero: any cap is larger than that.",
                _of(lines),
            )


def _state_ratio(case: Case, named: set[str]) -> Iterator[Cleared]:
    pinned = case.launch.number_of("max_mamba_cache_size")
    if "mamba-slots-exhausted" in named and pinned is not None:
        yield Cleared(
            '"try to increase --mamba-full-memory-ratio" has no effect here',
            f"--max-mamba-cache-size {pinned:g} pins the number of slots, and the ratio is not looked at.",
            _of(case.launch.each(StateSlotsExhausted)),
        )


def _truncate(case: Case, named: set[str]) -> Iterator[Cleared]:
    refused = [e for e in case.launch.each(RequestTooLong) if "auto-truncate" in e.line.text]
    if refused and named & {"request-longer-than-pool", "swa-pool-caps-request-length"}:
        yield Cleared(
            '"Use a shorter input or enable --allow-auto-truncate" hides the cause',
            "The pool is smaller than the context: a cut prompt is answered, and what was cut is lost.",
            _of(refused),
        )


def _occupied(case: Case, named: set[str]) -> Iterator[Cleared]:
    if "unbalanced-check-false-alarm" in named:
        yield Cleared(
            '"Some GPUs may be occupied by other processes" is not shown',
            "The server's own pools and graphs, or a trainer's, make the difference that the check trips on.",
            _of(case.launch.each(UnbalancedMemory)),
        )


def _heap(case: Case, named: set[str]) -> Iterator[Cleared]:
    said = [e for e in case.launch.each(CommunicationBufferShort) if "NVSHMEM_SYMMETRIC_SIZE" in e.line.text]
    if said and "comm-buffer-exceeds-free" in named:
        yield Cleared(
            "A larger NVSHMEM_SYMMETRIC_SIZE does not help",
            "The heap comes out of the same free memory, and would need even more of it.",
            _of(said),
        )


def _report_a_bug(case: Case, named: set[str]) -> Iterator[Cleared]:
    if "assert-hides-oom" in named:
        yield Cleared(
            '"please report a bug to PyTorch" is no bug of the framework here',
            "The assertion stands in the code that reports an overflow.",
            _of(case.launch.each(AllocatorAssertion)),
        )
    if "memory-error-in-disguise" in named:
        yield Cleared(
            "The library's words are not the fault",
            "With so little free a workspace cannot be allocated, and the library has no other word for it.",
            _of(case.launch.each(DisguisedError)),
        )
    full = [e for e in case.launch.each(PreallocationFull) if "ug in memory estimation" in e.line.text]
    if full and "pd-prealloc-fills-pool" in named:
        yield Cleared(
            '"There is a bug in memory estimation" overstates it',
            "The decode server promised room for arriving requests that those at work then grew into.",
            _of(full),
        )


def _longer_context(case: Case, named: set[str]) -> Iterator[Cleared]:
    said = case.launch.each(PoolBelowContext)
    if not said or judgements.may_raise_fraction(case):
        return
    cap, free = judgements.cap(case), case.free_at_end
    because = None
    if cap is not None:
        because = f"--max-total-tokens {format_tokens(cap)} sets the pool, whatever the fraction."
    elif free is not None and judgements.is_thin(case):
        because = f"Only {format_gib(free.available)} are free at the end: a larger pool would take them."
    if because is not None:
        yield Cleared('"raise --mem-fraction-static" does not help here', because, _of(said))


def _of(events: Sequence[Event]) -> tuple[LogLine, ...]:
    return tuple(event.line for event in events[:2])


_HINTS: tuple[Callable[[Case, set[str]], Iterator[Cleared]], ...] = (
    _raise_the_fraction,
    _fewer_requests_for_states,
    _capture,
    _fragments,
    _slow_rank,
    _killer,
    _cap_below_zero,
    _state_ratio,
    _truncate,
    _occupied,
    _heap,
    _report_a_bug,
    _longer_context,
)
