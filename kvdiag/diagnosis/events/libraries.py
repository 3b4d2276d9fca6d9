"""What kernels, attention libraries, compilers and communicators print when they fail."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from


@read_from(
    r"out of resource: (?:shared memory|threads|registers|tensor memory)",
    literals=("out of resource: ",),
    fields={
        "resource": r"out of resource: ([a-z ]+)",
        "required": rf"Required: {NUMBER}",
        "limit": rf"Hardware limit: {NUMBER}",
    },
    samples=(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 196608, Hardware limit: 65536."
        " Reducing block sizes or `num_stages` may help.",
    ),
    source="triton: runtime/errors.py",
)
class KernelResourceShort(Event):
    """A kernel needs more on-chip memory than the GPU has. Bytes. Device memory plays no part."""

    resource: str | None
    required: int | None
    limit: int | None


@read_from(
    r"(?:Failed to allocate memory for|Buffer overflow when allocating memory for) \w+ with size \d+",
    literals=("Failed to allocate memory for", "overflow when allocating memory for"),
    fields={"buffer": r"memory for (\w+)", "size": rf"with size {NUMBER}", "available": rf"only {NUMBER} bytes"},
    samples=(
        "RuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size 469762048 and alignment 16 in"
        " AlignedAllocator",
        "RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size 469762048 and alignment"
        " 16, but only 402653184 bytes available in AlignedAllocator. Increase the workspace buffer size.",
    ),
    source="flashinfer: AlignedAllocator",
)
class AttentionWorkspaceShort(Event):
    """The attention library's scratch buffer of fixed size is too small. Bytes."""

    buffer: str | None
    size: int | None
    available: int | None


@read_from(
    r"num_max_dispatch_tokens_per_rank",
    excludes=("server_args=", "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK="),
    samples=(
        "Assertion error /sgl-workspace/DeepEP/csrc/deep_ep.cpp:1030 'x.size(0) == topk_idx.size(0) and x.size(0) <="
        " num_max_dispatch_tokens_per_rank'",
    ),
    source="DeepEP: csrc/deep_ep.cpp",
)
class DispatchLimitExceeded(Event):
    """A batch holds more tokens a rank than the expert-parallel dispatch buffer."""


@read_from(
    r"num_active_captures_|NVML_SUCCESS == r INTERNAL ASSERT FAILED",
    literals=("num_active_captures_", "NVML_SUCCESS == r"),
    fields={"what": r"(num_active_captures_|NVML_SUCCESS)"},
    samples=(
        'RuntimeError: num_active_captures_ > 0 INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp"',
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1124, please'
        " report a bug to PyTorch.",
    ),
    source="torch: c10/cuda/CUDACachingAllocator.cpp",
)
class AllocatorAssertion(Event):
    """The allocator asserts where it wanted to report a shortage."""

    what: str | None


@read_from(
    r"Connection closed by peer|Connection reset by peer|gloo/transport/tcp|Broken pipe|recvValue failed"
    r"|ncclRemoteError|remote process exited",
    literals=(
        "closed by peer",
        "reset by peer",
        "gloo/transport/tcp",
        "Broken pipe",
        "recvValue failed",
        "ncclRemoteError",
        "remote process exited",
    ),
    excludes=("ConnectionResetError: [Errno 104] Connection reset by peer while", "http://", "HTTP/1"),
    samples=(
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4242",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. recvValue failed on SocketImpl",
    ),
    source="gloo, torch.distributed, NCCL",
)
class PeerLost(Event):
    """A rank lost its partner: the first cause is in another rank's lines."""


@read_from(
    r"\[?'ninja', '-v'|[Nn]inja build failed|nvcc fatal|fatal error: [\w/]+\.h(?:pp)?: No such file",
    literals=("'ninja', '-v'", "inja build failed", "nvcc fatal", "fatal error: "),
    samples=(
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/root/.cache']' returned non-zero exit status 1.",
        "RuntimeError: Ninja build failed. Ninja output:",
    ),
    source="torch.utils.cpp_extension, flashinfer jit",
)
class CompileFailed(Event):
    """A kernel could not be compiled on this machine."""


@read_from(
    r"(?:nvshmem|NVSHMEM|deep_ep|DeepEP).*(?:out of memory|alloc\w* failed|[Ff]ailed to alloc|malloc failed)",
    literals=("nvshmem", "NVSHMEM", "deep_ep", "DeepEP"),
    samples=(
        "/sgl-workspace/nvshmem/src/host/mem/mem_heap.cpp:1100: NULL value nvshmem mem_heap.cpp allocation failed",
        "RuntimeError: Failed: CUDA error /sgl-workspace/DeepEP/csrc/deep_ep.cpp:85 'out of memory'",
    ),
    source="DeepEP, NVSHMEM",
)
class CommunicationBufferShort(Event):
    """An expert-parallel or symmetric-memory buffer does not fit in what is free."""


@read_from(
    r"CUDA error: invalid argument|CU(?:BLAS|DNN|SOLVER)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)",
    literals=("error: invalid argument", "_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED"),
    fields={"what": r"(invalid argument|CU\w+_STATUS_\w+)"},
    samples=(
        "RuntimeError: CUDA error: invalid argument",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ),
    source="CUDA libraries",
)
class DisguisedError(Event):
    """A library's words for an error that may be a shortage of device memory."""

    what: str | None


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
    r"(?:error: out of memory|failure (?:2 )?'out of memory'|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|\bOutOfMemoryError:? *$|(?:CUDA|HIP|NPU) out of memory\. *$|Triton Error \[CUDA\]: out of memory)",
    literals=(
        "error: out of memory",
        "'out of memory'",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation",
        "OutOfMemoryError",
        "out of memory.",
        "[CUDA]: out of memory",
    ),
    excludes=("Tried to allocate", "DeepEP", "nvshmem", "Search for `cuda"),
    samples=(
        "RuntimeError: CUDA error: out of memory",
        "Cuda failure 2 'out of memory'",
        "torch.OutOfMemoryError:",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: Triton Error [CUDA]: out of memory",
    ),
    source="CUDA, NCCL, Triton, torch",
)
class DeviceFull(Event):
    """Device memory ran out, in words without figures."""
