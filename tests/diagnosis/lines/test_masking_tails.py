"""A pattern's tail refuses no line whose end names a secret."""

from __future__ import annotations

import re
from itertools import product

import pytest
import regex

from kvdiag.diagnosis.patterns import PATTERNS

OPENINGS = ("", "  - ", 'x {"', "name: ", 'Name="', '"name": "')
NAMES = ("HF_TOKEN", "MY_KEY", "PASSWORD", "token", "SECRET_2", "api_key", "client_secret")
CLOSINGS = ("", '"', "'", '\\"')
SIGNS = ("", ":", " =", ",", ": |", ": >-2", ": '", ':"', '\\": \\"')
ENDS = ("", " ", "\t ", "\\", " \\", ",", '"')

TAILED = [pattern for pattern in PATTERNS if pattern.tail]


@pytest.mark.parametrize("pattern", TAILED, ids=lambda pattern: f"{pattern.kind} behind {pattern.tail}")
def test_a_line_that_ends_with_the_name_passes_the_tail(pattern) -> None:
    named = regex.compile(pattern.after)
    found = 0
    for parts in product(OPENINGS, NAMES, CLOSINGS, SIGNS, ENDS):
        line = "".join(parts)
        if named.search(line):
            found += 1
            assert re.search(pattern.tail, line[-48:]), line
    assert found > 20


def test_a_batch_line_passes_no_tail() -> None:
    line = "[2026-11-29 09:30:00 TP0] Decode batch. #running-req: 4, #token: 4096, token usage: 0.03, #queue-req: 0, "
    assert TAILED
    assert not any(re.search(pattern.tail, line) for pattern in TAILED)
