"""KV cache and state pools on the GPU: what each rank sets aside, and what is free afterwards."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import AMOUNT, COUNT, DECIMAL, GIB, NUMBER, Event, read_from
from kvdiag.diagnosis.events.platform import VirtualSize
from kvdiag.diagnosis.units import Bytes

_POOL = "sglang/srt/mem_cache/memory_pool.py"
_RUNNER = "sglang/srt/model_executor/model_runner.py: init_memory_pool()"
# Whole bytes where they stand behind the rounded size.
_EXACT = r"total_bytes=(?:[\d.]{1,24} ?GB \(=)?([\d.]{1,24}) ?(G?B)"


@read_from(
    r"Using KV cache dtype:",
    fields={"dtype": r"dtype: ([\w.]+)"},
    samples={"0.5.3..0.5.12": "Using KV cache dtype: torch.bfloat16"},
    source=_RUNNER,
)
@read_from(
    r"DFLASH fa4 draft: overriding KV cache dtype",
    fields={"dtype": r"-> ([\w.]+)"},
    constants={"draft": True},
    samples={
        "0.5.17..0.5.23": "DFLASH fa4 draft: overriding KV cache dtype torch.float8_e4m3fn -> torch.bfloat16 (fa4 reads"
        " no fp8)"
    },
    source=_RUNNER,
)
class KVCacheDtype(Event):
    """The logical element type of the KV cache, of the target unless `draft`."""

    dtype: str | None
    draft: bool = False


@read_from(
    r"Using FP8 KV cache but no scaling factors provided",
    constants={"what": "no scaling factors"},
    samples={
        "0.4.1..0.5.19": "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0."
        " This may lead to less accurate results!",
        "0.5.21..0.5.23": "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.",
    },
    source=_RUNNER,
)
@read_from(
    r"KV Cache might lead to an? accuracy drop!",
    literals=("KV Cache might lead to a",),
    constants={"what": "accuracy"},
    samples={
        "0.5.4..0.5.15": "FP4 (E2M1) KV Cache might lead to a accuracy drop!",
        "0.5.17..0.5.23": "FP8_E5M2 KV Cache might lead to an accuracy drop!",
    },
    source="sglang/srt/server_args.py",
)
class KVAccuracyNotice(Event):
    """A narrow KV format may cost accuracy; `what` says why."""

    what: str


@read_from(
    r"KV Cache is allocated\.",
    fields={
        "label": r"(?:^|[\]:|] ?)([A-Za-z][\w. -]{0,60}?) KV Cache is allocated",
        "dtype": r"dtype: (torch\.\w+)",
        "tokens": rf"#tokens: {COUNT}",
        "k": rf"\bK(?: size:)? {AMOUNT}",  # by hand, lines are shortened to "K 1.42 GB, V 1.42 GB"
        "v": rf", V(?: size:)? {AMOUNT}",
        "kv": rf"KV size: {AMOUNT}",
    },
    samples={
        "0.4.1..0.4.1": "KV Cache is allocated. K size: 1.42 GB, V size: 1.42 GB.",
        "0.4.3..0.5.12": "KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB",
        "0.4.5..0.5.12": "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
        "0.5.13..0.5.23": (
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 392920, K size: 17.99 GB, V size: 17.99 GB",
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 392920, KV size: 17.99 GB",
        ),
        "0.5.17..0.5.23": (
            "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 171008, K size: 6.10 GB, V size: 6.10 GB",
            "Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 171008, KV size: 6.10 GB",
        ),
        "0.5.23..0.5.23": (
            "MiniMax index-K index KV Cache is allocated. dtype: torch.bfloat16, #tokens: 171008, KV size: 0.10 GB",
            "MiniMax MSA-v1 main NVFP4 KV Cache is allocated. dtype: torch.float4_e2m1fn_x2, #tokens: 171008,"
            " K size: 2.10 GB, V size: 2.10 GB",
        ),
    },
    source=f"{_POOL}: _create_buffers()",
)
@read_from(
    r"MlxKVPool:|MlxAttentionKVPool:",
    fields={
        "tokens": r"KVPool: (\d+) slots",
        "dtype": r"dtype=([\w.]+)",
        "kv": r"~(\d+(?:\.\d+)?) (MB)",
    },
    constants={"label": "MLX"},
    samples={
        "0.5.11..0.5.12": "MlxKVPool: 106496 slots × 28 layers × 8 heads × 128 dim, dtype=bfloat16, ~11648.0 MB",
        "0.5.13..0.5.23": "MlxAttentionKVPool: 106496 slots x 28 layers x 8 heads x 128 dim, dtype=mlx.core.bfloat16,"
        " ~11648.0 MB",
    },
    source="sglang/srt/hardware_backend/mlx/kv_cache",
)
class KVPoolAllocated(Event):
    """One KV pool of one rank. A sliding-window model prints two, a draft model adds more."""

    label: str | None
    dtype: str | None
    tokens: int | None
    k: Bytes | None
    v: Bytes | None
    kv: Bytes | None

    @property
    def size(self) -> Bytes | None:
        """K and V together."""
        if self.kv is not None:
            return self.kv
        return None if self.k is None or self.v is None else self.k + self.v

    @property
    def printed_figures(self) -> int:
        """How many rounded figures `size` is the sum of."""
        return 1 if self.kv is not None else 2


@read_from(
    r"KV Cache VA upper bound\.",
    fields={
        "label": r"(?:^|[\]:|] ?)([A-Za-z][\w. -]{0,60}?) KV Cache VA upper bound",
        "dtype": r"dtype: (torch\.\w+)",
        "tokens": rf"#tokens: {COUNT}",
        "k": rf"K size: {AMOUNT}",
        "v": rf", V size: {AMOUNT}",
        "kv": rf"KV size: {AMOUNT}",
    },
    samples={
        "0.5.19..0.5.23": (
            "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 392920, K size: 17.99 GB, V size: 17.99 GB",
            "Full KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 392920, KV size: 17.99 GB",
        )
    },
    source=f"{_POOL}: _create_buffers()",
)
@read_from(
    r"SWAKVPool VA upper bound:",
    fields={"kv": rf"upper bound: {GIB}", "tokens": rf"full size: {NUMBER}"},
    constants={"label": "SWA total"},
    samples={"0.5.19..0.5.23": "SWAKVPool VA upper bound: 36.69 GB, swa size: 171008, full size: 213761"},
    source=f"{_POOL}: SWAKVPool.__init__()",
)
@read_from(
    r"UnifiedKVPool reserved VA upper bound:",
    fields={"kv": _EXACT},
    constants={"label": "unified"},
    samples={
        "0.5.23..0.5.23": "[unified-memory-pool] UnifiedKVPool reserved VA upper bound: total_bytes=40.00 GB"
        " (=42949672960 B), 2 sub-pool(s)"
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
class KVPoolReserved(VirtualSize):
    """Address space set aside before capture: an upper bound, no memory. The post-capture line has the real size."""

    label: str | None
    dtype: str | None
    tokens: int | None
    k: Bytes | None
    v: Bytes | None
    kv: Bytes | None


@read_from(
    r"Post-capture KV sizing: (?:draft )?KV cache allocated\.",
    literals=("Post-capture KV sizing: KV cache allocated.", "Post-capture KV sizing: draft KV cache allocated."),
    fields={
        "model": r"sizing: (draft)",
        "dtype": r"dtype: (torch\.\w+)",
        "tokens": rf"#tokens: {COUNT}",
        "size": rf"KV size: {AMOUNT}",
        "available": rf"avail mem={AMOUNT}",
    },
    samples={
        "0.5.17..0.5.23": "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 392920,"
        " KV size: 35.98 GB, avail mem=4.10 GB",
        "0.5.23..0.5.23": "Post-capture KV sizing: draft KV cache allocated. dtype: torch.bfloat16, #tokens: 392920,"
        " KV size: 0.75 GB",
    },
    source="sglang/srt/model_executor: post-capture sizing",
)
class PostCapturePool(Event):
    """The KV pool as it really is, sized after the graphs; `model` is "draft" or None for the target."""

    model: str | None
    dtype: str | None
    tokens: int | None
    size: Bytes | None
    available: Bytes | None


@read_from(
    r"Post-capture KV sizing: max_running_requests",
    fields={"wanted": r"max_running_requests (\d+) ->", "granted": r"-> (\d+)"},
    constants={"by": "post-capture sizing"},
    samples={"0.5.17..0.5.23": "Post-capture KV sizing: max_running_requests 4096 -> 2048"},
    source="sglang/srt/model_executor: post-capture sizing",
)
@read_from(
    r"max_running_requests was reduced from the requested",
    fields={"wanted": r"requested (\d+)", "granted": r" to (\d+)", "by": r"due to the available ([\w -]+)"},
    samples={
        "0.5.14..0.5.23": "max_running_requests was reduced from the requested 256 to 33 (per dp worker) due to the"
        " available KV cache capacity.",
        "0.5.17..0.5.23": "max_running_requests was reduced from the requested 256 to 33 (per attention-DP worker) due"
        " to the available KV cache capacity or auxiliary-state capacity.",
    },
    source=_RUNNER,
)
@read_from(
    r"max_running_requests is capped to",
    fields={
        "granted": rf"capped to {NUMBER}",
        "slots": rf"max_mamba_cache_size={NUMBER}",
        "slots_per_request": r"(\d+) state slots? per request",
    },
    constants={"by": "mamba state cache"},
    samples={
        "0.5.17..0.5.23": "max_running_requests is capped to 8 by the mamba state cache (max_mamba_cache_size=40, 5"
        " state slots per request). To raise it: increase --max-mamba-cache-size."
    },
    source=_RUNNER,
)
class RequestsCapped(Event):
    """SGLang lowered the number of running requests; `by` what."""

    wanted: int | None
    granted: int | None
    by: str | None
    slots: int | None = None
    slots_per_request: int | None = None


@read_from(
    r"decode CUDA graph max_bs=\d+ < max_running_requests|KV-canary per-forward workspace",
    literals=("reserving activation headroom", "KV-canary per-forward workspace"),
    fields={
        "size": rf"workspace {GIB}",
        "graph_max": rf"max_bs={NUMBER}",
        "requests": rf"max_running_requests={NUMBER}",
    },
    samples={
        "0.5.17..0.5.23": "Post-capture KV sizing: decode CUDA graph max_bs=256 < max_running_requests=2048; reserving"
        " activation headroom",
        "0.5.21..0.5.23": "Post-capture KV sizing: KV-canary per-forward workspace 0.12 GB",
    },
    source="sglang/srt/model_executor: post-capture sizing",
)
@read_from(
    r"of the KV budget for post-sizing multimodal allocations",
    fields={"size": rf"Reserving {GIB}"},
    samples={
        "0.5.19..0.5.23": "Reserving 1.50 GB of the KV budget for post-sizing multimodal allocations (feature-transport"
        " pools + embedding cache)."
    },
    source=_RUNNER,
)
class BudgetReserved(Event):
    """A part of the pool's budget is kept back for something else."""

    size: Bytes | None
    graph_max: int | None = None
    requests: int | None = None


