"""Given, default or adjusted, with the lines that say so."""

import io

import pytest

from kvdiag.diagnosis.arguments import Argument
from kvdiag.diagnosis.defaults import defaults_of, names_of
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import Launch, split_launches
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.release import ReleaseRange


def launch_of(text: str) -> Launch:
    matcher = Matcher()
    return split_launches(matcher.read(LineReader([Log("a", io.BytesIO(text.encode()))], matcher.phrases)))[-1]


def arguments(text: str) -> dict[str, Argument]:
    return launch_of(text).arguments


COMMAND = "$ python3 -m sglang.launch_server --model-path m --tp 4 --mem-fraction-static 0.8 --page-size 1\n"
PRINTED = (
    "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='m', tp_size=4, mem_fraction_static=0.8, page_size=64,"
    " chunked_prefill_size=8192, max_prefill_tokens=16384, quantization=None, trust_remote_code=False)\n"
)


def test_the_command_settles_what_is_given() -> None:
    found = arguments(COMMAND + PRINTED)
    assert {name: a.origin for name, a in found.items()} == {
        "model_path": "given",
        "tp_size": "given",
        "mem_fraction_static": "given",
        "page_size": "adjusted",
        "chunked_prefill_size": "adjusted",
        "max_prefill_tokens": "default",
        "quantization": "default",
        "trust_remote_code": "default",
    }


def test_given_and_adjusted_cite_both_lines() -> None:
    found = arguments(COMMAND + PRINTED)
    assert found["page_size"].lines == ((0, 1), (0, 2))
    assert found["max_prefill_tokens"].lines == ((0, 2),)


@pytest.mark.parametrize(
    ("argument", "origin"),
    [
        ("mem_fraction_static=0.85", "given"),
        ("mem_fraction_static=0.873", "adjusted"),
        ("chunked_prefill_size=8192", "adjusted"),
        ("max_prefill_tokens=32768", "given"),
        ("max_prefill_tokens=16384", "default"),
        ("kv_cache_dtype='fp8_e4m3'", "given"),
        ("kv_cache_dtype='auto'", "default"),
        ("model_path='m'", "given"),
        ("context_length=4096", "given"),
        ("random_seed=123456", "adjusted"),
        ("some_new_flag=False", "default"),
        ("some_new_flag='x'", "given"),
    ],
)
def test_without_a_command_the_defaults_decide(argument: str, origin: str) -> None:
    text = f"[2026-03-01 10:00:00] server_args=ServerArgs({argument}, available=None, enable_two_batch_overlap=False)\n"
    text += "[2026-03-01 10:00:01 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3,"
    " #new_token_ratio: 1\n"
    assert arguments(text)[argument.partition("=")[0]].origin == origin


def test_a_notice_of_a_change_is_cited() -> None:
    text = PRINTED + "[2026-03-01 10:00:01 TP0] Automatically reduce --mem-fraction-static to 0.720 because this is a"
    found = arguments(text + " multimodal model.\n")["mem_fraction_static"]
    assert (found.value, found.origin, found.lines) == (0.72, "adjusted", ((0, 1), (0, 2)))


def test_the_command_of_another_launch_is_left_aside() -> None:
    other = "$ python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.6\n"
    assert arguments(other + PRINTED)["mem_fraction_static"].value == 0.8
    assert arguments(other.replace("path m", "path n") + PRINTED)["tp_size"].origin == "given"


def test_a_command_alone_gives_the_arguments() -> None:
    found = arguments(COMMAND + "[2026-03-01 10:00:01 TP0] Load weight begin. avail mem=78.00 GB\n")
    assert (found["mem_fraction_static"].value, found["mem_fraction_static"].origin) == (0.8, "given")


def test_a_piece_of_the_printed_arguments_is_read() -> None:
    text = "page_size=128, swa_full_tokens_ratio=0.8, device='npu', tp_size=1\nLoad weight begin. avail mem=60.00 GB\n"
    assert launch_of(text).value("device") == "npu"


def test_a_renamed_argument_is_found_under_both_names() -> None:
    text = "[2026-03-01 10:00:00] server_args={'cuda_graph_max_bs_decode': 64, 'model_path': 'm'}\n"
    launch = launch_of(text)
    assert (launch.value("cuda_graph_max_bs"), launch.value("cuda_graph_max_bs_decode")) == (64, 64)
    assert names_of("cuda_graph_bs") == ("cuda_graph_bs", "cuda_graph_bs_decode")


def test_defaults_follow_the_release() -> None:
    def of(since: str, before: str) -> tuple[object, ...] | None:
        return defaults_of("chunked_prefill_size", ReleaseRange.read(None, since, before))

    assert of("0.3.0", "0.3.7") == (8192,)
    assert of("0.4.5", "0.5.0") == (None,)
    assert defaults_of("nothing_of_the_kind", ReleaseRange()) is None


UNTOUCHED = (
    "kt_method='AMXINT4', kt_threadpool_count=2, weight_version='default', json_model_override_args='{}',"
    " sm_group_num=8, mamba_scheduler_strategy='no_buffer', mm_process_config={}, otlp_traces_endpoint='localhost:4317'"
)


def test_what_nobody_sets_is_not_said_to_be_given() -> None:
    found = arguments(f"[2026-05-01 10:00:00] server_args=ServerArgs(model_path='/m', {UNTOUCHED})\n")
    assert [name for name, argument in found.items() if argument.origin == "given"] == ["model_path"]


@pytest.mark.parametrize("changed", ["sm_group_num=4", "weight_version='v2'", "kt_method='AMXINT8'"])
def test_a_setting_changed_from_what_it_is_without_one_is_given(changed: str) -> None:
    found = arguments(f"[2026-05-01 10:00:00] server_args=ServerArgs(model_path='/m', {changed})\n")
    assert found[changed.partition("=")[0]].origin == "given"
