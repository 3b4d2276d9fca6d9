"""What is known of a log while it is still worked on: with the real engine, slowed down."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ingest import first_facts, words
from ingest.isolation import End
from kvdiag.diagnosis.limits import WEB_LIMITS
from tests.ingest.test_engine_process import LOG, Run

SLOW = (sys.executable, str(Path(__file__).parent / "slow_engine.py"))


NOISE = b'INFO:     127.0.0.1:4711 - "GET /health HTTP/1.1" 200 OK\n' * 50
LONG = b"".join(line + NOISE for line in LOG.splitlines(keepends=True))  # a start-up of half a megabyte


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The long log, read by the slowed engine."""
    return Run(tmp_path_factory.mktemp("slow") / "upload", LONG, command=SLOW)


def facts(known: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["fact"]: each["value"] for each in known}


def test_what_the_start_says_is_told_before_the_rest_is_read(run: Run) -> None:
    assert run.ended.end is End.REPORT, run.ended.trace
    told = [number for number, message in enumerate(run.messages) if "known" in message]
    cleaned = next(number for number, message in enumerate(run.messages) if message.get("phase") == "cleaned")
    done = next(number for number, message in enumerate(run.messages) if message.get("phase") == "done")
    assert told[0] < cleaned, "nothing was known while the copy was written"
    assert told[-1] < done
    first, last = (facts(run.messages[number]["known"]) for number in (told[0], told[-1]))
    assert first["model"] == last["model"]
    assert len(first) < len(last)
    assert last["kv_tokens"] == 159_277
    assert last["gpus"].startswith("8 × ")
    assert (last["weights_gib"], last["kv_gib"], last["free_gib"]) == (72.33, 10.42, 7.43)
    assert last["outcome"] == "ready"


def test_a_log_that_is_read_at_once_is_told_whole() -> None:
    known = facts(first_facts.facts_of_start(LOG, WEB_LIMITS))
    assert known["outcome"] == "ready"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_figure_that_is_not_there_is_left_out(share: float) -> None:
    head = LOG[: int(len(LOG) * share)]
    known = facts(first_facts.facts_of_start(head[: head.rfind(b"\n") + 1], WEB_LIMITS))
    assert None not in known.values()
    assert "free_gib" not in known or known["outcome"] == "ready"


def test_of_a_launch_without_ranks_only_its_model_is_known() -> None:
    launch = {"first_line": 3, "version": None, "model": {"path": "/models/A/"}, "ranks": [], "outcome": "incomplete"}
    assert first_facts.known_of(launch) == [{"fact": "model", "value": "A", "line": 3}]


@pytest.mark.parametrize("head", [b"", b"\n\n", b"nothing of a server\n"])
def test_of_what_is_no_log_nothing_is_known(head: bytes) -> None:
    assert first_facts.facts_of_start(head, WEB_LIMITS) == []


def test_unpacking_tells_its_share_of_the_bytes_that_were_sent(run: Run) -> None:
    shares = [message["read"] / message["of"] for message in run.messages if message.get("phase") == "unpacked"]
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)


def test_the_words_of_unpacking() -> None:
    assert words.unpacking(0, 0, 1 << 20) == ("", None)
    assert words.unpacking(0, 1 << 19, 1 << 20) == ("measuring, 50 % of 1 MiB", None)
    assert words.unpacking(8 << 20, 1 << 19, 1 << 20) == ("50 % of 1 MiB, 8 MiB of text so far", 0.5)