@read_from(
    r"The available memory for KV cache is",
    fields={"size": rf"KV cache is {GIB}"},
    samples={"": "The available memory for KV cache is 16.06 GB."},
    source=f"{_RUNNER}, in builds for NPUs",
)
class BudgetMeasured(Event):
    """The pool's budget as SGLang measured it: after-weights minus the reserve, and minus request states if any."""

    size: Bytes | None


@read_from(
    r"KV Cache skipped \(no-op pool\)",
    fields={"tokens": r"#tokens: (\d+)"},
    samples={
        "0.5.12..0.5.23": "KV Cache skipped (no-op pool). Logical #tokens: 46611, physical K/V size: ~8.0 KB"
        " placeholder"
    },
    source=f"{_POOL}",
)
class KVPoolSkipped(Event):
    """A prefill-only server has no KV memory; its tokens are a logical count."""

    tokens: int | None


@read_from(
    r"Auto-sized (?:attention )?KV pool:",
    literals=("Auto-sized KV pool:", "Auto-sized attention KV pool:"),
    fields={
        "available": rf"sys_available={GIB}",
        "limit": rf"mlx_limit={GIB}",
        "used": rf"mlx_used={GIB}",
        "budget": rf"kv_budget={GIB}",
        "bytes_per_token": rf"bytes_per_slot={NUMBER}",
        "tokens": rf"pool_size={NUMBER}",
    },
    samples={
        "0.5.11..0.5.23": (
            "Auto-sized KV pool: sys_available=20.20 GB, mlx_limit=28.0 GB, mlx_used=1.20 GB, kv_budget=12.03 GB,"
            " bytes_per_slot=114688, pool_size=112640",
            "Auto-sized attention KV pool: sys_available=20.20 GB, mlx_limit=28.0 GB, mlx_used=1.20 GB,"
            " kv_budget=12.03 GB, bytes_per_slot=114688, pool_size=112640",
        )
    },
    source="sglang/srt/hardware_backend/mlx",
)
@read_from(
    r"MLX stub: initialized minimal pools",
    fields={"tokens": rf"max_total_num_tokens={NUMBER}"},
    samples={
        "0.5.11..0.5.23": "MLX stub: initialized minimal pools (max_total_num_tokens=112640, max_running_requests=64,"
        " zero GPU KV cache allocation)"
    },
    source="sglang/srt/hardware_backend/mlx",
)
@read_from(
    r"Wired memory limit set to",
    fields={"limit": rf"set to {GIB}"},
    samples={"0.5.11..0.5.23": "Wired memory limit set to 28.0 GB"},
    source="sglang/srt/hardware_backend/mlx",
)
class UnifiedMemoryBudget(Event):
    """How an Apple machine's shared memory is divided; its pool's own line has the size."""

    available: Bytes | None
    limit: Bytes | None
    used: Bytes | None
    budget: Bytes | None
    bytes_per_token: int | None
    tokens: int | None


