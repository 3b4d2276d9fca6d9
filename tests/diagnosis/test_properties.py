"""What must hold for any log: nothing raises, ledgers close, and lines that say nothing change nothing."""

import io
import math
import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.report import Report

CORPUS = Path(__file__).parent.parent / "corpus"
LOGS = {path.parent.name: path.read_bytes() for path in sorted(CORPUS.glob("*/log.txt"))}
SMALL = {name: raw for name, raw in LOGS.items() if len(raw) < 40_000}
KIMI = LOGS["kimi-k25-8gpu"]
FOREIGN = [
    b"",
    b"INFO 03-25 10:11:12 foreign.py:12] nothing of note",
    b'  File "/opt/app/main.py", line 12, in main',
    b'{"level": "info", "msg": "probe ok"}',
    b"100%|##########| 64/64 [04:11<00:00,  3.93s/it]",
    b"\xff\xfe\x00broken \x1b[31mred\x1b[0m",
]
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def document(raw: bytes) -> dict[str, Any]:
    return diagnose(Log("log.txt", io.BytesIO(raw))).document


def ledgers(found: dict[str, Any]) -> Any:
    """Every figure of every rank, without line numbers."""
    return [
        {
            rank["id"]: (
                rank["opening_gib"],
                rank["free_gib"],
                rank["kv_tokens"],
                rank["kv_gib"],
                sorted((e["pool"], e["model"], e["gib"], e["basis"]) for e in rank["entries"]),
            )
            for rank in launch["ranks"]
        }
        for launch in found["launches"]
    ]


def closes(found: dict[str, Any]) -> None:
    for launch in found["launches"]:
        for rank in launch["ranks"]:
            if rank["opening_gib"] is not None:
                taken = sum(entry["gib"] for entry in rank["entries"])
                assert math.isclose(rank["opening_gib"] - taken, rank["free_gib"], abs_tol=1e-4)


@quick
@given(st.sampled_from(sorted(SMALL)), st.floats(0, 1), st.floats(0, 1))
def test_a_log_cut_anywhere_is_read_as_far_as_it_goes(name: str, start: float, end: float) -> None:
    raw = SMALL[name]
    low, high = sorted((int(start * len(raw)), int(end * len(raw))))
    part = raw[low:high]
    try:
        closes(document(part))
    except UnreadableLog:
        assert not part.strip(b"\x00 \r\n\t") or high - low < 200  # nothing in it, or too little to tell from binary


@quick
@given(st.integers(0, 2**32))
def test_interleaving_the_ranks_anew_changes_no_ledger(seed: int) -> None:
    chance = random.Random(seed)
    queues: dict[bytes, list[bytes]] = {}
    out: list[bytes] = []

    def drain() -> None:
        while queues:
            rank = chance.choice(sorted(queues))
            out.append(queues[rank].pop(0))
            if not queues[rank]:
                del queues[rank]

    for line in KIMI.splitlines():
        rank = next((b"TP%d]" % n for n in range(8) if b" TP%d]" % n in line), None)
        if rank is None or b"max_total_num_tokens=" in line or b" batch" in line:
            drain()
            out.append(line)
        else:
            queues.setdefault(rank, []).append(line)
    drain()
    assert ledgers(document(b"\n".join(out))) == ledgers(document(KIMI))


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(FOREIGN)), max_size=30))
def test_foreign_lines_change_no_ledger(inserted: list[tuple[float, bytes]]) -> None:
    lines = KIMI.splitlines()
    for place, line in inserted:
        lines.insert(int(place * len(lines)), line)
    assert ledgers(document(b"\n".join(lines))) == ledgers(document(KIMI))


@quick
@given(st.sampled_from(sorted(SMALL)), st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=60))
def test_flipped_bytes_never_raise(name: str, flips: list[tuple[float, int]]) -> None:
    raw = bytearray(SMALL[name])
    for place, value in flips:
        raw[int(place * len(raw))] = value
    try:
        closes(document(bytes(raw)))
    except UnreadableLog:
        assert b"\x00" in raw or len(flips) > 4  # enough of it is no text any more


@quick
@given(st.sampled_from(sorted(SMALL)))
def test_a_report_survives_json(name: str) -> None:
    found = document(SMALL[name])
    assert Report.from_document(found).to_json() == Report(found).to_json()
