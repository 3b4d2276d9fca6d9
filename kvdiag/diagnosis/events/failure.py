"""What ends a start or a server: SGLang's own refusals, failed captures, crashes, kills, and what follows from them."""

from __future__ import annotations

from kvdiag.diagnosis.events.distributed import UnbalancedMemory
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostOutOfMemory
from kvdiag.diagnosis.events.libraries import DeviceFull
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, NUMBER, Event, read_from
from kvdiag.diagnosis.events.weights import LoadBarrier
from kvdiag.diagnosis.units import Bytes

_RUNNER = "sglang/srt/model_executor/model_runner.py: init_memory_pool()"
_BATCH = "sglang/srt/managers/schedule_batch.py, mem_cache/common.py"
_ENGINE = "sglang/srt/entrypoints/engine.py"
_NOT_SIGBUS = r"(?!(?:-7|135)\b)"  # events/platform.py reads those

# The pool does not fit


@read_from(
    r"Not enough memory\. Please try|Loaded weights leave no GPU memory|Memory pool size is too small",
    fields={
        "fraction": r"mem[-_]fraction[-_]static=([\d.]*\d)",
        "minimum": r"Raise --mem-fraction-static above ([\d.]*\d)",
    },
    samples={
        "0.2.15..0.5.2": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "0.5.3..0.5.9": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value:"
        " self.server_args.mem_fraction_static=0.55",
        "0.5.10..0.5.23": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current"
        " value:"
        " mem_fraction_static=0.55",
        "0.5.14..0.5.23": "ValueError: Loaded weights leave no GPU memory for the KV cache under"
        " --mem-fraction-static=0.55."
        " Raise --mem-fraction-static above 0.769 (minimum viable = 1 - available/pre = 0.7691). If using speculative"
        " decoding, draft weights are now counted.",
        "0.3.6..0.5.23": "AssertionError: Memory pool size is too small",
    },
    source=_RUNNER,
)
class NoRoomForPool(Event):
    """SGLang refuses to start: after the weights nothing is left of the static budget."""

    fraction: float | None
    minimum: float | None


