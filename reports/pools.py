"""Memory pools as the pages name, colour and order them.

The contract's pools are many; a reader tells eight apart. Colour and pattern of each are fixed on every page.
"""

from __future__ import annotations

from typing import Any

# key → name, in the order they are stacked; the key is also the suffix of the style classes and colour names
POOLS: dict[str, str] = {
    "weights": "Weights",
    "kv": "KV cache",
    "state": "SWA / Mamba state",
    "draft": "Draft model",
    "graphs": "CUDA graphs",
    "work": "Workspaces, tables",
    "unexplained": "Unexplained",
    "free": "Free",
}

# What the static fraction pays for; the rest comes out of the reserve.
WITHIN_BUDGET = ("weights", "kv", "state")

_SHOWN_AS = {
    "weights": "weights",
    "lora": "weights",
    "kv_cache": "kv",
    "indexer_cache": "kv",
    "swa_kv_cache": "state",
    "mamba_state": "state",
    "cuda_graphs": "graphs",
    "unexplained": "unexplained",
}

ENTRY_NAMES = {
    "distributed": "Communicators",
    "weights": "Weights",
    "kv_cache": "KV cache",
    "swa_kv_cache": "Sliding-window KV cache",
    "mamba_state": "Mamba state",
    "indexer_cache": "Indexer cache",
    "request_table": "Request table",
    "cuda_graphs": "CUDA graphs",
    "workspace": "Workspaces",
    "lora": "LoRA adapters",
    "buffers": "Buffers",
    "other": "Other",
    "unexplained": "Unexplained",
}

FAMILY_NAMES = {"mla": "MLA", "swa": "sliding window", "mamba": "hybrid with Mamba state", "sparse": "sparse attention"}


def pool_of(entry: dict[str, Any]) -> str:
    """The pool an entry is shown under. A draft model's memory is its own, except its graphs."""
    pool = str(entry.get("pool"))
    if entry.get("model") == "draft" and pool not in ("cuda_graphs", "unexplained"):
        return "draft"
    return _SHOWN_AS.get(pool, "work")


def entry_name(entry: dict[str, Any]) -> str:
    """What an entry is called in full: "Draft KV cache"."""
    graphs = str(entry.get("graphs") or "")
    name = f"{graphs.capitalize()} graphs" if graphs else ENTRY_NAMES.get(str(entry.get("pool")), "Other")
    if entry.get("model") != "draft":
        return name
    return f"Draft {name if name[1:2].isupper() else name[:1].lower() + name[1:]}"
