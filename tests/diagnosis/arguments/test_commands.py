"""Launch commands as people paste them."""

import pytest

from kvdiag.diagnosis.commands import join_lines, read_command
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.events.server_args import LaunchCommand
from kvdiag.diagnosis.lines import LogLine


def flags(*lines: str) -> dict[str, object]:
    return dict(read_command(join_lines(lines[0], lines[1:])))


def test_values_are_typed_as_they_look() -> None:
    found = flags("python3 -m sglang.launch_server --model-path a/b --tp 8 --mem-fraction-static 0.88 --enable-lora")
    assert found == {"model_path": "a/b", "tp_size": 8, "mem_fraction_static": 0.88, "enable_lora": True}


def test_flags_with_an_equals_sign_and_quotes_are_read() -> None:
    found = flags("""python -m sglang.launch_server --model="m" --json-model-override-args '{"a": 1}' --tp-size=4""")
    assert found == {"model_path": "m", "json_model_override_args": '{"a": 1}', "tp_size": 4}


def test_a_list_of_values_is_a_list() -> None:
    assert flags("sglang serve m --cuda-graph-bs 1 2 4 8")["cuda_graph_bs"] == [1, 2, 4, 8]


def test_the_model_may_stand_without_a_flag() -> None:
    assert flags("sglang serve Qwen/Qwen3-8B --tp 2")["model_path"] == "Qwen/Qwen3-8B"


def test_a_backslash_goes_on_to_the_next_line() -> None:
    found = flags(
        "nohup python3 -m sglang.launch_server \\", "  --model-path m \\", "  --tp 8 > server.log 2>&1 &", "--dp 2"
    )
    assert found == {"model_path": "m", "tp_size": 8}


def test_what_stands_before_the_module_is_no_flag_of_it() -> None:
    found = flags(
        "docker run --gpus all --shm-size 32g -p 30000:30000 lmsysorg/sglang:latest python3 -m sglang.launch_server"
        " --tp 8"
    )
    assert found == {"tp_size": 8}


def test_environment_variables_of_the_engine_are_kept() -> None:
    found = flags(
        "docker run -e SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 --env"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True x python3 -m sglang.launch_server --tp 8"
    )
    assert found == {
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK": 256,
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "tp_size": 8,
    }


@pytest.mark.parametrize(
    "lines",
    [
        ('command: ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "8", "--enable-metrics"]',),
        (
            'command: ["python3", "-m", "sglang.launch_server"]',
            "args:",
            "- --model-path",
            "- m",
            "- --tp",
            '- "8"',
            "- --enable-metrics",
            "resources:",
        ),
        ("command: python3 -m sglang.launch_server --model-path m --tp 8 --enable-metrics",),
        ("- sglang.launch_server", "- --model-path", "- m", "- --tp=8", "- --enable-metrics", "env:", "- name: A"),
        ('"sglang.launch_server",', '"--model-path", "m", "--tp", "8",', '"--enable-metrics"],', '"image": "x"'),
    ],
)
def test_manifests_are_read_as_lists(lines: tuple[str, ...]) -> None:
    assert flags(*lines) == {"model_path": "m", "tp_size": 8, "enable_metrics": True}


def test_a_script_in_a_manifest_is_read_as_a_shell_reads_it() -> None:
    found = flags("- python3 -m sglang.launch_server --model-path m \\", "  --tp 8 \\", "  --enable-metrics", "ports:")
    assert found == {"model_path": "m", "tp_size": 8, "enable_metrics": True}


def test_an_unclosed_quote_does_no_harm() -> None:
    assert flags("python3 -m sglang.launch_server --model-path 'm --tp 8")["tp_size"] == 8


def test_flags_of_the_benchmark_are_no_arguments_of_the_server() -> None:
    assert flags("python3 -m sglang.bench_one_batch --model-path m --batch-size 1 12 --input-len 256") == {
        "model_path": "m"
    }


@pytest.mark.parametrize(
    ("text", "is_command"),
    [
        ("python3 -m sglang.launch_server --model-path m", True),
        ("(base) user-a@host-a:~$ sglang serve m --tp 2", True),
        ("python3 -m sglang.launch_server \\", True),
        ('  File "/sglang/launch_server.py", line 3, in sglang.launch_server', False),
        ("UserWarning: 'python -m sglang.launch_server' is still supported", False),
        ("Example: sglang serve --model-path <model> [options]", False),
        ("run.sh: line 4: 812 Killed python3 -m sglang.launch_server --tp 8", False),
    ],
)
def test_commands_are_told_from_mentions(text: str, is_command: bool) -> None:
    events = [event for event in Matcher().read([LogLine(0, 1, text)]) if isinstance(event, LaunchCommand)]
    assert bool(events) == is_command


