"""The card at the moment an allocation failed: the allocator's message, made to account for all of it.

A log that is only a trace has no reading of free memory, yet PyTorch says what the card held when it gave up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.ledger.model import Basis
from kvdiag.diagnosis.units import GIB, Bytes

# The message has two decimals of each figure: parts smaller than half of the last digit are none, and a rest that is
# below zero by no more than the rounding of four of them is zero.
_NONE = Bytes(round(0.005 * GIB))
_ROUNDING = Bytes(round(0.021 * GIB))


class Part(StrEnum):
    """What a stretch of the card is for; the values are the document's.

    pytorch               allocated and in use: weights, pools, activations
    private_pools         allocated within CUDA graphs' pools
    reserved_unallocated  kept by PyTorch's allocator, in no use
    own                   of this process, outside PyTorch's allocator: context, communicators, libraries
    others                of other processes
    outside               outside PyTorch's allocator, where the message does not tell whose
    free                  what the driver could still give
    """

    PYTORCH = "pytorch"
    PRIVATE_POOLS = "private_pools"
    RESERVED_UNALLOCATED = "reserved_unallocated"
    OWN = "own"
    OTHERS = "others"
    OUTSIDE = "outside"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Share:
    """One part of the card: its size in bytes, and whether the message prints it or it is the rest."""

    part: Part
    size: Bytes
    basis: Basis


def card_at_overflow(oom: DeviceOutOfMemory) -> tuple[Share, ...]:
    """The parts of the card, which add up to its printed capacity; () where the message does not account for it.

    Source: torch, c10/cuda/CUDACachingAllocator.cpp: the message's figures are the driver's free and total memory and
    the allocator's own counts, all of one moment.
    """
    card, free, live = oom.capacity, oom.free, oom.allocated
    if card is None or free is None or live is None or not 0 <= free <= card:
        return ()
    graphs = oom.private_pools or Bytes(0)
    idle, idle_basis = oom.reserved_unallocated, Basis.PRINTED
    if idle is None and oom.reserved is not None:
        idle, idle_basis = oom.reserved - live, Basis.DERIVED
    idle = idle or Bytes(0)
    outside = card - free - live - idle
    if min(live, graphs, idle) < 0 or graphs > live or outside < -_ROUNDING:
        return ()
    shares = [
        Share(Part.PYTORCH, live - graphs, Basis.DERIVED if graphs else Basis.PRINTED),
        Share(Part.PRIVATE_POOLS, graphs, Basis.PRINTED),
        Share(Part.RESERVED_UNALLOCATED, idle, idle_basis),
        *(Share(part, size, Basis.DERIVED) for part, size in _outside(oom, live + idle, outside)),
    ]
    kept = [share for share in shares if share.size >= _NONE]
    return (*kept, Share(Part.FREE, free, Basis.PRINTED))


def _outside(oom: DeviceOutOfMemory, torch: Bytes, outside: Bytes) -> list[tuple[Part, Bytes]]:
    """What lies outside PyTorch's allocator, by whose it is where the message names this process."""
    own = oom.own - torch if oom.own is not None else None
    if own is None or not 0 <= own <= outside + _ROUNDING:
        return [(Part.OUTSIDE, outside)]
    return [(Part.OWN, own), (Part.OTHERS, outside - own)]
