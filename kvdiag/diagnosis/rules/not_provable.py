"""Causes that no log proves, and what is missing: a label without its evidence is a guess."""

from __future__ import annotations

from typing import Final

NOT_PROVABLE: Final[dict[str, str]] = {
    "log-field-meaning": "a question about a field, not a fault; the report explains each field where it shows it.",
    "radix-cache-evictable-not-leak": "most releases leave evictable tokens out of the printed usage, so that no line"
    " tells an idle cache from a leak.",
    "memory-saver-skips-swa-pool": "the release call prints no size; only memory read outside the engine shows that"
    " nothing was freed.",
    "host-memory-leak-hicache": "the scheduler's host memory over hours is in no line of the server.",
    "pixel-values-kept": "free memory while serving is not printed, so that its slow fall is seen outside only.",
    "graph-for-backend-turned-on": "it takes the same command on two releases; a single start shows an ordinary"
    " overflow of capture.",
    "swa-model-not-in-allow-list": "whether a model has window layers is in its configuration, which the log does not"
    " print.",
}
