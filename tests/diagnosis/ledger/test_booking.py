"""Every drop between two readings is booked, and where it belongs."""

import io

import pytest

from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import split_launches
from kvdiag.diagnosis.ledger.booking import book
from kvdiag.diagnosis.ledger.model import Basis, Ledger, Model, Pool
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.units import GIB


def ledgers(text: str) -> list[Ledger]:
    matcher = Matcher()
    reader = LineReader([Log("log.txt", io.BytesIO(text.encode()))], matcher.phrases, dense=matcher.dense)
    return [ledger for launch in split_launches(matcher.read(reader)) for ledger in book(launch)]


def ledger(*messages: str, rank: str = "TP0") -> Ledger:
    stamped = [f"[2026-03-02 09:14:{n:02d} {rank}] {message}" for n, message in enumerate(messages)]
    (only,) = ledgers("\n".join(stamped) + "\n")
    closes(only)
    return only


def closes(one: Ledger) -> None:
    assert one.opening is not None and one.closing is not None
    taken = sum(entry.size for entry in one.entries)
    assert abs(one.opening.available - taken - one.closing.available) <= 64 * len(one.readings)


def gib(one: Ledger, pool: Pool, model: Model = Model.TARGET) -> float | None:
    taken = one.taken(pool, model=model)
    return None if taken is None else round(taken / GIB, 2)


LOAD = (
    "Load weight begin. avail mem=94.04 GB",
    "Load weight end. type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16, avail mem=21.71 GB,"
    " mem usage=72.33 GB.",
)
POOL = ("KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB", "Memory pool end. avail mem=11.28 GB")
DRAFT_LOAD = (
    "Load weight begin. avail mem=9.42 GB",
    "Load weight end. type=LlamaForCausalLMEagle3, dtype=torch.bfloat16, avail mem=8.47 GB, mem usage=0.95 GB.",
)


def test_weights_and_pool_are_booked_as_printed() -> None:
    one = ledger(*LOAD, *POOL)
    assert gib(one, Pool.WEIGHTS) == 72.33
    assert gib(one, Pool.KV_CACHE) == 10.42
    assert gib(one, Pool.UNEXPLAINED) == 0.01


def test_a_draft_model_that_loads_after_the_graphs_is_booked_apart() -> None:
    one = ledger(
        *LOAD,
        *POOL,
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.66 GB",
        "Capture cuda graph end. Time elapsed: 38.12 s. mem usage=1.21 GB. avail mem=9.45 GB.",
        *DRAFT_LOAD,
        "KV Cache is allocated. #tokens: 159277, K size: 0.30 GB, V size: 0.30 GB",
        "Memory pool end. avail mem=7.86 GB",
        "Capture draft cuda graph begin. This can take up to several minutes. avail mem=7.86 GB",
        "Capture draft cuda graph end. Time elapsed: 6.04 s. mem usage=0.25 GB. avail mem=7.61 GB.",
    )
    assert gib(one, Pool.WEIGHTS, Model.DRAFT) == 0.95
    assert gib(one, Pool.KV_CACHE, Model.DRAFT) == 0.6
    assert gib(one, Pool.CUDA_GRAPHS, Model.DRAFT) == 0.25
    assert gib(one, Pool.CUDA_GRAPHS) == 1.21
    assert gib(one, Pool.WORKSPACE) == 0.62
    assert one.kv_tokens == 159277


def test_a_draft_model_that_loads_before_both_pools_is_booked_apart() -> None:
    one = ledger(
        *LOAD,
        "Load weight begin. avail mem=21.71 GB",
        "Load weight end. elapsed=3.1 s, type=LlamaForCausalLMEagle3, avail mem=20.76 GB, mem usage=0.95 GB.",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 142000, KV size: 9.29 GB",
        "Memory pool end. avail mem=11.45 GB",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 142000, K size: 0.27 GB, V size: 0.27 GB",
        "Memory pool end. avail mem=10.91 GB",
        "Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2], avail mem=10.40 GB",
        "Capture target decode CUDA graph end. elapsed=12.26 s, mem usage=0.34 GB, avail mem=10.06 GB.",
    )
    assert gib(one, Pool.WEIGHTS, Model.DRAFT) == 0.95
    assert gib(one, Pool.KV_CACHE) == 9.29
    assert gib(one, Pool.KV_CACHE, Model.DRAFT) == 0.54
    assert gib(one, Pool.CUDA_GRAPHS) == 0.34
    assert one.kv_tokens == 142000


