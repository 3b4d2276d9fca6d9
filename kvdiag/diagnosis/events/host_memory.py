"""Host memory: HiCache's tiers, their sizing and refusals. SGLang prints host sizes in units of 10^9 bytes."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, SIZE, DecimalGB, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/mem_cache/memory_pool_host.py"


@read_from(
    r"GB host memory",
    excludes=("Not enough host memory",),
    fields={
        "size": DecimalGB(r"([\d.]+) GB host memory"),
        "what": r"host memory for (?:hierarchical )?([\w '-]*\w)|Allocating ([\w -]+?) hierarchical",
        "tokens": r"pool: (\d+) tokens",
        "slots": r"\((\d+) state slots",
    },
    samples={
        "0.4.1..0.5.15": "Allocating 44.77 GB host memory for hierarchical KV cache.",
        "0.5.17..0.5.23": "Allocating KV hierarchical KV host pool: 637108 tokens, 44.77 GB host memory.",
        "0.5.10..0.5.23": "Allocating 12.30 GB host memory for hierarchical Mamba cache (layout=layer_first).",
        "0.5.23..0.5.23": "Allocating 12.30 GB host memory for hierarchical Mamba cache (512 state slots,"
        " layout=page_first).",
        "0.5.11..0.5.12": "Allocating 3.10 GB host memory for NSA indexer (layout=layer_first).",
        "0.5.13..0.5.23": "Allocating 3.10 GB host memory for DSA indexer (layout=page_first).",
        "0.5.12..0.5.23": (
            "Allocating 3.10 GB host memory for V4 paged pool 'c4' (layers=30, pages=1200, item_bytes=576).",
            "Allocating 0.10 GB host memory for V4 state pool 'c4_state' (layers=30, pages=1200,"
            " state_page_bytes=4096).",
        ),
        "0.5.15..0.5.23": "Allocating 3.10 GB host memory for MiniMax sparse index-K (layout=page_first).",
    },
    source=_SOURCE,
)
@read_from(
    r"UMBPHostTensorAllocator: allocated",
    fields={"size": DecimalGB(r"allocated ([\d.]+) GB")},
    constants={"what": "UMBP tensors"},
    samples={"0.5.15..0.5.23": "UMBPHostTensorAllocator: allocated 44.77 GB at 0x7f0000000000 (numa=0)"},
    source=_SOURCE,
)
class HostPool(Event):
    """A host tier (HiCache) of one rank. Printed in units of 10^9 bytes."""

    size: Bytes | None
    what: str | None
    tokens: int | None = None
    slots: int | None = None


@read_from(
    r"HiCache auto-sizing: ratio",
    fields={
        "ratio": r"-> ([\d.]+\d)",
        "per_rank": rf"; {SIZE}",
        "fraction": r"\(fraction ([\d.]+)",
        "ranks": r", (\d+) ranks on this host",
        "pools": rf"host pools {SIZE}",
    },
    samples={
        "0.5.21..0.5.23": "HiCache auto-sizing: ratio 2.000 -> 1.350; 60.2 GiB host memory per rank (fraction 0.8, 8"
        " ranks"
        " on this host), host pools 58.0 GiB."
    },
    source="sglang/srt/mem_cache/hicache sizing",
)
@read_from(
    r"HiCache memory headroom: host",
    fields={"host": rf"host {SIZE}", "cgroup": rf"cgroup {SIZE}"},
    samples={"0.5.21..0.5.23": "HiCache memory headroom: host 480.2 GiB, cgroup 128.0 GiB"},
    source="sglang/srt/mem_cache/hicache sizing",
)
class HiCacheSizing(Event):
    """How the host tier was sized; GiB. `cgroup` is the container's room."""

    ratio: float | None
    per_rank: Bytes | None
    fraction: float | None
    ranks: int | None
    pools: Bytes | None
    host: Bytes | None
    cgroup: Bytes | None


@read_from(
    r"is smaller than the device pool",
    fields={"tokens": r"host pool \((\d+) tokens", "device_tokens": r"device pool \((\d+) tokens"},
    samples={
        "0.5.17..0.5.23": "HiCache KV host pool (40000 tokens) is smaller than the device pool (46611 tokens);L2 cache"
        " effectiveness is reduced.Consider increasing --hicache-ratio (or --hicache-size) for better hit rates."
    },
    source=_SOURCE,
)
@read_from(
    r"Sync fixed-size HiCache host token capacity from",
    fields={"device_tokens": rf"from {NUMBER}", "tokens": r" to (\d+)"},
    samples={"0.5.15..0.5.23": "Sync fixed-size HiCache host token capacity from 50000 to 49152."},
    source=_SOURCE,
)
@read_from(
    r"HiCache draft KV registered:",
    fields={"tokens": r"\(host (\d+) slots\)"},
    samples={"0.5.11..0.5.17": "HiCache draft KV registered: MHATokenToKVPool (host 93222 slots)"},
    source=_SOURCE,
)
@read_from(
    r"HiCache D↔H initialized:",
    fields={"tokens": rf"host_pool_size={NUMBER}"},
    samples={"0.5.12..0.5.12": "HiCache D↔H initialized: host_pool_size=93222, device_pool_size=46611"},
    source=_SOURCE,
)
@read_from(
    r"HiCache \+ DCP enabled",
    samples={"0.5.19..0.5.23": "HiCache + DCP enabled: host tokens are per rank"},
    source=_SOURCE,
)
class HiCacheTokens(Event):
    """Tokens of a host tier beside those of the device."""

    tokens: int | None
    device_tokens: int | None


