"""Figures and sentences as the pages spell them."""

from __future__ import annotations

import pytest

from reports import words


def test_what_is_not_known_is_not_said() -> None:
    assert [spell(None) for spell in (words.gib, words.tokens, words.percent, words.duration, words.fraction)] == [
        ""
    ] * 5


@pytest.mark.parametrize(
    ("value", "said"),
    [(10.4252, "10.43"), (-2.964, "−2.96"), (-0.001, "0.00"), (1234.5, "1,234.50"), (float("nan"), "")],
)
def test_sizes_have_two_digits_and_a_true_minus(value: float, said: str) -> None:
    assert words.gib(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(216_771, "216,800"), (32_104, "32,100"), (512, "512"), (9_999_999, "10,000,000")]
)
def test_predictions_have_four_figures(value: int, said: str) -> None:
    assert words.about(value) == said


@pytest.mark.parametrize(("value", "said"), [(362.0, "6 min 02 s"), (38.12, "38.1 s"), (3_720, "1 h 02 min")])
def test_times_are_read_not_counted(value: float, said: str) -> None:
    assert words.duration(value) == said


@pytest.mark.parametrize(("path", "name"), [
    ("/models/Kimi-K2.5-INT4", "Kimi-K2.5-INT4"), ("/models/x/", "x"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), (None, "")
])  # fmt: skip
def test_a_model_is_called_by_its_last_name_and_a_repository_by_both(path: str, name: str) -> None:
    assert words.base_name(path) == name


@pytest.mark.parametrize(("text", "said"), [
    ("what is there is enough", "What is there is enough."),
    ("--max-total-tokens is not set", "--max-total-tokens is not set."),
    ("fp8_e4m3 needs a backend", "fp8_e4m3 needs a backend."),
    ("Done.", "Done."),
])  # fmt: skip
def test_a_sentence_begins_and_ends_as_one(text: str, said: str) -> None:
    assert words.sentence(text) == said


@pytest.mark.parametrize(("count", "severity", "said"), [
    (0, "warning", "0 warnings"), (1, "warning", "1 warning"), (2, "critical", "2 critical"), (3, "advice", "3 advice")
])  # fmt: skip
def test_only_a_warning_is_counted_as_a_noun(count: int, severity: str, said: str) -> None:
    assert words.of_severity(count, severity) == said
