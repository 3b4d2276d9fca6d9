"""The host ran out of memory and killed a process.

What it sees
    Exit code -9 or 137, "Killed" or "OOMKilled", with no other reason in the log.
Why it matters
    There is no Python error to read: the kernel, or the container's limit, ended the process. No GPU is short.
What to do
    A larger container, fewer loader threads, a smaller host cache. Advice on CUDA memory does not apply.
Sources
    Linux, the OOM killer; SGLang, engine.py: the note on exit code -9, which is printed for every exit code.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import ExitCode, Killed, SchedulerDead
from kvdiag.diagnosis.events.host_memory import HostPool
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.rules._pricing import CONTAINER_MEMORY, host_tier_knobs
from kvdiag.diagnosis.rules.judgements import flag_is_given, killed_from_outside
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    signs = killed_from_outside(case)
    if not signs:
        return
    sure = any(isinstance(e, Killed) and "oom" in e.line.shown.lower() for e in signs)
    tier = flag_is_given(case, "enable_hierarchical_cache", "hicache_size") or case.launch.has(HostPool)
    in_start = case.outcome.stage is not None or any(_in_start(e) for e in (*signs, *case.launch.each(SchedulerDead)))
    when = " after it was ready" if case.is_ready else " while it was starting" if in_start else ""
    code = next((e.code for e in signs if isinstance(e, ExitCode)), None)
    yield Finding(
        summary=f"A process was killed from outside{when}"
        + (f" (exit code {code})" if code is not None else "")
        + ": the host or the container ran out of memory",
        why="Signal 9 leaves no Python error. Flags about GPU memory do not change what the host has.",
        ranks=tuple(dict.fromkeys(e.rank for e in signs if e.rank)),
        evidence=cite(*signs[:3], figure="exit_code", value=code),
        remedies=(
            CONTAINER_MEMORY,
            *(host_tier_knobs(case) if tier else ()),
        ),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
    )


def _in_start(sign: Event) -> bool:
    """Whether the parent says that it still waited for the process: it looks for dead ones only then."""
    return isinstance(sign, SchedulerDead) or "during initialization" in sign.line.text
