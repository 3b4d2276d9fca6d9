"""Token buckets: a burst, then the pace; one sender does not spend another's."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest import rate
from ingest.refusals import Refused


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


def test_who_comes_too_often_is_told_the_whole_seconds(clock) -> None:
    rate.spend("upload", "told", 1), rate.spend("upload", "told", 1)
    with pytest.raises(Refused) as refused:
        rate.spend("upload", "told", 1)
    assert refused.value.status == 429 and refused.value.headers["Retry-After"] == "60"


def test_a_redis_that_is_away_limits_nobody(settings) -> None:
    settings.KVDIAG_REDIS_URL = "redis://127.0.0.1:1/0"
    assert rate.take("upload", "away", 1) == 0.0