@pytest.mark.parametrize("order", [("swa", "full"), ("full", "swa")])
def test_two_sliding_window_pools_are_not_counted_again_as_their_sum(order: tuple[str, str]) -> None:
    lines = {
        "swa": "KV Cache is allocated. #tokens: 171008, K size: 6.10 GB, V size: 6.10 GB",
        "full": "KV Cache is allocated. #tokens: 213761, K size: 3.00 GB, V size: 3.00 GB",
    }
    one = ledger(
        *LOAD,
        "Use sliding window memory pool. full_layer_tokens=213761, swa_layer_tokens=171008",
        *(lines[name] for name in order),
        "SWAKVPool mem usage: 18.20 GB, swa size: 171008, full size: 213761",
        "Memory pool end. avail mem=3.50 GB",
    )
    assert gib(one, Pool.SWA_KV_CACHE) == 12.2
    assert gib(one, Pool.KV_CACHE) == 6.0
    assert one.kv_tokens == 213761
    assert one.kv_size is not None and round(one.kv_size / GIB, 2) == 18.2


def test_a_window_pool_whose_line_is_cut_off_is_what_the_sum_of_both_leaves() -> None:
    one = ledger(
        "KV Cache is allocated. #tokens: 213761, K size: 3.00 GB, V size: 3.00 GB",
        "SWAKVPool mem usage: 18.20 GB, swa size: 171008, full size: 213761",
        "Memory pool end. avail mem=3.50 GB",
    )
    assert gib(one, Pool.SWA_KV_CACHE) == 12.2
    assert gib(one, Pool.KV_CACHE) == 6.0
    assert one.kv_tokens == 213761
    assert one.opening is not None and round(one.opening.available / GIB, 2) == 21.7


def test_which_of_two_pools_as_long_is_cut_off_is_not_told() -> None:
    one = ledger(
        "KV Cache is allocated. #tokens: 1496958, K size: 4.82 GB, V size: 3.21 GB",
        "SWAKVPool mem usage: 77.63 GB, swa size: 1496958, full size: 1496958",
        "Memory pool end. avail mem=22.59 GB",
    )
    assert (gib(one, Pool.KV_CACHE), gib(one, Pool.SWA_KV_CACHE)) == (77.63, None)
    assert one.kv_size is not None and round(one.kv_size / GIB, 2) == 77.63


def test_a_pool_that_no_line_prints_is_what_was_taken_and_says_so() -> None:
    one = ledger(
        "Load weight begin. avail mem=191.00 GB",
        "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=176.33 GB",
        "Memory pool end. avail mem=22.83 GB",
    )
    (pool,) = [entry for entry in one.entries if entry.pool is Pool.KV_CACHE]
    assert (round(pool.size / GIB, 2), pool.basis) == (153.5, Basis.DERIVED)
    assert gib(one, Pool.WEIGHTS) == 14.67


def test_memory_that_comes_back_in_a_capture_is_a_negative_entry() -> None:
    one = ledger(
        *LOAD,
        *POOL,
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.66 GB",
        "Capture cuda graph end. Time elapsed: 8.12 s. mem usage=-5.29 GB. avail mem=15.95 GB.",
    )
    assert gib(one, Pool.CUDA_GRAPHS) == -5.29


def test_a_log_that_starts_after_the_load_derives_what_was_free_before_it() -> None:
    one = ledger(
        "Load weight end. elapsed=0.95 s, type=LlamaForCausalLM, avail mem=11.06 GB, mem usage=2.16 GB.", *POOL
    )
    assert one.opening is not None
    assert (round(one.opening.available / GIB, 2), one.opening_basis) == (13.22, Basis.DERIVED)


def test_the_request_table_is_computed_from_the_summary_line() -> None:
    one = ledger(
        *LOAD,
        "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
        "Memory pool end. avail mem=9.28 GB",
        "max_total_num_tokens=159277, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=4096,"
        " context_len=131072, available_gpu_mem=9.20 GB",
    )
    assert gib(one, Pool.REQUEST_TABLE) == 2.0
    assert gib(one, Pool.UNEXPLAINED) == 0.01
    assert gib(one, Pool.BUFFERS) == 0.08


