"""Reads bytes as one uploaded file."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from kvdiag.diagnosis.lines import LineReader, Log, LogLine

PHRASES = (
    b"Load weight begin.",
    b"Load weight end.",
    b"KV Cache is allocated",
    b"Memory pool end.",
    b"Capture cuda graph end.",
    b"max_total_num_tokens=",
    b"server_args=",
    b"out of memory",
    b"Traceback (most recent call last)",
    b"The server is fired up",
)


class Reading(list[LogLine]):
    """The lines found, and the reader that found them."""

    reader: LineReader


@pytest.fixture
def read() -> Callable[..., Reading]:
    def reading(raw: bytes | str, *, name: str = "server.log", **options: Any) -> Reading:
        data = raw.encode() if isinstance(raw, str) else raw
        phrases = options.pop("phrases", PHRASES)
        reader = LineReader([Log(name, io.BytesIO(data))], phrases, **options)
        found = Reading(reader)
        found.reader = reader
        return found

    return reading