def test_a_flag_below_a_forgotten_backslash_belongs_to_the_command() -> None:
    first = "python3 -m sglang.launch_server --model-path m \\"
    rest = ["\t--deepep-mode low_latency", "\t--mem-fraction-static 0.82 \\", "\t--cuda-graph-bs 128", "Exception: x"]
    found = read_command(join_lines(first, rest))
    assert (found["mem_fraction_static"], found["cuda_graph_bs"]) == (0.82, 128)
    assert "Exception" not in join_lines(first, rest)


def test_a_shells_variable_is_no_value() -> None:
    found = read_command(
        "python3 -m sglang.launch_server --model-path ${MODEL} --tp-size $((${N}*8)) --dp-size=$N --page-size 16"
    )
    assert found == {"page_size": 16}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            ["$ python -m sglang.launch_server --model-path /models/m --load-format du", "mmy --tp 4"],
            {"load_format": "dummy", "tp_size": 4},
            id="in a value",
        ),
        pytest.param(
            ["$ python -m sglang.launch_server --model-path /models/m --disable-cuda", "-graph --tp 4"],
            {"disable_cuda_graph": True, "tp_size": 4},
            id="in a flag's name",
        ),
        pytest.param(
            ["$ python -m sglang.launch_server --model-path /models/m --load-format", "dummy --tp 4"],
            {"load_format": "dummy", "tp_size": 4},
            id="behind a flag",
        ),
        pytest.param(
            ["$ python -m sglang.launch_server --model-path /models/m --tp 4", "--mem-fraction-static 0.8"],
            {"tp_size": 4, "mem_fraction_static": 0.8},
            id="between two flags",
        ),
        pytest.param(
            ["$ python -m sglang.launch_server --model-path /models/m --mem-fraction-static", "0.8", "Loading"],
            {"mem_fraction_static": 0.8},
            id="a last value alone",
        ),
    ],
)
def test_a_command_broken_by_the_terminal_is_read_whole(lines: list[str], expected: dict[str, object]) -> None:
    found = read_command(join_lines(lines[0], lines[1:]))
    assert found == {"model_path": "/models/m"} | expected


@pytest.mark.parametrize(
    "after",
    [
        "[2026-11-29 09:00:00 TP0] server_args=ServerArgs(model_path='/models/other', flag='--tp 4')",
        "INFO: use --tp 8 to spread the model",
        "",
        "Loading safetensors checkpoint shards",
        "user@host:~$ python -m other --tp 4",
    ],
)
def test_what_comes_after_a_command_is_not_part_of_it(after: str) -> None:
    first = "$ python -m sglang.launch_server --model-path /models/m --mem-fraction-static 0.8"
    assert read_command(join_lines(first, [after])) == {"model_path": "/models/m", "mem_fraction_static": 0.8}


def test_a_command_in_a_programs_list_ends_with_the_list() -> None:
    found = read_command(
        "INFO - With image: registry/runner:1, arguments: [python -m sglang.launch_server --model-path /models/m"
        " --cuda-graph-bs 1 2 --hf-overrides [1,2] --port 40000], ports: [40000], envs(some are left out):"
    )
    assert found == {"model_path": "/models/m", "cuda_graph_bs": [1, 2], "hf_overrides": "[1,2]", "port": 40000}


@pytest.mark.parametrize(
    "lines",
    [
        ("python3 -m sglang.launch_server", "--model-path m", "--tp 2", "ports:", "  - 30000"),
        ("      python3 -m sglang.launch_server --model-path m", "        --tp 2", "    ports:"),
        ("    command: python3 -m sglang.launch_server --model-path m", "      --tp 2", "    ports:"),
        (
            "    entrypoint: python3 -m sglang.launch_server",
            "    command: --model-path m",
            "      --tp 2",
            "    ports:",
        ),
    ],
)
def test_a_text_folded_over_the_lines_of_a_manifest_is_one_command(lines: tuple[str, ...]) -> None:
    assert flags(*lines) == {"model_path": "m", "tp_size": 2}