def test_a_table_larger_than_the_drop_is_not_booked() -> None:
    one = ledger(
        *LOAD,
        *POOL,
        "max_total_num_tokens=159277, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=4096,"
        " context_len=131072, available_gpu_mem=11.20 GB",
    )
    assert gib(one, Pool.REQUEST_TABLE) is None


def test_what_no_figure_accounts_for_is_unexplained() -> None:
    one = ledger(*LOAD, POOL[0], "Memory pool end. avail mem=8.00 GB")
    assert gib(one, Pool.UNEXPLAINED) == 3.29


def test_ranks_are_never_filled_from_one_another() -> None:
    text = (
        "[2026-03-02 09:14:00 TP0] Load weight begin. avail mem=94.04 GB\n"
        "[2026-03-02 09:14:00 TP1] Load weight begin. avail mem=90.00 GB\n"
        "[2026-03-02 09:15:00 TP1] Load weight end. type=M, avail mem=18.00 GB, mem usage=72.00 GB.\n"
    )
    first, second = ledgers(text)
    assert gib(first, Pool.WEIGHTS) is None
    assert gib(second, Pool.WEIGHTS) == 72.0


def test_an_upper_bound_of_addresses_is_no_memory() -> None:
    one = ledger(
        *LOAD,
        "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 392920, K size: 17.99 GB, V size: 17.99 GB",
        "Memory pool end. avail mem=21.60 GB",
        "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 150000, KV size: 9.81 GB,"
        " avail mem=11.70 GB",
    )
    assert gib(one, Pool.KV_CACHE) == 9.81
    assert one.kv_tokens == 150000


def test_a_pool_line_without_tokens_takes_them_from_the_summary() -> None:
    one = ledger(
        "Load weight begin. avail mem=22.76 GB",
        "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=8.37 GB",
        "KV Cache is allocated. K size: 2.82 GB, V size: 2.82 GB.",
        "Memory pool end. avail mem=1.68 GB",
        "max_total_num_tokens=105531, max_prefill_tokens=16384, max_running_requests=2049, context_len=131072",
    )
    assert one.kv_tokens == 105531


def test_a_pool_known_by_its_rate_is_told_from_weights_whose_end_is_missing() -> None:
    one = ledger(
        "Load weight begin. avail mem=93.61 GB",
        "DSv4 memory calculation: bytes_per_full_token=15955.85, available_bytes=45.78 GB, full_token=3080960",
        "Memory pool end. avail mem=10.18 GB",
    )
    assert gib(one, Pool.KV_CACHE) == 45.78
    assert gib(one, Pool.WEIGHTS) == 37.65


def test_weights_and_pool_that_no_line_tells_apart_are_not_called_a_pool() -> None:
    one = ledger("Load weight begin. avail mem=93.61 GB", "Memory pool end. avail mem=10.18 GB")
    assert gib(one, Pool.KV_CACHE) is None
    assert gib(one, Pool.UNEXPLAINED) == 83.43


def test_a_printed_pool_leaves_the_rest_of_the_drop_to_weights_whose_end_is_missing() -> None:
    one = ledger("Load weight begin. avail mem=94.04 GB", *POOL)
    assert gib(one, Pool.KV_CACHE) == 10.42
    assert gib(one, Pool.WEIGHTS) == 72.34


def test_a_drop_that_holds_the_pool_and_all_that_follows_is_not_called_buffers() -> None:
    one = ledger(*LOAD, "max_total_num_tokens=8192, context_len=8192, available_gpu_mem=9.28 GB")
    assert gib(one, Pool.BUFFERS) is None
    assert gib(one, Pool.UNEXPLAINED) == 12.43


@pytest.mark.parametrize(
    "first",
    ["Capture cuda graph begin. avail mem=9.50 GB", "Capture cuda graph end. mem usage=0.22 GB. avail mem=9.28 GB"],
)
def test_a_drop_that_holds_the_pool_is_not_called_workspaces_of_the_graphs_after_it(first: str) -> None:
    one = ledger(*LOAD, first, "max_total_num_tokens=8192, context_len=8192, available_gpu_mem=9.28 GB")
    assert gib(one, Pool.WORKSPACE) is None
    assert gib(one, Pool.UNEXPLAINED) == 12.21


def test_a_pool_with_the_window_layers_tokens_is_not_the_full_pool() -> None:
    split = "Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288"
    window = "KV Cache is allocated. #tokens: 300288, K size: 8.38 GB, V size: 5.59 GB"
    cut = ledger(*LOAD, split, window)
    assert (cut.pools[0].sliding_window, cut.kv_tokens) == (True, None)
    whole = ledger(*LOAD, split, window, "KV Cache is allocated. #tokens: 375360, K size: 2.10 GB, V size: 1.40 GB")
    assert whole.kv_tokens == 375360


