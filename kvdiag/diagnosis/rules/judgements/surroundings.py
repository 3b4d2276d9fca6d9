"""The host and the platform: kills, other programs, devices that are not plain cards, other errors."""

from __future__ import annotations

import re

from kvdiag.diagnosis.events.cuda_graph import GraphEnd
from kvdiag.diagnosis.events.distributed import DuplicateDevice, UnbalancedMemory
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    ExceptionRaised,
    ExitCode,
    KernelFault,
    Killed,
    NoRoomForPool,
    PoolRefused,
    ProcessFailed,
    Traceback,
)
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostOutOfMemory
from kvdiag.diagnosis.events.kv_pool import KVPoolReserved, PoolEnd
from kvdiag.diagnosis.events.libraries import (
    AllocatorAssertion,
    AttentionWorkspaceShort,
    CommunicationBufferShort,
    CompileFailed,
    DeviceFull,
    DispatchLimitExceeded,
    ExpertMethod,
    KernelResourceShort,
    PeerLost,
)
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import (
    DiskFull,
    MemorySaver,
    SharedMemoryFull,
    TrainerLine,
    VirtualSize,
)
from kvdiag.diagnosis.events.requests import (
    LastRequestDoesNotFit,
    PreallocationFull,
    RequestSlotsExhausted,
    SlotLeak,
    StateSlotsExhausted,
    TokenSlotsExhausted,
)
from kvdiag.diagnosis.events.server_args import ArgumentsRefused
from kvdiag.diagnosis.events.weights import LoadBarrier, Offload
from kvdiag.diagnosis.ledger.model import Basis, Pool
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.outcome import FailureKind, Stage
from kvdiag.diagnosis.rules.judgements.arguments import asks_for_offload, unified_device
from kvdiag.diagnosis.rules.judgements.captures import capture_errors
from kvdiag.diagnosis.rules.judgements.overflows import free_at, memory_ran_out, pinned_host_memory, site, sites, stage
from kvdiag.diagnosis.rules.judgements.places import is_before, last_before
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import Bytes


def killed_from_outside(case: Case) -> list[Event]:
    """The signs of a kill for want of host memory; [] where the log has another reason."""
    failure = case.outcome.failure
    if failure is None or failure.kind is not FailureKind.HOST_OOM or case.launch.has(SharedMemoryFull):
        return []
    lines = {line.place for line in failure.lines}
    signs: list[Event] = [e for e in case.launch.each(ExitCode, Killed) if e.line.place in lines]
    if not signs:
        return []
    return [*signs, *(e for e in case.launch.each(Killed) if e not in signs)][:4]


# Processes of frameworks that train and serve on the same cards, as their launcher names them before a line.
_TRAINED_BESIDE = re.compile(r"\((?:WorkerDict|SGLangEngine|SGLangHttpServer|\w*Rollout\w*|\w*RayActor) pid=")


def balance_check_is_false(case: Case) -> bool:
    """Whether the balance check tripped on the server's own memory: after the target's pool, while a draft's worker
    starts, or beside a trainer."""
    trip = case.launch.first(UnbalancedMemory)
    if trip is None:
        return False
    if "draft_start" in sites(case, trip) or _TRAINED_BESIDE.search(trip.line.shown[:200]):
        return True
    return last_before(case, trip.line, PoolEnd, GraphEnd) is not None or case.launch.has(TrainerLine)


def printed_card(case: Case) -> Bytes | None:
    """The card's size as a line prints it, not as free memory suggests."""
    found = _printed_card(case)
    return found[0] if found else None


def card_line(case: Case) -> LogLine | None:
    """The line that printed_card() is read from."""
    found = _printed_card(case)
    return found[1] if found else None


def _printed_card(case: Case) -> tuple[Bytes, LogLine | None] | None:
    ranks = [x for x in case.ledgers if x.capacity_basis is Basis.PRINTED]
    known = [(x.capacity, x.capacity_line) for x in ranks if x.capacity is not None]
    known += [(x.capacity, x.line) for x in case.launch.each(DeviceOutOfMemory) if x.capacity is not None]
    return min(known, key=lambda found: found[0]) if known else None


def held_by(case: Case) -> Bytes | None:
    """What was in use of the card before loading, this process's own start taken off."""
    card, opening = printed_card(case), case.opening
    if card is None or opening is None or unified_device(case) is not None:
        return None
    own = max((sum(e.size for e in x.earlier if e.pool is Pool.DISTRIBUTED) for x in case.ledgers), default=0)
    return Bytes(card - opening.available - max(0, own))