@read_from(
    r"Use Sliding window memory pool\.|Use sliding window memory pool\.|Use sliding window memory pool \(all SWA\)\."
    r"|Post-capture KV sizing: full_layer_tokens=",
    literals=(
        "Use Sliding window memory pool.",
        "Use sliding window memory pool.",
        "Use sliding window memory pool (all SWA).",
        "Post-capture KV sizing: full_layer_tokens=",
    ),
    fields={"full_tokens": rf"full_layer_tokens={NUMBER}", "swa_tokens": rf"swa_layer_tokens={NUMBER}"},
    samples={
        "0.4.9..0.5.6": "Use Sliding window memory pool. full_layer_tokens=213761, swa_layer_tokens=171008",
        "0.5.7..0.5.23": "Use sliding window memory pool. full_layer_tokens=213761, swa_layer_tokens=171008",
        "0.5.9..0.5.23": "Use sliding window memory pool (all SWA). swa_layer_tokens=171008",
        "0.5.17..0.5.23": "Post-capture KV sizing: full_layer_tokens=213761, swa_layer_tokens=171008",
    },
    source=_RUNNER,
)
class SlidingWindowPool(Event):
    """A hybrid of full and sliding-window layers: the tokens of each pool."""

    full_tokens: int | None
    swa_tokens: int | None