SPARSE = (
    "server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3.2', tp_size=8, page_size=64, mem_fraction_static=0.85)",
    "Load weight begin. avail mem=138.00 GB",
    "Load weight end. elapsed=60.0 s, type=DeepseekV32ForCausalLM, quant=fp8, avail mem=52.00 GB, mem usage=86.00 GB.",
)


@pytest.mark.parametrize(
    ("dtype", "row", "layers"),
    [("torch.bfloat16", 1152 + 132, 61), ("torch.float8_e4m3fn", 656 + 132, 61), ("torch.float8_e4m3fn", 708, 61)],
)
def test_index_keys_stand_apart_from_the_kv_that_one_line_prints_with_them(dtype: str, row: int, layers: int) -> None:
    tokens = 400_000
    size = (tokens + 64) * row * layers / GIB
    one = ledger(
        *SPARSE,
        f"KV Cache is allocated. dtype: {dtype}, #tokens: {tokens}, KV size: {size:.2f} GB",
        f"Memory pool end. avail mem={52 - size:.2f} GB",
    )
    kv, index = one.taken(Pool.KV_CACHE), one.taken(Pool.INDEXER_CACHE)
    assert kv is not None and index is not None and one.kv_size == kv + index
    assert index / GIB == pytest.approx((tokens + 64) * 132 * layers / GIB, abs=0.003)
    assert {e.basis for e in one.entries if e.pool in (Pool.KV_CACHE, Pool.INDEXER_CACHE)} == {Basis.DERIVED}


def test_a_sparse_pool_of_no_known_row_is_left_whole() -> None:
    one = ledger(
        *SPARSE,
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, KV size: 21.00 GB",
        "Memory pool end. avail mem=31.00 GB",
    )
    assert one.taken(Pool.INDEXER_CACHE) is None
    assert gib(one, Pool.KV_CACHE) == 21.0


def test_an_index_pool_with_a_line_of_its_own_is_no_draft() -> None:
    one = ledger(
        *LOAD,
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 170000, K size: 2.10 GB, V size: 2.10 GB",
        "MiniMax index-K index KV Cache is allocated. dtype: torch.bfloat16, #tokens: 170000, KV size: 0.10 GB",
        "Memory pool end. avail mem=17.40 GB",
    )
    assert gib(one, Pool.INDEXER_CACHE) == 0.1
    assert one.draft_pools == []


WARM_UP = "Required memory for warmup: {need}GB, Available memory: {free}GB"


def test_what_a_deepgemm_warm_up_keeps_between_its_lines_is_booked_apart() -> None:
    one = ledger(
        *LOAD,
        *POOL,
        WARM_UP.format(need=1.01, free=11.0),
        WARM_UP.format(need=0.47, free=10.9),
        WARM_UP.format(need=0.71, free=10.7),
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.66 GB",
    )
    (entry,) = [e for e in one.entries if "DeepGEMM" in e.what]
    assert (entry.pool, entry.basis, round(entry.size / GIB, 2)) == (Pool.WORKSPACE, Basis.DERIVED, 0.3)
    assert "1.01 GiB" in entry.what
    assert gib(one, Pool.WORKSPACE) == 0.62  # 11.28 − 10.66, the rest of the step included


@pytest.mark.parametrize("lines", [((0.71, 11.0),), ((0.71, 63.0), (0.47, 62.5))])
def test_a_deepgemm_warm_up_that_does_not_tell_what_it_keeps_is_named_and_not_booked(
    lines: tuple[tuple[float, float], ...],
) -> None:
    one = ledger(
        *LOAD,
        *POOL,
        *(WARM_UP.format(need=need, free=free) for need, free in lines),
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.66 GB",
    )
    (entry,) = [e for e in one.entries if e.pool is Pool.WORKSPACE]
    assert "DeepGEMM" in entry.what and round(entry.size / GIB, 2) == 0.62


