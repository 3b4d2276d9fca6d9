"""KV cache and state pools: what each rank sets aside, and what is free afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, NUMBER, DecimalGB, Event, read_from
from kvdiag.diagnosis.units import Bytes

_POOL = "sglang/srt/mem_cache/memory_pool.py"
_RUNNER = "sglang/srt/model_executor/model_runner.py: init_memory_pool()"


@read_from(
    r"Using KV cache dtype:",
    fields={"dtype": r"dtype: ([\w.]+)"},
    samples=("Using KV cache dtype: torch.bfloat16",),
    source=_RUNNER,
    releases="0.5.3..0.5.12",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheDtype(Event):
    """The logical element type of the KV cache."""

    dtype: str | None


@read_from(
    r"KV Cache is allocated\.",
    fields={
        "label": r"(\w[\w -]*?) KV Cache is allocated",
        "dtype": r"dtype: (torch\.\w+)",
        "tokens": rf"#tokens: {NUMBER}",
        "k": rf"K size: {GIB}",
        "v": rf", V size: {GIB}",
        "kv": rf"KV size: {GIB}",
    },
    samples=(
        "KV Cache is allocated. K size: 1.42 GB, V size: 1.42 GB.",
        "KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB",
        "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 392920, K size: 17.99 GB, V size: 17.99 GB",
        "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 171008, K size: 6.10 GB, V size: 6.10 GB",
    ),
    source=f"{_POOL}: _create_buffers()",
    releases="0.4.1..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
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
    r"Use [Ss]liding window memory pool\.",
    literals=("Use Sliding window memory pool.", "Use sliding window memory pool."),
    fields={"full_tokens": rf"full_layer_tokens={NUMBER}", "swa_tokens": rf"swa_layer_tokens={NUMBER}"},
    samples=(
        "Use Sliding window memory pool. full_layer_tokens=213761, swa_layer_tokens=171008",
        "Use sliding window memory pool. full_layer_tokens=213761, swa_layer_tokens=171008",
    ),
    source=_RUNNER,
    releases="0.4.9..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowPool(Event):
    """A hybrid of full and sliding-window layers: the tokens of each pool."""

    full_tokens: int | None
    swa_tokens: int | None


@read_from(
    r"SWAKVPool mem usage:",
    fields={
        "size": rf"mem usage: {GIB}",
        "swa_tokens": rf"swa size: {NUMBER}",
        "full_tokens": rf"full size: {NUMBER}",
    },
    samples=("SWAKVPool mem usage: 36.69 GB, swa size: 171008, full size: 213761",),
    source=f"{_POOL}: SWAKVPool.__init__()",
    releases="0.5.3..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowUsage(Event):
    """The sum of both pools of a sliding-window hybrid: not memory beside them."""

    size: Bytes | None
    swa_tokens: int | None
    full_tokens: int | None


@read_from(
    r"Mamba Cache is allocated\.",
    fields={
        "slots": rf"max_mamba_cache_size: {NUMBER}",
        "conv": rf"conv_state size: {GIB}",
        "ssm": rf"ssm_state size: {GIB}",
        "intermediate_ssm": rf"intermediate_ssm_state_cache size: {GIB}",
        "intermediate_conv": rf"intermediate_conv_window_cache size: {GIB}",
    },
    samples=(
        "Mamba Cache is allocated. conv_state size: 0.03GB, ssm_state size: 1.50GB ",
        "Mamba Cache is allocated. max_mamba_cache_size: 512, conv_state size: 0.03GB, ssm_state size: 1.50GB ",
        "Mamba Cache is allocated. max_mamba_cache_size: 55, conv_state size: 0.11GB, ssm_state size: 3.87GB"
        " intermediate_ssm_state_cache size: 4.22GB intermediate_conv_window_cache size: 0.08GB ",
    ),
    source=f"{_POOL}: HybridReqToTokenPool",
    releases="0.5.2..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class MambaPool(Event):
    """State slots of linear-attention layers; `slots` are states, not tokens."""

    slots: int | None
    conv: Bytes | None
    ssm: Bytes | None
    intermediate_ssm: Bytes | None
    intermediate_conv: Bytes | None


@read_from(
    r"DSV4 memory calculation:",
    fields={
        "bytes_per_token": rf"bytes_per_full_token={DECIMAL}",
        "available": rf"available_bytes={GIB}",
        "state_fixed": rf"c128_state_fixed={GIB}",
        "tokens": rf"full_token={NUMBER}",
    },
    samples=(
        "DSV4 memory calculation: bytes_per_full_token=3400.21, available_bytes=18.04 GB, full_token=5696000",
        "DSV4 memory calculation: bytes_per_full_token=3400.21, available_bytes=18.04 GB, c128_state_fixed=0.10 GB,"
        " full_token=5664000",
    ),
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
    releases="0.5.12..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekV4Budget(Event):
    """DeepSeek-V4's compressed pools: the byte rate of a full token and the budget."""

    bytes_per_token: float | None
    available: Bytes | None
    state_fixed: Bytes | None
    tokens: int | None


@read_from(
    r"DSV4 pool sizes:",
    fields={
        "full": rf"full={NUMBER}",
        "swa": rf"swa={NUMBER}",
        "c4": rf"c4={NUMBER}",
        "c128": rf"c128={NUMBER}",
    },
    samples=("DSV4 pool sizes: full=2999808, swa=299776, c4=749952, c128=23436, c4_state=1171, c128_state=1171",),
    source="sglang/srt/model_executor: DeepSeek-V4 pool configurator",
    releases="0.5.12..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekV4Pools(Event):
    """Tokens of DeepSeek-V4's pools; the last line of a rank holds after caps."""

    full: int | None
    swa: int | None
    c4: int | None
    c128: int | None


@read_from(
    r"Memory pool end\.",
    fields={"available": rf"avail mem={GIB}"},
    samples=("Memory pool end. avail mem=11.28 GB",),
    source=_RUNNER,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnd(Event):
    """Free memory of a rank's GPU after its pools; activations, graphs and workspaces must fit in it."""

    available: Bytes | None


@read_from(
    r"max_total_tokens=-?\d+ is larger than the profiled value",
    literals=("is larger than the profiled value",),
    fields={"wanted": rf"max_total_tokens={NUMBER}", "profiled": rf"profiled value {NUMBER}"},
    samples=("max_total_tokens=500000 is larger than the profiled value 159277. Use the profiled value instead.",),
    source=_RUNNER,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTotalTokensTooLarge(Event):
    """--max-total-tokens asks for more than fits: ignored."""

    wanted: int | None
    profiled: int | None


@read_from(
    r"Allocating (?:[\w-]+ )?(?:hierarchical|[\d.]+ GB host memory)",
    literals=("GB host memory",),
    excludes=("Not enough host memory",),
    fields={
        "size": DecimalGB(r"([\d.]+) GB host memory"),
        "what": r"host memory for ([\w ]+)|Allocating (\w+) hierarchical",
    },
    samples=(
        "Allocating 44.77 GB host memory for hierarchical KV cache.",
        "Allocating KV hierarchical KV host pool: 637108 tokens, 44.77 GB host memory.",
    ),
    source="sglang/srt/mem_cache/memory_pool_host.py",
    releases="0.4.1..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HostPool(Event):
    """A host tier (HiCache) of one rank. Printed in units of 10^9 bytes."""

    size: Bytes | None
    what: str | None
