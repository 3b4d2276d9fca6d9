"""What the host and the platform say: shared memory, huge pages, slices, virtual machines, other programs."""

from __future__ import annotations

import re

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from
from kvdiag.diagnosis.lines import LogLine

_READS_WEIGHTS = re.compile(r"in load_weights\b|in weight_loader\b|model_loader/|safetensors/")


@read_from(
    r"nr_hugepages|HugePages_Total: +[1-9]",
    literals=("nr_hugepages", "HugePages_Total:"),
    fields={"pages": rf"(?:nr_hugepages {{0,9}}=? {{0,9}}|HugePages_Total: {{1,40}}){NUMBER}"},
    samples=("vm.nr_hugepages = 204800", "HugePages_Total:   204800"),
    source="Linux",
)
class HugePages(Event):
    """Huge pages are reserved on the host: they are not part of "available" memory."""

    pages: int | None


@read_from(
    r"microsoft-standard-WSL|\bWSL2?\b",
    literals=("WSL",),
    samples=("Linux host-a 5.15.153.1-microsoft-standard-WSL2 #1 SMP x86_64",),
    source="Linux under Windows",
)
class WindowsSubsystem(Event):
    """The log comes from a Linux under Windows: the driver holds memory that no query shows."""


@read_from(
    r"NVIDIA GB10\b|NVIDIA Thor|\bJetson\b|\bOrin\b|DGX Spark|\d-tegra\b",
    literals=("NVIDIA GB10", "NVIDIA Thor", "Jetson", "Orin", "DGX Spark", "-tegra"),
    excludes=("http",),
    fields={"device": r"(GB10|Thor|Jetson|Orin|DGX Spark|tegra)"},
    samples=(
        "NVIDIA GB10, compute capability 12.1",
        "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.",
        "Linux host-a 5.15.148-tegra #1 SMP PREEMPT aarch64",
    ),
    source="torch, nvidia-smi",
)
class UnifiedMemoryDevice(Event):
    """A device whose GPU and CPU share one memory."""

    device: str | None


@read_from(
    r"/usr/lib/xorg/Xorg|gnome-shell|\bWDDM\b|/usr/bin/kwin|Xwayland",
    literals=("xorg/Xorg", "gnome-shell", "WDDM", "/usr/bin/kwin", "Xwayland"),
    fields={"program": r"(Xorg|gnome-shell|WDDM|kwin\w*|Xwayland)"},
    samples=("|    0   N/A  N/A      1842      G   /usr/lib/xorg/Xorg                           812MiB |",),
    source="nvidia-smi",
)
class DesktopOnGPU(Event):
    """A desktop's process holds memory of a GPU."""

    program: str | None


@read_from(
    r"\((?:Megatron\w*|FSDP\w*|\w*Train\w*Actor|\w*TrainRayActor|ActorModel\w*) pid=|megatron/core/|/megatron/"
    r"|verl/workers/(?:actor|fsdp)|torch/distributed/fsdp|deepspeed/runtime|/(?:slime|miles)/(?:backends|utils)/",
    literals=(
        "Megatron",
        "megatron",
        "FSDP",
        "Train",
        "ActorModel",
        "verl/workers/",
        "/fsdp",
        "deepspeed/runtime",
        "/slime/",
        "/miles/",
    ),
    fields={"who": r"\((\w+) pid="},
    samples=(
        "(MegatronTrainRayActor pid=4242) ready",
        '  File "/root/slime/slime/utils/ppo_utils.py", line 672, in calculate_log_probs_and_entropy',
    ),
    source="trainers that share the GPUs",
)
class TrainerLine(Event):
    """A trainer's process speaks in this log."""

    who: str | None


