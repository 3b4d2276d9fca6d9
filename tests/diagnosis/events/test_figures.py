"""Figures of events in their right units, whatever else stands on the line."""

from typing import TypeVar

from kvdiag.diagnosis.events import Event, Matcher
from kvdiag.diagnosis.events.buffers import BufferAllocated
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import CustomAllReduceOff
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostPool
from kvdiag.diagnosis.events.kv_pool import (
    DeepSeekV4Budget,
    KVPoolAllocated,
    KVPoolReserved,
    MambaPool,
    PostCapturePool,
    SlidingWindowUsage,
    UnifiedPool,
)
from kvdiag.diagnosis.events.libraries import KernelResourceShort
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import NotUnderstood
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.requests import TokenSlotsExhausted
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import GIB, MIB

MATCHER = Matcher()
E = TypeVar("E", bound=Event)


def read(kind: type[E], text: str, after: tuple[str, ...] = ()) -> E:
    events = list(MATCHER.read([LogLine(0, 1, text, after=after)]))
    return next(event for event in events if isinstance(event, kind))


def test_gb_on_device_lines_is_gib() -> None:
    event = read(WeightsLoaded, "Load weight end. type=A, dtype=torch.bfloat16, avail mem=6.00 GB, mem usage=-0.25 GB.")
    assert (event.available, event.used) == (6 * GIB, -GIB // 4)


def test_gb_on_host_lines_is_ten_to_the_ninth() -> None:
    assert read(HostPool, "Allocating 44.77 GB host memory for hierarchical KV cache.").size == 44_770_000_000


def test_a_host_pool_of_the_new_wording_has_its_tokens_and_label() -> None:
    event = read(HostPool, "Allocating KV hierarchical KV host pool: 637108 tokens, 44.77 GB host memory.")
    assert (event.tokens, event.what) == (637108, "KV")


def test_added_and_reordered_parts_do_no_harm() -> None:
    event = read(WeightsLoaded, "Load weight end. shards=8, mem usage=2.00 GB, type=NewForCausalLM, avail mem=3.00 GB.")
    assert (event.architecture, event.used, event.available) == ("NewForCausalLM", 2 * GIB, 3 * GIB)


def test_k_and_v_are_one_pool() -> None:
    event = read(KVPoolAllocated, "KV Cache is allocated. #tokens: 46611, K size: 1.50 GB, V size: 1.25 GB")
    assert (event.size, event.printed_figures) == (int(2.75 * GIB), 2)


def test_a_cut_pool_line_has_no_size() -> None:
    assert read(KVPoolAllocated, "KV Cache is allocated. #tokens: 46611, K size: 1.50 GB").size is None


def test_mlx_slots_are_tokens_and_mb_are_mib() -> None:
    event = read(
        KVPoolAllocated, "MlxKVPool: 112640 slots × 28 layers × 8 heads × 128 dim, dtype=bfloat16, ~12322.5 MB"
    )
    assert (event.tokens, event.size) == (112640, int(12322.5 * MIB))


def test_an_upper_bound_of_addresses_is_no_pool() -> None:
    text = "Full KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 400000, K size: 20.00 GB, V size: 20.00 GB"
    events = list(MATCHER.read([LogLine(0, 1, text)]))
    assert [type(event) for event in events] == [KVPoolReserved]


def test_the_post_capture_line_tells_target_from_draft() -> None:
    target = read(
        PostCapturePool,
        "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 9, KV size: 1.00 GB, avail"
        " mem=4.00 GB",
    )
    draft = read(
        PostCapturePool,
        "Post-capture KV sizing: draft KV cache allocated. dtype: torch.bfloat16, #tokens: 9, KV size: 1 GB",
    )
    assert (target.model, target.available, draft.model, draft.available) == (None, 4 * GIB, "draft", None)


def test_an_unrounded_sliding_window_sum_is_read() -> None:
    text = "SWAKVPool mem usage: 36.69140625 GB, swa size: 171008, full size: 213761"
    assert read(SlidingWindowUsage, text).size == int(36.69140625 * GIB)


def test_state_sizes_without_a_space_are_read() -> None:
    event = read(
        MambaPool,
        "Mamba Cache is allocated. max_mamba_cache_size: 55, conv_state size: 0.50GB, ssm_state size: 4.00GB"
        " intermediate_ssm_state_cache size: 2.00GB intermediate_conv_window_cache size: 0.25GB ",
    )
    assert (event.conv, event.ssm, event.intermediate_ssm, event.intermediate_conv) == (
        GIB // 2,
        4 * GIB,
        2 * GIB,
        GIB // 4,
    )


def test_graph_lines_name_their_kind() -> None:
    kinds = {
        "Capture cuda graph begin. This can take": "",
        "Capture piecewise CUDA graph begin. avail mem=1.00 GB": "piecewise",
        "Capture draft extend cuda graph begin (step 1). This can": "draft extend",
        "Capture target verify NPU graph begin. backend=full": "target verify",
        "Capture single-CG draft extend begin. This": "single-CG draft extend",
        "Capture Frozen-KV MTP draft cuda graph begin.": "Frozen-KV MTP draft",
    }
    assert {text: (read(GraphBegin, text).kind or "").strip() for text in kinds} == kinds


def test_both_orders_of_a_capture_end_are_read() -> None:
    early = read(GraphEnd, "Capture cuda graph end. Time elapsed: 2.00 s. avail mem=0.50 GB. mem usage=1.00 GB.")
    late = read(GraphEnd, "Capture cuda graph end. Time elapsed: 2.00 s. mem usage=1.00 GB. avail mem=0.50 GB.")
    assert (early.available, early.used, early.elapsed_s) == (late.available, late.used, late.elapsed_s)


def test_every_process_of_an_overflow_is_listed() -> None:
    event = read(
        DeviceOutOfMemory,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 38.00 MiB. GPU 0 has a total capacity of"
        " 23.65 GiB"
        " of which 39.44 MiB is free. Process 20909 has 1.81 GiB memory in use. Process 21068 has 16.12 GiB memory"
        " in use."
        " Including non-PyTorch memory, this process has 1.90 GiB memory in use. Of the allocated memory 1.22 GiB is"
        " allocated by PyTorch, and 220.57 MiB is reserved by PyTorch but unallocated.",
    )
    assert [round(size / GIB, 2) for size in event.process_sizes] == [1.81, 16.12, 1.9]
    assert event.pids == (20909, 21068)
    assert event.own is not None and round(event.own / GIB, 2) == 1.9


def test_impossible_sizes_are_no_process_of_this_machine() -> None:
    event = read(
        DeviceOutOfMemory,
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 0 bytes is"
        " free."
        " Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use.",
    )
    assert (event.free, event.process_sizes) == (0, ())


def test_on_chip_memory_is_in_bytes() -> None:
    event = read(
        KernelResourceShort, "OutOfResources: out of resource: shared memory, Required: 196608, Hardware limit: 65536"
    )
    assert (event.resource, event.required, event.limit) == ("shared memory", 196608, 65536)


def test_token_slots_are_read_from_the_lines_that_follow() -> None:
    event = read(
        TokenSlotsExhausted,
        "RuntimeError: Prefill out of memory. Try to lower your batch size.",
        ("Try to allocate 8192 tokens.", "Available tokens: 512", "self.tree_cache.evictable_size()=90"),
    )
    assert (event.kind, event.wanted, event.available) == ("Prefill", 8192, 512)


def test_host_memory_refusals_keep_their_figures() -> None:
    event = read(
        HostMemoryShort, "ValueError: Not enough host memory available. Requesting 7.05 GB but only have 2.04 GB free."
    )
    assert (event.wanted, event.free) == (7.05, 2.04)


def test_a_vision_graph_is_counted_in_mib() -> None:
    event = read(
        BufferAllocated,
        "Captured Kimi-K3 ViT CUDA graph: tokens=1 allocated_delta_mib=12.0 reserved_delta_mib=20.0"
        " allocated_total_mib=1.0"
        " reserved_total_mib=200.0",
    )
    assert (event.size, event.beside) == (20 * MIB, 200 * MIB)


def test_batch_lines_are_read_part_by_part() -> None:
    event = read(
        DecodeBatch,
        "Decode batch [412], #running-req: 9, #full token: 4000, full token usage: 0.31, #swa token: 12, swa token"
        " usage:"
        " 0.06, mamba num: 18, mamba usage: 0.90, accept len: 2.61, accept rate: 0.65, new key: 3.00, cuda graph: True,"
        " gen throughput (token/s): 402.40, #queue-req: 2",
    )
    assert (event.running, event.tokens, event.usage, event.swa_tokens, event.swa_usage) == (9, 4000, 0.31, 12, 0.06)
    assert (event.mamba_slots, event.mamba_usage, event.accept_length, event.accept_rate) == (18, 0.9, 2.61, 0.65)
    assert (event.throughput, event.queued, event.graph) == (402.4, 2, True)


def test_the_first_mixed_prefill_line_has_its_running_requests() -> None:
    event = read(
        PrefillBatch,
        "Prefill batch(mixed #running-req: 4). #new-seq: 1, #new-token: 7, #cached-token: 0,"
        " cache hit rate: 12.50%, #queue-req: 3",
    )
    assert (event.running, event.new_tokens, event.queued, event.hit_percent) == (4, 7, 3, 12.5)


def test_a_batch_line_behind_a_bar_is_still_one() -> None:
    event = read(DecodeBatch, "100%|####| 8/8 [00:01] Decode batch. #running-req: 1, #token: 40, token usage: 0.01")
    assert (event.running, event.tokens) == (1, 40)


def test_figures_of_absurd_length_are_no_figures() -> None:
    events = list(
        MATCHER.read([LogLine(0, 1, f"KV Cache is allocated. #tokens: {'9' * 30}, KV size: {'9' * 30}.0 GB")])
    )
    assert isinstance(events[0], KVPoolAllocated)
    assert (events[0].tokens, events[0].size) == (None, None)


def test_a_time_beyond_every_float_is_no_time() -> None:
    event = read(WeightsLoaded, "Load weight end. elapsed=1e400 s, type=A, avail mem=6.00 GB, mem usage=1.00 GB.")
    assert (event.elapsed_s, event.available) == (None, 6 * GIB)


def test_what_is_free_or_counted_is_never_below_zero() -> None:
    loaded = read(WeightsLoaded, "Load weight end. type=A, avail mem=-6.00 GB, mem usage=-0.25 GB.")
    assert (loaded.available, loaded.used) == (None, -GIB // 4)
    pool = read(KVPoolAllocated, "KV Cache is allocated. #tokens: -5, K size: -1.50 GB, V size: 1.25 GB")
    assert (pool.tokens, pool.size) == (None, None)
    limits = read(
        ServerLimits,
        "max_total_num_tokens=159277, chunked_prefill_size=-1, max_prefill_tokens=16384, max_running_requests=-5,"
        " context_len=131072, available_gpu_mem=-7.43 GB",
    )
    assert (limits.tokens, limits.chunked_prefill_size, limits.max_running_requests, limits.available) == (
        159277,
        -1,
        None,
        None,
    )


def test_a_renamed_line_is_shown_as_not_understood() -> None:
    assert type(next(iter(MATCHER.read([LogLine(0, 1, "Model weights ready. avail mem=1.00 GB")])))) is NotUnderstood


def test_the_tokens_of_a_deepseek_v4_budget_are_not_its_bytes_a_token() -> None:
    event = read(
        DeepSeekV4Budget,
        "DSv4 memory calculation: bytes_per_full_token=15955.85, available_bytes=19.58 GB, full_token=1317632",
    )
    assert (event.bytes_per_token, event.tokens) == (15955.85, 1317632)


def test_a_name_is_not_found_at_the_end_of_a_longer_one() -> None:
    event = read(WeightsLoaded, "Load weight end. dtype=torch.bfloat16, avail mem=0.41 GB, mem usage=30.28 GB.")
    assert event.architecture is None
    assert event.dtype == "torch.bfloat16"


def test_gib_and_gb_on_device_lines_are_the_same_unit() -> None:
    event = read(WeightsLoaded, "Load weight end. type=A, avail mem=6.00 GiB, mem usage=-0.25GiB.")
    assert (event.available, event.used) == (6 * GIB, -GIB // 4)


def test_a_unified_pool_has_the_whole_bytes_that_its_line_prints() -> None:
    line = "[unified-memory-pool] UnifiedKVPool allocated: total_bytes=17.43 GB (=18715321098 B), 3 sub-pool(s)"
    assert read(UnifiedPool, line).size == 18_715_321_098
    assert read(UnifiedPool, line.replace(" (=18715321098 B)", "")).size == round(17.43 * GIB)
    reserved = "[unified-memory-pool] UnifiedKVPool reserved VA upper bound: total_bytes=27.43 GB (=29452739225 B)"
    assert read(KVPoolReserved, reserved).kv == 29_452_739_225


def test_a_unified_pool_s_tokens_are_its_full_capacity() -> None:
    event = read(
        UnifiedPool, "[unified-memory-pool]   total_bytes=9 (=0.00 GB), full_capacity=300127, swa_capacity=100128"
    )
    assert (event.tokens, event.swa_tokens) == (300127, 100128)


def test_a_level_before_the_message_hides_no_pool_s_name() -> None:
    assert read(KVPoolAllocated, "INFO: SWA KV Cache is allocated. #tokens: 5, KV size: 1.00 GB").label == "SWA"


def test_custom_all_reduce_is_off_for_a_world_size_too() -> None:
    event = read(CustomAllReduceOff, "Custom allreduce is disabled due to an unsupported world size: 3.")
    assert event.reason == "an unsupported world size: 3."
