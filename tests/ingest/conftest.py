"""Uploads on a disk of their own, a broker that only remembers, and an engine that does what the log says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache

from ingest import answers, isolation, queue, services
from ingest.arrival import Arrival
from ingest.models import Upload
from ingest.sender import Sender

FAKE_ENGINE = (sys.executable, str(Path(__file__).parent / "fake_engine.py"))


class Broker:
    """Remembers the ids that were sent; `is_away` makes it refuse them."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.is_away = False

    def send_task(self, name: str, args: list[int]) -> None:
        if self.is_away:
            raise ConnectionRefusedError("no broker")
        assert name == queue.DIAGNOSE
        self.sent += args


@pytest.fixture(autouse=True)
def uploads_folder(tmp_path: Path, settings) -> Path:
    settings.KVDIAG_UPLOADS = tmp_path / "uploads"
    settings.KVDIAG_UPLOADS.mkdir()
    settings.KVDIAG_REDIS_URL = None
    return settings.KVDIAG_UPLOADS


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(queue, "current_app", broker)
    return broker


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "COMMAND", FAKE_ENGINE)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WAIT_S", 0.0)


@pytest.fixture(autouse=True)
def full_buckets() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def stranger() -> Sender:
    return Sender(user=None, team=None, address_hash="a" * 64, owner_hash="")


@pytest.fixture
def accept(stranger: Sender, django_capture_on_commit_callbacks):
    """Accepts a log of this text, or of several, as the door does."""

    def run(*texts: str, sender: Sender = stranger, **options) -> Upload:
        with django_capture_on_commit_callbacks(execute=True), Arrival(1 << 20) as arrival:
            for number, text in enumerate(texts):
                arrival.take(f"node{number}.log", [text.encode()])
            return services.accept_upload(arrival, sender, services.Options(**options)).upload

    return run
