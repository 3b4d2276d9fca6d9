"""Figures as the pages spell them, and fixed words for the document's codes.

Sizes are GiB with two decimals, thousands take commas, a minus is a minus sign, and what is not known stays unsaid
(an empty string), so that a template says why.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

SEVERITIES = ("critical", "warning", "advice", "info")
SEVERITY_NAMES = {"critical": "Critical", "warning": "Warning", "advice": "Advice", "info": "Info"}

STAGES = {
    "arguments": "reading the arguments",
    "distributed": "connecting the ranks",
    "weights": "loading the weights",
    "kv_cache": "making the KV cache",
    "cuda_graph": "capturing CUDA graphs",
    "warmup": "warming up",
    "serving": "serving",
}
STAGE_NOUNS = {
    "arguments": "the arguments",
    "distributed": "the distributed set-up",
    "weights": "the weights",
    "kv_cache": "the KV cache",
    "cuda_graph": "CUDA graph capture",
    "warmup": "warm-up",
    "serving": "serving",
}
FAILURES = {
    "gpu_oom": "GPU out of memory",
    "host_oom": "Host out of memory",
    "sizing": "Sizing refused",
    "assertion": "Assertion failed",
    "communication": "Communication failed",
    "kernel": "Kernel failed",
    "other": "Failed",
}
LIMITED_BY = {
    "memory": "memory limits it",
    "max_total_tokens": "--max-total-tokens limits it",
    "smallest_rank": "the smallest rank limits it",
    "swa_ratio": "the sliding-window ratio limits it",
    "mamba_ratio": "the Mamba ratio limits it",
    "request_slots": "request slots limit it",
    "sizing_fault": "the budget did not suffice",
    "unknown": "",
}


def minus(text: str) -> str:
    """A hyphen before a figure as the minus sign it is."""
    return text.replace("-", "−")


def gib(value: Any, digits: int = 2) -> str:
    """10.4252 → "10.43"."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return ""
    text = f"{value:,.{digits}f}"
    return minus(text.lstrip("-") if float(text.replace(",", "")) == 0 else text)


def signed_gib(value: Any) -> str:
    """3.761 → "+3.76"."""
    if not isinstance(value, (int, float)):
        return ""
    text = f"{value:+,.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else minus(text)


def tokens(value: Any) -> str:
    """159277 → "159,277"."""
    return minus(f"{round(value):,}") if isinstance(value, (int, float)) else ""


def about(value: Any) -> str:
    """A predicted count, to four figures: 216771 → "216,800"."""
    if not isinstance(value, (int, float)):
        return ""
    digits = len(str(abs(round(value))))
    step = 10 ** max(0, digits - 4)
    return tokens(round(value / step) * step)


def percent(value: Any, digits: int = 1) -> str:
    """76.912 → "76.9 %"."""
    if not isinstance(value, (int, float)):
        return ""
    text = f"{value:.{digits}f}"
    return minus(text.lstrip("-") if float(text) == 0 else text) + "\u00a0%"


def fraction(value: Any) -> str:
    """0.9 → "0.90", 0.7692 → "0.769"."""
    if not isinstance(value, (int, float)):
        return ""
    text = f"{value:.3f}"
    return text[:-1] if text.endswith("0") else text


def duration(seconds: Any) -> str:
    """362.0 → "6 min 02 s", 38.12 → "38.1 s"."""
    if not isinstance(seconds, (int, float)):
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def size(count: Any) -> str:
    """Bytes of a file: 68213 → "67 KiB"."""
    if not isinstance(count, (int, float)):
        return ""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:,.0f} {unit}" if unit in ("B", "KiB") or value >= 10 else f"{value:,.1f} {unit}"
        value /= 1024
    return ""


def stamp(text: Any) -> str:
    """A printed time without its T: "2026-11-29 09:14:02". No zone is added."""
    return text.replace("T", " ")[:19] if isinstance(text, str) else ""


def short_stamp(text: Any) -> str:
    """A printed time for a tab: "29 Nov, 09:14"."""
    try:
        return f"{datetime.fromisoformat(str(text)):%-d %b, %H:%M}"
    except ValueError:
        return stamp(text)


def when(moment: datetime | None, to: str = "minutes") -> str:
    """A time for a table, UTC: "09:14" today, "yesterday, 09:14", "29 Nov, 09:14", "29 Nov 2025".

    to  "seconds" where others are beside it that the minute, or the day, does not tell apart
    """
    if moment is None:
        return ""
    moment, now = moment.astimezone(UTC), datetime.now(UTC)
    days = (now.date() - moment.date()).days
    clock = f"{moment:%H:%M:%S}" if to == "seconds" else f"{moment:%H:%M}"
    if days == 0:
        return clock
    if days == 1:
        return f"yesterday, {clock}"
    if moment.year == now.year:
        return f"{moment:%-d %b}, {clock}"
    return f"{moment:%-d %b %Y}, {clock}" if to == "seconds" else f"{moment:%-d %b %Y}"


def base_name(path: Any) -> str:
    """The last part of a model path: "/models/Kimi-K2.5-INT4" → "Kimi-K2.5-INT4". A repository id stays whole."""
    if not isinstance(path, str):
        return ""
    trimmed = path.rstrip("/")
    return trimmed.rsplit("/", 1)[-1] if trimmed.startswith(("/", ".", "~")) or trimmed.count("/") > 1 else trimmed


def sentence(text: Any) -> str:
    """Words as a sentence: a capital, unless it begins with a flag or a value, and a full stop."""
    said = str(text or "").strip()
    if re.match(r"[a-z]+[ ,;:]", said):
        said = said[:1].upper() + said[1:]
    return said if not said or said.endswith((".", "?", "!", "…")) else f"{said}."


def of_severity(count: int, severity: str) -> str:
    """ "2 critical", "1 warning", "0 warnings": only the warning is a noun."""
    return plural(count, severity) if severity == "warning" else f"{count:,} {severity}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """1 → "1 line", 2 → "2 lines"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
