"""A server that restarts for days: its first starts and its last ones are told, and that others were left out."""

import io

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import Log

START = (
    b"[2025-03-08 12:29:13] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)\n"
    b"[2025-03-08 12:29:14 TP0] Load weight begin. avail mem=78.00 GB\n"
    b"[2025-03-08 12:29:20] The server is fired up and ready to roll!\n"
)


def test_of_too_many_starts_the_first_and_the_last_are_told_under_their_own_numbers() -> None:
    document = diagnose(Log("x", io.BytesIO(START * 30)), limits=Limits(launches=8)).document
    assert [launch["number"] for launch in document["launches"]] == [1, 2, 25, 26, 27, 28, 29, 30]
    assert [launch["first_line"] for launch in document["launches"]][-1] == 88
    assert document["upload"]["launches"] == {"read": 8, "all": 30}


def test_nothing_is_said_of_starts_left_out_where_none_were() -> None:
    document = diagnose(Log("x", io.BytesIO(START * 8)), limits=Limits(launches=8)).document
    assert len(document["launches"]) == 8
    assert "launches" not in document["upload"]