@read_from(
    r"SWAKVPool mem usage:",
    fields={
        "size": rf"mem usage: {AMOUNT}",
        "swa_tokens": rf"swa size: {COUNT}",
        "full_tokens": rf"full size: {COUNT}",
    },
    samples={
        "0.5.3..0.5.6": "SWAKVPool mem usage: 36.69140625 GB, swa size: 171008, full size: 213761",
        "0.5.7..0.5.23": "SWAKVPool mem usage: 36.69 GB, swa size: 171008, full size: 213761",
    },
    source=f"{_POOL}: SWAKVPool.__init__()",
)
class SlidingWindowUsage(Event):
    """The sum of both pools of a sliding-window hybrid: not memory beside them."""

    size: Bytes | None
    swa_tokens: int | None
    full_tokens: int | None


@read_from(
    r"SWA ring: swa_max_total_num_tokens",
    fields={"before": r"num_tokens (\d+) ->", "after": r"-> (\d+)"},
    samples={
        "0.5.21..0.5.23": "SWA ring: swa_max_total_num_tokens 171008 -> 65536 (fixed per-request SWA ring capacity)."
    },
    source=_RUNNER,
)
class SlidingWindowRing(Event):
    """The window pool is a ring of fixed size per request."""

    before: int | None
    after: int | None