def held_before_start(case: Case) -> Bytes | None:
    """As held_by, where it is more than contexts and libraries explain."""
    held, card = held_by(case), printed_card(case)
    if held is None or card is None:
        return None
    return held if held > max(case.thresholds.context_most, 0.1 * card) else None


def virtual_sizes(case: Case) -> list[Event]:
    """Lines that print address space as a size: terabytes, or an upper bound by name."""
    known = [e for e in case.launch.each(VirtualSize) if e.size_mb is None or e.size_mb >= 1 << 20]
    return [*known, *case.launch.each(KVPoolReserved)]


_WRAPPERS = ("kt", "amx", "cpu", "llamafile")


def ordinary_path(case: Case) -> ExpertMethod | None:
    """The line that names the plain expert method, where offload was asked for and no worker of one speaks."""
    if not asks_for_offload(case) or case.launch.has(Offload):
        return None
    methods = [e for e in case.launch.each(ExpertMethod) if "moe" in (e.method or "").lower()]
    if not methods or any(word in (m.method or "").lower() for m in methods for word in _WRAPPERS):
        return None
    return methods[0]


def slow_load(case: Case) -> list[LoadBarrier]:
    """Waits for other ranks that ran out, where nothing in the log says that a rank died."""
    killed = any(e.code in (-9, 9, 137) for e in case.launch.each(ExitCode)) or case.launch.has(Killed)
    if memory_ran_out(case) is not None or killed:
        return []
    return case.launch.each(LoadBarrier)


_EXPLAINED = (
    NoRoomForPool,
    PoolRefused,
    HostMemoryShort,
    HostOutOfMemory,
    KernelResourceShort,
    SharedMemoryFull,
    DiskFull,
    DuplicateDevice,
    AttentionWorkspaceShort,
    DispatchLimitExceeded,
    LoadBarrier,
    AllocatorAssertion,
    UnbalancedMemory,
    StateSlotsExhausted,
    LastRequestDoesNotFit,
    PreallocationFull,
    SlotLeak,
    TokenSlotsExhausted,
    RequestSlotsExhausted,
    CommunicationBufferShort,
    MemorySaver,
)


def other_cause(case: Case) -> Event | None:
    """The error that ended a launch, where memory was there and nothing of the log speaks of a shortage."""
    launch = case.launch
    if case.outcome.outcome != "failed" or memory_ran_out(case) is not None or launch.has(*_EXPLAINED):
        return None
    if pinned_host_memory(case) is not None:
        return None
    if killed_from_outside(case) or capture_errors(case) or launch.has(CaptureFailed):
        return None
    if launch.has(PeerLost) and failed_first(case, launch.each(PeerLost)[0]) is None:
        return None
    named = launch.first(CompileFailed, KernelFault, ArgumentsRefused)
    raised = launch.first(ExceptionRaised)
    died = launch.first(ProcessFailed) or launch.first(Traceback)
    sign = named or raised or died
    if sign is None:
        return None
    free = free_at(case, sign.line)
    if free is not None and free < case.thresholds.memory_is_short:
        return None
    text = case.outcome.failure.message if case.outcome.failure is not None else ""
    told = f"{text} {sign.line.text}".lower()
    if "out of memory" in told or "outofmemory" in told:
        return None  # in words that nothing reads
    buffer = site(case, sign) == "dispatch_buffer"  # it may ask for more than a card has, and does not say for what
    if (free is None or buffer) and "invalid argument" in sign.line.text:
        return None  # libraries report a shortage in these words as well
    if named is not None or raised is not None:
        return sign
    fell = stage(case, sign)
    share = case.thresholds.room_share if _is_cut_after(case, sign) else 1.0
    enough = free is not None and free >= share * case.wanted_range[0]
    return (
        sign
        if enough and fell is not None and fell not in (Stage.WEIGHTS, Stage.ARGUMENTS, Stage.DISTRIBUTED)
        else None
    )


def _is_cut_after(case: Case, sign: Event) -> bool:
    """Whether the log breaks off within a traceback: its last line, which is missing, may name an overflow."""
    later = [e for e in case.launch.events if is_before(sign.line, e.line)]
    return all(isinstance(e, Frame | Traceback) for e in later)


def failed_first(case: Case, lost: PeerLost) -> Event | None:
    """What failed above a lost peer: another rank's error, or a shortage."""
    kinds = (
        DeviceOutOfMemory,
        DeviceFull,
        NoRoomForPool,
        KernelFault,
        KernelResourceShort,
        HostMemoryShort,
        CaptureFailed,
        ProcessFailed,
        Killed,
    )
    for event in case.launch.each(*kinds):
        if not is_before(event.line, lost.line):
            break
        if isinstance(event, CaptureFailed | ProcessFailed) and (event.rank == lost.rank or not event.rank):
            continue
        return event
    return None
