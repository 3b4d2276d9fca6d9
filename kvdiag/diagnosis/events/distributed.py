"""Distributed start: the CUDA context, communicators, and who runs where."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, NUMBER, Event, Every, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/model_runner.py: init_torch_distributed()"


@read_from(
    r"Init torch distributed begin\.|Init nccl begin\.",
    samples={"0.2.15..0.3.0": "Init nccl begin.", "0.3.6..0.5.19": "Init torch distributed begin."},
    source=_SOURCE,
)
class DistributedBegin(Event):
    """A rank joins the process group. A draft worker prints it again."""


@read_from(
    r"Init torch distributed ends\.|Memory baseline taken\.",
    fields={"used": rf"mem usage={GIB}", "elapsed_s": rf"elapsed={DECIMAL}"},
    samples={
        "0.4.3..0.5.8": "Init torch distributed ends. mem usage=1.62 GB",
        "0.5.9..0.5.19": "Init torch distributed ends. elapsed=2.31 s, mem usage=1.62 GB",
        "0.5.21..0.5.23": "Memory baseline taken. mem usage=1.62 GB",
    },
    source=_SOURCE,
)
class DistributedEnd(Event):
    """A rank is in the process group; `used` is what that took on its GPU."""

    used: Bytes | None
    elapsed_s: float | None


@read_from(
    r"sglang is using nccl==",
    fields={"version": r"nccl==([\d.]+)"},
    samples={"0.4.0..0.5.23": "sglang is using nccl==2.21.5"},
    source="sglang/srt/distributed/device_communicators/pynccl.py",
)
class NcclVersion(Event):
    """The NCCL in use; once for each communicator of a rank."""

    version: str | None


@read_from(
    r"RCCL warmup completed in",
    fields={"elapsed_s": rf"completed in {DECIMAL}"},
    samples={"0.5.10..0.5.15": "NCCL/RCCL warmup completed in 1.203s (tp_size=8, pp_size=1, ep_size=1)"},
    source=_SOURCE,
)
class NcclWarmup(Event):
    """The communicators ran once."""

    elapsed_s: float | None


@read_from(
    r"Setup Custom allreduce failed with",
    fields={"reason": r"failed with (.*?)(?:\. To silence|$)"},
    constants={"failed": True},
    samples={
        "0.4.5..0.5.23": "Setup Custom allreduce failed with invalid argument. To silence this warning, specify"
        " --disable-custom-all-reduce explicitly."
    },
    source="sglang/srt/distributed/device_communicators/custom_all_reduce.py",
)
@read_from(
    r"(?:Custom allreduce|All[Rr]educe\w*) is disabled (?:because|due to)",
    literals=(" is disabled because", " is disabled due to"),
    excludes=("CUDA graph",),
    fields={"reason": r"is disabled (?:because|due to) (.*)"},
    constants={"failed": False},
    samples={
        "0.4.0..0.5.9": (
            "Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.",
            "Custom allreduce is disabled due to an unsupported world size: 3. Supported world sizes: [2, 4, 6, 8].",
        ),
        "0.5.10..0.5.23": (
            "CustomAllreduce is disabled because this process group spans across nodes.",
            "CustomAllReduceV2 is disabled because it's not supported on more than two PCIe-only GPUs.",
        ),
    },
    source="sglang/srt/distributed/device_communicators/custom_all_reduce.py",
)
class CustomAllReduceOff(Event):
    """All-reduce goes without SGLang's own kernel: handled, and no fault of the start."""

    reason: str | None
    failed: bool


@read_from(
    r"Launch DP\d+ starting at GPU",
    fields={"dp": r"Launch DP(\d+)", "gpu": rf"GPU #{NUMBER}"},
    samples={"0.3.6..0.5.23": "Launch DP1 starting at GPU #4."},
    source="sglang/srt/managers/data_parallel_controller.py",
)
class DataParallelStart(Event):
    """The first GPU of a data-parallel worker: the only line that names a physical GPU at start."""

    dp: int | None
    gpu: int | None