@read_from(
    r"Not enough host memory available\.|Not enough host memory for",
    fields={
        "wanted": r"Requesting ([\d.]+) GB",
        "free": r"only have ([\d.]+) GB",
        "what": r"host memory for (?:the )?([\w .-]*?)(?: hierarchical cache|, index| backing|\.|$)",
    },
    samples={
        "0.4.1..0.5.23": "ValueError: Not enough host memory available. Requesting 44.77 GB but only have 30.10 GB"
        " free."
        " Please reduce the size of the hierarchical cache.",
        "0.5.11..0.5.12": "ValueError: Not enough host memory for NSA indexer hierarchical cache. Requesting 4.77 GB"
        " but"
        " only have 3.10 GB free.",
        "0.5.13..0.5.23": "ValueError: Not enough host memory for DSA indexer hierarchical cache. Requesting 4.77 GB"
        " but"
        " only have 3.10 GB free.",
        "0.5.12..0.5.23": (
            "ValueError: Not enough host memory for V4 paged pool c4 hierarchical cache. Requesting 4.77 GB but only"
            " have"
            " 3.10 GB free.",
            "ValueError: Not enough host memory for V4 state pool c4 hierarchical cache. Requesting 4.77 GB but only"
            " have"
            " 3.10 GB free.",
        ),
        "0.5.15..0.5.23": "ValueError: Not enough host memory for MiniMax index-K hierarchical cache. Requesting"
        " 4.77 GB"
        " but only have 3.10 GB free.",
        "0.5.21..0.5.23": "ValueError: Not enough host memory for unified page-envelope backing. Requesting 4.77 GB but"
        " only have 3.10 GB free.",
        "0.5.23..0.5.23": (
            "ValueError: Not enough host memory for M3.1 NVFP4 KV, index and draft caches. Requesting 4.77 GB but only"
            " have 3.10 GB free.",
            "ValueError: Not enough host memory for MiniMax NVFP4 index cache. Requesting 4.77 GB but only have 3.10 GB"
            " free.",
        ),
    },
    source=_SOURCE,
)
@read_from(
    r"No host memory is left for HiCache after the|Cannot automatically size HiCache host memory",
    constants={"what": "automatic size"},
    samples={
        "0.5.21..0.5.23": "ValueError: No host memory is left for HiCache after the 10 GiB reserve; set"
        " --hicache-ratio or"
        " --hicache-size explicitly.",
        "0.5.23..0.5.23": "ValueError: Cannot automatically size HiCache host memory; set --hicache-size explicitly (GB"
        " per rank), or lower the ratio.",
    },
    source=_SOURCE,
)
@read_from(
    r"Pinned host memory allocation of|hipHostMalloc of|MooncakeHostMemAllocator\.alloc returned a null pointer",
    fields={"wanted": r"(?:allocation of|hipHostMalloc of|null pointer for) ([\d.]+) G"},
    constants={"what": "pinned allocation"},
    samples={
        "0.5.23..0.5.23": (
            "Pinned host memory allocation of 44.8 GiB (48103633715 bytes) returned a null pointer",
            "hipHostMalloc of 44.77 GB for a HiCache host pool failed (rc=2)",
            "MooncakeHostMemAllocator.alloc returned a null pointer for 44.770 GB (rank 0)",
        )
    },
    source=_SOURCE,
)
@read_from(
    r"memfabric host memory exhausted:",
    fields={"wanted": r"need ([\d.]+)GB", "free": r"only ([\d.]+)GB"},
    constants={"what": "memfabric"},
    samples={
        "0.5.21..0.5.23": "memfabric host memory exhausted: need 44.77GB, only 12.10GB left of the 100.00GB reserve"
    },
    source=_SOURCE,
)
@read_from(
    r"The host memory should be larger than the device memory with the current protocol",
    constants={"what": "host smaller than device"},
    samples={
        "0.4.1..0.5.14": "AssertionError: The host memory should be larger than the device memory with the current"
        " protocol"
    },
    source=_SOURCE,
)
class HostMemoryShort(Event):
    """The host tier does not fit in RAM. Figures in units of 10^9 bytes."""

    wanted: float | None
    free: float | None
    what: str | None = None


