"""What ends a start or a server: overflow of a device, SGLang's own refusals, crashes, kills."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, SIZE, Event, read_from
from kvdiag.diagnosis.units import Bytes

_CUDA = "torch: c10/cuda/CUDACachingAllocator.cpp"


@read_from(
    r"(?:CUDA|HIP|XPU|NPU) out of memory\. Tried to allocate",
    literals=("out of memory. Tried to allocate",),
    fields={
        "device": r"(CUDA|HIP|XPU|NPU) out of memory",
        "tried": rf"Tried to allocate {SIZE}",
        "gpu": r"[GN]PU (\d+)",
        "capacity": rf"(?:total capaci?ty of |; ){SIZE}(?= of which|,| total capacity|\.)",
        "free": rf"(?:of which |already allocated; (?:[\d.]+ [KMG]iB current active; )?){SIZE}(?= is free| free)",
        "in_use": rf"(?:this process has|Process \d+ has) {SIZE} memory in use",
        "allocated": rf"(?:Of the allocated memory |total capacity; ){SIZE}(?= is allocated by PyTorch| already allocated)",
        "reserved_unallocated": rf"{SIZE}(?= is reserved by PyTorch but unallocated)",
        "reserved": rf"{SIZE}(?= reserved in total by PyTorch)",
        "private_pools": rf"with {SIZE} allocated in private pools",
    },
    samples=(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of"
        " 23.65 GiB of which 215.00 MiB is free. Including non-PyTorch memory, this process has 23.40 GiB memory in use."
        " Of the allocated memory 22.80 GiB is allocated by PyTorch, with 49.88 MiB allocated in private pools"
        " (e.g., CUDA Graphs), and 112.00 MiB is reserved by PyTorch but unallocated.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB (GPU 0; 14.76 GiB total capacity;"
        " 13.21 GiB already allocated; 151.75 MiB free; 13.45 GiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
        " 191.98 GiB of which 1.00 GiB is free.",
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.96 GiB total capacity; 57.11 GiB already"
        " allocated; 57.11 GiB current active; 1.19 GiB free; 58.48 GiB reserved in total by PyTorch)",
    ),
    source=_CUDA,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOutOfMemory(Event):
    """The device's allocator could not serve a request. Sizes as PyTorch prints them (2-based units)."""

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


@read_from(
    r"Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory for the KV cache"
    r"|Memory pool size is too small",
    literals=("Not enough memory. Please try", "Loaded weights leave no GPU memory", "Memory pool size is too small"),
    fields={
        "fraction": r"mem[-_]fraction[-_]static=([\d.]+\d)",
        "minimum": r"Raise --mem-fraction-static above ([\d.]+\d)",
    },
    samples=(
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value:"
        " self.server_args.mem_fraction_static=0.55",
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.55. Raise"
        " --mem-fraction-static above 0.769 (minimum viable = 1 - available/pre = 0.7691). If using speculative"
        " decoding, draft weights are now counted.",
        "AssertionError: Memory pool size is too small",
    ),
    source="sglang/srt/model_executor/model_runner.py: init_memory_pool()",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoomForPool(Event):
    """SGLang refuses to start: after the weights nothing is left of the static budget."""

    fraction: float | None
    minimum: float | None


@read_from(
    r"[Cc]apture (?:cuda graph|CUDA graph|CPU graph|prefill CUDA graph|frozen-KV MTP cuda graph|single-CG draft extend)"
    r" failed: |Piecewise CUDA Graph failed with error: ",
    literals=(" failed: ", "Piecewise CUDA Graph failed"),
    fields={"reason": r"failed(?: with error)?: ?(.*)"},
    samples=(
        "Exception: Capture cuda graph failed: CUDA error: out of memory",
        "Capture prefill CUDA graph failed: invalid argument",
        "Piecewise CUDA Graph failed with error: CUDA error: out of memory",
    ),
    source="sglang/srt/model_executor/cuda_graph_runner.py",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFailed(Event):
    """Capture raised; `reason` is what it raised, and need not be a shortage of memory."""

    reason: str | None


@read_from(
    r"Traceback \(most recent call last\)",
    literals=("Traceback (most recent call last)",),
    excludes=("hit an exception:",),
    samples=("Traceback (most recent call last):",),
    source="python",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback(Event):
    """A Python traceback begins."""


@read_from(
    r"hit an exception:",
    fields={"who": r"(\w+) hit an exception:"},
    samples=("Scheduler hit an exception: Traceback (most recent call last):",),
    source="sglang/srt/managers/scheduler.py: run_scheduler_process()",
    releases="0.4.0..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFailed(Event):
    """A process of the server ends by an exception."""

    who: str | None


@read_from(
    r"(?:[Ee]xit(?:ed with)? ?code(?::|=| of)? ?|exitcode=|exit code: )-?\d+",
    literals=("xit code", "exitcode="),
    fields={"code": r"(?:[Ee]xit(?:ed with)? ?code(?::|=| of)? ?|exitcode=|exit code: ?)(-?\d+)"},
    samples=(
        "Exit code: -9",
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a"
        " common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        "Child process unexpectedly failed with exitcode=131. pid=4242",
        "Child process unexpectedly failed with an exit code 9. pid=4242",
    ),
    source="sglang/srt/entrypoints/engine.py",
    releases="0.4.1..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode(Event):
    """A child's exit code as a parent reports it: -9 is SIGKILL; 131 and -3 are SIGQUIT after another rank failed."""

    code: int | None


@read_from(
    r"^(?:\S+: line \d+: +\d+ )?Killed\b(?! \w+ing)|OOMKilled|invoked oom-killer|[Oo]ut of memory: Killed process",
    literals=("Killed", "invoked oom-killer"),
    samples=(
        "Killed",
        "    Reason:       OOMKilled",
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB",
        "python3 invoked oom-killer: gfp_mask=0xcc0",
    ),
    source="shell, Kubernetes, Linux kernel",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(Event):
    """A kill from outside: the shell's word for SIGKILL, Kubernetes' reason, the kernel's OOM killer."""


@read_from(
    r"SIGQUIT received|Received sigquit from a child proc",
    literals=("SIGQUIT received", "Received sigquit"),
    samples=(
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "Received sigquit from a child process. It usually means the child failed.",
    ),
    source="sglang/srt/entrypoints/engine.py",
    releases="0.4.1..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Sigquit(Event):
    """The parent stops everything because a child failed: a consequence, never a cause."""


@read_from(
    r"Not enough host memory available\.",
    fields={"wanted": rf"Requesting {DECIMAL} GB", "free": rf"only have {DECIMAL} GB"},
    samples=(
        "ValueError: Not enough host memory available. Requesting 44.77 GB but only have 30.10 GB free. Please reduce"
        " the size of the hierarchical cache.",
    ),
    source="sglang/srt/mem_cache/memory_pool_host.py",
    releases="0.4.1..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemoryShort(Event):
    """The host tier does not fit in RAM. Figures in units of 10^9 bytes."""

    wanted: float | None
    free: float | None


@read_from(
    r"The memory capacity is unbalanced",
    fields={
        "smallest": r"(?:min_per_gpu_memory|pre_model_load_memory)=([\d.]+)",
        "local": r"[ ,]local_gpu_memory=([\d.]+)",
    },
    samples=(
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
        " min_per_gpu_memory=22.1, local_gpu_memory=31.0, local_gpu_memory * 0.9=27.9",
    ),
    source="sglang/srt/model_executor/model_runner.py: init_torch_distributed()",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnbalancedMemory(Event):
    """The rank with least free memory has under 0.9 of this rank's. GiB."""

    smallest: float | None
    local: float | None
