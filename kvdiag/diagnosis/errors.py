"""What a caller of the engine must handle: failures at the front door, each with a sentence that says what to do."""

from __future__ import annotations


class UnreadableLog(Exception):
    """The upload is no text that can be read: empty, binary, a broken archive, a decompression bomb."""


class LogTooLarge(Exception):
    """The upload is over a limit that the caller set."""
