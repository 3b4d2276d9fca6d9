"""Buffers outside the pools that a line gives a size of: communication, transfer, multimodal, graphs."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, NUMBER, SIZE, ByteCount, Event, InMiB, read_from
from kvdiag.diagnosis.units import Bytes

_ALLREDUCE = "sglang/srt/distributed/device_communicators"
_MULTIMODAL = "sglang/srt/managers: multimodal feature transport"
_DISAGGREGATION = "sglang/srt/disaggregation"


@read_from(
    r"All Reduce config: symmetric_memory =",
    fields={"size": rf"symmetric_memory = {SIZE}", "beside": rf"local_buffer = {SIZE}"},
    constants={"what": "all-reduce symmetric memory"},
    samples={
        "0.5.17..0.5.17": "All Reduce config: symmetric_memory = 64.00 MB, local_buffer = 8.00 MB, multicast = True",
        "0.5.19..0.5.23": "All Reduce config: symmetric_memory = 64.00 MB, local_buffer = 8.00 MB, multicast = True,"
        " pull"
        " = False",
    },
    source=_ALLREDUCE,
)
@read_from(
    r"Pre-allocating symmetric memory pool with",
    fields={"size": rf"pool with {SIZE}"},
    constants={"what": "symmetric memory pool"},
    samples={"0.5.9..0.5.23": "Pre-allocating symmetric memory pool with 4 GiB"},
    source=_ALLREDUCE,
)
@read_from(
    r"FlashInfer workspace initialized for rank|FlashInfer PCIe-IPC workspace built",
    constants={"what": "FlashInfer all-reduce workspace"},
    samples={
        "0.4.9..0.5.9": "FlashInfer workspace initialized for rank 0, world_size 8",
        "0.5.21..0.5.23": "FlashInfer PCIe-IPC workspace built (rank 0 of 8)",
    },
    source=_ALLREDUCE,
)
@read_from(
    r"K3 symm buffer '",
    fields={"size": rf", {SIZE}"},
    constants={"what": "symmetric buffer"},
    samples={"0.5.17..0.5.23": "K3 symm buffer 'gather': 4096 rows x 7168, 56.0 MB (bf16)"},
    source=_ALLREDUCE,
)
@read_from(
    r"Initialized DeepEP v2 ElasticBuffer:",
    fields={"size": ByteCount(r"num_bytes=(\d+)")},
    constants={"what": "DeepEP buffer"},
    samples={"0.5.19..0.5.23": "Initialized DeepEP v2 ElasticBuffer: world_size=16 num_bytes=2147483648"},
    source="sglang/srt/layers/moe/token_dispatcher/deepep.py",
)
@read_from(
    r"\[ZBAL\] rank \d+ allocated",
    literals=("[ZBAL] rank",),
    fields={"size": rf"allocated {SIZE}"},
    constants={"what": "NPU shared space"},
    samples={"0.5.12..0.5.23": "[ZBAL] rank 3 allocated 512 MB gva space."},
    source="sglang/srt/hardware_backend/npu",
)
@read_from(
    r"CUDA IPC multimodal feature pools reserve",
    fields={"size": rf"reserve {SIZE}", "gpu": r"on GPU (\d+)", "beside": rf"\({SIZE}"},
    constants={"what": "multimodal feature pools"},
    samples={
        "0.5.17..0.5.23": "CUDA IPC multimodal feature pools reserve 4096 MiB total on GPU 0 (1024 MiB per tokenizer"
        " worker"
        " × 4; configured budget 4096 MiB)."
    },
    source=_MULTIMODAL,
)
@read_from(
    r"MmItemMemoryPool size per tokenizer worker:",
    fields={"size": rf"worker: {SIZE}"},
    constants={"what": "multimodal feature pools"},
    samples={"0.5.11..0.5.15": "MmItemMemoryPool size per tokenizer worker: 1024 MiB (budget 4096 MiB / 4)"},
    source=_MULTIMODAL,
)
@read_from(
    r" CUDA IPC pool on GPU ",
    fields={"size": rf"Creating a {SIZE}", "gpu": rf"on GPU {NUMBER}"},
    constants={"what": "embedding overrides"},
    samples={
        "0.5.23..0.5.23": "Creating a 256 MiB CUDA IPC pool on GPU 0 for GPU-resident embedding overrides (1 worker)"
    },
    source=_MULTIMODAL,
)
@read_from(
    r"multimodal pool has no free chunk|MmItemMemoryPool has no free chunk",
    constants={"what": "multimodal pool full"},
    samples={
        "0.5.11..0.5.23": "MmItemMemoryPool has no free chunk for 12 MiB",
        "0.5.17..0.5.23": "CUDA VMM multimodal pool has no free chunk for 12 MiB",
    },
    source=_MULTIMODAL,
)
@read_from(
    r"\] Registered .* embedding pool:",
    literals=(" embedding pool:",),
    fields={"size": rf"capacity={SIZE}"},
    constants={"what": "embedding pool"},
    samples={
        "0.5.15..0.5.23": "[Rank 0] Registered image embedding pool: dim=4096, pages=128, page_tokens=64,"
        " capacity=64.00 MB"
    },
    source=_MULTIMODAL,
)
@read_from(
    r"ViT CUDA graph:",
    fields={
        "size": InMiB(rf"reserved_delta_mib={DECIMAL}"),
        "beside": InMiB(rf"reserved_total_mib={DECIMAL}"),
    },
    constants={"what": "vision encoder graph"},
    samples={
        "0.5.17..0.5.23": "Captured Kimi-K3 ViT CUDA graph: tokens=4096 allocated_delta_mib=12.0"
        " reserved_delta_mib=20.0"
        " allocated_total_mib=120.0 reserved_total_mib=200.0"
    },
    source="sglang/srt/models: Kimi K3 vision tower",
)
@read_from(
    r"Routing experts device buffer allocated\.",
    fields={"size": rf"size: {SIZE}"},
    constants={"what": "routed experts"},
    samples={"0.5.7..0.5.11": "Routing experts device buffer allocated. #shape: (8192, 61, 8), size: 15.25 MB"},
    source="sglang/srt/layers/moe/routed_experts_capturer.py",
)
@read_from(
    r"StagingBuffer allocated:|StagingAllocator \(ring\+overcommit\):",
    fields={"size": r": (\d+(?:\.\d+)?) (MB) on"},
    constants={"what": "staging buffer"},
    samples={
        "0.5.10..0.5.23": (
            "StagingBuffer allocated: 64.0 MB on cuda:0, method=torch, ptr=0x7f00",
            "StagingAllocator (ring+overcommit): 512.0 MB on cuda:0, ptr=0x7f00",
        )
    },
    source=_DISAGGREGATION,
)
@read_from(
    r"PD DCP pack buffers allocated:",
    fields={"size": rf" x {SIZE}", "count": rf"allocated: {NUMBER}"},
    constants={"what": "DCP pack buffers"},
    samples={"0.5.19..0.5.23": "PD DCP pack buffers allocated: 2 x 32.0 MB (max_tokens=8192)"},
    source=_DISAGGREGATION,
)
@read_from(
    r"EmbeddingPool registered:|EmbeddingPool allocated:",
    fields={"size": rf"size={SIZE}", "gpu": rf"gpu={NUMBER}"},
    constants={"what": "transfer embedding pool"},
    samples={
        "0.5.13..0.5.17": "MooncakeEmbeddingPool registered: gpu=0, size=512MB, base=0x7f00",
        "0.5.19..0.5.23": "EmbeddingPool allocated: gpu=0, size=512MB, base=0x7f00, rdma_registered=True",
    },
    source=_DISAGGREGATION,
)
@read_from(
    r"Enable offload kv cache for decode side",
    constants={"what": "decode KV offload"},
    samples={"0.5.3..0.5.23": "Enable offload kv cache for decode side"},
    source=_DISAGGREGATION,
)
@read_from(
    r"Full-CG prefill workspace:",
    fields={"size": rf"workspace: {SIZE}"},
    constants={"what": "prefill graph workspace"},
    samples={"0.5.15..0.5.23": "Full-CG prefill workspace: 256 MB (max bucket 8192 tokens, 48 request slots)"},
    source="sglang/srt/model_executor: prefill graph runner",
)
@read_from(
    r"Graph pool pre-carved:",
    fields={"size": rf"pre-carved: {GIB}"},
    constants={"what": "graph pool"},
    samples={"0.5.19..0.5.23": "Graph pool pre-carved: 1.50 GB"},
    source="sglang/srt/model_executor: graph pools",
)
@read_from(
    r"Graph pool borrow",
    fields={"size": rf": {SIZE}"},
    constants={"what": "graph pool borrowed"},
    samples={"0.5.19..0.5.23": "Graph pool borrow decode: 12.0 MiB"},
    source="sglang/srt/model_executor: graph pools",
)
@read_from(
    r"Pre-allocated shared MoE LoRA CUDA graph buffers",
    constants={"what": "MoE LoRA graph buffers"},
    samples={"0.5.10..0.5.17": "Pre-allocated shared MoE LoRA CUDA graph buffers (max_bs=256, max_loras=8)"},
    source="sglang/srt/lora",
)
class BufferAllocated(Event):
    """A buffer on the GPU: what it is for and, where the line says, its size. `beside` is a second size of the line."""

    what: str
    size: Bytes | None
    beside: Bytes | None
    gpu: int | None
    count: int | None


@read_from(
    r"DSpark folded sampling disabled: its static buffers need",
    fields={"needed": rf"need {GIB}", "available": rf"only {GIB}"},
    constants={"what": "DSpark folded sampling"},
    samples={
        "0.5.17..0.5.21": "DSpark folded sampling disabled: its static buffers need 1.20 GB but only 0.80 GB GPU"
        " memory is"
        " free; falling back."
    },
    source="sglang/srt/speculative: DSpark",
)
@read_from(
    r"Disabling auto-selected prefill CUDA graph: only",
    fields={"needed": rf"at least {SIZE}", "available": rf"only {SIZE}"},
    constants={"what": "prefill CUDA graph"},
    samples={
        "0.5.17..0.5.17": "Disabling auto-selected prefill CUDA graph: only 0.80 GiB is free after"
        " model/KV/eager-buffer"
        " allocation; at least 2.00 GiB is required for capture. Lower --mem-fraction-static."
    },
    source="sglang/srt/model_executor: prefill graph runner",
)
@read_from(
    r"draft cuda graph because only",
    fields={"available": rf"only {GIB}", "what": r"Disable (\w+) draft"},
    samples={
        "0.5.14..0.5.23": "Disable DFLASH draft cuda graph because only 0.80 GB GPU memory is available after target"
        " backend initialization.",
        "0.5.17..0.5.23": "Disable DSpark draft cuda graph because only 0.80 GB GPU memory is available after target"
        " backend initialization.",
    },
    source="sglang/srt/speculative",
)
class SkippedForMemory(Event):
    """Something optional was left out because too little was free."""

    what: str | None
    needed: Bytes | None
    available: Bytes | None


@read_from(
    r"device-loaded after serving started",
    fields={"kernel": r"Triton kernel '([^']*)'", "available": rf"free device mem: {SIZE}"},
    samples={
        "0.5.19..0.5.23": "Triton kernel 'fused_moe' device-loaded after serving started (free device mem: 812.00 MiB)."
        " Pre-load it during engine init to avoid CUDA OOM."
    },
    source="sglang/srt/utils: late kernel loads",
)
class LateKernel(Event):
    """A kernel was loaded while serving, and takes device memory then."""

    kernel: str | None
    available: Bytes | None
