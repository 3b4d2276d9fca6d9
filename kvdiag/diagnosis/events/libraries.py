"""What kernels, attention libraries, compilers and communicators print when they fail."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from


@read_from(
    r"\bUsing \w*(?:MoEMethod|MoeMethod)\b|Falling back to Unquantized\w+Method",
    literals=("MoEMethod", "MoeMethod", "Falling back to Unquantized"),
    excludes=("File ", "class "),
    fields={"method": r"(\w+Method)"},
    samples=("Using CompressedTensorsWNA16MarlinMoEMethod",),
    source="sglang/srt/layers/quantization",
)
class ExpertMethod(Event):
    """Which code path holds the experts."""

    method: str | None


@read_from(
    r"out of resource: ",
    fields={
        "resource": r"out of resource: (shared memory|tensor memory|threads|registers)",
        "required": rf"Required: {NUMBER}",
        "limit": rf"Hardware limit: ?{NUMBER}",
    },
    samples=(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 196608, Hardware limit: 65536."
        " Reducing block sizes or `num_stages` may help.",
        "OutOfResources: out of resource: threads, Required: 2048, Hardware limit: 1024",
        "RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: triton_red_fused_0 Required: 131072"
        " Hardware limit:101376 Reducing block sizes or `num_stages` may help.",
    ),
    source="triton/runtime/errors.py",
)
@read_from(
    r"too many resources requested for launch|cudaErrorLaunchOutOfResources",
    constants={"resource": "registers"},
    samples=(
        "RuntimeError: CUDA error: too many resources requested for launch",
        "RuntimeError: cudaErrorLaunchOutOfResources",
    ),
    source="CUDA",
)
class KernelResourceShort(Event):
    """A kernel wants more on-chip memory (bytes), threads or registers than the chip has. No device memory."""

    resource: str | None
    required: int | None
    limit: int | None


@read_from(
    r"Buffer overflow when allocating memory for|Failed to allocate memory for \w+ with size",
    literals=("Buffer overflow when allocating memory for", "Failed to allocate memory for"),
    fields={
        "buffer": r"memory for (\w+)",
        "size": r"with size (\d+)",
        "available": r"only (\d+) bytes",
    },
    samples=(
        "RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size 524288000 and"
        " alignment 16,"
        " but only 393216000 bytes available in AlignedAllocator. Increase the workspace buffer size.",
        "RuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size 524288000 and alignment 16 in"
        " AlignedAllocator",
    ),
    source="flashinfer: allocator.h",
)
class AttentionWorkspaceShort(Event):
    """An attention library's fixed scratch buffer is too small; bytes. Not device memory."""

    buffer: str | None
    size: int | None
    available: int | None


@read_from(
    r"num_max_dispatch_tokens_per_rank",
    fields={"limit": r"num_max_dispatch_tokens_per_rank(?: ?[=(:] ?)(\d+)"},
    excludes=("server_args=", "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK="),
    samples=(
        "Failed: Assertion error /sgl-workspace/DeepEP/csrc/deep_ep.cpp:1030 'x.size(0) == topk_idx.size(0) and"
        " x.size(0) <="
        " num_max_dispatch_tokens_per_rank'",
        "AssertionError: 256 tokens, num_max_dispatch_tokens_per_rank=128",
    ),
    source="DeepEP: deep_ep.cpp",
)
class DispatchLimitExceeded(Event):
    """A batch has more tokens than the expert dispatch buffer holds for each rank."""

    limit: int | None


@read_from(
    r"num_recv_tokens_per_expert\w{0,40}(?::|=) ?\[",
    literals=("num_recv_tokens_per_expert",),
    fields={"tokens": r"num_recv_tokens_per_expert\w{0,40}(?::|=) ?\[([\d, ]*)"},
    samples=("num_recv_tokens_per_expert: [89856, 1664, 73728, 4352]",),
    source="sglang/srt/layers/moe, with its counts printed",
)
class ExpertTokensReceived(Event):
    """Tokens that a rank received for each of its experts in one pass."""

    tokens: tuple[int, ...] | None


