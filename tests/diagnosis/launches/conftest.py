"""Composed logs, read into launches."""

import io
from collections.abc import Callable

import pytest

from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import Launch, split_launches
from kvdiag.diagnosis.lines import LineReader, Log

Read = Callable[..., list[Launch]]


@pytest.fixture
def read() -> Read:
    """Launches of one upload of these files, each given as its text."""

    def launches(*texts: str) -> list[Launch]:
        matcher = Matcher()
        logs = [Log(f"{n}.log", io.BytesIO(text.encode())) for n, text in enumerate(texts)]
        return split_launches(matcher.read(LineReader(logs, matcher.phrases, dense=matcher.dense)))

    return launches


@pytest.fixture
def start() -> Callable[..., str]:
    """A start's lines; see its parameters."""
    return compose


def compose(
    ranks: tuple[str, ...] = ("TP0", "TP1"),
    *,
    at: str = "10:00",
    args: str | None = "model_path='m', tp_size=2, port=30000",
    ready: bool = True,
    until: int = 99,
    draft: bool = False,
) -> str:
    """A start of these ranks: `until` cuts it after so many steps, `draft` adds a draft model after the graphs."""
    lines: list[str] = []

    def say(second: int, rank: str, text: str) -> None:
        prefix = f" {rank}" if rank else ""
        lines.append(f"[2026-03-01 {at}:{second:02d}{prefix}] {text}")

    if args is not None:
        say(0, "", f"server_args=ServerArgs({args})")
    steps = [
        (1, "Init torch distributed begin."),
        (2, "Init torch distributed ends. mem usage=1.00 GB"),
        (3, "Load weight begin. avail mem=78.00 GB"),
        (9, "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=18.00 GB."),
        (10, "KV Cache is allocated. #tokens: 100000, K size: 20.00 GB, V size: 20.00 GB"),
        (11, "Memory pool end. avail mem=19.00 GB"),
        (12, "Capture cuda graph begin. This can take up to several minutes. avail mem=18.00 GB"),
        (19, "Capture cuda graph end. Time elapsed: 7.00 s. mem usage=1.00 GB. avail mem=17.00 GB."),
    ]
    if draft:
        steps += [
            (20, "Init torch distributed begin."),
            (21, "Load weight begin. avail mem=17.00 GB"),
            (
                22,
                "Load weight end. type=LlamaForCausalLMEagle3, dtype=torch.bfloat16, avail mem=16.00 GB.",
            ),
            (23, "KV Cache is allocated. #tokens: 100000, K size: 0.50 GB, V size: 0.50 GB"),
            (24, "Memory pool end. avail mem=15.00 GB"),
        ]
    for second, text in steps[:until]:
        for rank in ranks:
            say(second, rank, text)
    if until > len(steps):
        say(
            30,
            ranks[0],
            "max_total_num_tokens=100000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
            " max_running_requests=2048,"
            " context_len=8192, available_gpu_mem=15.00 GB",
        )
        if ready:
            say(31, "", "The server is fired up and ready to roll!")
    return "\n".join(lines) + "\n"
