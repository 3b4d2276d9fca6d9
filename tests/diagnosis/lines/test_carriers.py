"""Every carrier: what it wraps is found, with its line number, its time and who printed it."""

import json
from collections.abc import Callable

import pytest

RECORD = "[2025-03-08 12:29:13 TP3] Load weight begin. avail mem=21.63 GB"
TEXT = "Load weight begin. avail mem=21.63 GB"
CLOCK = "2025-03-08T12:29:13"

CARRIERS: dict[str, tuple[Callable[[str], str], str | None, str]] = {
    # name: (wrap, carrier in the report, node)
    "plain": (lambda r: r, None, ""),
    "indented": (lambda r: "    " + r, None, ""),
    "docker json-file": (
        lambda r: json.dumps({"log": r + "\n", "stream": "stderr", "time": "2025-03-08T12:29:13.1Z"}),
        "docker",
        "",
    ),
    "docker -t": (lambda r: "2025-03-08T12:29:13.159073700Z " + r, "docker", ""),
    "compose": (lambda r: "sglang-worker-1  | " + r, "compose", "sglang-worker-1"),
    "compose, one word": (lambda r: "sglang  | " + r, "compose", "sglang"),
    "kubectl --prefix": (lambda r: "[pod/sgl-0/main] " + r, "kubernetes", "sgl-0"),
    "kubectl --prefix --timestamps": (
        lambda r: "[pod/sgl-0/main] 2025-03-08T12:29:13.159073700Z " + r,
        "kubernetes",
        "sgl-0",
    ),
    "stern": (lambda r: "sgl-0 › main " + r, "kubernetes", "sgl-0"),
    "cri": (lambda r: "2025-03-08T12:29:13.159073700Z stderr F " + r, "cri", ""),
    "journald short": (lambda r: "Mar 08 12:29:13 gpu7 sglang[4711]: " + r, "journald", "host-a"),
    "journald short-iso": (lambda r: "2025-03-08T12:29:13+0000 gpu7 python3[4711]: " + r, "journald", "host-a"),
    "journald short-precise": (lambda r: "Mar 08 12:29:13.123456 gpu7 python3[4711]: " + r, "journald", "host-a"),
    "journald short-full": (lambda r: "Sat 2025-03-08 12:29:13 UTC gpu7 python3[4711]: " + r, "journald", "host-a"),
    "journald short-unix": (lambda r: "1741436953.123456 gpu7 python3[4711]: " + r, "journald", "host-a"),
    "journald json": (
        lambda r: json.dumps({"MESSAGE": r, "__REALTIME_TIMESTAMP": "1741436953000000", "_HOSTNAME": "gpu7"}),
        "journald",
        "host-a",
    ),
    "journald export": (lambda r: "MESSAGE=" + r, "journald", ""),
    "syslog": (lambda r: "<30>1 2025-03-08T12:29:13Z gpu7 sglang 4711 - - " + r, "syslog", "host-a"),
    "srun -l": (lambda r: "12: " + r, "slurm", "task12"),
    "srun -l, padded": (lambda r: " 3: " + r, "slurm", "task3"),
    "ray": (lambda r: "(WorkerDict pid=26103) " + r, "ray", "pid=26103"),
    "ray, coloured, with an address": (
        lambda r: "\x1b[36m(SGLangEngine pid=7, ip=10.0.0.9)\x1b[0m " + r,
        "ray",
        "pid=7 ip=10.0.0.9",
    ),
    "ray, repeated": (lambda r: f"(WorkerDict pid=1) {r} [repeated 7x across cluster]", "ray", "pid=1"),
    "torchrun": (lambda r: "[rank3]: " + r, "torchrun", "rank3"),
    "torchrun --tee": (lambda r: "[default3]:" + r, "torchrun", "default3"),
    "cloudwatch json": (
        lambda r: json.dumps({"timestamp": 1741436953000, "message": r, "ingestionTime": 1741436953001}),
        "cloudwatch",
        "",
    ),
    "gcloud logging read": (lambda r: "ERROR 2025-03-08T12:29:13.159073700Z " + r, "stamped", ""),
    "aws logs tail": (lambda r: "2025-03-08T12:29:13.123000+00:00 sgl/main/abc " + r, "stamped", ""),
    "loki json": (
        lambda r: json.dumps({"labels": {"pod": "sgl-0"}, "line": r, "timestamp": "2025-03-08T12:29:13Z"}),
        "loki",
        "sgl-0",
    ),
    "logcli": (lambda r: '2025-03-08T12:29:13Z {pod="sgl-0"} ' + r, "stamped", ""),
    "logger json": (
        lambda r: json.dumps({"asctime": "2025-03-08 12:29:13", "levelname": "INFO", "message": r}),
        "json",
        "",
    ),
    "structlog json": (lambda r: json.dumps({"event": r, "level": "info"}), "json", ""),
    "google json": (lambda r: json.dumps({"jsonPayload": {"message": r}, "severity": "INFO"}), "json", ""),
    "github actions": (lambda r: "2025-03-08T12:29:13.1234567Z " + r, "github_actions", ""),
    "gh run view": (lambda r: f"test\tRun it\t2025-03-08T12:29:13.1234567Z {r}", "github_actions", ""),
    "double stamps": (lambda r: "2025-03-08 12:29:13 " + r, "stamped", ""),
    "ts": (lambda r: "Mar 08 12:29:13 " + r, "stamped", ""),
    "python logging": (lambda r: "2025-03-08 12:29:13,123 - sglang.srt - INFO - " + r, "stamped", ""),
    "e-mail": (lambda r: "> > " + r, "quoted", ""),
    "markdown list": (lambda r: "- " + r, "marked", ""),
    "notebook": (lambda r: f'      "{r}\\n",', "strings", ""),
    "json array": (lambda r: f'  "{r}"', "strings", ""),
    "python list": (lambda r: f"'{r}\\n',", "strings", ""),
    "compose around docker around ray": (
        lambda r: f"head-1  | 2025-03-08T12:29:13.159073700Z (Engine pid=5) {r}",
        "compose",
        "head-1",
    ),
    "srun around torchrun": (lambda r: f"0: [default0]:{r}", "slurm", "task0"),
    "colours": (lambda r: f"\x1b[32m{r}\x1b[0m", None, ""),
    "colours whose ESC was lost": (lambda r: f"[2m{r}[0m", None, ""),
    "carriage return": (lambda r: "Loading:  50%|█\rLoading: 100%|██\r" + r, None, ""),
    "glued onto a bar": (lambda r: "Loading: 100%|██| 4/4 [00:02<00:00,  1.6it/s]" + r, None, ""),
    "glued onto a line": (lambda r: "INFO:     Application startup complete." + r, None, ""),
}