@read_from(
    r"Duplicate GPU detected",
    fields={
        "one": r"detected ?: rank (\d+)",
        "other": r"and rank (\d+) both",
        "device": r"CUDA device (\w+)",
    },
    samples=(
        "host-a:1:2 [1] init.cc:871 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 6000",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage (run with NCCL_DEBUG=WARN"
        " for details), NCCL version 2.27.3 ncclInvalidUsage: This usually reflects invalid usage of NCCL library. Last"
        " error: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 6000",
    ),
    source="NCCL: init.cc",
)
class DuplicateDevice(Event):
    """Two ranks of a communicator are on one GPU; `device` is its bus id."""

    one: int | None
    other: int | None
    device: str | None


@read_from(
    r"\bgpu_id(?: is|:) ?\d+",
    excludes=("server_args=", "ServerArgs("),
    literals=("gpu_id is ", "gpu_id: "),
    fields={
        "gpu": r"(?:^|[^_\w])gpu_id(?: is|:) ?(\d+)",
        "name": r"((?:(?:DP|PP|TP|EP)\d+ ?)+): gpu_id",
        "base": r"[ ,]base_gpu_id: ?(\d+)",
        "stage": r"pp_rank: ?(\d+)",
        "member": r"tp_rank: ?(\d+)",
    },
    samples=(
        "DP1PP0TP0: gpu_id is 1",
        "gpu_id: 1, base_gpu_id: 0, pp_rank: 1, pp_size_per_node: 2, tp_rank: 0, tp_size_per_node: 1",
    ),
    source="sglang/srt/managers/scheduler.py, with its placement printed",
)
class RankPlaced(Event):
    """The GPU a rank is put on."""

    gpu: int | None
    name: str | None
    base: int | None
    stage: int | None
    member: int | None

    @property
    def who(self) -> str | None:
        """What tells this rank from the others; None where the line does not say."""
        if self.name is not None:
            return self.name
        if self.base is None or self.stage is None:
            return None
        return f"the rank at GPU {self.base} + stage {self.stage}, member {self.member or 0}"


@read_from(
    r"Created global TCPStore at",
    fields={"member": r"\(rank=(\d+)", "world_size": rf"world_size={NUMBER}", "is_master": r"is_master=(\w+)"},
    samples={
        "0.5.10..0.5.15": "Created global TCPStore at addr-1:20000 (rank=0, world_size=16)",
        "0.5.17..0.5.23": "Created global TCPStore at addr-1:20000 (rank=0, is_master=True)",
    },
    source="sglang/srt/distributed/parallel_state.py",
)
class StoreCreated(Event):
    """The store over which the ranks meet. `member` is the node's or process's number in it."""

    member: int | None
    world_size: int | None
    is_master: bool | None


@read_from(
    r"Setting disable_cuda_graph_padding to True because of multi-node",
    samples={"0.2.15..0.3.6": "Setting disable_cuda_graph_padding to True because of multi-node tensor parallelism."},
    source="sglang/srt/server_args.py",
)
class MultiNodePadding(Event):
    """Several nodes: graphs are captured without padding."""


@read_from(
    r"Launching \d+ weight cache daemon",
    literals=("weight cache daemon(s) on node",),
    fields={"daemons": r"Launching (\d+) weight", "node": r"on node (\d+)"},
    samples={"0.5.17..0.5.23": "Launching 8 weight cache daemon(s) on node 0 with base GPU 0"},
    source="sglang/srt/weight_cache",
)
@read_from(
    r"Weight cache daemon for pp_rank=",
    fields={"pp": r"pp_rank=(\d+)", "tp": r"tp_rank=(\d+)"},
    samples={"0.5.17..0.5.23": "Weight cache daemon for pp_rank=0 tp_rank=3 is ready"},
    source="sglang/srt/weight_cache",
)
class WeightCacheDaemon(Event):
    """Weights live in a process of their own, so that a rank's "mem usage" for them may be next to nothing."""

    daemons: int | None
    node: int | None
    pp: int | None
    tp: int | None


@read_from(
    r"The memory capacity is unbalanced",
    fields={
        "smallest": r"(?:min_per_gpu_memory|pre_model_load_memory)=([\d.]+)",
        "local": r"[ ,]local_gpu_memory=([\d.]+)",
    },
    samples={
        "0.2.15..0.4.3": "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
        "0.4.5..0.5.6": "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
        " min_per_gpu_memory=22.1, local_gpu_memory=31.0, local_gpu_memory * 0.9=27.9",
        "0.5.7..0.5.9": "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
        " min_per_gpu_memory=22.1, local_gpu_memory=31.0, local_gpu_memory * 0.9=27.9",
        "0.5.10..0.5.23": "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other"
        " processes. pre_model_load_memory=22.1, local_gpu_memory=31.0, local_gpu_memory * 0.9=27.9",
    },
    source=_SOURCE,
)
class UnbalancedMemory(Event):
    """The rank with least free memory has under 0.9 of this rank's. GiB. The rank that says it is the free one."""

    smallest: float | None
    local: float | None


@read_from(
    r"Falling back to torch\.cuda\.mem_get_info\(\)",
    fields={"total": Every(r"(?<=[\[ ])(\d{3,8})(?=[,\]])"), "smallest": r"using min: (\d+) MiB"},
    samples={
        "0.5.10..0.5.23": "nvidia-smi gave no memory. Falling back to torch.cuda.mem_get_info(). Reported total GPU"
        " memory per device (MiB): [24576, 24564], using min: 24564 MiB."
    },
    source="sglang/srt/utils/common.py: get_nvgpu_memory_capacity()",
)
class CapacityFallback(Event):
    """Total memory of each GPU in MiB, read from torch where nvidia-smi gave none."""

    total: tuple[int, ...] | None
    smallest: int | None


@read_from(
    r"No GPU memory values found\.",
    constants={"what": "values"},
    samples={"0.3.6..0.5.23": "ValueError: No GPU memory values found."},
    source="sglang/srt/utils/common.py: get_nvgpu_memory_capacity()",
)
@read_from(
    r"\[Insufficient Permissions\]",
    constants={"what": "permissions"},
    samples=(
        "[Insufficient Permissions]",
        "ValueError: could not convert string to float: '[Insufficient Permissions]'",
    ),
    source="nvidia-smi, on a MIG slice",
)
@read_from(
    r"could not convert string to float: '\[N/A\]'|^\[N/A\]$|invalid literal for int\(\) with base 10: '\[N/A\]'",
    literals=("[N/A]",),
    constants={"what": "not available"},
    samples=("[N/A]", "ValueError: could not convert string to float: '[N/A]'"),
    source="nvidia-smi, where the device has no memory of its own",
)
class CapacityUnreadable(Event):
    """The card's capacity could not be asked for. Not an overflow."""

    what: str


@read_from(
    r"Memory profiling: available_gpu_memory=",
    fields={
        "available": rf"available_gpu_memory={GIB}",
        "total": rf"total_gpu_memory={GIB}",
        "fraction": rf"mem_fraction_static={DECIMAL}",
        "rest": rf"rest_memory={GIB}",
    },
    samples=(
        "Memory profiling: available_gpu_memory=17.94 GB, total_gpu_memory=138.17 GB, mem_fraction_static=0.90,"
        " rest_memory=4.13 GB",
    ),
    source="builds between releases: profile_max_num_token()",
)
class MemoryProfile(Event):
    """The pool's budget as a build prints it: `total` is what was free before loading."""

    available: Bytes | None
    total: Bytes | None
    fraction: float | None
    rest: Bytes | None
