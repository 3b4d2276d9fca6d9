"""The facts of a launch in its page's header: model, GPUs, release, layout, start."""

from __future__ import annotations

import re

from kvdiag.diagnosis.text import gpus_in_words, layout_in_words
from reports import words
from reports.document import Launch, dig, listed


def facts_of(launch: Launch) -> list[tuple[str, str]]:
    """Name and value of what the log tells; what it does not is left out."""
    facts = [("Model", model_words(launch)), ("GPUs", gpu_words(launch)), ("SGLang", release_words(launch))]
    facts += [("Layout", layout_words(launch)), ("Started", words.stamp(launch.get("started_at")))]
    return [(name, value) for name, value in facts if value]


def model_words(launch: Launch) -> str:
    """As "Kimi-K2.5-INT4, compressed-tensors"."""
    model = dig(launch, "model") or {}
    name = words.base_name(model.get("path")) or model.get("architecture") or ""
    extra = str(model.get("quantization") or model.get("dtype") or "").removeprefix("torch.")
    extra = {"bfloat16": "BF16", "float16": "FP16"}.get(extra, extra)
    return f"{name}, {extra}" if name and extra else name


def gpu_words(launch: Launch) -> str:
    """As "8 × RTX PRO 6000, 95.6 GiB"."""
    gpu = dig(launch, "gpu") or {}
    count = gpu.get("count") or len(listed(launch, "ranks")) or None
    name = re.sub(r"^NVIDIA\s+|\s+(Blackwell Server Edition|Server Edition)$", "", str(gpu.get("name") or ""))
    capacity = gpu.get("capacity_gib")
    if count is None:
        return ""
    told = gpus_in_words(launch, count, name)
    text = words.plural(count, "GPU") if told == f"{count} × GPU" else told
    return f"{text}, {words.gib(capacity, 1)} GiB" if capacity else text


def release_words(launch: Launch) -> str:
    """As "0.5.9", or the range that the wording of the log allows."""
    version = dig(launch, "version") or {}
    if version.get("exact"):
        return str(version["exact"])
    first, before = version.get("from"), version.get("before")
    if first and before:
        return f"{first} or later, before {before}"
    return f"{first} or later" if first else f"before {before}" if before else ""


def layout_words(launch: Launch) -> str:
    """As "TP 8, one node"; nothing for a single GPU, and no node where only ranks tell the size."""
    told = layout_in_words(launch)
    one_node = dig(launch, "parallel", "nodes") == 1 and told and not launch.get("parallel_seen")
    return f"{told}, one node" if one_node else told
