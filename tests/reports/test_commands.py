"""Commands to copy: what stands in a log never runs as more than one word."""

from __future__ import annotations

import shlex

import pytest

from reports.commands import command_diff, command_to_copy, full_command

HOSTILE = ["$(reboot)", "a; rm -rf /", "`id`", "x\nreboot", "' || true '", "--flag=$(id)", "\x1b[31mred", "a b"]


def texts(remedy: dict) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in command_diff(remedy)]


def test_a_changed_flag_is_a_line_taken_and_a_line_given() -> None:
    remedy = {"flag": "--mem-fraction-static", "direction": "raise", "from": "0.80", "to": "0.90"}
    assert texts(remedy) == [
        ("del", "--mem-fraction-static 0.80"),
        ("add", "--mem-fraction-static 0.90"),
    ]


def test_a_switch_stands_alone_or_not_at_all() -> None:
    remedy = {"flag": "--enable-dp-attention", "direction": "set", "from": "False", "to": "True"}
    assert texts(remedy) == [("add", "--enable-dp-attention")]
    assert texts(remedy | {"to": None}) == texts(remedy)


def test_a_direction_without_a_value_is_no_command() -> None:
    assert texts({"flag": "--chunked-prefill-size", "direction": "lower", "from": "8192", "to": None}) == []


def test_a_flag_that_goes_is_only_taken() -> None:
    kinds = [
        kind for kind, _ in texts({"flag": "--max-total-tokens", "direction": "remove", "from": "4096", "to": None})
    ]
    assert kinds == ["del"]


def test_a_variable_is_exported() -> None:
    remedy = {"flag": "PYTORCH_CUDA_ALLOC_CONF", "direction": "set", "from": None, "to": "expandable_segments:True"}
    assert texts(remedy) == [("add", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")]


@pytest.mark.parametrize("flag", ["upgrade", "container memory", "--x; reboot", "$(id)"])
def test_what_is_no_flag_gets_no_command(flag: str) -> None:
    assert texts({"flag": flag, "direction": "set", "to": "1"}) == []


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_one_word_to_the_shell(value: str) -> None:
    for _, text in texts({"flag": "--tokenizer-path", "direction": "set", "from": value, "to": value + "x"}):
        words = shlex.split(text)
        assert len(words) == 2
        assert "\n" not in text


@pytest.mark.parametrize("value", HOSTILE)
def test_the_launch_command_quotes_what_was_given(value: str) -> None:
    arguments = {"model_path": {"value": value, "origin": "given"}, "tp_size": {"value": 8, "origin": "given"}}
    words = shlex.split(full_command(arguments).replace("\\\n", " "))
    assert words[:4] == ["python", "-m", "sglang.launch_server", "--model-path"]
    assert words[5:] == ["--tp-size", "8"]


def test_secrets_that_were_masked_are_left_out() -> None:
    arguments = {"api_key": {"value": "<masked>", "origin": "given"}, "tp_size": {"value": 8, "origin": "given"}}
    assert "api-key" not in full_command(arguments)


def test_a_containers_option_is_one_of_docker() -> None:
    lines = command_diff({"flag": "--shm-size", "direction": "raise", "to": "32g", "from": None})
    assert [(line.kind, line.text) for line in lines] == [("ctx", "docker run"), ("add", "--shm-size 32g")]


FRACTION = {"flag": "--mem-fraction-static", "direction": "raise", "from": "0.80", "to": "0.90"}
GIVEN = {
    "model_path": {"value": "/models/a b", "origin": "given"},
    "mem_fraction_static": {"value": 0.8, "origin": "given"},
    "max_total_tokens": {"value": 4096, "origin": "given"},
    "page_size": {"value": 1, "origin": "default"},
}


def test_without_a_launch_command_the_flags_alone_are_copied_on_one_line() -> None:
    dtype = {"command": {"from": [], "to": ["--kv-cache-dtype", "fp8_e4m3", "--enable-x"]}}
    assert command_to_copy([FRACTION], {}) == "--mem-fraction-static 0.90"
    assert command_to_copy([FRACTION, dtype], {}) == "--mem-fraction-static 0.90 --kv-cache-dtype fp8_e4m3 --enable-x"
    assert command_to_copy([{"flag": "--max-total-tokens", "direction": "remove", "from": "4096"}], {}) == ""


def test_with_a_launch_command_the_whole_of_it_is_copied_with_the_change() -> None:
    def words(*remedies: dict) -> list[str]:
        copied = command_to_copy(list(remedies), GIVEN)
        assert not copied.rstrip().endswith("\\")
        return shlex.split(copied.replace("\\\n", " "))[3:]

    assert words(FRACTION) == [
        "--model-path", "/models/a b", "--mem-fraction-static", "0.90", "--max-total-tokens", "4096"
    ]  # fmt: skip
    gone = {"flag": "--max-total-tokens", "direction": "remove", "from": "4096"}
    assert words(gone) == ["--model-path", "/models/a b", "--mem-fraction-static", "0.8"]
    assert words(FRACTION, {"command": {"from": [], "to": ["--enable-x"]}})[-1] == "--enable-x"


def test_a_command_without_its_secret_or_its_model_is_not_passed_off_as_whole() -> None:
    masked = GIVEN | {"api_key": {"value": "<masked>", "origin": "given"}}
    nameless = {name: one for name, one in GIVEN.items() if name != "model_path"}
    assert command_to_copy([FRACTION], masked) == command_to_copy([FRACTION], nameless) == "--mem-fraction-static 0.90"


def test_a_variable_and_a_containers_option_are_copied_as_they_are() -> None:
    variable = {"flag": "PYTORCH_CUDA_ALLOC_CONF", "direction": "set", "to": "expandable_segments:True"}
    assert command_to_copy([variable], GIVEN) == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert command_to_copy([{"flag": "--shm-size", "direction": "raise", "to": "32g"}], GIVEN) == "--shm-size 32g"
