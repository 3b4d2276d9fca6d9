"""Change: what is asked of a launch, flag by flag, and the questions turned round."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kvdiag.diagnosis.cards import AMD, NVIDIA, is_unified, known_capacity
from kvdiag.diagnosis.units import Bytes

_DTYPES = ("auto", "bfloat16", "bf16", "float16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1")
_MOST_TOKENS = 10**12
_MOST_RANKS = 1_024  # of one tensor-parallel group; the largest deployments have some hundred


_LABELS = {
    "dp_attention": "--dp-size",
    "hicache_size_gb": "--hicache-size",
    "draft": "the draft model",
    "card": "the GPU",
    "free_gib": "the free memory wanted",
    "tokens": "the number of tokens wanted",
    "request_tokens": "the number of tokens in one request",
}


def label(name: str) -> str:
    """What a person reads for a setting: the flag, or words where it is none."""
    return _LABELS.get(name) or "--" + name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Flags with other values, None where a flag stays. Sizes in GiB unless the name says otherwise.

    max_total_tokens   0 removes the cap
    draft              False takes the draft model away
    dp_attention       ranks that attend on their own (--enable-dp-attention --dp-size)
    hicache_size_gb    host memory a rank in 10^9 bytes, as the flag means it
    card               a card of another size, by a name that cards.py knows
    free_gib, tokens   turned round: which fraction leaves this much free, or holds this many tokens
    request_tokens     the length at which concurrent requests are counted; the context length where not given
    """

    mem_fraction_static: float | None = None
    kv_cache_dtype: str | None = None
    tp_size: int | None = None
    dp_attention: int | None = None
    max_running_requests: int | None = None
    context_length: int | None = None
    max_total_tokens: int | None = None
    draft: bool | None = None
    swa_full_tokens_ratio: float | None = None
    mamba_full_memory_ratio: float | None = None
    max_mamba_cache_size: int | None = None
    cuda_graph_max_bs: int | None = None
    hicache_ratio: float | None = None
    hicache_size_gb: float | None = None
    card: str | None = None
    free_gib: float | None = None
    tokens: int | None = None
    request_tokens: int | None = None

    @staticmethod
    def read(values: Mapping[str, object]) -> Change:
        """From a form or a command line; empty values count as not given.

        Raises ValueError with a sentence on a value that cannot be meant.
        """
        read: dict[str, object] = {}
        for field in dataclasses.fields(Change):
            value = values.get(field.name)
            if value is None or value == "":
                continue
            read[field.name] = _read(field.name, str(field.type), value)
        unknown = sorted(set(values) - {field.name for field in dataclasses.fields(Change)})
        if unknown:
            raise ValueError(f"no such change: {', '.join(unknown)}")
        change = Change(**read)  # type: ignore[arg-type]
        change.check()
        return change

    def check(self) -> None:
        """Raises ValueError with a sentence on a value outside what SGLang takes."""
        if self.mem_fraction_static is not None and not 0 < self.mem_fraction_static < 1:
            raise ValueError("--mem-fraction-static lies between 0 and 1")
        if self.kv_cache_dtype is not None and self.kv_cache_dtype not in _DTYPES:
            raise ValueError(f"--kv-cache-dtype is one of {', '.join(_DTYPES)}")
        for name in ("tp_size", "dp_attention", "max_running_requests", "context_length", "cuda_graph_max_bs",
                     "max_mamba_cache_size", "tokens", "request_tokens"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 < value <= _MOST_TOKENS:
                raise ValueError(f"{label(name)} is a positive whole number")
            if value is not None and name in ("tp_size", "dp_attention") and value > _MOST_RANKS:
                raise ValueError(f"{label(name)} is at most {_MOST_RANKS:,}: no model is divided over more ranks")
        if self.max_total_tokens is not None and not 0 <= self.max_total_tokens <= _MOST_TOKENS:
            raise ValueError("--max-total-tokens is a whole number; 0 removes the cap")
        for name in ("swa_full_tokens_ratio", "mamba_full_memory_ratio", "hicache_ratio", "hicache_size_gb"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 < value <= 1e6):
                raise ValueError(f"{label(name)} is a positive number")
        if self.swa_full_tokens_ratio is not None and self.swa_full_tokens_ratio > 1:
            raise ValueError("--swa-full-tokens-ratio is at most 1")
        if self.card is not None:
            self._check_card(self.card)
        if self.free_gib is not None and not (math.isfinite(self.free_gib) and 0 <= self.free_gib <= 1e6):
            raise ValueError("the free memory wanted is a number of GiB, 0 or more")
        if sum(x is not None for x in (self.mem_fraction_static, self.free_gib, self.tokens)) > 1:
            raise ValueError("a fraction, free memory wanted, tokens wanted: give one of the three")

    def check_length(self, context: int | None) -> None:
        """Raises ValueError with a sentence on a request longer than the context, the changed one where it changes."""
        longest = self.context_length or context
        if self.request_tokens is not None and longest is not None and self.request_tokens > longest:
            raise ValueError(f"{label('request_tokens')} is at most {longest:,}, the context length")

    @property
    def card_size(self) -> Bytes | None:
        """What the other card holds; None without one."""
        return None if self.card is None else known_capacity(self.card)

    @staticmethod
    def _check_card(name: str) -> None:
        if is_unified(name):
            raise ValueError(f"{name[:40]} shares its memory with the host, of which this log tells nothing")
        if known_capacity(name) is None:
            raise ValueError(f"{name[:40]!r} is no card whose size is known; ask for {', '.join((*NVIDIA, *AMD))}")

    @property
    def is_nothing(self) -> bool:
        """Whether no flag changes and nothing is asked; the length to count requests at changes nothing."""
        return dataclasses.replace(self, request_tokens=None) == Change()


def _read(name: str, kind: str, value: object) -> object:
    if "bool" in kind:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in ("on", "true", "yes", "1"):
            return True
        if text in ("off", "false", "no", "0"):
            return False
        raise ValueError(f"{label(name)} is on or off")
    if "str" in kind:
        return str(value).strip()
    text = str(value).strip().replace(",", "").replace("_", "")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{label(name)} is a number, not {str(value)[:40]!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{label(name)} is a number, not {str(value)[:40]!r}")
    if "int" in kind and "float" not in kind:
        if number != int(number):
            raise ValueError(f"{label(name)} is a whole number")
        return int(number)
    return number
