"""Devices whose GPU and processor share one memory: how a log shows one."""

from __future__ import annotations

from kvdiag.diagnosis.cards import is_unified, total_of_unified
from kvdiag.diagnosis.events.distributed import CapacityFallback
from kvdiag.diagnosis.events.hardware import DeviceNamed
from kvdiag.diagnosis.events.libraries import DeviceFull
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import UnifiedMemoryDevice
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.units import MIB


def unified_device(launch: Launch) -> Event | None:
    """The line that shows a device whose memory is the host's: its name, its driver, or its total; None without one.

    nvidia-smi gives no memory of such a device, so that SGLang falls back to the driver's total, which is then the
    host's: none of a discrete card's. An overflow prints the same total.
    """
    named: list[Event] = [*launch.each(UnifiedMemoryDevice)]
    named += [event for event in launch.each(DeviceNamed) if is_unified(event.name or "")]
    named += [event for event in launch.each(DeviceFull) if event.device == "NvMap"]  # the driver of Tegra alone
    named += [event for event in launch.each(CapacityFallback) if total_of_unified(event.smallest)]
    named += [e for e in launch.each(DeviceOutOfMemory) if e.capacity and total_of_unified(e.capacity // MIB)]
    return named[0] if named else None