@read_from(
    r"Not enough GPU memory for hybrid \(mamba/linear-attention\) state cache",
    fields={
        "slots": rf"max_mamba_cache_size={NUMBER}",
        "available": rf"total_rest_memory={GIB}",
        "each": r"mamba_cache_per_req=([\d.]+) (MB)",
    },
    constants={"what": "mamba state"},
    samples={
        "0.5.13..0.5.23": "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache."
        " Computed"
        " max_mamba_cache_size=0 (total_rest_memory=0.42 GB, mamba_cache_per_req=74.25 MB). Try: (1) reduce"
        " --max-running-requests, (2) increase --mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or"
        " (4) use"
        " GPUs with more memory."
    },
    source=_RUNNER,
)
@read_from(
    r"state cache is too small to serve any requests",
    fields={"slots": rf"max_mamba_cache_size={NUMBER}", "ratio": rf"mamba_ratio={DECIMAL}"},
    constants={"what": "mamba state"},
    samples={
        "0.5.13..0.5.23": "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any"
        " requests."
        " max_mamba_cache_size=2, mamba_ratio=5, resulting max_num_reqs=0. Try: raise --max-mamba-cache-size."
    },
    source=_RUNNER,
)
@read_from(
    r"int8 mamba checkpoint pool needs",
    fields={"size": rf"needs ~{GIB}", "available": rf"only {GIB}"},
    constants={"what": "mamba checkpoints"},
    samples={
        "0.5.14..0.5.23": "int8 mamba checkpoint pool needs ~2.50GB but only 1.10GB HBM is free. Lower"
        " --int8-mamba-ckpt-size (currently 4096) or --mem-fraction-static."
    },
    source=_RUNNER,
)
@read_from(
    r"SWA pool cap \(",
    fields={
        "tokens": r"pool cap \((\d+) tokens",
        "size": r"tokens, ([\d.]+) (Gi?B)\)",
        "available": r"available ([\d.]+) (Gi?B)",
    },
    constants={"what": "sliding window"},
    samples={
        "0.5.14..0.5.23": "SWA pool cap (65536 tokens, 9.10 GiB) leaves no room for the full KV pool within the"
        " available"
        " 8.20 GiB. Reduce --max-running-requests, lower SGLANG_SWA_EVICTION_INTERVAL, or increase"
        " --mem-fraction-static.",
        "0.5.21..0.5.23": "The DSV4 SWA pool cap (65536 tokens, 9.10 GB) leaves no room for the full KV pool within the"
        " available 8.20 GB. Reduce --max-running-requests, lower --swa-prefix-tails or"
        " SGLANG_SWA_EVICTION_INTERVAL, or"
        " increase --mem-fraction-static.",
    },
    source=_RUNNER,
)
@read_from(
    r"for memory-based allocation\. full_per_token=",
    fields={"ratio": rf"denominator={DECIMAL}"},
    constants={"what": "sliding window ratio"},
    samples={
        "0.5.9..0.5.10": "AssertionError: Invalid denominator=0 for memory-based allocation. full_per_token=0,"
        " swa_per_token=0"
    },
    source=_RUNNER,
)
@read_from(
    r"UnifiedKVPool: sub-pool '",
    fields={"slots": rf"fits only {NUMBER}"},
    constants={"what": "unified pool"},
    samples={
        "0.5.15..0.5.23": "RuntimeError: UnifiedKVPool: sub-pool 'mamba' fits only 1 slots in 1048576 bytes, but"
        " min_slot_index=1 leaves no room for real data. Increase total_bytes."
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
@read_from(
    r"with kpool compress requires max_running_requests",
    constants={"what": "argument missing"},
    samples={"0.5.21..0.5.23": "AssertionError: DSATokenToKVPool with kpool compress requires max_running_requests"},
    source="sglang/srt/mem_cache/memory_pool.py",
)
class PoolRefused(Event):
    """A pool of a family cannot be made; `what` names it. Sizes as printed."""

    what: str
    tokens: int | None
    slots: int | None
    size: Bytes | None
    available: Bytes | None
    each: Bytes | None
    ratio: float | None


# Capture


@read_from(
    r"[Cc]apture (?:cuda graph|CUDA graph|CPU graph|prefill CUDA graph|frozen-KV MTP cuda graph|single-CG draft extend"
    r"|\w+ graph) failed(?:: | *$)|Piecewise CUDA Graph failed with error: ",
    literals=(" graph failed", " extend failed:", "Piecewise CUDA Graph failed"),
    fields={"reason": r"failed(?: with error)?: ?(.*?) ?(?:Possible solutions:|$)"},
    samples={
        "0.2.15..0.4.5": "Exception: Capture cuda graph failed: invalid argument",
        "0.4.6..0.4.6": "Exception: Capture CUDA graph failed: invalid argument",
        "0.4.7..0.5.23": "Capture cuda graph failed: no kernel image is available",
        "0.5.2..0.5.23": "Exception: Capture CPU graph failed: invalid argument",
        "0.5.10..0.5.13": "Piecewise CUDA Graph failed with error: invalid argument",
        "0.5.14..0.5.23": "RuntimeError: Capture prefill CUDA graph failed: invalid argument",
        "0.5.12..0.5.23": "Exception: Capture frozen-KV MTP cuda graph failed: invalid argument",
        "0.5.17..0.5.23": "Exception: Capture single-CG draft extend failed: invalid argument",
    },
    source="sglang/srt/model_executor/cuda_graph_runner.py",
)
class CaptureFailed(Event):
    """Capture raised; `reason` is what it raised, and need not be a shortage of memory."""

    reason: str | None

    @property
    def is_prefill(self) -> bool:
        """Whether prefill sizes were being captured, where the message itself says so."""
        head = self.line.text.partition(" failed")[0].lower()
        return "prefill" in head or "piecewise" in head

    @property
    def in_batch(self) -> bool:
        """Whether its traceback comes from the loop that serves: graphs of prefill sizes fail there as well."""
        return any("in event_loop_" in text or "in run_event_loop" in text for text in self.line.following(24))

    @property
    def whole_reason(self) -> str:
        """The reason with the lines it goes on over, up to SGLang's printed advice."""
        told = [self.reason or ""]
        for text in self.line.following(12):
            if text.startswith(("Possible s", "1. ", "Traceback")):
                break
            told.append(text)
        return " ".join(part for part in told if part)


@read_from(
    r"Fail when using backend:",
    fields={"backend": r"backend: (\S+)"},
    samples={"0.5.15..0.5.23": "Fail when using backend: full for prefill runner."},
    source="sglang/srt/model_executor: prefill graph runner",
)
class CaptureBackendFailed(Event):
    """The backend of a failed prefill capture."""

    backend: str | None


# Kernels and libraries


@read_from(
    r"gluon prefill scratch of",
    fields={"size": r"\((\d+) (MiB)\)"},
    samples={
        "0.5.21..0.5.23": "RuntimeError: gluon prefill scratch of 812 pages (1624 MiB) does not fit; lower"
        " --mem-fraction-static"
    },
    source="sglang/srt/layers/attention: gluon",
)
class ScratchTooLarge(Event):
    """A prefill scratch does not fit beside the pools."""

    size: Bytes | None


@read_from(
    r"an illegal memory access was encountered|device-side assert triggered|misaligned address"
    r"|unspecified launch failure|hipErrorIllegalAddress|aicore exception|Memory access fault by GPU"
    r"|thread terminated with exception: CUDA error: |thread terminated with exception: HIP error: ",
    excludes=("error: out of memory",),
    fields={
        "what": r"(illegal memory access|device-side assert|misaligned address|launch failure|IllegalAddress|aicore)"
    },
    samples=(
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: misaligned address",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "HIP error: hipErrorIllegalAddress",
        "EZ9999: The error from device(0), an aicore exception is found",
        "Memory access fault by GPU node-2 (Agent handle: 0x9c1b2a0) on address 0x7f3f8c000000. Reason: Unknown.",
        "[PG ID 2 Rank 2] Process group watchdog thread terminated with exception: HIP error: operation not permitted"
        " on an event last recorded in a capturing stream",
    ),
    source="CUDA, HIP, ROCr, CANN",
)
class KernelFault(Event):
    """A kernel faulted. Not an overflow."""

    what: str | None


# Communication


@read_from(
    r"NCCL error in:|NCCL error:|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|RCCL error",
    # The second is a frame's source, not the error.
    excludes=("out of memory", 'raise RuntimeError(f"NCCL error', "Duplicate GPU detected"),
    fields={
        "what": r"(nccl\w+Error)|error: ([a-z ]+?)(?: \(run|$)|, ([a-z ]+) \(run",
        "version": r"NCCL version ([\d.]+)",
    },
    samples=(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268,"
        " unhandled cuda"
        " error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "ncclInternalError: Internal check failed.",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "RCCL error in: 268",
    ),
    source="NCCL, sglang: pynccl.py",
)
class CommunicationFailed(Event):
    """A collective failed. The line after may tell of memory (see DeviceFull)."""

    what: str | None
    version: str | None


@read_from(
    r"Watchdog caught collective operation timeout|watchdog thread terminated|Timed out after \d+ ?(?:ms|seconds)"
    r" waiting",
    literals=("Watchdog caught collective", "watchdog thread terminated", "Timed out after"),
    excludes=("exception: CUDA error", "exception: HIP error"),  # a kernel's fault, which the watchdog only reports
    fields={"who": r"(NCCL|HCCL|Gloo|gloo)"},
    constants={"collective": True},
    samples=(
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE,"
        " Timeout(ms)=600000)",
        "[PG ID 2 Rank 3] Process group watchdog thread terminated with exception",
        "Timed out after 600 seconds waiting for clients. 7/8 clients joined.",
    ),
    source="torch: ProcessGroupNCCL, TCPStore",
)
@read_from(
    r"[Ww]atchdog timeout \(self\.watchdog_timeout=",
    literals=("atchdog timeout (self",),
    fields={"who": r"(\w+) watchdog timeout", "seconds": rf"watchdog_timeout={DECIMAL}", "soft": r"soft=(\w+)"},
    constants={"collective": False},
    samples={
        "0.3.6..0.5.6": "Watchdog timeout (self.watchdog_timeout=300)",
        "0.5.7..0.5.23": "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    },
    source="sglang/srt/managers/scheduler.py: watchdog_thread()",
)
class WatchdogTimeout(Event):
    """Something hung: often the others, after one rank died."""

    who: str | None
    collective: bool
    seconds: float | None = None
    soft: bool | None = None


# Processes


@read_from(
    r"Traceback \(most recent call last\)",
    excludes=("hit an exception:",),
    samples=("Traceback (most recent call last):",),
    source="python",
)
class Traceback(Event):
    """A Python traceback begins."""


@read_from(
    r"hit an exception:|Exception in (?:Model\w{1,40}|Controller\w{1,40}|run_tp_server):",
    literals=("hit an exception:", "Exception in Model", "Exception in Controller", "Exception in run_tp_server:"),
    fields={"who": r"(\w{1,80}) hit an exception:|Exception in (\w{1,80}):"},
    samples={
        "0.2.15..0.2.15": "Exception in ControllerSingle:",
        "0.2.15..0.3.0": ("Exception in ModelTpServer:", "Exception in run_tp_server:"),
        "0.4.0..0.5.23": (
            "Scheduler hit an exception: Traceback (most recent call last):",
            "DetokenizerManager hit an exception: Traceback (most recent call last):",
            "DataParallelController hit an exception: Traceback (most recent call last):",
        ),
        "0.4.1..0.5.23": "TokenizerManager hit an exception: Traceback (most recent call last):",
        "0.4.0..0.5.2": "TpModelWorkerClient hit an exception: Traceback (most recent call last):",
    },
    source="sglang/srt/managers/scheduler.py: run_scheduler_process()",
)
class ProcessFailed(Event):
    """A process of the server ends by an exception."""

    who: str | None


@read_from(
    r"Initialization failed\.",
    fields={"reason": r"Initialization failed\. (.*)"},
    samples={
        "0.2.15..0.3.0": "Initialization failed. controller_init_state: None, detoken_init_state: init ok",
        "0.3.6..0.5.23": (
            "RuntimeError: Initialization failed. Please see the error messages above.",
            "Initialization failed. warmup error: request timed out",
        ),
    },
    source=_ENGINE,
)
class InitializationFailed(Event):
    """The parent says that its start failed; a warm-up error stands in `reason`."""

    reason: str | None


@read_from(
    rf"(?:[Ee]xit(?:ed with|s with)? ?code(?::|=| of)? ?|exitcode=|exit code: |exitcode: ){_NOT_SIGBUS}-?\d+"
    rf"|terminated with {_NOT_SIGBUS}-?\d+|crashed with exit code {_NOT_SIGBUS}-?\d+"
    rf"|[Ee]xit [Cc]ode: +{_NOT_SIGBUS}\d+",
    literals=("xit code", "xitcode", "terminated with ", "Exit Code:"),
    excludes=("scheduler died during", "code 0"),
    fields={
        "code": r"(?:[Ee]xit(?:ed with|s with)? ?[Cc]ode(?::|=| of)? *|exitcode(?:=|: )|exit code:? ?|terminated"
        r" with )(-?\d+)",
        "process": r"Subprocess (\S+)|(Scheduler or DataParallelController)|Rank (\d+) scheduler",
    },
    samples={
        "0.4.1..0.5.9": "Exit code: -9",
        "0.4.1..0.5.23": "Scheduler or DataParallelController 4242 terminated with -9",
        "0.4.3..0.4.6": "Child process unexpectedly failed with an exit code 9. pid=4242",
        "0.4.7..0.4.9": "Child process unexpectedly failed with exitcode=131. pid=4242",
        "0.5.10..0.5.23": "Subprocess scheduler_0 (pid=4242) crashed with exit code -9. Triggering SIGQUIT for"
        " cleanup...",
        "": "      Exit Code:    137",
    },
    source=_ENGINE,
)
@read_from(
    r"scheduler died during initialization \(exit code:",
    fields={"code": r"exit code: (-?\d+)", "process": r"Rank (\d+) scheduler"},
    constants={"by_parent": True},
    samples={
        "0.5.10..0.5.23": "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code"
        " is -9"
        " (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
    },
    source=_ENGINE,
)
class ExitCode(Event):
    """A child's exit code as a parent reports it: -9 is SIGKILL; 131 and -3 are SIGQUIT after another rank failed.

    SIGBUS, -7 or 135, is read as a sign of a full /dev/shm (events/platform.py).

    `by_parent`  SGLang's parent process says it of a scheduler that never became ready; its hint at the OOM killer
                 stands beside every code.
    """

    code: int | None
    process: str | None
    by_parent: bool = False


@read_from(
    r"scheduler is dead\.(?: Please check if there are relevant logs|\s*$)",
    literals=("scheduler is dead.",),
    fields={"process": r"Rank (\d+) scheduler"},
    samples={"0.4.1..0.5.9": "Rank 0 scheduler is dead. Please check if there are relevant logs."},
    source=_ENGINE,
)
class SchedulerDead(Event):
    """A scheduler is gone; the next line has its exit code."""

    process: str | None


@read_from(
    r"^(?:\S+: line \d+: +\d+ )?Killed\b(?! \w+ing)|OOMKilled|invoked oom-killer|[Oo]ut of memory: Killed process"
    r"|oom-kill:constraint=|Memory cgroup out of memory|\d{1,9} Killed +\w|[Dd]etected \d+ oom[_-]kill event"
    r"|srun: error: .{0,200}Out Of Memory",
    literals=("Killed", "invoked oom-killer", "oom-kill:constraint=", "etected ", "srun: error: "),
    fields={
        "process": r"Killed process \d+ \(([^)]*)\)|^(\S+) invoked oom-killer|task=([\w:.-]+)",
        "by": r"(OOMKilled|oom[-_]kill|Out [Oo]f [Mm]emory|cgroup out of memory|invoked oom-killer)",
    },
    samples=(
        "Killed",
        "/entrypoint.sh: line 48:    28 Killed                  python3 -m server",
        "    Reason:       OOMKilled",
        "Out of memory: Killed process 4242 (sglang::schedul) total-vm:91234kB, anon-rss:81234kB, file-rss:0kB",
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=pt_main_thread,pid=4242,uid=0",
        "python3 invoked oom-killer: gfp_mask=0xcc0",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=991.0. Some of the step tasks have been OOM Killed.",
        "srun: error: node02: task 1: Out Of Memory",
    ),
    source="shell, Kubernetes, Linux kernel",
)
class Killed(Event):
    """A kill from outside: the shell's word for SIGKILL, Kubernetes' reason, the kernel's OOM killer."""

    process: str | None
    by: str | None

    @property
    def is_oom_killer(self) -> bool:
        """Whether the kernel or Kubernetes says that memory was the reason."""
        return self.by is not None


@read_from(
    r"SIGQUIT received|Received sigquit from a child proc",
    samples={
        "0.4.1..0.4.1": "Received sigquit from a child proces. It usually means the child failed.",
        "0.4.3..0.5.23": "Received sigquit from a child process. It usually means the child failed.",
        "0.5.3..0.5.23": "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    },
    source=_ENGINE,
)
class Sigquit(Event):
    """The parent stops everything because a child failed: a consequence, never a cause."""


@read_from(
    r"^(?:\[rank\d+\]: ?)?(?:E\s+)?(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|OutOfResources|Interrupt|Failure)(?::"
    r" |:?$)",
    literals=("Error: ", "Error:", "Exception: ", "OutOfResources:", "Interrupt", "Failure: ", "Error"),
    fields={"kind": r"((?:[a-z_]\w*\.)*[A-Z]\w+)(?::|$)", "message": r": (.*)"},
    samples=(
        "ValueError: Unrecognized model in /m",
        "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error",
        "ImportError: cannot import name 'x' from 'y'",
        "KeyboardInterrupt",
    ),
    source="python",
    fallback=True,
)
class ExceptionRaised(Event):
    """The last line of a traceback, of no kind that another declaration reads."""

    kind: str | None
    message: str | None


__all__ = [
    "CaptureFailed",
    "CommunicationFailed",
    "DeviceFull",
    "DeviceOutOfMemory",
    "ExceptionRaised",
    "ExitCode",
    "HostMemoryShort",
    "HostOutOfMemory",
    "InitializationFailed",
    "KernelFault",
    "Killed",
    "LoadBarrier",
    "NoRoomForPool",
    "PoolRefused",
    "ProcessFailed",
    "SchedulerDead",
    "Sigquit",
    "Traceback",
    "UnbalancedMemory",
    "WatchdogTimeout",
]
