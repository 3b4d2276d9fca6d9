"""SGLang's prefix in the forms of every release."""

import pytest

from kvdiag.diagnosis.prefix import Rank, read_prefix, record_starts


@pytest.mark.parametrize(
    ("line", "clock", "rank"),
    [
        ("[22:30:32 TP0] Init nccl begin.", "22:30:32", "TP0"),
        ("[2025-05-01 10:00:00] x", "2025-05-01T10:00:00", ""),
        ("[2025-05-01 10:00:00 DP0 TP3 EP3] x", "2025-05-01T10:00:00", "DP0 TP3 EP3"),
        (
            "[2025-05-01 10:00:00 DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5] x",
            "2025-05-01T10:00:00",
            "DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5",
        ),
        ("[2025-05-01 10:00:00.123 TP0] x", "2025-05-01T10:00:00.123", "TP0"),
        ("[2025-05-01 10:00:00,123] x", "2025-05-01T10:00:00.123", ""),
        ("[2025-05-01 10:00:00 encode_server] x", "2025-05-01T10:00:00", "encode_server"),
        ("[2025-05-01 10:00:00 encode_dp_worker[0]] x", "2025-05-01T10:00:00", "encode_dp_worker[0]"),
        ("[2025-12-02 07:04:51 DisaggregationMode.DECODE TP1] x", "2025-12-02T07:04:51", "TP1"),
        ("[TP0] x", None, "TP0"),
        ("[DP1 TP3] x", None, "DP1 TP3"),
        ("[ TP6 PP0 model_runner.py:1041] x", None, "TP6 PP0"),
        ("2026-06-28 23:41:27 DP1 PP1 TP1] Scheduler hit an exception", "2026-06-28T23:41:27", "DP1 PP1 TP1"),
    ],
)
def test_each_form_gives_its_time_and_its_tokens(line: str, clock: str | None, rank: str) -> None:
    prefix = read_prefix(line)
    assert prefix is not None
    assert (prefix.clock, prefix.rank) == (clock, rank)
    assert line[prefix.end :].strip() in ("x", "Init nccl begin.", "Scheduler hit an exception")


@pytest.mark.parametrize("line", ["Load weight begin.", "[00:03<00:00,  6.1it/s]", "[1, 2, 3] x", "[INFO] x", ""])
def test_other_brackets_are_no_prefix(line: str) -> None:
    assert read_prefix(line) is None


def test_a_rank_is_the_same_in_whatever_order_its_tokens_stand() -> None:
    assert Rank.parse("DP1 TP3 PP2 EP0") == Rank.parse("EP0 PP2 TP3 DP1") == Rank(dp=1, tp=3, pp=2, ep=0)
    assert Rank.parse("DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5") == Rank(0, 1, 4, 5, 2, 3)
    assert Rank.parse("") == Rank()
    assert Rank.parse("encode_dp_worker[0]").process == "encode_dp_worker[0]"


def test_a_bar_is_no_record_and_what_is_glued_behind_it_is() -> None:
    text = "100%|███| 23/23 [00:03<00:00,  6.1it/s][2025-03-08 12:29:30 TP0] Capture cuda graph end."
    assert [text[at : at + 11] for at in record_starts(text)] == ["[2025-03-08"]
