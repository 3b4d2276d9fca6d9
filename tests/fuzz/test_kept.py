"""The target on the inputs that are kept: they reach different code, and some once found a fault."""

from pathlib import Path

import pytest

from tests.fuzz.seeds import seeds, words
from tests.fuzz.target import PLANTED, SECRETS, check, planted

KEPT = Path(__file__).parent / "corpus"
INPUTS = sorted(KEPT.iterdir())


def test_enough_is_kept_and_it_is_small() -> None:
    assert len(INPUTS) >= 100
    assert sum(path.stat().st_size for path in INPUTS) < 300_000


@pytest.mark.parametrize("part", range(8))
def test_nothing_raises_grows_or_tells_a_secret(part: int) -> None:
    for path in INPUTS[part::8]:
        try:
            check(path.read_bytes())
        except Exception as failure:
            raise AssertionError(f"{path.name}: {failure!r}") from failure


def test_the_target_notices_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdiag.diagnosis.masking.Masker._mask", lambda self, text, numbers: text)
    with pytest.raises(AssertionError, match="Zq8v|zoe"):
        for log in (b"", b"[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB\n\n"):
            check(log)


def test_every_secret_is_planted_in_one_place_or_another() -> None:
    raw = b"".join(planted(b"line %d\nline\n" % n) for n in range(100))
    assert [secret for secret in SECRETS if secret.encode() not in raw] == []
    assert all(line in raw for line in PLANTED)


def test_seeds_and_dictionary_are_made_from_corpus_and_declarations() -> None:
    made = seeds()
    assert len(made) > 150
    assert max(map(len, made.values())) < 30_000
    assert b"Load weight begin." in words()
