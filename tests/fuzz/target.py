"""Any bytes as one upload, through everything that comes out of the engine.

What must hold: nothing raises but the two refusals, no rule fails, every output is bounded and is what it claims to be,
and a secret that was planted between the lines is in none of them.
"""

from __future__ import annotations

import io
import json
import logging
import tempfile
import zlib
from pathlib import Path

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.errors import LogTooLarge, UnreadableLog
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import masked_copy
from kvdiag.diagnosis.report import Report
from kvdiag.diagnosis.text import render
from reports.offline import offline_page

LIMITS = Limits(unpacked_bytes=8 << 20, free_unpacked_bytes=1 << 20)
MOST = 16_000_000  # characters of a document, as many launches as are read and more; and for each byte of the log:
MOST_OF_A_BYTE = 200

SECRETS = ("Zq8vWkR2mTn5xL", "hf_Zq8vWkR2mTn5xLbCdEfGhIj", "sk-proj-Zq8vWkR2mTn5xLbCdE", "zoe-of-nowhere")
PLANTED = (
    b"[2025-03-08 12:29:04] server_args=ServerArgs(model_path='/m', api_key='Zq8vWkR2mTn5xL', tp_size=1)\n",
    b"[2025-03-08 12:29:05 TP0] Load weight begin. avail mem=21.63 GB hf_Zq8vWkR2mTn5xLbCdEfGhIj\n",
    b"python -m sglang.launch_server --model-path /m --api-key Zq8vWkR2mTn5xL --tp 8\n",
    b"        - --api-key\n        - Zq8vWkR2mTn5xL\n",
    b"  - name: HF_TOKEN\n    value: Zq8vWkR2mTn5xL\n",
    b"RuntimeError: CUDA out of memory in /home/zoe-of-nowhere/x.py: sk-proj-Zq8vWkR2mTn5xLbCdE\n",
)
ARCHIVES = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"PK")


class _Loud(logging.Handler):
    """A rule that raised is a failure here, not a line in a log."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)


logging.getLogger("kvdiag.diagnosis").addHandler(_Loud())
logging.getLogger("kvdiag.diagnosis").propagate = False


def planted(data: bytes) -> bytes:
    """The log with secrets between its lines; an archive as it is."""
    if data.startswith(ARCHIVES) or b"ustar" in data[:300]:
        return data
    middle = data.find(b"\n", len(data) // 2) + 1
    number = zlib.crc32(data) % len(PLANTED)
    last = b"" if data.endswith(b"\n") or not data else b"\n"
    return data[:middle] + (PLANTED[number] if middle else b"") + data[middle:] + last + PLANTED[number - 1]


def check(data: bytes) -> None:
    """Raises where one of the properties does not hold for a log of these bytes."""
    raw = planted(data)
    try:
        report = diagnose(Log("log", io.BytesIO(raw)), limits=LIMITS)
    except (UnreadableLog, LogTooLarge) as refusal:
        assert str(refusal).endswith(".")
        return
    text = report.to_json()
    found = json.loads(text)
    shown = {"json": text, "text": render(report, "text"), "markdown": render(report, "markdown")}
    if zlib.crc32(raw) % 4 == 0:  # it takes as long as all the others
        shown["html"] = offline_page(found)
    for form, output in shown.items():
        assert len(output) <= MOST + MOST_OF_A_BYTE * len(raw), form
        assert "\x1b" not in output, form
        for secret in SECRETS:
            assert secret not in output, (form, secret)
        output.encode()  # no lone surrogates
    assert Report.from_document(found).to_json() == text
    _check_copy(raw)


def _check_copy(raw: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="kvdiag-fuzz-") as folder:
        stored = masked_copy(Log("log", io.BytesIO(raw)), Path(folder), LIMITS)
        for copy in stored:
            kept = copy.path.read_bytes()
            assert kept.count(b"\n") in (copy.lines, copy.lines - 1), "lines"
            again = (
                diagnose(Log("log", io.BytesIO(kept)), limits=LIMITS, is_masked=True).to_json() if copy.bytes else ""
            )
            for secret in SECRETS:
                assert secret.encode() not in kept, ("copy", secret)
                assert secret not in again, ("report on the copy", secret)