@read_from(
    r"DefaultCPUAllocator: can't allocate memory|DefaultCPUAllocator: not enough memory",
    fields={"wanted": r"allocate (\d+) bytes"},
    constants={"what": "CPU allocator"},
    samples=(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you"
        " tried"
        " to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)",
    ),
    source="torch: c10/core/impl/alloc_cpu.cpp",
)
@read_from(
    r"^MemoryError|\[Errno 12\] Cannot allocate memory|std::bad_alloc|^memory allocation of \d+ bytes failed"
    r"|unable to mmap \d+ bytes.{0,400}Cannot allocate memory",
    literals=(
        "MemoryError",
        "[Errno 12] Cannot allocate memory",
        "std::bad_alloc",
        "memory allocation of ",
        "unable to mmap ",
    ),
    fields={"wanted": r"(?:allocation of|unable to mmap) (\d+) bytes"},
    constants={"what": "allocation"},
    samples=(
        "MemoryError",
        "memory allocation of 68719476736 bytes failed",
        "RuntimeError: unable to mmap 4978830984 bytes from file </m/1.safetensors>: Cannot allocate memory (12)",
        "OSError: [Errno 12] Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ),
    source="python, C++, Rust",
)
@read_from(
    r"Killed signal terminated program|died due to signal 9 |'ninja'.{0,80}died with <Signals\.SIGKILL",
    literals=("Killed signal terminated program", "died due to signal 9", "died with <Signals.SIGKILL"),
    constants={"what": "compiler"},
    samples=(
        "c++: fatal error: Killed signal terminated program cc1plus",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "subprocess.CalledProcessError: Command '['ninja', '-v']' died with <Signals.SIGKILL: 9>.",
    ),
    source="gcc, nvcc, python",
)
@read_from(
    r"cudaErrorHostMemoryAlreadyRegistered|CUDA error: OS call failed or operation not supported on this OS"
    r"|Failed to CUDA host alloc|cudaHostRegister failed",
    fields={"wanted": r"cudaHostRegister failed .*size=(\d+)"},
    constants={"what": "pinned memory"},
    samples=(
        "RuntimeError: cudaHostRegister failed (rc=1, invalid argument) for ptr=0x7f0000000000 size=531470745600; host"
        " buffer is not pinned and device transfers may silently return stale data.",
        "CUDA error: part or all of the requested memory range is already mapped: cudaErrorHostMemoryAlreadyRegistered",
        "RuntimeError: CUDA error: OS call failed or operation not supported on this OS",
        "node0:312:1044 [0] NCCL WARN Failed to CUDA host alloc 4194304 bytes",
    ),
    source="CUDA, NCCL; sglang/srt/mem_cache: host pools",
)
@read_from(
    r"ibv_reg_mr\w* failed with error Cannot allocate memory",
    constants={"what": "locked memory"},
    samples=(
        "node0:312:1044 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate"
        " memory",
    ),
    source="NCCL",
)
class HostOutOfMemory(Event):
    """RAM, or what may be pinned of it, ran out: not GPU memory. `wanted` in bytes."""

    wanted: int | None
    what: str


@read_from(
    r"PLE table: file-backed mmap|engram host table",
    fields={"size": rf"[(,] ?{SIZE}"},
    samples={
        "0.5.21..0.5.23": (
            "PLE table: file-backed mmap /tmp/ple.bin (12.5 GiB, 4096 rows)",
            "engram host table 3: layout=rows, 512 MiB resident, 4096 rows",
        )
    },
    constants={"what": "embedding table"},
    source="sglang/srt/layers: per-layer embeddings",
)
@read_from(
    r"Multimodal preprocess cache enabled for",
    fields={"size": rf": {SIZE} total"},
    constants={"what": "multimodal preprocess cache"},
    samples={"0.5.19..0.5.23": "Multimodal preprocess cache enabled for Qwen2VLProcessor: 4096 MiB total (8 workers)"},
    source="sglang/srt/managers/tokenizer_manager.py",
)
@read_from(
    r"Routing experts host buffer allocated\.",
    fields={"size": rf"size: {SIZE}"},
    constants={"what": "routed experts"},
    samples={"0.5.7..0.5.11": "Routing experts host buffer allocated. #tokens: 46611, size: 1.20 GB"},
    source="sglang/srt/layers/moe/routed_experts_capturer.py",
)
class HostTable(Event):
    """Host memory beside HiCache; 2-based units."""

    size: Bytes | None
    what: str


@read_from(
    r"HiSparse: host mem pool alloc failed",
    fields={"pages": r"for (\d+) host pages"},
    samples={"0.5.13..0.5.23": "HiSparse: host mem pool alloc failed for 120 host pages (free 80)"},
    source="sglang/srt/mem_cache: HiSparse",
)
class HostPagesExhausted(Event):
    """A host pool of pages is empty."""

    pages: int | None