@read_from(
    r"num_active_captures_|NVML_SUCCESS == r INTERNAL ASSERT FAILED"
    r"|captures_underway\.empty|INTERNAL ASSERT FAILED at .{0,80}CUDACachingAllocator",
    literals=("num_active_captures_", "NVML_SUCCESS == r INTERNAL", "captures_underway.empty", "CUDACachingAllocator"),
    fields={"what": r"(num_active_captures_|NVML_SUCCESS|captures_underway)"},
    samples=(
        'RuntimeError: num_active_captures_ > 0 INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp"',
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1124, please'
        " report a bug to PyTorch.",
        'RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2967',
        'RuntimeError: it->second->use_count > 0 INTERNAL ASSERT FAILED at "/c10/cuda/CUDACachingAllocator.cpp"',
    ),
    source="torch: c10/cuda/CUDACachingAllocator.cpp",
)
class AllocatorAssertion(Event):
    """The allocator asserts where it wanted to report a shortage: within a capture, or where NVML refuses to answer."""

    what: str | None


@read_from(
    r"closed by peer|reset by peer|gloo/transport/tcp|Broken pipe|Socket Timeout|ailed to recv, got 0 bytes"
    r"|recvValue failed|ncclRemoteError|remote process exit|Connection refused",
    excludes=("http://", "https://", "HTTP/1", "server_args=", "TTY"),
    literals=(
        "closed by peer",
        "reset by peer",
        "gloo/transport/tcp",
        "Broken pipe",
        "Socket Timeout",
        "ailed to recv, got 0 bytes",
        "recvValue failed",
        "ncclRemoteError",
        "remote process exit",
        "Connection refused",
    ),
    fields={
        "by": r"(gloo|TCPStore|NCCL|ucx|mooncake|ncclRemoteError)",
        "what": r"(closed by peer|reset by peer|Broken pipe|Timeout|got 0 bytes|refused)",
    },
    samples=(
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
        " [127.0.0.1]:31802",
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Read error [127.0.0.1]:31802: Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "torch.distributed.DistStoreError: Socket Timeout",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "[rank3] recvValue failed on SocketImpl(fd=12)",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ),
    source="gloo, torch: TCPStore, python",
)
class PeerLost(Event):
    """A partner went away: this rank is a victim, not the cause."""

    by: str | None
    what: str | None


@read_from(
    r"'ninja', '-v'|[Nn]inja build failed|ninja: build stopped|Error building extension|nvcc fatal"
    r"|fatal error: [\w/]+\.h(?:pp)?: No such file",
    literals=(
        "'ninja', '-v'",
        "inja build failed",
        "ninja: build stopped",
        "Error building extension",
        "nvcc fatal",
        "fatal error: ",
    ),
    excludes=("died with <Signals.SIGKILL",),
    samples=(
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/root/.cache']' returned non-zero exit"
        " status 1.",
        "RuntimeError: Ninja build failed. Ninja output:",
        "ninja: build stopped: subcommand failed.",
        "RuntimeError: Error building extension 'fused'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
    ),
    source="torch.utils.cpp_extension, flashinfer jit",
)
class CompileFailed(Event):
    """A kernel could not be compiled on this machine."""


@read_from(
    r"(?:nvshmem|NVSHMEM|deep_ep|DeepEP).{0,400}(?:out of memory|alloc\w* failed|[Ff]ailed to alloc|malloc failed)"
    r"|NVSHMEM_SYMMETRIC_SIZE|num_rdma_bytes",
    literals=("nvshmem", "NVSHMEM", "deep_ep", "DeepEP", "num_rdma_bytes"),
    excludes=("server_args=", "num_max_dispatch_tokens_per_rank"),
    samples=(
        "/sgl-workspace/nvshmem/src/host/mem/mem_heap.cpp:1100: NULL value nvshmem mem_heap.cpp allocation failed",
        "RuntimeError: Failed: CUDA error /sgl-workspace/DeepEP/csrc/deep_ep.cpp:85 'out of memory'",
        "set NVSHMEM_SYMMETRIC_SIZE to a larger value",
        "Assertion error deep_ep.cpp:120 'num_rdma_bytes > 0'",
    ),
    source="DeepEP, NVSHMEM",
)
class CommunicationBufferShort(Event):
    """An expert-parallel or symmetric-memory buffer does not fit in what is free."""


