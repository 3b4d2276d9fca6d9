"""The child process with the real engine: what bad input does to it, and what never leaves it."""

import gzip
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from ingest import isolation
from ingest.isolation import End, Ended, run_isolated

LOG = (Path(__file__).resolve().parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt").read_bytes()
COMMAND = isolation.COMMAND  # before the other tests' stand-in


class Run:
    """One diagnosis of these files in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        *files: bytes,
        command: tuple[str, ...] = isolation.COMMAND,
        team: dict[str, Any] | None = None,
        **limits: int,
    ) -> None:
        self.folder = folder
        self.messages: list[dict[str, Any]] = []
        (folder / "raw").mkdir(parents=True)
        for number, content in enumerate(files):
            (folder / "raw" / str(number)).write_bytes(content)
        self.job = {
            "folder": str(folder),
            "files": [{"name": f"node{number}.log"} for number in range(len(files))],
            "masked_folder": "masked-1",
            "masked_files": [],
            "masked": {},
            "document": "document-1.json",
            "limits": settings.KVDIAG_LIMITS.as_dict() | limits,
            "team": team or {},
            "memory": limits.pop("memory", 1 << 30),
        }
        self.ended: Ended = run_isolated(
            self.job,
            soft_s=60,
            hard_s=90,
            on_message=self.messages.append,
            is_wanted=lambda: True,
            command=command,
        )

    @property
    def document(self) -> dict[str, Any]:
        return json.loads((self.folder / "document-1.json").read_text())

    @property
    def files(self) -> list[dict[str, Any]]:
        return next(message["files"] for message in self.messages if message.get("phase") == "cleaned")


@pytest.fixture
def diagnosed(tmp_path: Path):
    return lambda *files, **limits: Run(tmp_path / "upload", *files, **limits)


def test_a_log_becomes_a_document_and_a_masked_copy(diagnosed) -> None:
    run = diagnosed(LOG)
    assert run.ended.end is End.REPORT, run.ended.trace
    assert run.document["launches"][0]["kv_cache"]["tokens"] == 159_277
    copy = run.folder / run.files[0]["path"]
    assert copy.read_bytes().count(b"\n") == LOG.count(b"\n") == run.files[0]["lines"]
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_phases_come_in_their_order(diagnosed) -> None:
    run = diagnosed(LOG)
    phases = [message["phase"] for message in run.messages if "phase" in message]
    assert list(dict.fromkeys(phases)) == ["unpacked", "cleaned", "reading", "ledger", "rules", "done"]


def test_a_secret_is_neither_in_the_copy_nor_in_the_document(diagnosed) -> None:
    secret = "sk-proj-0123456789abcdefghij"
    run = diagnosed(LOG + f"--api-key {secret}\n".encode())
    assert secret not in (run.folder / run.files[0]["path"]).read_text() + json.dumps(run.document)
    assert run.document["upload"]["masked"]["api_key"] >= 1


def test_what_a_team_hides_is_neither_in_the_copy_nor_in_the_document(diagnosed) -> None:
    own = {"redaction": [{"name": "customer name", "expression": r"(?<=customer=)[\w-]+", "ignore_case": False}]}
    run = diagnosed(LOG + b"request of customer=acme-gmbh took 3 s, avail mem=7.43 GB\n", team=own)
    copy = (run.folder / run.files[0]["path"]).read_text()
    assert "acme-gmbh" not in copy + json.dumps(run.document)
    assert "request of customer=[customer name] took 3 s" in copy
    assert run.document["upload"]["masked"]["customer_name"] == 1


def test_a_teams_own_thresholds_judge_its_logs(diagnosed) -> None:
    own = {"rule_thresholds": {"free_wanted": 16, "unknown_to_this_engine": 3}}
    run = diagnosed(LOG, team=own)
    assert run.ended.end is End.REPORT, run.ended.trace
    assert [(held["name"], held["value"]) for held in run.document["thresholds"]] == [("free_wanted", 16)]
    rules = {finding["rule"] for finding in run.document["launches"][0]["findings"]}
    assert "thin-slack-after-capture" in rules, "7.43 GiB are less than half of 16"


def test_the_document_tells_of_the_file_as_it_was_sent(diagnosed) -> None:
    sent = b"10.20.30.40 \x1b[31m" + LOG  # the copy has other lengths of both
    file = diagnosed(gzip.compress(sent)).document["upload"]["files"][0]
    assert (file["compression"], file["lines"], file["bytes"]) == ("gzip", LOG.count(b"\n"), len(sent))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_another_encoding_is_read_all_the_same(diagnosed, encoding: str) -> None:
    run = diagnosed(LOG.decode().encode(encoding, errors="replace"))
    assert run.ended.end is End.REPORT and run.document["launches"][0]["kv_cache"]["tokens"] == 159_277


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, LOG)
    return out.getvalue()


def tarred(*names: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(LOG)
            archive.addfile(member, io.BytesIO(LOG))
    return out.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_the_files_of_an_archive_are_files_of_the_upload(diagnosed, pack) -> None:
    run = diagnosed(pack("node0.log", "logs/node1.log"))
    assert run.ended.end is End.REPORT, run.ended
    assert len(run.files) == 2 and len({file["path"] for file in run.files}) == 2


def test_an_archive_cannot_write_outside_its_folder(diagnosed, tmp_path: Path) -> None:
    diagnosed(tarred("../../escaped.log", "/tmp/escaped.log"))
    inside = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert all(path.is_relative_to(tmp_path / "upload") for path in inside)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"   \n \n", None),
        (b"\x7fELF" + bytes(range(256)) * 64, None),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 64, None),
        (gzip.compress(bytes(range(256)) * 64), None),
        (zipped()[:-4], None),
    ],
    ids=["blank", "program", "picture", "packed binary", "broken archive"],
)
def test_what_is_no_text_ends_with_a_sentence_and_without_a_copy(diagnosed, content: bytes, says: str | None) -> None:
    run = diagnosed(content)
    assert run.ended.end in (End.UNREADABLE, End.NOT_SGLANG), run.ended
    if run.ended.end is End.UNREADABLE:
        assert run.ended.sentence.endswith(".") and not list(run.folder.glob("masked-1/*/*.log"))


def test_a_bomb_is_stopped_and_leaves_nothing(diagnosed) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    run = diagnosed(bomb, max_unpacked_bytes=32 << 20)
    assert run.ended.end in (End.UNREADABLE, End.TOO_LARGE), run.ended
    assert not [path for path in run.folder.glob("masked-1/*/*") if path.stat().st_size > 1 << 20]


def test_one_endless_line_is_read_within_the_memory(diagnosed) -> None:
    run = diagnosed(LOG + b"x" * (48 << 20) + b"\n" + LOG, memory=512 << 20)
    assert run.ended.end is End.REPORT, run.ended
    assert len(run.document["launches"]) == 2


@pytest.mark.parametrize("share", [0.003, 0.1, 0.33, 0.5, 0.77, 0.95])
def test_a_log_cut_anywhere_is_read_as_far_as_it_goes(diagnosed, share: float) -> None:
    run = diagnosed(LOG[: int(len(LOG) * share)])
    assert run.ended.end in (End.REPORT, End.NOT_SGLANG), run.ended


def test_a_text_of_something_else_is_no_sglang_log(diagnosed) -> None:
    assert diagnosed(b"hello\nworld\n" * 50).ended.end is End.NOT_SGLANG


@pytest.mark.parametrize(
    ("does", "soft_s", "end"),
    [
        ("bytearray(2 << 30)", 60, End.OUT_OF_MEMORY),
        ("[None for _ in iter(int, 1)]", 1, End.OUT_OF_TIME),
        ("open('/dev/full', 'wb', 0).write(b'x')", 60, End.DISK_FULL),
    ],
    ids=["memory", "processor", "disk"],
)
def test_a_child_that_takes_too_much_is_stopped(does: str, soft_s: int, end: End) -> None:
    greedy = f"from ingest import engine_process as e; e.run = lambda *_: {does}; raise SystemExit(e.main())"
    ended = run_isolated(
        {"memory": 1 << 30},
        soft_s=soft_s,
        hard_s=90,
        on_message=lambda message: None,
        is_wanted=lambda: True,
        command=[sys.executable, "-c", greedy],
    )
    assert ended.end is end, ended


def test_the_child_knows_no_secret_of_the_site(diagnosed, monkeypatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://somebody:secret@db/kvdiag")
    seen = run_isolated(
        {},
        soft_s=10,
        hard_s=20,
        on_message=lambda message: None,
        is_wanted=lambda: True,
        command=["sh", "-c", "env >&2"],
    )
    assert "PYTHONPATH" in seen.trace and "secret" not in seen.trace
