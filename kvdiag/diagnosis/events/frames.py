"""Frames of a traceback that name the place of an overflow."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import Event, read_from

_PYTHON = "python traceback of an SGLang process"


@read_from(
    r"get_image_feature|get_video_feature|self\.visual\(|vision_tower|/(?:vision|clip|siglip|internvit|\w*vit)\.py"
    r"|VisionTransformer|VisionAttention",
    literals=(
        "get_image_feature",
        "get_video_feature",
        "self.visual(",
        "vision_tower",
        "/vision.py",
        "/clip.py",
        "/siglip.py",
        "vit.py",
        "VisionTransformer",
        "VisionAttention",
    ),
    constants={"site": "vision"},
    excludes=("server_args=",),
    samples=('  File "/sgl-workspace/sglang/python/sglang/srt/layers/attention/vision.py", line 60, in forward',),
    source=_PYTHON,
)
@read_from(
    r"logits_processor\.py|compute_temp_top_p_normalized_logprobs|get_token_logprobs|input_token_logprobs|log_softmax",
    literals=(
        "logits_processor.py",
        "compute_temp_top_p_normalized_logprobs",
        "get_token_logprobs",
        "input_token_logprobs",
        "log_softmax",
    ),
    constants={"site": "logits"},
    excludes=("server_args=",),
    samples=('  File "/sglang/python/sglang/srt/layers/logits_processor.py", line 410, in _get_logits',),
    source=_PYTHON,
)
@read_from(
    r"mqa_logits|indexer\.py|forward_\w*indexer",
    literals=("mqa_logits", "indexer.py", "_indexer"),
    constants={"site": "indexer"},
    excludes=("server_args=", "host memory"),
    samples=("indexer.py forward_c4_indexer -> deep_gemm fp8_paged_mqa_logits",),
    source=_PYTHON,
)
@read_from(
    r"_init_mamba_pool|in MambaPool|class MambaPool",
    literals=("_init_mamba_pool", "MambaPool"),
    constants={"site": "mamba_pool"},
    samples=('  File "/sglang/srt/mem_cache/memory_pool.py", line 499, in _init_mamba_pool',),
    source=_PYTHON,
)
@read_from(
    r"ReqToTokenPool\(|self\.req_to_token = torch\.zeros",
    literals=("ReqToTokenPool(", "self.req_to_token = torch.zeros"),
    constants={"site": "request_table"},
    samples=("    self.req_to_token = torch.zeros(",),
    source=_PYTHON,
)
@read_from(
    r"image_processing_\w+_fast\.py|image_processing_utils_fast|base_processor\.py.*process_mm_data",
    literals=("_fast.py", "image_processing_utils_fast", "process_mm_data"),
    constants={"site": "image_processor"},
    samples=('  File "/transformers/models/qwen2_vl/image_processing_qwen2_vl_fast.py", line 200, in _preprocess',),
    source=_PYTHON,
)
@read_from(
    r"ep_moe/layer\.py|forward_deepgemm_contiguous|grouped_gemm|m_grouped_\w*gemm|deepep_moe|token_dispatcher/deepep",
    literals=(
        "ep_moe/layer.py",
        "forward_deepgemm_contiguous",
        "grouped_gemm",
        "m_grouped_",
        "deepep_moe",
        "token_dispatcher/deepep",
    ),
    constants={"site": "experts"},
    excludes=("server_args=",),
    samples=('  File "/sglang/srt/layers/moe/ep_moe/layer.py", line 500, in forward_deepgemm_contiguous',),
    source=_PYTHON,
)
@read_from(
    r"deep_ep/buffer\.py|deep_ep\.Buffer\(|Buffer\.get_nvl_buffer|get_low_latency_rdma_size_hint",
    literals=("deep_ep/buffer.py", "deep_ep.Buffer(", "get_low_latency_rdma_size_hint"),
    constants={"site": "dispatch_buffer"},
    samples=('  File "/usr/lib/python3/deep_ep/buffer.py", line 90, in __init__',),
    source=_PYTHON,
)
@read_from(
    r"(?:eagle|dspark|dflash|standalone)_worker\w*\.py.*in __init__|multi_layer_eagle\w*\.py.*in __init__"
    r"|draft_worker = |self\.draft_model_runner = ",
    literals=(
        "eagle",
        "dspark_worker",
        "dflash_worker",
        "standalone_worker",
        "draft_worker = ",
        "self.draft_model_runner = ",
    ),
    constants={"site": "draft_start"},
    excludes=("server_args=",),
    samples=('  File "/sglang/srt/speculative/eagle_worker.py", line 140, in __init__',),
    source=_PYTHON,
)
@read_from(
    r"pin_memory\.py|\.pin_memory\(|CachingHostAllocator|cudaHostAlloc|cudaHostRegister",
    literals=("pin_memory.py", ".pin_memory(", "CachingHostAllocator", "cudaHostAlloc", "cudaHostRegister"),
    excludes=("server_args=", "cudaHostRegister failed"),
    constants={"site": "pinned_host"},
    samples=('  File "/usr/lib/python3/torch/utils/data/_utils/pin_memory.py", line 98, in pin_memory',),
    source=_PYTHON,
)
@read_from(
    r"in init_torch_distributed\b|in initialize_model_parallel\b|in init_distributed_environment\b",
    literals=("in init_torch_distributed", "in initialize_model_parallel", "in init_distributed_environment"),
    constants={"site": "distributed"},
    samples=('  File "/sglang/srt/model_executor/model_runner.py", line 559, in init_torch_distributed',),
    source=_PYTHON,
)
@read_from(
    r"in load_model\b|create_weights|model_loader/loader\.py|process_weights_after_loading",
    literals=("in load_model", "create_weights", "model_loader/loader.py", "process_weights_after_loading"),
    constants={"site": "load"},
    samples=('  File "/sglang/srt/model_loader/loader.py", line 370, in load_model',),
    source=_PYTHON,
)
@read_from(
    r"in init_memory_pool|_create_buffers|in _init_pools|self\.token_to_kv_pool = ",
    literals=("in init_memory_pool", "_create_buffers", "in _init_pools", "self.token_to_kv_pool = "),
    constants={"site": "pool"},
    samples=('  File "/sglang/srt/model_executor/model_runner.py", line 1030, in init_memory_pool',),
    source=_PYTHON,
)
@read_from(
    r"cuda_graph_runner\.py|in init_device_graphs|in init_cuda_graphs|in capture_one_batch_size",
    excludes=("replay", "server_args=", "can_run"),
    constants={"site": "capture"},
    samples=('  File "/sglang/srt/model_executor/cuda_graph_runner.py", line 370, in capture',),
    source=_PYTHON,
)
@read_from(
    r"in forward_decode(?:_batch)?\b",
    excludes=("server_args=",),
    constants={"site": "decode"},
    samples=('  File "/sglang/srt/model_executor/model_runner.py", line 2210, in forward_decode',),
    source=_PYTHON,
)
@read_from(
    r"in (?:event_loop_\w+|run_event_loop|loop_for_forward|run_batch|forward_batch_generation)\b",
    literals=("in event_loop_", "in run_event_loop", "in loop_for_forward", "in run_batch", "in forward_batch_gen"),
    excludes=("server_args=",),
    constants={"site": "batches"},
    samples=('  File "/sglang/srt/managers/scheduler.py", line 1467, in event_loop_overlap',),
    source=_PYTHON,
)
class Frame(Event):
    """One frame; `site` says what the code at work was."""

    site: str


@read_from(
    r'^ *File "[^"]{0,300}/sglang/srt/[^"]{1,200}", line \d+, in ',
    literals=("/sglang/srt/",),
    samples=('  File "/sglang/python/sglang/srt/mem_cache/memory_pool_host.py", line 240, in init_kv_buffer',),
    source=_PYTHON,
    fallback=True,
    opening=True,
)
class OtherFrame(Event):
    """A frame in SGLang's code at no place that tells more: it shows whose traceback it is, where its head is cut."""
