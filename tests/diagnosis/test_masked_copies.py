"""The masked copy of a log is diagnosed like the log: every figure, every finding, every line number."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import masked_copy
from kvdiag.diagnosis.masking import Masker
from tests.diagnosis.test_corpus import CASES, CORPUS

# The copy names what stands in lines that no report cites, too: its letters run ahead.
PSEUDONYM = re.compile(r"\b(addr|host|mac|mail|user)-(?:[a-z]{1,3}|\d{1,4})\b")


def launches(document: dict[str, Any]) -> str:
    return PSEUDONYM.sub(r"\1-x", json.dumps(document["launches"], indent=1))


def copied(raw: bytes, folder: Path) -> bytes:
    (stored,) = masked_copy(Log("log.txt", io.BytesIO(raw)), folder)
    return stored.path.read_bytes()


def wrapped(raw: bytes, width: int) -> bytes:
    lines = (line.rsplit("\r", 1)[-1] for line in raw.decode("utf-8", "replace").split("\n"))
    return "\n".join(part for line in lines for part in _parts(line, width)).encode()


def _parts(line: str, width: int) -> list[str]:
    return [line[n : n + width] for n in range(0, len(line), width)] or [""]


@pytest.mark.parametrize("case", CASES)
def test_the_copy_of_a_log_is_diagnosed_like_the_log(case: str, tmp_path: Path) -> None:
    raw = (CORPUS / case / "log.txt").read_bytes()
    of_log = diagnose(Log("log.txt", io.BytesIO(raw))).document
    of_copy = diagnose(Log("log.txt", io.BytesIO(copied(raw, tmp_path))), is_masked=True).document
    assert launches(of_copy) == launches(of_log)
    assert of_copy["upload"]["masked"] == {}


SECRETS = (
    "server_args=ServerArgs(model_path='/home/zoe/models/m', api_key='Zq8vWkR2mTn5xL', tp_size=1, host='10.20.30.40',"
    " dist_init_addr='gpu-node-17:5000', admin_api_key='a', mem_fraction_static=0.85)"
)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("case", [case for case in CASES if (CORPUS / case / "log.txt").stat().st_size < 60_000])
def test_the_copy_of_a_wrapped_log_is_too(case: str, width: int, tmp_path: Path) -> None:
    """With secrets in it, longer and shorter than what stands for them."""
    raw = wrapped((CORPUS / case / "log.txt").read_bytes() + SECRETS.encode() + b"\n", width)
    of_log = diagnose(Log("log.txt", io.BytesIO(raw))).document
    copy = copied(raw, tmp_path)
    of_copy = diagnose(Log("log.txt", io.BytesIO(copy)), is_masked=True).document
    assert launches(of_copy) == launches(of_log)
    assert b"Zq8v" not in copy
    assert b"5xL" not in copy


def test_a_copy_of_a_copy_is_the_copy(tmp_path: Path) -> None:
    """Hiding twice changes nothing: what stands for a value is known as such."""
    raw = b"\n".join((CORPUS / case / "log.txt").read_bytes() for case in CASES) + SECRETS.encode()
    once = copied(raw, tmp_path)
    masker = Masker()
    (stored,) = masked_copy(Log("log.txt", io.BytesIO(once)), tmp_path, masker=masker)
    assert stored.path.read_bytes() == once
    assert stored.masked == {}


def test_pseudonyms_stay_when_a_copy_is_diagnosed_again() -> None:
    """A name that the first reading did not know must not take the pseudonym of another in the second."""
    copy = b"[2025-03-08 12:29:04] server_args=ServerArgs(model_path='/home/user-a/m', tp_size=1, host='addr-1')\n"
    late = b"[2025-03-08 12:29:05 TP0] Load weight begin. avail mem=21.63 GB\nRuntimeError: at /home/zoe/x\n"
    found = diagnose(Log("log.txt", io.BytesIO(copy + late)), is_masked=True).document
    assert found["launches"][0]["model"]["path"] == "/home/user-a/m"
    assert "user-b" not in json.dumps(found)
    assert found["upload"]["masked"] == {}