@read_from(
    r"Error while creating shared memory segment",
    fields={"segment": r"segment (\S+)", "size": r"\(size (\d+)"},
    samples=("Error while creating shared memory segment /dev/shm/nccl-lNPZ0f (size 7340384)",),
    source="NCCL: shmutils.cc",
)
@read_from(
    r"out of shared memory\. Please try to raise your shared memory limit"
    r"|It is possible that dataloader's workers are out of shared memory",
    literals=("raise your shared memory limit", "workers are out of shared memory"),
    samples=(
        "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that dataloader's"
        " workers are out of shared memory. Please try to raise your shared memory limit.",
    ),
    source="torch: multiprocessing",
)
@read_from(
    r"/dev/shm/\S{1,200}.{0,200}No space left on device",
    literals=("No space left on device",),
    excludes=("[Errno 28]",),
    fields={"segment": r"(/dev/shm/[\w.-]+)", "size": r" to (\d+) bytes"},
    samples=(
        "NCCL WARN Error: failed to extend /dev/shm/nccl-lNPZ0f to 33030532 bytes, error: No space left on device (28)",
    ),
    source="NCCL: shmutils.cc",
)
@read_from(
    r"\[Errno 28\] No space left on device: ['\"]?(?:/dev/shm/|[^/'\"])",
    literals=("[Errno 28] No space left on device",),
    samples=("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'",),
    fields={"segment": r"on device: '?([^']+)'?"},
    source="python",
)
@read_from(
    r"No space left on device['\")]{0,3}\s*$",
    literals=("No space left on device",),
    excludes=("/dev/shm/",),
    constants={"or_disk": True},
    samples=("OSError: [Errno 28] No space left on device", "RuntimeError: No space left on device"),
    source="python, C library",
)
@read_from(
    r"(?:[Ee]xit(?:ed with|s with)? ?[Cc]ode(?::|=| of)? *|exitcode(?:=|: )|terminated with )(?:-7|135)\b",
    literals=("xit code", "xitcode", "terminated with ", "Exit Code:"),
    constants={"by_signal": True},
    samples=("Scheduler or DataParallelController 4242 terminated with -7", "Exit code: -7"),
    source="entrypoints/engine.py: _wait_for_scheduler_ready(); a parent's words on SIGBUS",
)
@read_from(
    r"^Bus error|: Bus error",
    literals=("Bus error",),
    excludes=("dataloader", "DataLoader"),
    constants={"by_signal": True},
    samples=("Bus error (core dumped)", "Fatal Python error: Bus error"),
    source="shell, python's faulthandler",
)
class SharedMemoryFull(Event):
    """/dev/shm is full: the container's shared memory, not the GPU's.

    by_signal  a bus error, or an exit code that says so (-7, or 135 from a shell): a sign of it and no proof
    or_disk    the system's words alone, which a full disk has too
    """

    segment: str | None = None
    size: int | None = None
    by_signal: bool = False
    or_disk: bool = False

    @property
    def in_weight_file(self) -> bool:
        """Whether the stacks below a bus error read weights: a page of a mapped file could not be had."""
        return self.by_signal and any(_READS_WEIGHTS.search(text) for text in self.line.following(200))


@read_from(
    r"No space left on device: ['\"]?/(?!dev/shm/)|No space left on device \(os error 28\)",
    literals=("No space left on device",),
    fields={"path": r"on device: ['\"]?(/[^'\"]+)"},
    samples=(
        "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub/models--m/blobs/1.incomplete'",
        "RuntimeError: Data processing error: IO Error: No space left on device (os error 28)",
    ),
    source="python, huggingface_hub",
)
class DiskFull(Event):
    """A file could not be written: the disk is full, and no memory."""

    path: str | None = None


@read_from(
    r"total_mem_size=\d+MB",
    literals=("total_mem_size=",),
    fields={"size_mb": rf"total_mem_size={NUMBER}"},
    samples=(
        "[kvcached][INFO][2025-10-12 21:14:09][page_allocator.py:152] Init kvcached KV cache allocator: num_layers=24,"
        " mem_size_per_layer=179288MB, total_mem_size=8605824MB, page_size=2MB, tp_size=1",
    ),
    source="kvcached: page_allocator.py",
)
class VirtualSize(Event):
    """Address space, printed as if it were memory. MiB."""

    size_mb: int | None = None


@read_from(
    r"\[torch_memory_saver\.cpp\]|torch_memory_saver\b.*(?:CUresult|OOM|out of memory|failed)",
    literals=("torch_memory_saver",),
    excludes=("server_args=", "is not installed", "is not enabled", "import "),
    fields={
        "call": r"(malloc|resume|pause|cuMemCreate|cu_mem_create|cuMemMap)",
        "size": rf"size={NUMBER}",
        "free": rf"free_bytes={NUMBER}",
        "margin": rf"memory_margin_bytes={NUMBER}",
        "result": r"(?:error: |result=)(\d+)",
    },
    samples=(
        "[torch_memory_saver.cpp] TorchMemorySaver::malloc return OOM since memory_margin_bytes=1073741824"
        " (alloc)size=65867350016 free_bytes=28822863872",
        "[torch_memory_saver.cpp] CUresult error: 2 (out of memory) file=csrc/utils.h func=cu_mem_create line=126",
        "[torch_memory_saver.cpp] CUresult error result=2 file=csrc/utils.h func=cu_mem_create line=104",
    ),
    source="torch_memory_saver: csrc",
)
class MemorySaver(Event):
    """The library that hands GPU pages between a trainer and the engine could not map them. Bytes."""

    call: str | None
    size: int | None
    free: int | None
    margin: int | None = None
    result: int | None = None


OTHER_ENGINES = ("VllmWorker", "VLLM", "EngineCore")
_TRAINERS = re.compile(
    r"\((Megatron\w*|FSDP\w*|\w*Train\w*Actor|ActorModel\w*|\w*Trainer\w*|VllmWorker\w*|VLLM\w*|EngineCore\w*) pid="
)
_JOBS = re.compile(r"\((?:WorkerDict|\w*RolloutWorker\w*|SGLang\w+) pid=")


def is_of_a_job(line: LogLine) -> bool:
    """Whether a training job's launcher printed a line for its engine, whose GPU other workers of the job share."""
    return _JOBS.search(line.shown[:200]) is not None


def trainer_of(line: LogLine) -> str | None:
    """The trainer's or another engine's process that printed a line, by the name its launcher puts before it; None for
    any other."""
    found = _TRAINERS.search(line.shown[:200])
    return found[1] if found else None
