"""Default values of SGLang's server arguments by release: what stands in a field before anything adjusts it.

One field a line: its defaults in turn, each with the first and last examined release that has it. Source: the field
declarations of SGLang's ServerArgs in its releases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from kvdiag.diagnosis.release import Release, ReleaseRange, release

Default = None | bool | int | float | str

_TABLE = """\
attention_backend: None 0.3.6..0.5.23
attn_cp_size: 1 0.5.9..0.5.23
attn_dp_size: 1 0.5.23..0.5.23
base_gpu_id: 0 0.3.6..0.5.23
chunked_prefill_size: 8192 0.2.15..0.3.6; None 0.4.0..0.5.23
context_length: None 0.2.15..0.5.23
cp_strategy: None 0.5.14..0.5.23
cpu_offload_gb: 0 0.4.0..0.5.23
cuda_graph_backend_decode: None 0.5.14..0.5.23
cuda_graph_backend_prefill: None 0.5.14..0.5.23
cuda_graph_bs: None 0.4.1..0.5.13
cuda_graph_bs_decode: None 0.5.14..0.5.23
cuda_graph_bs_prefill: None 0.5.14..0.5.23
cuda_graph_config: None 0.5.14..0.5.23
cuda_graph_max_bs: 160 0.3.6..0.3.6; None 0.4.0..0.5.13
cuda_graph_max_bs_decode: None 0.5.14..0.5.23
cuda_graph_max_bs_prefill: None 0.5.14..0.5.23
cuda_graph_max_seq_len_prefill: None 0.5.21..0.5.23
cuda_graph_prefill_max_context: None 0.5.21..0.5.23
cuda_graph_tc_compiler: None 0.5.14..0.5.21
dcp_size: 1 0.5.15..0.5.23
deepep_config: None 0.4.6..0.5.23
deepep_dispatcher_output_dtype: 'auto' 0.5.13..0.5.23
deepep_mode: 'auto' 0.4.5..0.5.23
deepep_v2_mode: 'direct' 0.5.19..0.5.23
disable_chunked_prefix_cache: False 0.4.5..0.5.23
disable_cuda_graph: False 0.2.15..0.5.23
disable_cuda_graph_padding: False 0.2.15..0.5.23
disable_custom_all_reduce: False 0.2.15..0.5.23
disable_hybrid_swa_memory: False 0.4.9..0.5.23
disable_piecewise_cuda_graph: False 0.5.10..0.5.13
disable_prefill_cuda_graph: False 0.5.14..0.5.23
disable_radix_cache: False 0.2.15..0.5.23
disaggregation_decode_allocation_policy: 'early' 0.5.23..0.5.23
disaggregation_decode_dp: None 0.4.7..0.5.9
disaggregation_decode_enable_fake_auto: False 0.5.7..0.5.8
disaggregation_decode_enable_offload_kvcache: False 0.5.3..0.5.23
disaggregation_decode_enable_radix_cache: False 0.5.11..0.5.23
disaggregation_decode_extra_slots: None 0.5.14..0.5.23
disaggregation_decode_host_receive_threshold: 0.0 0.5.21..0.5.21; 1.0 0.5.23..0.5.23
disaggregation_decode_polling_interval: 1 0.5.3..0.5.23
disaggregation_decode_retraction_backup: None 0.5.19..0.5.23
disaggregation_decode_tp: None 0.4.7..0.5.9
disaggregation_mode: 'null' 0.4.5..0.5.23
disaggregation_prefill_pp: 1 0.4.7..0.5.9
dp_size: 1 0.2.15..0.5.23
ds_channel_config_path: None 0.3.6..0.5.10
ds_heavy_channel_num: 32 0.3.6..0.5.10
ds_heavy_channel_type: 'qk' 0.3.6..0.5.10
ds_heavy_token_num: 256 0.3.6..0.5.10
ds_sparse_decode_threshold: 4096 0.3.6..0.5.10
dsa_decode_backend: None 0.5.13..0.5.23
dsa_paged_mqa_logits_backend: 'auto' 0.5.15..0.5.23
dsa_prefill_backend: None 0.5.13..0.5.23
dsa_prefill_cp_mode: 'round-robin-split' 0.5.13..0.5.19
dsa_topk_backend: 'sgl-kernel' 0.5.13..0.5.23
dsa_triton_union: 0 0.5.23..0.5.23
enable_deepep_moe: False 0.4.5..0.5.2
enable_deepep_waterfill: False 0.5.12..0.5.15
enable_double_sparsity: False 0.3.6..0.5.10
enable_dp_attention: False 0.3.6..0.5.23
enable_dp_attention_local_control_broadcast: False 0.5.11..0.5.23
enable_draft_weights_cpu_backup: False 0.5.5..0.5.23
enable_dsa_cache_layer_split: False 0.5.17..0.5.23
enable_dsa_fused_indexer: None 0.5.23..0.5.23
enable_dsa_prefill_context_parallel: False 0.5.13..0.5.19
enable_dynamic_chunking: False 0.5.7..0.5.23
enable_ep_moe: False 0.4.1..0.5.2
enable_eplb: False 0.4.6..0.5.23
enable_flashinfer_cutlass_moe: False 0.4.9..0.5.2
enable_flashinfer_moe: False 0.4.8..0.4.8
enable_flashinfer_mxfp4_moe: False 0.5.1..0.5.2
enable_flashinfer_trtllm_moe: False 0.4.9..0.5.2
enable_hierarchical_cache: False 0.4.3..0.5.23
enable_hisparse: False 0.5.10..0.5.23
enable_int8_mamba_checkpoint: False 0.5.14..0.5.23
enable_kv_cache_sharding: False 0.5.23..0.5.23
enable_linear_replayssm: False 0.5.15..0.5.23
enable_linear_replayssm_spec: False 0.5.17..0.5.23
enable_lora: None 0.4.9..0.5.23
enable_lora_overlap_loading: None 0.5.8..0.5.23
enable_mamba_cache_stochastic_rounding: False 0.5.15..0.5.23
enable_memory_saver: False 0.4.1..0.5.23
enable_mixed_chunk: False 0.2.15..0.5.23
enable_multimodal: None 0.4.6..0.5.23
enable_nsa_prefill_context_parallel: False 0.5.6..0.5.12
enable_page_major_kv_layout: False 0.5.15..0.5.23
enable_paged_experts: False 0.5.23..0.5.23
enable_prefill_cp: False 0.5.14..0.5.23
enable_return_routed_experts: False 0.5.7..0.5.23
enable_single_batch_overlap: False 0.5.3..0.5.23
enable_symm_mem: False 0.4.10..0.5.23
enable_torch_compile: False 0.2.15..0.5.23
enable_torch_compile_debug_mode: False 0.5.6..0.5.23
enable_two_batch_overlap: False 0.4.7..0.5.23
enable_unified_cache_external_linker: False 0.5.21..0.5.23
enable_unified_memory: False 0.5.15..0.5.23
enable_weights_cpu_backup: False 0.5.3..0.5.23
encoder_only: False 0.5.7..0.5.23
ep_num_redundant_experts: 0 0.4.6..0.5.23
ep_size: 1 0.4.1..0.5.23
gpu_id_step: 1 0.4.3..0.5.23
hicache_host_memory_fraction: 0.8 0.5.21..0.5.23
hicache_host_memory_mode: 'cache' 0.5.19..0.5.23
hicache_io_backend: '' 0.4.9..0.4.9; 'kernel' 0.4.10..0.5.23
hicache_mem_layout: 'layer_first' 0.4.10..0.5.13; 'page_first' 0.5.14..0.5.23
hicache_ratio: 2.0 0.4.5..0.5.17; None 0.5.19..0.5.23
hicache_size: 0 0.4.5..0.5.23
hicache_storage_backend: None 0.4.9..0.5.23
hicache_storage_backend_extra_config: None 0.5.1..0.5.23
hicache_storage_prefetch_policy: 'best_effort' 0.5.1..0.5.11; 'timeout' 0.5.12..0.5.23
hicache_storage_prefetch_retry_max_attempts: 4 0.5.19..0.5.19; 8 0.5.21..0.5.23
hicache_storage_prefetch_retry_poll_interval: 0 0.5.19..0.5.19; 8 0.5.21..0.5.23
hicache_write_policy: 'write_through_selective' 0.4.5..0.5.1; 'write_through' 0.5.2..0.5.23
hisparse_config: None 0.5.10..0.5.23
int8_mamba_ckpt_size: None 0.5.14..0.5.23
keep_mm_feature_on_device: False 0.5.3..0.5.19
kt_amx_weight_path: None 0.5.4..0.5.4
kt_max_deferred_experts_per_token: None 0.5.5..0.5.23
kt_num_gpu_experts: None 0.5.4..0.5.23
kt_threadpool_count: None 0.5.4..0.5.13; 2 0.5.14..0.5.23
kt_weight_path: None 0.5.5..0.5.23
kv_cache_dtype: 'auto' 0.2.15..0.5.23
limit_mm_data_per_request: None 0.5.7..0.5.23
linear_attn_backend: 'triton' 0.5.10..0.5.23
linear_attn_decode_backend: None 0.5.10..0.5.23
linear_attn_prefill_backend: None 0.5.10..0.5.23
linear_attn_verify_backend: None 0.5.17..0.5.23
linear_replayssm_cache_len: 16 0.5.15..0.5.23
load_format: 'auto' 0.2.15..0.5.23
lora_backend: 'triton' 0.4.3..0.5.2; 'csgmv' 0.5.3..0.5.23
lora_drain_wait_threshold: 0.0 0.5.12..0.5.23
lora_eviction_policy: 'lru' 0.5.4..0.5.23
lora_paths: None 0.3.6..0.5.23
lora_strict_loading: False 0.5.11..0.5.23
lora_target_modules: None 0.4.9..0.5.23
lora_use_virtual_experts: False 0.5.11..0.5.23
mamba_backend: 'triton' 0.5.9..0.5.23
mamba_cache_philox_rounds: 0 0.5.15..0.5.23
mamba_full_memory_ratio: 0.9 0.5.3..0.5.19; None 0.5.21..0.5.23
mamba_max_states_per_path: -1 0.5.17..0.5.23
mamba_radix_cache_strategy: 'auto' 0.5.14..0.5.23
mamba_scheduler_strategy: 'auto' 0.5.7..0.5.13
mamba_ssm_dtype: 'float32' 0.5.2..0.5.8; None 0.5.9..0.5.23
mamba_track_interval: 256 0.5.7..0.5.23
max_ep_size: None 0.5.17..0.5.23
max_len_with_idle: False 0.5.17..0.5.23
max_loaded_loras: None 0.4.10..0.5.23
max_lora_chunk_size: 16 0.5.3..0.5.23
max_lora_rank: None 0.4.9..0.5.23
max_loras_per_batch: 8 0.3.6..0.5.23
max_mamba_cache_size: None 0.5.2..0.5.23
max_micro_batch_size: None 0.4.6..0.5.2
max_num_reqs: None 0.2.15..0.3.0
max_prefill_tokens: 16384 0.2.15..0.5.23
max_queued_requests: 9223372036854775807 0.4.9..0.5.2; None 0.5.3..0.5.23
max_running_requests: None 0.2.15..0.5.23
max_total_tokens: None 0.2.15..0.5.23
mem_fraction_static: None 0.2.15..0.5.23
mm_attention_backend: None 0.4.6..0.5.23
mm_enable_dp_encoder: False 0.5.6..0.5.21; None 0.5.23..0.5.23
mm_feature_transport: None 0.5.17..0.5.23
mm_global_cache_backend: 'mooncake' 0.5.19..0.5.23
mm_io_worker_num: 0 0.5.17..0.5.23
mm_max_concurrent_calls: 32 0.5.4..0.5.9
mm_per_request_timeout: 10.0 0.5.4..0.5.9
mm_preprocess_cache_size_mb: None 0.5.19..0.5.23
mm_process_config: None 0.5.6..0.5.23
mm_processor_worker_num: 0 0.5.17..0.5.23
moe_a2a_backend: None 0.4.10..0.4.10; 'none' 0.5.1..0.5.23
moe_dense_tp_size: None 0.4.5..0.5.23
moe_dp_size: 1 0.5.9..0.5.23
nnodes: 1 0.2.15..0.5.23
nsa_decode: 'fa3' 0.5.3..0.5.3
nsa_decode_backend: 'fa3' 0.5.4..0.5.8; None 0.5.9..0.5.12
nsa_prefill: 'flashmla_prefill' 0.5.3..0.5.3
nsa_prefill_backend: 'flashmla_sparse' 0.5.4..0.5.8; None 0.5.9..0.5.12
nsa_prefill_cp_mode: 'in-seq-split' 0.5.8..0.5.8; 'round-robin-split' 0.5.9..0.5.12
num_reserved_decode_tokens: 512 0.4.7..0.5.23
offload_group_size: -1 0.5.1..0.5.23
offload_mode: 'cpu' 0.5.1..0.5.23
offload_num_in_group: 1 0.5.1..0.5.23
offload_prefetch_step: 1 0.5.1..0.5.23
page_size: 1 0.4.5..0.4.8; None 0.4.9..0.5.23
paged_experts_num_resident: None 0.5.23..0.5.23
piecewise_cuda_graph_compiler: 'eager' 0.5.4..0.5.13
piecewise_cuda_graph_max_tokens: 4096 0.5.3..0.5.6; None 0.5.7..0.5.13
piecewise_cuda_graph_tokens: None 0.5.3..0.5.13
ple_offload_backend: 'pinned' 0.5.21..0.5.23
ple_offload_dir: None 0.5.21..0.5.23
ple_offload_embedding: None 0.5.21..0.5.23
pp_async_batch_depth: 0 0.5.7..0.5.23
pp_max_micro_batch_size: None 0.5.3..0.5.23
pp_size: 1 0.4.6..0.5.23
prefill_attention_backend: None 0.4.9..0.5.23
prefill_backend: None 0.5.15..0.5.15
prefill_cp_mode: 'in-seq-split' 0.5.10..0.5.19
prefill_decode_interval: 0 0.5.19..0.5.19; None 0.5.21..0.5.23
prefill_decode_interval_min_bs: 0 0.5.23..0.5.23
prefill_delayer_forward_passes_buckets: None 0.5.8..0.5.23
prefill_delayer_max_delay_ms: None 0.5.12..0.5.23
prefill_delayer_max_delay_passes: 30 0.5.8..0.5.23
prefill_delayer_queue_min_ratio: None 0.5.12..0.5.23
prefill_delayer_token_usage_low_watermark: None 0.5.8..0.5.23
prefill_delayer_wait_seconds_buckets: None 0.5.8..0.5.23
prefill_graph_has_dp_gather: False 0.5.21..0.5.23
prefill_graph_has_rank_barrier: False 0.5.23..0.5.23
prefill_kv_cache_dequant_dtype: 'auto' 0.5.21..0.5.23
prefill_max_requests: None 0.5.7..0.5.23
prefill_only_disable_kv_cache: False 0.5.12..0.5.23
prefill_only_one_req: False 0.4.1..0.4.1
prefill_round_robin_balance: False 0.5.2..0.5.7
quantization: None 0.2.15..0.5.23
quantization_param_path: None 0.4.1..0.5.23
radix_cache_backend: None 0.5.13..0.5.23
radix_eviction_policy: 'lru' 0.5.3..0.5.23
radix_eviction_policy_config: None 0.5.21..0.5.23
retraction_policy: 'length' 0.5.17..0.5.23
schedule_conservativeness: 1.0 0.2.15..0.5.23
speculative_a2a_backend: None 0.5.17..0.5.23
speculative_accept_threshold_acc: 1.0 0.4.3..0.5.23
speculative_accept_threshold_single: 1.0 0.4.3..0.5.23
speculative_adaptive: False 0.5.11..0.5.23
speculative_adaptive_config: None 0.5.11..0.5.23
speculative_algorithm: None 0.4.1..0.5.23
speculative_attention_mode: 'prefill' 0.5.2..0.5.23
speculative_boundary_reduction: 'rs+rsv' 0.5.21..0.5.23
speculative_context: False 0.5.19..0.5.23
speculative_dflash_block_size: None 0.5.11..0.5.23
speculative_dflash_draft_window_size: None 0.5.11..0.5.11
speculative_disable_shared_experts_fusion: None 0.5.19..0.5.21
speculative_domino_candidate_pool_size: 2048 0.5.21..0.5.23
speculative_draft_attention_backend: None 0.5.7..0.5.23
speculative_draft_kv_cache_dtype: None 0.5.19..0.5.23
speculative_draft_load_format: None 0.5.3..0.5.23
speculative_draft_model_path: None 0.4.1..0.5.23
speculative_draft_model_quantization: None 0.5.7..0.5.23
speculative_draft_model_revision: None 0.5.2..0.5.23
speculative_draft_sink_size: None 0.5.21..0.5.23
speculative_draft_window_size: None 0.5.12..0.5.23
speculative_dsa_topk_backend: 'sgl-kernel' 0.5.19..0.5.23
speculative_dspark_align_verify_tokens_to_graph_tier: False 0.5.17..0.5.23
speculative_dspark_block_size: None 0.5.17..0.5.23
speculative_dspark_confidence_sts_path: None 0.5.17..0.5.23
speculative_dspark_sps_table_path: None 0.5.17..0.5.23
speculative_eagle_topk: 8 0.4.1..0.4.1; 4 0.4.3..0.4.3; None 0.4.5..0.5.23
speculative_enable_w4a4_mxfp4_megamoe: None 0.5.23..0.5.23
speculative_moe_a2a_backend: None 0.5.6..0.5.23
speculative_moe_runner_backend: None 0.5.4..0.5.23
speculative_ngram_branch_length: 18 0.5.3..0.5.9
speculative_ngram_capacity: 10000000 0.5.3..0.5.23
speculative_ngram_external_corpus_max_tokens: 10000000 0.5.11..0.5.23
speculative_ngram_external_corpus_path: None 0.5.11..0.5.23
speculative_ngram_external_sam_budget: 0 0.5.11..0.5.23
speculative_ngram_match_type: 'BFS' 0.5.3..0.5.23
speculative_ngram_max_bfs_breadth: 10 0.5.3..0.5.23
speculative_ngram_max_match_window_size: 12 0.5.3..0.5.9
speculative_ngram_max_trie_depth: 18 0.5.10..0.5.23
speculative_ngram_min_bfs_breadth: 1 0.5.3..0.5.23
speculative_ngram_min_match_window_size: 1 0.5.3..0.5.9
speculative_num_draft_tokens: 64 0.4.1..0.4.1; 8 0.4.3..0.4.3; None 0.4.5..0.5.23
speculative_num_steps: 5 0.4.1..0.4.3; None 0.4.5..0.5.23
speculative_runner_backend: None 0.5.17..0.5.23
speculative_skip_dp_mlp_sync: False 0.5.11..0.5.21
speculative_token_map: None 0.4.3..0.5.23
speculative_use_block_verification: False 0.5.23..0.5.23
speculative_use_rejection_sampling: False 0.5.14..0.5.23
swa_full_tokens_ratio: 0.8 0.4.9..0.5.19; None 0.5.21..0.5.23
swa_prefix_tails: None 0.5.21..0.5.23
torch_compile_max_bs: 32 0.3.6..0.5.23
tp_size: 1 0.2.15..0.5.23
triton_attention_num_kv_splits: 8 0.4.1..0.5.23
triton_attention_split_tile_size: None 0.5.3..0.5.23
weight_loader_disable_mmap: False 0.4.8..0.5.23
weight_loader_drop_cache_after_load: False 0.5.12..0.5.23
weight_loader_prefetch_checkpoints: False 0.5.11..0.5.23
weight_loader_prefetch_num_threads: 4 0.5.11..0.5.23
allow_auto_truncate: False 0.5.1..0.5.23
api_key: None 0.2.15..0.5.23
chat_template: None 0.2.15..0.5.23
decode_log_interval: 40 0.4.3..0.5.23
disable_overlap_schedule: False 0.3.6..0.5.23
dist_init_addr: None 0.3.6..0.5.23
enable_metrics: False 0.4.0..0.5.23
host: '127.0.0.1' 0.2.15..0.5.23
is_embedding: False 0.2.15..0.5.23
log_level: 'info' 0.2.15..0.5.23
log_requests: False 0.2.15..0.5.23
moe_runner_backend: 'auto' 0.5.1..0.5.23
node_rank: 0 0.2.15..0.5.23
port: 30000 0.2.15..0.5.23
reasoning_parser: None 0.4.3..0.5.23
revision: None 0.2.15..0.5.23
schedule_policy: 'lpm' 0.2.15..0.4.3; 'fcfs' 0.4.5..0.5.23
skip_tokenizer_init: False 0.2.15..0.5.23
stream_interval: 1 0.2.15..0.5.23
tokenizer_mode: 'auto' 0.2.15..0.5.23
tokenizer_worker_num: 1 0.5.3..0.5.23
tool_call_parser: None 0.4.5..0.5.23
trust_remote_code: False 0.2.15..0.5.23
watchdog_timeout: 300 0.3.6..0.5.23
"""

# Fields that SGLang fills itself where they are left at None: by GPU, model and release.
COMPUTED = frozenset(
    [
        "attention_backend",
        "chunked_prefill_size",
        "cuda_graph_backend_decode",
        "cuda_graph_backend_prefill",
        "cuda_graph_bs",
        "cuda_graph_bs_decode",
        "cuda_graph_bs_prefill",
        "cuda_graph_config",
        "cuda_graph_max_bs",
        "cuda_graph_max_bs_decode",
        "cuda_graph_max_bs_prefill",
        "decode_attention_backend",
        "device",
        "dsa_decode_backend",
        "dsa_prefill_backend",
        "enable_dsa_fused_indexer",
        "grammar_backend",
        "hicache_ratio",
        "kv_canary",
        "linear_attn_decode_backend",
        "linear_attn_prefill_backend",
        "linear_attn_verify_backend",
        "mamba_full_memory_ratio",
        "mamba_ssm_dtype",
        "max_loaded_loras",
        "max_running_requests",
        "mem_fraction_static",
        "mm_attention_backend",
        "mm_enable_dp_encoder",
        "mm_feature_transport",
        "mm_preprocess_cache_size_mb",
        "model_impl",
        "nccl_port",
        "nsa_decode_backend",
        "nsa_prefill_backend",
        "page_size",
        "piecewise_cuda_graph_max_tokens",
        "piecewise_cuda_graph_tokens",
        "pp_max_micro_batch_size",
        "prefill_attention_backend",
        "prefill_decode_interval",
        "random_seed",
        "sampling_backend",
        "served_model_name",
        "speculative_attention_backend",
        "speculative_draft_attention_backend",
        "speculative_draft_kv_cache_dtype",
        "speculative_draft_model_quantization",
        "speculative_eagle_topk",
        "speculative_moe_a2a_backend",
        "speculative_moe_runner_backend",
        "speculative_num_draft_tokens",
        "speculative_num_steps",
        "swa_full_tokens_ratio",
        "tokenizer_path",
        "uvicorn_access_log_exclude_prefixes",
    ]
)

# Settings that have nothing to do with memory, with the values they have in one release or another when nobody sets
# them: enough to tell that they were not set, too little to tell releases apart.
_UNSET: dict[str, tuple[Default, ...]] = {
    "asr_max_buffer_seconds": (60,),
    "asr_max_concurrent_sessions": (32,),
    "batch_notify_size": (16,),
    "collect_tokens_histogram": (False,),
    "detokenizer_worker_num": (1,),
    "disaggregation_bootstrap_port": (8998, 8997),
    "disaggregation_transfer_backend": ("mooncake",),
    "dynamic_batch_tokenizer_batch_size": (32,),
    "dynamic_batch_tokenizer_batch_timeout": (0.002,),
    "encoder_bootstrap_port": (8997,),
    "encoder_transfer_backend": ("zmq_to_scheduler",),
    "engine_info_bootstrap_port": (6789,),
    "eplb_min_rebalancing_utilization_threshold": (1.0,),
    "eplb_rebalance_num_iterations": (1000,),
    "expert_distribution_recorder_buffer_size": (1000,),
    "file_storage_path": ("sglang_storage",),
    "file_storage_pth": ("sglang_storage",),
    "flashinfer_mxfp4_moe_precision": ("default",),
    "fp4_gemm_runner_backend": ("auto", "flashinfer_cutlass"),
    "fp8_gemm_runner_backend": ("auto",),
    "gc_warning_threshold_secs": (0.0,),
    "init_expert_location": ("trivial",),
    "json_model_override_args": ("{}",),
    "kt_method": ("AMXINT4",),
    "kv_canary_real_data": ("none",),
    "load_balance_method": ("round_robin", "auto"),
    "load_snapshot_publish_interval": (15,),
    "log_requests_format": ("text",),
    "log_requests_level": (0, 2),
    "model_loader_extra_config": ("{}",),
    "num_continuous_decode_steps": (1,),
    "otlp_traces_endpoint": ("localhost:4317",),
    "priority_scheduling_preemption_threshold": (10,),
    "record_nolora_graph": (True,),
    "remote_instance_weight_loader_backend": ("nccl",),
    "sampling_defaults": ("model",),
    "scheduler_recv_interval": (1,),
    "sm_group_num": (8, 3),
    "startup_weight_load_mode": ("serial",),
    "tbo_token_distribution_threshold": (0.48,),
    "tokenizer_backend": ("huggingface",),
    "tokenizer_metrics_custom_labels_header": ("x-custom-labels", "x-customer-labels"),
    "trace_modules": ("request",),
    "weight_cache_mode": ("off",),
    "weight_version": ("default",),
}

# One setting under its names through the releases, the oldest first.
RENAMED = (
    ("cuda_graph_max_bs", "cuda_graph_max_bs_decode"),
    ("cuda_graph_bs", "cuda_graph_bs_decode"),
    ("piecewise_cuda_graph_max_tokens", "cuda_graph_max_bs_prefill"),
    ("piecewise_cuda_graph_tokens", "cuda_graph_bs_prefill"),
    ("disable_piecewise_cuda_graph", "disable_prefill_cuda_graph"),
    ("max_micro_batch_size", "pp_max_micro_batch_size"),
    ("mamba_scheduler_strategy", "mamba_radix_cache_strategy"),
    ("nsa_prefill", "nsa_prefill_backend", "dsa_prefill_backend"),
    ("nsa_decode", "nsa_decode_backend", "dsa_decode_backend"),
    ("enable_nsa_prefill_context_parallel", "enable_dsa_prefill_context_parallel", "enable_prefill_cp"),
    ("speculative_dflash_draft_window_size", "speculative_draft_window_size"),
    ("kt_amx_weight_path", "kt_weight_path"),
)
_NAMES = {name: names for names in RENAMED for name in names}


def names_of(field: str) -> tuple[str, ...]:
    """All names of a setting, this one first."""
    return (field, *(name for name in _NAMES.get(field, ()) if name != field))


@cache
def _rows() -> dict[str, tuple[tuple[Default, Release, Release], ...]]:
    rows = {}
    for row in _TABLE.splitlines():
        field, _, defaults = row.partition(": ")
        rows[field] = tuple(_read(defaults))
    return rows


def _read(defaults: str) -> Iterator[tuple[Default, Release, Release]]:
    for part in defaults.split("; "):
        value, _, when = part.rpartition(" ")
        first, _, last = when.partition("..")
        yield ast.literal_eval(value), release(first), release(last)


def defaults_of(field: str, releases: ReleaseRange) -> tuple[Default, ...] | None:
    """The defaults a field may have in these releases, the newest last; None for a field that the table lacks."""
    rows = _rows().get(field)
    if rows is None:
        return None
    low, high = (releases.exact, releases.exact) if releases.exact else (releases.since, releases.before)
    fitting = [
        value
        for n, (value, first, last) in enumerate(rows)
        # a range reaches to the next one: releases between two examined ones have either default
        if (high is None or first <= high or n == 0)
        and (low is None or low <= (rows[n + 1][1] if n + 1 < len(rows) else last) or n == len(rows) - 1)
    ]
    return tuple(dict.fromkeys(fitting)) or (rows[-1][0],)


def is_unset(field: str, value: object) -> bool:
    """Whether a value is what a setting without a row in the table has when nobody sets it, in any release."""
    return any(value == x and isinstance(value, bool) == isinstance(x, bool) for x in _UNSET.get(field, ()))


# Fields whose first release was not looked up: they tell releases apart by no means.
_EVERYWHERE = frozenset(
    [
        "allow_auto_truncate",
        "api_key",
        "chat_template",
        "decode_log_interval",
        "disable_overlap_schedule",
        "dist_init_addr",
        "enable_metrics",
        "host",
        "is_embedding",
        "log_level",
        "log_requests",
        "moe_runner_backend",
        "node_rank",
        "port",
        "reasoning_parser",
        "revision",
        "schedule_policy",
        "skip_tokenizer_init",
        "stream_interval",
        "tokenizer_mode",
        "tokenizer_worker_num",
        "tool_call_parser",
        "trust_remote_code",
        "watchdog_timeout",
    ]
)


@cache
def known_fields() -> frozenset[str]:
    """Every field of SGLang's that is known here by name, through all releases."""
    return frozenset(_rows()) | COMPUTED | _EVERYWHERE | frozenset(_NAMES) | frozenset(_UNSET)


