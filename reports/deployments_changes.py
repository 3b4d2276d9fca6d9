"""What changed between two launches of a deployment, and what that moved, in a few words for a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvdiag.diagnosis.endings import came_up
from reports.document import dig, listed
from reports.words import gib

Launch = dict[str, Any]

UNCHANGED = "nothing changed"
# Arguments that differ from start to start without any bearing on memory.
UNTOLD = {
    "random_seed", "port", "host", "dist_init_addr", "nccl_port", "served_model_name", "api_key", "admin_api_key",
    "log_level", "log_level_http", "log_requests", "log_requests_level", "tokenizer_path", "model_path", "model",
    "watchdog_timeout", "node_rank", "download_dir", "warmups", "bucket_time_to_first_token", "crash_dump_folder",
    "show_time_cost", "enable_metrics", "file_storage_path", "ssl_keyfile", "ssl_certfile", "chat_template",
}  # fmt: skip
SHORT = {
    "mem_fraction_static": "fraction",
    "tp_size": "TP",
    "dp_size": "DP",
    "pp_size": "PP",
    "ep_size": "EP",
    "mamba_full_memory_ratio": "mamba ratio",
    "max_total_tokens": "max tokens",
    "kv_cache_dtype": "KV dtype",
    "cuda_graph_max_bs": "graph batch",
    "chunked_prefill_size": "chunk",
}
POOL_WORDS = {
    "weights": "weights",
    "kv_cache": "KV cache",
    "swa_kv_cache": "SWA KV cache",
    "mamba_state": "Mamba state",
    "indexer_cache": "indexer cache",
    "cuda_graphs": "CUDA graphs",
    "workspace": "workspace",
    "lora": "LoRA",
    "draft": "draft model",
}
WORTH_TELLING_GIB = 0.05  # below it a change is the print's rounding of several figures


def launch_of(document: dict[str, Any]) -> Launch | None:
    """The launch that stands for an upload: its last."""
    launches = listed(document, "launches")
    return launches[-1] if launches else None


def arguments_changed(before: Launch, after: Launch) -> list[tuple[str, Any, Any]]:
    """Arguments whose values differ, those given by hand first. What only one of the logs prints is not compared."""
    old, new = dig(before, "arguments") or {}, dig(after, "arguments") or {}
    changed = []
    for name in sorted(old.keys() & new.keys() - UNTOLD):
        was, now = dig(old, name, "value"), dig(new, name, "value")
        if was != now:
            by_hand = "given" in (dig(old, name, "origin"), dig(new, name, "origin"))
            changed.append((not by_hand, name, was, now))
    return [(name, was, now) for _, name, was, now in sorted(changed, key=lambda each: each[:2])]


def marks_between(before: Launch, after: Launch) -> list[str]:
    """What a history annotates: release, driver, image, the draft model, and the flags that size the pools."""
    return [*_moved_on(before, after), *(words for name, words in _flags(before, after) if name in SHORT)]


def _flags(before: Launch, after: Launch) -> list[tuple[str, str]]:
    """Changed arguments, each with its words: "fraction 0.85 to 0.88"."""
    return [
        (name, f"{SHORT.get(name, name)} {_plain(was)} to {_plain(now)}")
        for name, was, now in arguments_changed(before, after)
        if name != "speculative_algorithm"  # told as the draft model
    ]


def _moved_on(before: Launch, after: Launch) -> list[str]:
    """Changes that are no flag of their own: release, driver, image, draft model."""
    marks = []
    for words, path in (("SGLang", ("version", "exact")), ("driver", ("gpu", "driver")), ("image", ("image",))):
        was, now = dig(before, *path), dig(after, *path)
        if was and now and was != now:
            marks.append(f"{words} {was} to {now}")
    was, now = (dig(each, "arguments", "speculative_algorithm", "value") for each in (before, after))
    if was != now and (was or now):
        marks.append(f"{now} added" if not was else f"{was} removed" if not now else f"{was} to {now}")
    return marks


def change_words(before: Launch, after: Launch) -> str:
    """ "fraction 0.85 to 0.88, EAGLE3 added"; "nothing changed"."""
    told = [*_moved_on(before, after), *(words for _, words in _flags(before, after))]
    if not told:
        return UNCHANGED
    shown = ", ".join(told[:4])
    return (shown if len(told) <= 4 else f"{shown} and {len(told) - 4} more")[:300]


def _plain(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)[:40]


def pools_of(launch: Launch) -> tuple[Counter[str], float | None]:
    """GiB by pool on the rank with the least memory free, and what that rank has free; None of a start that did not
    come up."""
    ranks = [rank for rank in listed(launch, "ranks") if isinstance(rank, dict)]
    if not ranks:
        return Counter(), None
    known = [rank for rank in ranks if rank.get("free_gib") is not None]
    rank = min(known, key=lambda each: each["free_gib"]) if known else ranks[0]
    pools: Counter[str] = Counter()
    for entry in listed(rank, "entries"):
        if entry.get("gib") is not None and entry.get("pool") != "unexplained":
            pools["draft" if entry.get("model") == "draft" else entry["pool"]] += entry["gib"]
    return pools, rank.get("free_gib") if came_up(launch) else None


def moved_words(before: Launch, after: Launch) -> str:
    """ "+2.82 GiB KV cache, −1.94 GiB free"; "" when nothing moved by more than rounding, or the log does not say."""
    (old, old_free), (new, new_free) = pools_of(before), pools_of(after)
    if not old or not new:
        return ""
    moves = [(new[pool] - old[pool], POOL_WORDS.get(pool, pool.replace("_", " "))) for pool in old.keys() | new.keys()]
    moves = [move for move in moves if abs(move[0]) >= WORTH_TELLING_GIB]
    moves.sort(key=lambda move: (-abs(move[0]), move[1]))
    if old_free is not None and new_free is not None and abs(new_free - old_free) >= WORTH_TELLING_GIB:
        moves = [*moves[:2], (new_free - old_free, "free")]
    return ", ".join(f"{'+' if size > 0 else '−'}{gib(abs(size))} GiB {pool}" for size, pool in moves[:3])


def explain(before: Launch, after: Launch) -> dict[str, Any]:
    """The engine's own comparison of two launches: which change moved how many GiB."""
    from kvdiag.diagnosis.compare import compare

    return compare(before, after)
