"""Causes that no log proves, and what is missing: a label without its evidence is a guess."""

from __future__ import annotations

from typing import Final

NOT_PROVABLE: Final[dict[str, str]] = {
    "log-field-meaning": "a question about a field, not a fault; the report explains each field where it shows it.",
    "radix-cache-evictable-not-leak": "the printed usage leaves evictable tokens out, and no batch line is there while"
    " nothing runs, so that no line tells an idle cache from a leak; a leak check, which lists them, is judged by"
    " kv-slot-leak.",
    "memory-saver-skips-swa-pool": "neither the release call nor the resume prints a size; that nothing was freed shows"
    " in the trainer's own figures of the card, which each trainer prints in a way of its own.",
    "host-memory-leak-hicache": "the scheduler's host memory over hours is in no line of the server; its end, a kill,"
    " is named by host-oom-kill.",
    "pixel-values-kept": "free memory while serving is not printed, so that its slow fall is seen outside only; the"
    " overflow it ends in looks like any other of the vision encoder.",
}