@read_from(
    r"Mamba Cache is allocated\.",
    fields={
        "slots": rf"max_mamba_cache_size: {COUNT}",
        "conv": rf"conv_state size: {AMOUNT}",
        "ssm": rf" ssm_state size: {AMOUNT}",
        "intermediate_ssm": rf"intermediate_ssm_state_cache size: {AMOUNT}",
        "intermediate_conv": rf"intermediate_conv_window_cache size: {AMOUNT}",
    },
    samples={
        "0.5.2..0.5.2": "Mamba Cache is allocated. conv_state size: 0.03GB, ssm_state size: 1.50GB ",
        "0.5.3..0.5.23": (
            "Mamba Cache is allocated. max_mamba_cache_size: 512, conv_state size: 0.03GB, ssm_state size: 1.50GB ",
            "Mamba Cache is allocated. max_mamba_cache_size: 55, conv_state size: 0.11GB, ssm_state size: 3.87GB"
            " intermediate_ssm_state_cache size: 4.22GB intermediate_conv_window_cache size: 0.08GB ",
        ),
    },
    source=f"{_POOL}: HybridReqToTokenPool",
)
class MambaPool(Event):
    """State slots of linear-attention layers; `slots` are states, not tokens."""

    slots: int | None
    conv: Bytes | None
    ssm: Bytes | None
    intermediate_ssm: Bytes | None
    intermediate_conv: Bytes | None


@read_from(
    r"ReplaySSM ring buffers allocated",
    fields={
        "d": rf"\bd={GIB}",
        "k": rf"\bk={GIB}",
        "g": rf"\bg={GIB}",
        "raw_v": rf"\brawv={GIB}",
        "raw_k": rf"\brawk={GIB}",
    },
    samples={
        "0.5.15..0.5.15": "GDN ReplaySSM ring buffers allocated (L=16): d=0.120GB, k=0.060GB, g=0.001GB ",
        "0.5.17..0.5.23": "GDN ReplaySSM ring buffers allocated (record_len=16, fold=True): d=0.120GB, k=0.060GB,"
        " g=0.001GB rawv=0.030GB, rawk=0.030GB ",
    },
    source=f"{_POOL}: HybridReqToTokenPool",
)
class ReplayBuffers(Event):
    """Buffers that replay linear-attention states; GiB each."""

    d: Bytes | None
    k: Bytes | None
    g: Bytes | None
    raw_v: Bytes | None
    raw_k: Bytes | None

    @property
    def size(self) -> Bytes:
        """All of them."""
        return Bytes(sum(x for x in (self.d, self.k, self.g, self.raw_v, self.raw_k) if x is not None))


@read_from(
    r"int8 mamba checkpoint pool \(",
    fields={"size": r"pool \(([\d.]+)GB\)"},
    samples={
        "0.5.14..0.5.23": "int8 mamba checkpoint pool (1.25GB) is allocated from --mem-fraction-static headroom and is"
        " not reflected in max_total_num_tokens; ensure headroom covers it."
    },
    source=_RUNNER,
)
class MambaCheckpointPool(Event):
    """A pool outside the static share."""

    size: Bytes | None


@read_from(
    r"DSV4 memory calculation:|DSv4 memory calculation:",
    fields={
        "bytes_per_token": rf"bytes_per_full_token={DECIMAL}",
        "available": rf"available_bytes={GIB}",
        "state_fixed": rf"c128_state_fixed={GIB}",
        "c2_state_fixed": rf"c2_state_fixed={GIB}",
        "c4_state_fixed": rf"c4_state_fixed={GIB}",
        "swa_fixed": rf"swa_fixed={GIB}",
        "swa_ring_fixed": rf"swa_ring_fixed={GIB}",
        "tokens": rf"\bfull_token={NUMBER}",
    },
    samples={
        "0.5.12..0.5.14": (
            "DSV4 memory calculation: bytes_per_full_token=3400.21, available_bytes=18.04 GB, full_token=5696000",
            "DSv4 memory calculation: bytes_per_full_token=23749.84, available_bytes=4.13 GB, full_token=186368",
        ),
        "0.5.15..0.5.19": "DSV4 memory calculation: bytes_per_full_token=3400.21, available_bytes=18.04 GB,"
        " c128_state_fixed=0.10 GB, full_token=5664000",
        "0.5.21..0.5.23": "DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False,"
        " bytes_per_full_token=3400.21, available_bytes=18.04 GB, c128_state_fixed=0.10 GB, c2_state_fixed=0.02 GB,"
        " swa_fixed=0.30 GB, swa_ring_fixed=0.00 GB, c4_state_fixed=0.05 GB, full_token=5664000",
    },
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
)
class DeepSeekV4Budget(Event):
    """DeepSeek-V4's compressed pools: the byte rate of a full token and the budget."""

    bytes_per_token: float | None
    available: Bytes | None
    state_fixed: Bytes | None
    tokens: int | None
    c2_state_fixed: Bytes | None = None
    c4_state_fixed: Bytes | None = None
    swa_fixed: Bytes | None = None
    swa_ring_fixed: Bytes | None = None