def test_a_deepgemm_warm_up_within_a_capture_is_named_there_and_the_printed_figure_stands() -> None:
    one = ledger(
        *LOAD,
        *POOL,
        "Capture cuda graph begin. This can take up to several minutes. avail mem=11.28 GB",
        WARM_UP.format(need=1.01, free=11.0),
        WARM_UP.format(need=0.71, free=10.8),
        "Capture cuda graph end. Time elapsed: 38.12 s. mem usage=1.21 GB. avail mem=10.07 GB.",
    )
    (entry,) = [e for e in one.entries if e.pool is Pool.CUDA_GRAPHS]
    assert (entry.basis, round(entry.size / GIB, 2)) == (Basis.PRINTED, 1.21)
    assert "11.00 GiB free at its first line, 10.80 GiB at its last" in entry.what


GB10 = (
    "Failed to get GPU memory capacity from nvidia-smi. Falling back to torch.cuda.mem_get_info(). Reported total GPU"
    " memory per device (MiB): [122501], using min: 122501 MiB."
)


def test_what_no_line_explains_says_what_readings_mean_where_host_and_gpu_share_memory() -> None:
    drop = ("Load weight begin. avail mem=100.00 GB", LOAD[1].replace("21.71", "26.90"))
    (shared,) = [e for e in ledger(GB10, *drop).entries if e.pool is Pool.UNEXPLAINED]
    (alone,) = [e for e in ledger(*drop).entries if e.pool is Pool.UNEXPLAINED]
    assert shared.size == alone.size and round(shared.size / GIB, 2) == 0.77
    assert "share one memory" in shared.what and alone.what == ""


def test_the_card_s_size_has_its_line() -> None:
    one = ledger(GB10, *LOAD)
    assert one.capacity is not None and one.capacity_line is not None
    assert "122501" in one.capacity_line.text


def test_a_log_that_begins_at_the_pool_opens_before_it() -> None:
    one = ledger(*POOL, "Capture cuda graph begin. This can take up to several minutes. avail mem=10.66 GB")
    assert one.opening is not None and one.opening_basis is Basis.DERIVED
    assert round(one.opening.available / GIB, 2) == 21.7  # 10.42 of the pool and 11.28 after it
    assert gib(one, Pool.KV_CACHE) == 10.42
    assert one.earlier == [] and len(one.readings) == 2


def test_the_request_table_is_not_taken_for_weights_whose_end_is_missing() -> None:
    one = ledger(
        "Load weight begin. avail mem=93.56 GB",
        "DSv4 memory calculation: bytes_per_full_token=15955.85, available_bytes=45.78 GB, full_token=3080960",
        "Memory pool end. avail mem=10.12 GB",
        "max_total_num_tokens=3080960, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=256,"
        " context_len=1048576, available_gpu_mem=10.02 GB",
    )
    closes(one)
    assert (gib(one, Pool.KV_CACHE), gib(one, Pool.REQUEST_TABLE), gib(one, Pool.WEIGHTS)) == (45.78, 1.0, 36.66)


def test_two_pools_of_unlike_length_without_a_draft_are_a_window_s_and_a_full_one() -> None:
    pools = (
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 644444, K size: 21.51 GB, V size: 21.51 GB",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 805556, K size: 10.76 GB, V size: 10.76 GB",
    )
    one = ledger(*pools, "Memory pool end. avail mem=9.28 GB")
    assert (gib(one, Pool.SWA_KV_CACHE), gib(one, Pool.KV_CACHE)) == (43.02, 21.52) and one.kv_tokens == 805556
    draft = "Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2, 4], avail mem=9 GB"
    assert gib(ledger(*pools, "Memory pool end. avail mem=9.28 GB", draft), Pool.KV_CACHE, Model.DRAFT) == 21.52


def test_a_pool_line_shortened_by_hand_is_read() -> None:
    pool = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 53440, K 0.61 GB, V 0.61 GB"
    one = ledger(pool, "Memory pool end. avail mem=9.28 GB")
    assert gib(one, Pool.KV_CACHE) == 1.22


def test_gibs_between_the_load_and_the_graphs_are_no_workspaces() -> None:
    one = ledger(
        "Load weight end. elapsed=353.55 s, type=Qwen3_5ForConditionalGeneration, avail mem=59.87 GB,"
        " mem usage=51.86 GB.",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 535124, K size: 16.33 GB, V size: 16.33 GB",
        "Capture target decode CUDA graph end. elapsed=30.54 s, mem usage=1.38 GB, avail mem=19.66 GB.",
    )
    closes(one)
    assert gib(one, Pool.WORKSPACE) is None and gib(one, Pool.UNEXPLAINED) == 6.17
