"""Memory stays bounded whatever a log repeats: a process that may take no more finishes its diagnosis.

On a failure: MemoryError in the process, and no line on its standard output.
"""

import subprocess
import sys

import pytest

MIB = 1 << 20
PROGRAM = """
import resource, sys
from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log

limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
document = diagnose(Log("x", sys.stdin.buffer)).document
launches = document["launches"]
print(len(launches), launches[-1]["number"], len(launches[-1]["ranks"]))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_DATA")


def diagnosed_within(limit: int, log: str) -> str:
    """What the process says of the log's launches: how many are told, the last one's number, its ranks."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit)], input=log, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip()


def test_thousands_of_starts_in_one_file() -> None:
    start = (
        "[2025-03-08 12:{0:02d}:{1:02d}] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)\n"
        "[2025-03-08 12:{0:02d}:{1:02d} TP0] Load weight begin. avail mem=78.00 GB\n"
        "[2025-03-08 12:{0:02d}:{1:02d}] The server is fired up and ready to roll!\n"
    )
    log = "".join(start.format(n // 60 % 60, n % 60) for n in range(12_000))
    assert diagnosed_within(72 * MIB, log) == "200 12000 1"


def test_thousands_of_ranks_in_one_start() -> None:
    steps = (
        "Init torch distributed begin.",
        "Init torch distributed ends. elapsed=2.41 s, mem usage=1.02 GB",
        "Load weight begin. avail mem=94.04 GB",
        "Load weight end. elapsed=71.13 s, type=DeepseekV3ForCausalLM, quant=fp8, avail mem=21.71 GB, mem usage=72.33 GB.",
        "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
        "Memory pool end. avail mem=11.12 GB",
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.98 GB",
        "Capture cuda graph end. Time elapsed: 12.83 s. mem usage=2.14 GB. avail mem=8.84 GB.",
    )
    log = "".join(
        f"[2025-03-08 12:{n:02d}:{rank % 60:02d} TP{rank}] {step}\n"
        for n, step in enumerate(steps)
        for rank in range(2_000)
    )
    assert diagnosed_within(72 * MIB, log) == "1 1 2000"