@read_from(
    r"DSV4 pool sizes:|DSv4 pool sizes:",
    fields={
        "full": rf"full={NUMBER}",
        "swa": rf"swa={NUMBER}",
        "c4": rf"c4={NUMBER}",
        "c128": rf"c128={NUMBER}",
        "c4_state": rf"c4_state={NUMBER}",
        "c128_state": rf"c128_state={NUMBER}",
    },
    samples={
        "0.5.12..0.5.23": "DSV4 pool sizes: full=2999808, swa=299776, c4=749952, c128=23436, c4_state=4096,"
        " c128_state=131072"
    },
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
)
@read_from(
    r"Initialize DeepSeekV4TokenToKVPool with",
    fields={
        "requests": rf"max_num_reqs={NUMBER}",
        "swa": rf"swa_size={NUMBER}",
        "c4": rf"c4_size={NUMBER}",
        "c128": rf"c128_size={NUMBER}",
        "c4_state": rf"c4_state_pool_size={NUMBER}",
        "c128_state": rf"c128_state_pool_size={NUMBER}",
    },
    samples={
        "0.5.12..0.5.19": "Initialize DeepSeekV4TokenToKVPool with max_num_reqs=48 swa_size=299776 c4_size=749952"
        " c4_logical_size=2999808 c128_size=23436 c4_state_pool_size=4096 c128_state_pool_size=131072",
        "0.5.21..0.5.23": "Initialize DeepSeekV4TokenToKVPool with max_num_reqs=48 swa_size=299776 c4_size=749952"
        " c4_logical_size=2999808 c128_size=23436 c4_state_pool_size=4096 c128_state_pool_size=131072 unified=False"
        " unified_fp8=False",
    },
    source="sglang/srt/mem_cache: DeepSeekV4TokenToKVPool",
)
class DeepSeekV4Pools(Event):
    """Tokens of DeepSeek-V4's pools; the last line of a rank holds after caps."""

    full: int | None
    swa: int | None
    c4: int | None
    c128: int | None
    c4_state: int | None = None
    c128_state: int | None = None
    requests: int | None = None


@read_from(
    r"DSV4 SWA sizing:",
    fields={
        "mode": r"mode=(\w+)",
        "swa_tokens": rf"swa_tokens={NUMBER}",
        "ratio": rf"swa_full_tokens_ratio={DECIMAL}",
    },
    samples={
        "0.5.21..0.5.23": (
            "DSV4 SWA sizing: mode=ratio, swa_tokens=299776, swa_full_tokens_ratio=0.1",
            "DSV4 SWA sizing: mode=cap, swa_tokens=65536, request_cap+headroom=61440, prefix_tails=16",
        )
    },
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
)
@read_from(
    r"DSV4 SWA storage:",
    fields={"model": r"worker=(\w+)", "mode": r"storage=(\w+)"},
    samples={"0.5.21..0.5.23": "DSV4 SWA storage: worker=draft, storage=paged, paged_allocator=True"},
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
)
@read_from(
    r"DSV4 pool PP slice:",
    fields={"mode": r"layers=(\[\d+,\d+\))"},
    samples={"0.5.13..0.5.23": "DSV4 pool PP slice: rank=1 layers=[16,31) local=0/15"},
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
)
@read_from(
    r"DSV4 compressed attention: online c128 enabled",
    constants={"mode": "online c128"},
    samples={"0.5.12..0.5.23": "DSV4 compressed attention: online c128 enabled (ring_size=1)"},
    source="sglang/srt/layers/attention: DeepSeek-V4",
)
class DeepSeekV4Detail(Event):
    """How DeepSeek-V4's pools are laid out; `model` names draft or target where the line does."""

    mode: str | None
    model: str | None = None
    swa_tokens: int | None = None
    ratio: float | None = None