_VARIABLES = {"SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK": "0.4.5"}  # the first release whose check asks for it


def comes_later(field: str, releases: ReleaseRange) -> bool:
    """Whether a setting surely came only after these releases; False for one that the table lacks."""
    if field in _VARIABLES:
        return releases.reaches(_VARIABLES[field]) is False
    rows = _rows().get(field)
    if rows is None or field in _EVERYWHERE:
        return False
    return releases.reaches(str(rows[0][1])) is False


@cache
def fields_by_release(releases: tuple[Release, ...]) -> dict[Release, frozenset[str]]:
    """The fields of the table that each of these releases has; post releases count with their release."""

    def base(found: Release) -> tuple[int, int, int]:
        return (found.major, found.minor, found.patch)

    spans = {
        field: [(base(first), base(last)) for _, first, last in rows]
        for field, rows in _rows().items()
        if field not in _EVERYWHERE
    }
    found: dict[Release, frozenset[str]] = {}
    for wanted in releases:
        at = base(wanted)
        found[wanted] = frozenset(
            field for field, rows in spans.items() if any(first <= at <= last for first, last in rows)
        )
    return found


__all__ = ["COMPUTED", "RENAMED", "Default", "comes_later", "defaults_of", "fields_by_release", "is_unset", "names_of"]
