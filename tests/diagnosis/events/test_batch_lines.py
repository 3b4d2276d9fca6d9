"""Batch lines read by a learned expression and part by part say the same."""

import random
import re

import pytest

from kvdiag.diagnosis.events.pattern import DECLARATIONS
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch, _BatchReader

SAMPLES = [
    (declaration.event, text)
    for declaration in DECLARATIONS
    if declaration.event in (DecodeBatch, PrefillBatch)
    for text in declaration.samples
]
ODD = ["", "nan", "inf", "1e999", "-", "9" * 400, "1.2.3", "None", "True", "91%", "-0", "1_000", "0x10", " 7", "７"]


def learned(event: type, text: str) -> _BatchReader:
    """A reader that has met this line often."""
    reader = _BatchReader()
    reader.of(event)
    for _ in range(40):
        reader(text)
    return reader


@pytest.mark.parametrize(("event", "text"), SAMPLES)
def test_a_frequent_wording_is_read_as_a_rare_one(event: type, text: str) -> None:
    rng = random.Random(text)
    reader = learned(event, text)
    for _ in range(50):
        other = re.sub(r"(?<=[: ])\d+", lambda found: str(rng.randrange(10 ** rng.randrange(1, 19))), text)
        other = re.sub(r"True|False", lambda found: rng.choice(("True", "False")), other)
        assert reader(other) == reader._part_by_part(other)


@pytest.mark.parametrize(("event", "text"), SAMPLES)
def test_an_odd_figure_is_read_the_same_in_a_frequent_wording(event: type, text: str) -> None:
    reader = learned(event, text)
    figures = [found.span(1) for found in re.finditer(r": (-?[\d.]+%?|True|False)", text)]
    assert figures
    for begin, end in figures:
        for odd in ODD:
            other = text[:begin] + odd + text[end:]
            assert reader(other) == reader._part_by_part(other)
    for end in range(len("Prefill batch"), len(text)):
        assert reader(text[:end]) == reader._part_by_part(text[:end])


def test_the_wordings_of_most_releases_are_learned() -> None:
    whole = [text for event, text in SAMPLES if learned(event, text)._wordings]
    assert len(whole) > len(SAMPLES) // 2


def test_a_wording_that_comes_often_is_learned_and_others_stay_readable() -> None:
    reader = _BatchReader()
    reader.of(DecodeBatch)
    for count in range(2000):
        values = reader(f"Decode batch, #running-req: {count}, #odd-{count % 400}: 3, token usage: 0.50")
        assert (values["running"], values["usage"]) == (count, 0.5)
    assert len(reader._wordings) <= 8
