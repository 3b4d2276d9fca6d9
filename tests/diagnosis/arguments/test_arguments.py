"""The printed argument set: every form, never evaluated."""

import pytest

from kvdiag.diagnosis.arguments import read_arguments, read_value


def test_both_forms_give_the_same() -> None:
    want = {"model_path": "m", "tp_size": 4, "mem_fraction_static": 0.85, "quantization": None, "enable_lora": False}
    call = "model_path='m', tp_size=4, mem_fraction_static=0.85, quantization=None, enable_lora=False)"
    items = "'model_path': 'm', 'tp_size': 4, 'mem_fraction_static': 0.85, 'quantization': None, 'enable_lora': False}"
    assert read_arguments(call) == read_arguments(items) == want


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        ("(1, 2)", [1, 2]),
        ("{'b', 'a'}", ["a", "b"]),
        ("{'a': {'b': 1}}", {"a": {"b": 1}}),
        ('"it\'s"', "it's"),
        ("'{\"a\": 1}'", '{"a": 1}'),
        ("<Mode.X: 'x'>", "<Mode.X: 'x'>"),
        ("LoRARef(lora_id='a', path='b')", "LoRARef(lora_id='a', path='b')"),
        ("'cut off", "cut off"),
        ("__import__('os').system('true')", "__import__('os').system('true')"),
        ("9" * 40, "9" * 40),
        ("1e999", "inf"),
        ("null", None),
    ],
)
def test_values_are_literals_or_their_text(text: str, value: object) -> None:
    assert read_value(text) == value


def test_nested_calls_and_commas_within_quotes_stay_one_value() -> None:
    found = read_arguments("a=Config(x=1, y=[1, 2]), b='x, y=3', c={'k': 'v, w'}, d=4)")
    assert found == {"a": "Config(x=1, y=[1, 2])", "b": "x, y=3", "c": {"k": "v, w"}, "d": 4}


@pytest.mark.parametrize("body", ["a=1, mem_fraction_static=0.8", "'a': 1, 'mem_fraction_static': 0.", "a=1, tp_size="])
def test_a_number_within_which_the_log_is_cut_is_no_value(body: str) -> None:
    assert read_arguments(body, is_cut=True) == {"a": 1}


@pytest.mark.parametrize("tail", ["b='/models/Qwen3.6-2", "b=[1, 2, 3", "b=C(x=1, y=2", "b=True"])
def test_an_item_within_which_the_log_is_cut_is_not_taken(tail: str) -> None:
    assert read_arguments(f"a=1, {tail}", is_cut=True) == {"a": 1}
    assert read_arguments("a=1, b=2)", is_cut=True) == {"a": 1, "b": 2}


def test_a_cut_tail_is_kept() -> None:
    assert read_arguments("a=1, b='cut in the mid") == {"a": 1, "b": "cut in the mid"}


def test_text_behind_the_closing_bracket_is_not_read() -> None:
    assert read_arguments("a=1) b=2, c=3") == {"a": 1}
