"""The words speak of memory, but of another kind than the device's.

What it sees
    Memory of the host, a kernel's on-chip memory, the container's /dev/shm, pages of the host that are to be pinned, or
    locked for a network card, a full disk, a mapped weight file that cannot be read, or a wait for a slow rank that
    names an overflow as a guess.
Why it matters
    Advice on GPU memory does not apply.
What to do
    What the finding that it belongs to says.
Sources
    The sources of that finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from kvdiag.diagnosis.events.host_memory import HostOutOfMemory
from kvdiag.diagnosis.events.libraries import KernelResourceShort
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import DiskFull, SharedMemoryFull
from kvdiag.diagnosis.rules._pricing import CONTAINER_MEMORY, host_tier_knobs
from kvdiag.diagnosis.rules.judgements import flag_is_given, memory_ran_out, pinned_host_memory, slow_load
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib

_LOCKED = Remedy("ulimit -l", Direction.RAISE, cost="It costs nothing; pinned pages count against it.")


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    if memory_ran_out(case) is not None:
        return
    pinned = pinned_host_memory(case)
    if pinned is not None:
        yield Finding(
            summary="Pages of the host could not be pinned; GPU memory is not short",
            why="The driver reports it in the words of the device; the frames above it pin host memory.",
            evidence=cite(pinned),
            remedies=(
                Remedy("container memory", Direction.RAISE, cost="It costs host memory."),
                _LOCKED,
            ),
            severity=Severity.CRITICAL,
            confidence=Confidence.LIKELY,
        )
        return
    failed = case.outcome.outcome == "failed"  # a compiler's end stands below the error that it led to
    signs_of_host = case.launch.each(HostOutOfMemory)
    host = next((e for e in signs_of_host if (failed and e.what == "compiler") or _ended_it(case, e)), None)
    if host is not None:
        yield _of_the_host(case, host)
        return
    disk = case.launch.first(DiskFull)
    if disk is not None and _ended_it(case, disk):
        where = "" if disk.path is None else f" that holds {shorten(disk.path, 120, placeholder=' …')}"
        yield Finding(
            summary=f"The disk{where} is full; no memory is short",
            why="Flags about memory do not change what a disk has left.",
            evidence=cite(disk),
            severity=Severity.CRITICAL,
        )
        return
    mapped = next((e for e in case.launch.each(SharedMemoryFull) if e.in_weight_file), None)
    if mapped is not None:
        yield Finding(
            summary="A page of a mapped weight file could not be read; no memory is short",
            why="The stacks below the bus error read weights: a file cut short, or a file system that did not answer.",
            evidence=cite(mapped),
            remedies=(
                Remedy(
                    "--weight-loader-disable-mmap", Direction.SET, cost="It costs host memory while files are read."
                ),
            ),
            severity=Severity.CRITICAL,
            confidence=Confidence.LIKELY,
        )
        return
    signs: list[tuple[list[Event], str, str]] = [
        (list(case.launch.each(KernelResourceShort)), "kernel-shared-memory-limit", "a multiprocessor's own memory"),
        (list(case.launch.each(SharedMemoryFull)), "dev-shm-too-small", "the container's shared memory"),
        (list(slow_load(case)), "slow-rank-in-load", "a wait that ran out"),
    ]
    for found, cause, what in signs:
        if found:
            yield Finding(
                summary=f"It is {what}; GPU memory is not short",
                evidence=cite(*found[:1]),
                part_of=cause,
            )
            return


def _ended_it(case: Case, event: Event) -> bool:
    failure = case.outcome.failure
    return failure is not None and any(line.place == event.line.place for line in failure.lines)


def _of_the_host(case: Case, host: HostOutOfMemory) -> Finding:
    pinned, compiler, locked = (host.what == what for what in ("pinned memory", "compiler", "locked memory"))
    asked = "" if host.wanted is None else f": {format_gib(host.wanted)} were asked for at once"
    tier = host_tier_knobs(case) if flag_is_given(case, "enable_hierarchical_cache", "hicache_size") else ()
    fewer_jobs = Remedy("MAX_JOBS", Direction.LOWER, cost="It costs time: kernels are compiled one after another.")
    return Finding(
        summary=_what_failed(host) + f"{asked}; GPU memory is not short",
        why="Flags about GPU memory do not change what the host has.",
        evidence=cite(host, figure="wanted", value=host.wanted),
        remedies=(
            *((CONTAINER_MEMORY,) if not locked else ()),
            *((_LOCKED,) if pinned or locked else ()),
            *((fewer_jobs,) if compiler else ()),
            *tier,
        ),
        severity=Severity.CRITICAL,
        confidence=Confidence.LIKELY if pinned or compiler or locked else Confidence.CERTAIN,
    )


def _what_failed(host: HostOutOfMemory) -> str:
    if host.what == "compiler":
        return "A compiler was killed while kernels were built: the host's memory ran out"
    if host.what == "locked memory":
        return "The network card could not register memory: no more pages may be locked"
    return "Pages of the host could not be pinned" if host.what == "pinned memory" else "The host's memory ran out"
