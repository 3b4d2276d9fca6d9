"""Token buckets: a burst, then the pace; one sender does not spend another's."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest import rate
from ingest.refusals import Refused
from tests.live import clean_environment


@pytest.fixture(params=["cache", "redis"])
def bucket_store(request: pytest.FixtureRequest, settings) -> str:
    if request.param == "redis":
        settings.KVDIAG_REDIS_URL = request.getfixturevalue("redis_url")
    return request.param


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """Time that passes only when the test says so."""

    class Clock:
        now = 1_800_000_000.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(rate, "time", clock)
    return clock


def test_two_minutes_worth_may_come_at_once_and_then_the_pace(bucket_store: str, clock) -> None:
    who = f"pace-{bucket_store}"
    assert [rate.take("upload", who, 10) for _ in range(20)] == [0.0] * 20
    assert rate.take("upload", who, 10) == pytest.approx(6.0, abs=0.01)
    clock.now += 6.01
    assert rate.take("upload", who, 10) == 0.0
    assert rate.take("upload", who, 10) > 0


def test_each_sender_and_each_kind_has_its_own_bucket(bucket_store: str, clock) -> None:
    who = f"own-{bucket_store}"
    assert [rate.take("upload", who, 1) for _ in range(3)][:2] == [0.0, 0.0]
    assert rate.take("upload", who + "-other", 1) == 0.0
    assert rate.take("read", who, 1) == 0.0


def test_requests_that_come_together_cannot_spend_the_same_token(bucket_store: str, clock) -> None:
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: rate.take("upload", f"together-{bucket_store}", 5), range(40)))
    assert waits.count(0.0) == 10


def test_processes_without_redis_share_one_bucket(tmp_path: Path) -> None:
    taking = (
        "import django; django.setup()\n"
        "from ingest import rate\n"
        "rate.time = lambda: 1_800_000_000.0\n"
        "print(sum(rate.take('upload', 'all', 30) == 0 for _ in range(40)))\n"
    )
    environment = clean_environment(KVDIAG_DATA=str(tmp_path), DJANGO_SETTINGS_MODULE="kvdiag.settings")
    running = [
        subprocess.Popen([sys.executable, "-c", taking], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    taken = sum(int(process.communicate(timeout=120)[0]) for process in running)
    assert taken == 60


def test_who_comes_too_often_is_told_the_whole_seconds(clock) -> None:
    rate.spend("upload", "told", 1), rate.spend("upload", "told", 1)
    with pytest.raises(Refused) as refused:
        rate.spend("upload", "told", 1)
    assert refused.value.status == 429 and refused.value.headers["Retry-After"] == "60"


def test_a_redis_that_is_away_limits_nobody(settings) -> None:
    settings.KVDIAG_REDIS_URL = "redis://127.0.0.1:1/0"
    assert rate.take("upload", "away", 1) == 0.0
