"""Commands to copy: what stands in a log never runs as more than one word."""

from __future__ import annotations

import shlex

import pytest

from reports.commands import command_diff, full_command

HOSTILE = ["$(reboot)", "a; rm -rf /", "`id`", "x\nreboot", "' || true '", "--flag=$(id)", "\x1b[31mred", "a b"]


def texts(remedy: dict) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in command_diff(remedy)]


def test_a_changed_flag_is_a_line_taken_and_a_line_given() -> None:
    remedy = {"flag": "--mem-fraction-static", "direction": "raise", "from": "0.80", "to": "0.90"}
    assert texts(remedy) == [
        ("ctx", "python -m sglang.launch_server \\"),
        ("del", "--mem-fraction-static 0.80 \\"),
        ("add", "--mem-fraction-static 0.90 \\"),
    ]


def test_a_switch_stands_alone_or_not_at_all() -> None:
    remedy = {"flag": "--enable-dp-attention", "direction": "set", "from": "False", "to": "True"}
    assert texts(remedy)[1:] == [("add", "--enable-dp-attention \\")]
    assert texts(remedy | {"to": None}) == texts(remedy)


def test_a_direction_without_a_value_is_no_command() -> None:
    assert texts({"flag": "--chunked-prefill-size", "direction": "lower", "from": "8192", "to": None}) == []


def test_a_flag_that_goes_is_only_taken() -> None:
    kinds = [
        kind for kind, _ in texts({"flag": "--max-total-tokens", "direction": "remove", "from": "4096", "to": None})
    ]
    assert kinds == ["ctx", "del"]


def test_a_variable_is_exported() -> None:
    remedy = {"flag": "PYTORCH_CUDA_ALLOC_CONF", "direction": "set", "from": None, "to": "expandable_segments:True"}
    assert texts(remedy) == [("add", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")]


@pytest.mark.parametrize("flag", ["upgrade", "container memory", "--x; reboot", "$(id)"])
def test_what_is_no_flag_gets_no_command(flag: str) -> None:
    assert texts({"flag": flag, "direction": "set", "to": "1"}) == []


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_one_word_to_the_shell(value: str) -> None:
    for _, text in texts({"flag": "--tokenizer-path", "direction": "set", "from": value, "to": value + "x"})[1:]:
        words = shlex.split(text.removesuffix("\\"))
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
    assert [(line.kind, line.text) for line in lines] == [("ctx", "docker run \\"), ("add", "--shm-size 32g \\")]