@pytest.mark.parametrize("name", CARRIERS)
def test_a_carrier_is_peeled_off(read, name: str) -> None:
    wrap, carrier, node = CARRIERS[name]
    found = read("\n".join(["foreign line", wrap(RECORD), "another", wrap(RECORD), ""]))
    assert [line.number for line in found] == [2, 4]
    line = found[0]
    assert (line.text, line.clock, line.rank) == (TEXT, CLOCK, "TP3")
    assert line.node.replace("addr-1", "10.0.0.9") == node
    assert TEXT in line.shown.replace("\\n", "")
    assert (carrier in found.reader.files[0].carriers) if carrier else True


@pytest.mark.parametrize(
    ("wrapped", "clock"),
    [
        ("2025-03-08T12:29:13.159073700Z " + TEXT, "2025-03-08T12:29:13.159073700"),
        ("Mar 08 12:29:13 gpu7 sglang[1]: " + TEXT, "12:29:13"),
        (json.dumps({"time": "2025-03-08T12:29:13.5Z", "msg": TEXT}), "2025-03-08T12:29:13.5"),
        (TEXT, None),
    ],
)
def test_the_carrier_gives_the_time_where_sglang_printed_none(read, wrapped: str, clock: str | None) -> None:
    (line,) = read(wrapped)
    assert (line.text, line.clock, line.rank) == (TEXT, clock, "")


def test_a_logger_s_head_with_a_process_and_ranks_before_the_place_in_the_source_is_peeled_off(read) -> None:
    (line,) = read(f"2025-03-08 12:29:13 INFO 31423 [ TP6 PP0 model_runner.py:1041] {TEXT}\r")
    assert (line.text, line.clock, line.rank) == (TEXT, "2025-03-08T12:29:13", "TP6 PP0")


@pytest.mark.parametrize(
    "line",
    ["0: foo Load weight begin.", "Note | Load weight begin.", "x: Load weight begin.", "12: 4 Load weight begin."],
)
def test_text_that_only_resembles_a_carrier_stays(read, line: str) -> None:
    (found,) = read(line)
    assert found.text == line
    assert found.node == ""