@read_from(
    r"\[unified-memory-pool\] +UNIFIED MEMORY POOL ENABLED",
    literals=("UNIFIED MEMORY POOL ENABLED",),
    fields={"what": r"path=(.*)"},
    samples={
        "0.5.15..0.5.15": "[unified-memory-pool] UNIFIED MEMORY POOL ENABLED -- path=Mamba hybrid",
        "0.5.15..0.5.23": "[unified-memory-pool] UNIFIED MEMORY POOL ENABLED -- path=SWA hybrid",
        "0.5.17..0.5.23": "[unified-memory-pool] UNIFIED MEMORY POOL ENABLED -- path=Mamba hybrid (MLA full side)",
        "0.5.19..0.5.23": "[unified-memory-pool] UNIFIED MEMORY POOL ENABLED -- path=SWA+Mamba tri-pool",
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
@read_from(
    r"UnifiedKVPool allocated: total_bytes=",
    fields={"size": _EXACT},
    constants={"what": "allocated"},
    samples={
        "0.5.15..0.5.23": "[unified-memory-pool] UnifiedKVPool allocated: total_bytes=40.00 GB (=42949672960 B), 2"
        " sub-pool(s)"
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
@read_from(
    r"sub-pool '[^']*': kind=",
    literals=("sub-pool '",),
    excludes=("fits only",),
    fields={"what": r"sub-pool '([^']*)'", "slots": rf"max_slots={NUMBER}", "entry_bytes": rf"entry_bytes={NUMBER}"},
    samples={
        "0.5.15..0.5.23": "[unified-memory-pool]   sub-pool 'full': kind=MHA, layer_num=24, grow=up, entry_bytes=98304,"
        " max_slots=213761, min_slot_index=1 (slots [0,1) reserved)"
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
@read_from(
    r"\[unified-memory-pool\] +total_bytes=",
    literals=("total_bytes=",),
    excludes=("UnifiedKVPool",),
    fields={
        "tokens": r"(?:[ =](?:full_)?max_total_num_tokens|full_capacity)=(\d+)",
        "swa_tokens": r"swa_(?:max_total_num_tokens|capacity)=(\d+)",
        "slots": rf"joint_available={NUMBER}",
        "mamba_slots": rf"max_mamba_cache_size={NUMBER}",
    },
    constants={"what": "limits"},
    samples={
        "0.5.15..0.5.23": "[unified-memory-pool]   total_bytes=42949672960, max_total_num_tokens=213761,"
        " max_mamba_cache_size=512, max_num_reqs=48, speculative_num_draft_tokens=None",
        "0.5.15..0.5.19": "[unified-memory-pool]   total_bytes=42949672960 (=40.00 GB),"
        " full_max_total_num_tokens=213761,"
        " swa_max_total_num_tokens=171008, joint_available=200000 slots",
        "0.5.21..0.5.23": "[unified-memory-pool]   total_bytes=42949672960 (=40.00 GB), full_capacity=213761,"
        " swa_capacity=171008, joint_available=200000 slots",
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
@read_from(
    r"\[unified-memory-pool\].{0,200}(?:Allocator(?:\('[^']*'\))? ready:|fused draft placement)",
    literals=("[unified-memory-pool]",),
    fields={"what": r"(\w{0,60}Allocator(?:\('[^']*'\))? ready|(?:no )?fused draft placement)"},
    samples={
        "0.5.15..0.5.23": (
            "[unified-memory-pool] UnifiedSWAAllocator ready: 213761 full slots, 171008 swa slots",
            "[unified-memory-pool] MultiEndedAllocator('full') ready: 213761 slots",
        ),
        "0.5.23..0.5.23": (
            "[unified-memory-pool] fused draft placement: 1 layer beside the target's",
            "[unified-memory-pool] no fused draft placement on the target's buffer; the draft has its own",
        ),
    },
    source="sglang/srt/mem_cache: unified memory pool",
)
class UnifiedPool(Event):
    """One byte budget shared by several pools at run time: their maxima are not available together."""

    what: str | None
    size: Bytes | None = None
    tokens: int | None = None
    swa_tokens: int | None = None
    slots: int | None = None
    entry_bytes: int | None = None
    mamba_slots: int | None = None


@read_from(
    r"Memory pool end\.",
    fields={"available": rf"avail mem={AMOUNT}"},
    samples={"0.2.15..0.5.23": "Memory pool end. avail mem=11.28 GB"},
    source=_RUNNER,
)
class PoolEnd(Event):
    """Free memory of a rank's GPU after its pools; activations, graphs and workspaces must fit in it."""

    available: Bytes | None


@read_from(
    r"max_total_tokens=-?\d+ is larger than the profiled value",
    literals=("is larger than the profiled value",),
    fields={"wanted": rf"max_total_tokens={NUMBER}", "profiled": rf"profiled value {NUMBER}"},
    samples={
        "0.2.15..0.5.23": "max_total_tokens=500000 is larger than the profiled value 159277. Use the profiled value"
        " instead."
    },
    source=_RUNNER,
)
class MaxTotalTokensTooLarge(Event):
    """--max-total-tokens asks for more than fits: ignored. A negative profiled value means no budget was left."""

    wanted: int | None
    profiled: int | None


@read_from(
    r"KV pool holds \d+ tokens, fewer than --context-length",
    literals=("fewer than --context-length",),
    fields={"tokens": rf"KV pool holds {NUMBER}", "context_len": rf"--context-length {NUMBER}"},
    samples={
        "0.5.23..0.5.23": "KV pool holds 46611 tokens, fewer than --context-length 131072. One full-length request"
        " cannot"
        " fit, so long requests will be refused or truncated at serving time. Lower --context-length, raise"
        " --mem-fraction-static, or free memory taken before the pool is sized."
    },
    source=_RUNNER,
)
class PoolBelowContext(Event):
    """SGLang itself says that the pool holds less than one full-length request."""

    tokens: int | None
    context_len: int | None


@read_from(
    r"Could not resolve DFLASH draft KV bytes/token",
    samples={
        "0.5.19..0.5.23": "Could not resolve DFLASH draft KV bytes/token (no config); falling back to layer-count"
        " scaling"
        " for the KV pool budget."
    },
    source=_RUNNER,
)
class DraftBudgetGuessed(Event):
    """The draft's share of the pool's budget is a guess by its layer count."""


@read_from(
    r"KV cache is forced as chunk cache|(?:Defaulting to|Loaded) KV cache scaling factors|KV cache dtype is not FP8"
    r"|Set(?:ting)? NSA backends? (?:for|to) |explicitly set --kv-cache-dtype|fail to receive KV Cache transfer done",
    literals=(
        "KV cache is forced as chunk cache",
        "KV cache scaling factors",
        "KV cache dtype is not FP8",
        "NSA backend",
        "explicitly set --kv-cache-dtype",
        "fail to receive KV Cache transfer done",
    ),
    samples=(
        "KV cache is forced as chunk cache for decode server",
        "Defaulting to KV cache scaling factors = 1.0 for all layers in TP rank 0 as an error occurred during loading.",
        "Loaded KV cache scaling factors from /m/scales.json",
        "Checkpoint has k_scale but KV cache dtype is not FP8. Ignoring k_scale for BMM1 (k_scale=1.00).",
        "Set NSA backends for fp8_e4m3 KV Cache: prefill=flashmla_auto, decode=flashmla_kv.",
        "Setting NSA backend to flashmla_decode for FP8 KV Cache.",
        "When specifying --nsa-prefill-backend or --nsa-decode-backend, you should also explicitly set"
        " --kv-cache-dtype (e.g., 'fp8_e4m3' or 'bfloat16').",
        "Some requests fail to receive KV Cache transfer done signal after bootstrapping.",
    ),
    source="sglang/srt: server_args.py, model_loader, disaggregation",
)
class CacheRemark(Event):
    """A remark on the KV cache that says nothing of its size."""
