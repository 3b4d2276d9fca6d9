"""Device overflow: the allocator's message with its figures."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import SIZE, ByteCount, Event, Every, read_from
from kvdiag.diagnosis.units import GIB as GIBIBYTE
from kvdiag.diagnosis.units import Bytes

_CUDA = "torch: c10/cuda/CUDACachingAllocator.cpp"
_ABSURD = 64 * 1024 * GIBIBYTE  # WSL and others print 17179869184.00 GiB where the driver keeps no figure

_HINT = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"
    " fragmentation.  See documentation for Memory Management "
    " (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


@read_from(
    r"(?:CUDA|HIP|XPU|NPU|MUSA|MACA) out of memory\. +Tried to allocate|backend out of memory"
    r"|OutOfMemoryError: Tried to allocate",
    literals=(
        "out of memory. Tried to allocate",
        "out of memory.  Tried to allocate",
        "backend out of memory",
        "OutOfMemoryError: Tried to allocate",
    ),
    fields={
        "device": r"(CUDA|HIP|XPU|NPU|MUSA|MACA|MPS) (?:backend )?out of memory",
        "tried": rf"Tried to allocate {SIZE}",
        "gpu": r"[GN]PU (\d+)",
        "capacity": rf"(?:total capaci?ty of |; |max allowed: ){SIZE}(?= of which|,| total capacity|\.|\))",
        "free": rf"(?:of which |already allocated; (?:[\d.]{{1,24}} [KMG]iB current active; )?){SIZE}"
        r"(?= is free| free)",
        "in_use": rf"(?:this process has|Process \d+ has) {SIZE} memory in use",
        "own": rf"this process has {SIZE}",
        "processes": Every(r"Process \d{1,12} has (-?\d{1,24}(?:\.\d{1,24})?) ?(bytes|[KMGTPE]i?B) memory in use"),
        "pids": Every(r"Process (\d+) has [\d.]+ ?\w+ memory in use"),
        "allocated": rf"(?:Of the allocated memory |total capacity; |MPS allocated: ){SIZE}"
        r"(?= is allocated by PyTorch| already allocated|,)",
        "reserved_unallocated": rf"{SIZE}(?= is reserved by PyTorch but unallocated)",
        "reserved": rf"{SIZE}(?= reserved in total by PyTorch)",
        "private_pools": rf"with {SIZE} allocated in private pools",
        "allowed": r"([\d.]{1,24}) ?([KMG]i?B) allowed;",
    },
    samples=(
        "torch.OutOfMemoryError: Tried to allocate 10.62 GiB",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB (GPU 0; 14.76 GiB total"
        " capacity;"
        " 13.21 GiB already allocated; 151.75 MiB free; 13.45 GiB reserved in total by PyTorch) If reserved memory"
        " is >>"
        " allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory"
        " Management"
        " and PYTORCH_CUDA_ALLOC_CONF",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacty of"
        " 14.76"
        " GiB of which 151.75 MiB is free. Process 4242 has 14.60 GiB memory in use. Of the allocated memory 13.21"
        " GiB is"
        " allocated by PyTorch, and 240.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated"
        " memory is"
        " large try setting max_split_size_mb to avoid fragmentation.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity"
        " of 23.65"
        " GiB of which 215.00 MiB is free. Including non-PyTorch memory, this process has 23.40 GiB memory in use."
        " 20.00 GiB"
        " allowed; Of the allocated memory 22.80 GiB is allocated by PyTorch, and 112.00 MiB is reserved by PyTorch but"
        f" unallocated.{_HINT}",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of"
        " 23.65 GiB of"
        " which 215.00 MiB is free. Including non-PyTorch memory, this process has 23.40 GiB memory in use. Of the"
        " allocated"
        " memory 22.80 GiB is allocated by PyTorch, with 49.88 MiB allocated in private pools (e.g., CUDA Graphs),"
        " and 112.00"
        f" MiB is reserved by PyTorch but unallocated.{_HINT}",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 38.00 MiB. GPU 0 has a total capacity of"
        " 23.65 GiB of"
        " which 39.44 MiB is free. Process 20909 has 1.81 GiB memory in use. Process 21068 has 16.12 GiB memory in use."
        " Including non-PyTorch memory, this process has 1.90 GiB memory in use. Of the allocated memory 1.22 GiB is"
        " allocated by PyTorch, and 220.57 MiB is reserved by PyTorch but unallocated. If reserved but unallocated"
        " memory is"
        " large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 191.98"
        " GiB of"
        " which 1.00 GiB is free. Of the allocated memory 180.00 GiB is allocated by PyTorch, and 1.00 GiB is"
        " reserved by"
        " PyTorch but unallocated. If reserved but unallocated memory is large try setting"
        " PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.96 GiB total capacity; 57.11 GiB"
        " already"
        " allocated; 57.11 GiB current active; 1.19 GiB free; 58.48 GiB reserved in total by PyTorch) If reserved"
        " memory is"
        " >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        "torch.OutOfMemoryError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.96 GiB total capacity;"
        " 57.11 GiB"
        " already allocated; 57.11 GiB current active; 1.19 GiB free; 58.48 GiB reserved in total by PyTorch).If"
        " reserved"
        " memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        "XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 47.98 GiB of which 1.00 GiB is"
        " free. Of"
        " the allocated memory 40.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but"
        " unallocated. Please"
        " use `empty_cache` to release all unoccupied cached memory.",
        "XPU out of memory. Tried to allocate 2.00 GiB (GPU 0; 47.98 GiB total capacity; 40.00 GiB already"
        " allocated; 41.00"
        " GiB reserved in total by PyTorch)",
        "RuntimeError: MPS backend out of memory (MPS allocated: 20.10 GiB, other allocations: 1.20 GiB, max"
        " allowed: 22.00"
        " GiB). Tried to allocate 1.10 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable"
        " upper limit"
        " for memory allocations (may cause system failure).",
    ),
    source=_CUDA,
)
@read_from(
    r"memory allocation failed with OOM on device \d+ while trying to allocate \d+ bytes",
    fields={
        "gpu": r"OOM on device (\d+)",
        "tried": ByteCount(r"trying to allocate (\d+) bytes"),
        "free": ByteCount(r"free: (\d+)"),
        "capacity": ByteCount(r"total: (\d+)"),
    },
    samples=(
        "[rank1]:[W906 07:46:05.008634648 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 1"
        " while trying to allocate 4334813184 bytes (free: 3779919872, total: 287431131136).",
    ),
    source=_CUDA,
)
class DeviceOutOfMemory(Event):
    """The device's allocator could not serve a request. Sizes as PyTorch prints them (2-based units).

    in_use     of the first process that the line names; `held` is this one's
    own        of this process, where the line says so
    processes  of every other process the driver sees; in containers one of them may be this one; `pids` beside
    """

    device: str | None
    tried: Bytes | None
    gpu: int | None
    capacity: Bytes | None
    free: Bytes | None
    in_use: Bytes | None
    allocated: Bytes | None
    reserved_unallocated: Bytes | None
    reserved: Bytes | None
    private_pools: Bytes | None
    own: Bytes | None = None
    processes: tuple[Bytes, ...] | None = None
    pids: tuple[int, ...] | None = None
    allowed: Bytes | None = None

    @property
    def is_absurd(self) -> bool:
        """Whether the size asked for is a corrupted figure rather than a shortage."""
        return self.tried is not None and self.tried > _ABSURD

    @property
    def held(self) -> Bytes | None:
        """What this process holds: as the line says, else what the only process listed does."""
        alone = len(self.processes or ()) < 2
        return self.own if self.own is not None else self.in_use if alone else None

    @property
    def process_sizes(self) -> tuple[Bytes, ...]:
        """What each listed process holds, this one included where it is named, without impossible figures."""
        listed = (*(self.processes or ()), *((self.own,) if self.own is not None else ()))
        return tuple(size for size in listed if size < _ABSURD)
