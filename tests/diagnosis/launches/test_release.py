"""The release of a launch: by wording, by fields, exact where it is printed."""

from collections.abc import Callable

import pytest

from kvdiag.diagnosis.launches import Launch

Read = Callable[..., list[Launch]]
Start = Callable[..., str]


def test_every_line_narrows_the_range(read: Read, start: Start) -> None:
    [few] = read("[2026-03-01 10:00:00 TP0] Init torch distributed begin.\n")
    [more] = read(start(args=None))
    assert (few.release["from"], few.release["before"]) == ("0.3.1", "0.5.21")
    assert (more.release["from"], more.release["before"], more.release["basis"]) == ("0.4.7", "0.5.9", "wording")


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("sglang version: 0.5.9", "0.5.9"),
        ("Successfully installed sglang-0.4.6.post5 torch-2.6.0", "0.4.6.post5"),
        ("$ docker run lmsysorg/sglang:v0.5.2-cu126 python3 -m sglang.launch_server --model-path m", "0.5.2"),
        ('  File "/usr/lib/python3/site-packages/sglang-0.4.3-py3.10.egg/sglang/srt/server.py", line 1, in f', "0.4.3"),
    ],
)
def test_a_printed_release_is_exact(read: Read, start: Start, line: str, exact: str) -> None:
    launch = read(f"{line}\n{start()}")[-1]
    assert (launch.release["exact"], launch.release["basis"]) == (exact, "printed")


def test_a_printed_release_holds_for_the_launches_after_it(read: Read, start: Start) -> None:
    launches = read("sglang version: 0.5.2\n" + start() + start(at="11:00"))
    assert [x.release["exact"] for x in launches] == ["0.5.2", "0.5.2"]


def test_fields_of_the_arguments_tell_the_release(read: Read) -> None:
    args = (
        "model_path='m', tp_size=1, cuda_graph_max_bs=160, enable_ep_moe=False, enable_deepep_moe=False,"
        " deepep_mode='auto',"
        " page_size=1, ep_size=1, hicache_ratio=2.0, hicache_size=0, max_micro_batch_size=None, pp_size=1,"
        " disaggregation_mode='null', moe_dense_tp_size=None, enable_eplb=False"
    )
    [launch] = read(f"[2026-03-01 10:00:00] server_args=ServerArgs({args})\n")
    assert (launch.release["from"], launch.release["before"]) == ("0.4.6", "0.5.3")


def test_a_sign_that_contradicts_the_others_is_passed_over(read: Read) -> None:
    text = (
        "[2026-03-01 10:00:00] Memory baseline taken. mem usage=1.00 GB\n"
        "[2026-03-01 10:00:01] KV Cache is allocated. #tokens: 10, KV size: 1.00 GB\n"
    )
    [launch] = read(text)
    assert launch.release["from"] == "0.5.20"


def test_the_range_compares_with_releases(read: Read, start: Start) -> None:
    [launch] = read(start())
    assert launch.releases.reaches("0.4.6") is True
    assert launch.releases.reaches("0.5.14") is False
    assert launch.releases.reaches("0.5.0") is None


def test_lines_of_no_release_narrow_nothing(read: Read, start: Start) -> None:
    web = "[2026-03-01 10:00:31] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)\n"
    [launch] = read(start(args=None, ready=False) + web)
    assert (launch.release["from"], launch.release["before"]) == ("0.4.7", "0.5.9")


def test_the_name_of_a_folder_is_no_release(read: Read, start: Start) -> None:
    folder = "Config file not found at /root/.virtualenvs/sglang-0.5.6/lib/python3.10/site-packages/triton/E=8.json"
    assert read(f"{folder}\n{start()}")[-1].release["exact"] is None


def test_the_sizes_to_capture_are_no_sign_of_a_late_release(read: Read) -> None:
    [launch] = read("[2025-07-14 05:48:44] Capture cuda graph bs [1, 2, 4, 8]\n")
    assert (launch.release["from"], launch.release["before"]) == ("0.4.6", "0.5.14")