@read_from(
    r"CUDA error: invalid argument|HIP error: invalid"
    r" argument|CU(?:BLAS|DNN|SOLVER)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)"
    r"|HIPBLAS_STATUS_ALLOC_FAILED",
    literals=("error: invalid argument", "_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED"),
    fields={"what": r"(invalid argument|(?:CU|HIP)\w+_STATUS_\w+)"},
    samples=(
        "RuntimeError: CUDA error: invalid argument",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasLtMatmul`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "RuntimeError: CUSOLVER_STATUS_ALLOC_FAILED",
        "RuntimeError: HIPBLAS_STATUS_ALLOC_FAILED",
    ),
    source="CUDA libraries",
)
class DisguisedError(Event):
    """A library's words for an error that may be a shortage of device memory."""

    what: str | None


@read_from(
    r"(?:CUDA|HIP|driver) error: out of memory|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|cudaMalloc failed: out of memory|CUDA_ERROR_OUT_OF_MEMORY|Tried to allocate more than 1EB|insufficient GPU"
    r" memory"
    r"|Triton Error \[(?:CUDA|HIP)\]: +out of memory|CUDA Runtime Error: out of memory"
    r"|cuda runtime error \(2\)"
    r"|UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY|Memory_Allocation_Failure\(EL0004\)"
    r"|HSA_STATUS_ERROR_OUT_OF_RESOURCES.{0,400}Available Free mem : 0 MB",
    literals=(
        "error: out of memory",
        "cudaErrorMemoryAllocation",
        "hipErrorOutOfMemory",
        "cudaMalloc failed: out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "Tried to allocate more than 1EB",
        "insufficient GPU memory",
        "Triton Error [",
        "Runtime Error: out of memory",
        "cuda runtime error (2)",
        "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "Memory_Allocation_Failure(EL0004)",
        "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    ),
    excludes=("DeepEP", "nvshmem", "Search for `cuda", "torch_memory_saver"),
    constants={"by": "driver"},
    fields={"device": r"(CUDA|HIP)"},
    samples=(
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: HIP error: out of memory",
        "RuntimeError: CUDA driver error: out of memory",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        "what():  cudaErrorMemoryAllocation: out of memory",
        "hipErrorOutOfMemory",
        "ggml_cuda: cudaMalloc failed: out of memory",
        "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY",
        "RuntimeError: Tried to allocate more than 1EB memory.",
        "insufficient GPU memory for the workspace",
        "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "EL0004: Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.",
        "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. Code: 0x1008"
        " Available Free mem : 0 MB",
    ),
    source="CUDA, HIP, ROCr, Level Zero, CANN, Triton",
)
@read_from(
    r"[Ff]ailure (?:\d+ )?'out of memory'|Failed to CUDA [cm]alloc",
    literals=("'out of memory'", "Failed to CUDA calloc", "Failed to CUDA malloc"),
    excludes=("DeepEP", "nvshmem"),
    constants={"by": "communication"},
    fields={"device": r"(Cuda|HIP|CUDA)", "wanted": r"[cm]alloc (?:async )?(\d+) bytes"},
    samples=(
        "Cuda failure 2 'out of memory'",
        "Cuda failure 'out of memory'",
        "node0:312:1044 [0] include/alloc.h:246 NCCL WARN Cuda failure 2 'out of memory'",
        "node0:312:1044 [0] NCCL WARN Failed to CUDA calloc 4194304 bytes",
        "Failed to CUDA malloc 4194304 bytes",
        "HIP failure 'out of memory'",
    ),
    source="NCCL, RCCL",
)
@read_from(
    r"\[metal::malloc\]|greater than the maximum allowed buffer size",
    constants={"by": "metal"},
    fields={"wanted": r"allocate (\d+) bytes"},
    samples=(
        "[metal::malloc] Attempting to allocate 34359738368 bytes which is greater than the maximum allowed buffer"
        " size of"
        " 22906503168 bytes.",
    ),
    source="MLX",
)
@read_from(
    r"NvMapMem\w+: +\d+ error 12",
    constants={"by": "driver"},
    fields={"device": r"(NvMap)"},
    samples=("NvMapMemAllocInternalTagged: 1075072515 error 12",),
    source="Tegra's driver: no memory left",
)
@read_from(
    r"\bOutOfMemoryError:? *$|(?:CUDA|HIP|NPU|XPU|MUSA) out of memory\.? *$",
    literals=("OutOfMemoryError", "out of memory"),
    excludes=("Tried to allocate", " error: ", "'out of memory'"),
    constants={"by": "allocator"},
    fields={"device": r"(CUDA|HIP|NPU|XPU|MUSA)"},
    samples=("torch.OutOfMemoryError:", "torch.OutOfMemoryError: CUDA out of memory."),
    source="torch",
)
class DeviceFull(Event):
    """Device memory ran out, in words without figures: past PyTorch's allocator, or of a cut message. `by` whom."""

    by: str
    device: str | None
    wanted: int | None
