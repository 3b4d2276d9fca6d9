"""Generates a server's log of any size: a start-up, then traffic, with bars, tracebacks and restarts now and then.

    python benchmarks/loggen.py big.log 1000        # MB; the same seed gives the same bytes
    python benchmarks/loggen.py ranks.log 2000 ranks     # so many ranks in one start
    python benchmarks/loggen.py starts.log 10000 starts  # so many starts in one file

Half of the lines are Decode and Prefill lines, one in a hundred speaks of the start-up, the rest are access lines,
progress bars and tracebacks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

RANKS = 8
_START = (
    "Init torch distributed begin.",
    "Init torch distributed ends. elapsed=2.41 s, mem usage=1.02 GB",
    "Load weight begin. avail mem=94.04 GB",
    "Load weight end. elapsed=71.13 s, type=DeepseekV3ForCausalLM, quant=fp8, avail mem=21.71 GB, mem usage=72.33 GB.",
    "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
    "Memory pool end. avail mem=11.12 GB",
    "Capture cuda graph begin. This can take up to several minutes. avail mem=10.98 GB",
    "Capture cuda graph end. Time elapsed: 12.83 s. mem usage=2.14 GB. avail mem=8.84 GB.",
    "max_total_num_tokens=159277, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48,"
    " context_len=131072, available_gpu_mem=8.84 GB",
)
_ARGUMENTS = (
    "server_args=ServerArgs(model_path='/models/DeepSeek-R1', tp_size=8, mem_fraction_static=0.88, "
    "api_key='sk-bench-0123456789abcdef', chunked_prefill_size=8192, "
    + ", ".join(f"option_{n}=None" for n in range(180))
    + ")"
)


def lines(seed: int = 7) -> Iterator[str]:
    """A log without end."""
    rng = random.Random(seed)
    clock = 0

    def stamp(rank: int | None = None) -> str:
        hours, rest = divmod(clock // 20, 3600)
        day, hours = divmod(hours, 24)
        where = "" if rank is None else f" TP{rank}"
        return f"[2026-0{1 + day // 28 % 9}-{1 + day % 28:02d} {hours:02d}:{rest // 60:02d}:{rest % 60:02d}{where}] "

    while True:
        yield stamp() + _ARGUMENTS
        for text in _START:
            for rank in range(RANKS):
                clock += 1
                yield stamp(rank) + text
        bar = "".join(f"\rCapturing batches (bs={bs} avail_mem=9.{bs:02d} GB): {bs}%|█" for bs in range(52, 0, -1))
        yield bar + stamp() + "The server is fired up and ready to roll!"
        for _ in range(100_000):
            clock += 1
            draw = rng.random()
            if draw < 0.44:
                yield (
                    f"{stamp(0)}Decode batch, #running-req: {rng.randint(1, 48)}, #token: {rng.randint(1, 159277)}, "
                    f"token usage: {rng.random() * 0.9:.2f}, cuda graph: True, gen throughput (token/s): "
                    f"{rng.random() * 2000:.2f}, #queue-req: {rng.randint(0, 9)}"
                )
            elif draw < 0.5:
                yield (
                    f"{stamp(0)}Prefill batch, #new-seq: 1, #new-token: {rng.randint(1, 8192)}, #cached-token: "
                    f"{rng.randint(0, 8192)}, token usage: {rng.random() * 0.9:.2f}, #running-req: 12, #queue-req: 0"
                )
            elif draw < 0.985:
                yield f'INFO:     127.0.0.1:{rng.randint(1024, 65535)} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
            elif draw < 0.9945:
                yield f'  File "/sgl-workspace/sglang/srt/managers/scheduler.py", line {rng.randint(1, 4000)}, in run'
            elif draw < 0.9995:
                yield f"\rMulti-thread loading shards: {rng.randint(0, 100)}% Completed | 3/163 [00:01<01:12]"
            else:
                yield f"{stamp(rng.randrange(RANKS))}KV cache pool is full. Retract requests. #retracted_reqs: 1"


def write(path: Path, megabytes: float, seed: int = 7) -> None:
    """Writes a log of about so many megabytes (10^6 bytes). Beyond 64 MB its text repeats."""
    wanted = int(megabytes * 1e6)
    unit = bytearray()
    for line in lines(seed):
        unit += line.encode() + b"\n"
        if len(unit) >= min(wanted, 64_000_000):
            break
    with path.open("wb") as file:
        while file.tell() < wanted:
            file.write(unit[: wanted - file.tell()])


def write_ranks(path: Path, count: int) -> None:
    """One start of so many ranks."""
    with path.open("w") as file:
        file.write(f"[2026-01-01 10:00:00] {_ARGUMENTS}\n")
        for step, text in enumerate(_START):
            file.writelines(f"[2026-01-01 10:{step:02d}:{rank % 60:02d} TP{rank}] {text}\n" for rank in range(count))
        file.write("[2026-01-01 10:20:00] The server is fired up and ready to roll!\n")


def write_starts(path: Path, count: int) -> None:
    """So many starts of two ranks, each of which overflows."""
    with path.open("w") as file:
        for start in range(count):
            minutes, day = start % 1440, 1 + start // 1440 % 28
            head = f"[2026-01-{day:02d} {minutes // 60:02d}:{minutes % 60:02d}:"
            file.write(f"{head}00] {_ARGUMENTS}\n")
            for step, text in enumerate(_START):
                file.writelines(f"{head}{step:02d} TP{rank}] {text}\n" for rank in range(2))
            file.write(f"{head}12] The server is fired up and ready to roll!\n")
            file.write(
                f"{head}13 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
                " 79.15 GiB of which 1.20 GiB is free.\n"
            )


if __name__ == "__main__":
    name, size, *kind = sys.argv[1:]
    if kind:
        {"ranks": write_ranks, "starts": write_starts}[kind[0]](Path(name), int(size))
    else:
        write(Path(name), float(size))