def test_a_carrier_on_some_lines_only_is_no_trouble(read) -> None:
    found = read(f"worker-1  | {RECORD}\n{RECORD}\nworker-1  | {RECORD}\n")
    assert [line.node for line in found] == ["worker-1", "", "worker-1"]


def test_a_notebook_on_one_line_gives_each_of_its_strings(read) -> None:
    other = RECORD.replace("TP3", "TP1").replace("GB", 'GB \\"x\\"')
    (one, two) = read('{"cells": [{"outputs": [{"text": ["' + RECORD + '\\n", "' + other + '\\n"]}]}]}')
    assert (one.text, one.rank, one.number) == (TEXT, "TP3", 1)
    assert (two.text, two.rank, two.number) == (TEXT + ' "x"', "TP1", 1)


def test_a_record_split_at_16_kib_by_its_runtime_is_one_again(read) -> None:
    whole = "[2025-03-08 12:29:04] server_args=ServerArgs(" + ", ".join(f"a{n}={n}" for n in range(2100)) + ")"
    stamp = "2025-03-08T12:29:13.159073700Z stderr"
    (line,) = read(f"{stamp} P {whole[:16384]}\n{stamp} F {whole[16384:]}\n{stamp} F x\n")
    assert line.text == whole.split("] ", 1)[1]


def test_two_records_glued_into_one_line_are_two(read) -> None:
    one, two = read(RECORD + RECORD.replace("TP3", "TP1"))
    assert (one.rank, two.rank) == ("TP3", "TP1")
    assert one.text == two.text == TEXT
    assert one.number == two.number == 1


def test_a_multi_line_message_in_json_keeps_its_lines(read) -> None:
    traceback = "Traceback (most recent call last):\n  File x\nValueError: y"
    message = f"[2025-03-08 12:29:13 TP3] Scheduler hit an exception: {traceback}"
    (line,) = read(json.dumps({"message": message}) + "\n" + json.dumps({"message": "next"}))
    assert line.following(3) == ("  File x", "ValueError: y", "next")


@pytest.mark.parametrize("part", [8_192, 16_384])
@pytest.mark.parametrize("size", [20_000, 31_000, 45_000])
def test_a_line_that_a_runtime_split_into_many_parts_is_one(read, part: int, size: int) -> None:
    text = f"server_args={{'model_path': '/m', 'x': '{'y' * size}', 'api_key': 'sekret0123', 'tp_size': 2}}"
    parts = [text[at : at + part] for at in range(0, len(text), part)]
    lines = [f"2025-03-08T12:29:13.1Z stderr {'F' if p is parts[-1] else 'P'} {p}" for p in parts]
    (line,) = read("\n".join([*lines, ""]), phrases=[b"server_args=", b"tp_size"])
    assert line.text.endswith("'api_key': '[api_key]', 'tp_size': 2}")


def pairs(lines: list[str]) -> list[list[str]]:
    return [[f"17414369{number:02}000000000", line] for number, line in enumerate(lines)]


ANSWERED = {
    "Loki": lambda lines: json.dumps({"data": {"result": [{"stream": {"pod": "sgl-0"}, "values": pairs(lines)}]}}),
    "CloudWatch": lambda lines: json.dumps(
        {"events": [{"timestamp": 1, "message": x, "ingestionTime": 2} for x in lines], "nextForwardToken": "f/1"}
    ),
    "CloudWatch, close": lambda lines: json.dumps(
        {"events": [{"logStreamName": "a", "timestamp": 1, "message": x, "ingestionTime": 2} for x in lines]},
        separators=(",", ":"),
    ),
}


@pytest.mark.parametrize("collector", ANSWERED)
def test_what_a_collector_answers_on_one_line_is_read_line_by_line(read, collector: str) -> None:
    lines = [
        "python3 -m sglang.launch_server --model-path m",
        RECORD,
        "[2025-03-08 12:29:14 TP3] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/a.py", line 3, in f',
        "RuntimeError: it is no use",
        "noise, that nobody looks for",
    ]
    found = read(ANSWERED[collector](lines), phrases=[b"launch_server", TEXT.encode(), b"hit an exception", b"Error: "])
    assert [line.text for line in found] == [
        lines[0],
        TEXT,
        "Scheduler hit an exception: Traceback (most recent call last):",
        "RuntimeError: it is no use",
    ]
    assert found[2].following(2) == (lines[3], lines[4])
