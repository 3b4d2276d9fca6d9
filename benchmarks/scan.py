"""How fast logs are read, beside ripgrep with the same literals in the same run.

    python benchmarks/scan.py                       # 1 MB to 1 GB, three rounds; prints the table
    python benchmarks/scan.py --write               # and puts it into docs/benchmarks.md
    python benchmarks/scan.py --sizes 1 64 --huge   # other sizes in MB; --huge adds 4 GB

Every figure is CPU time (user and system) of a process of its own, the fastest of the rounds, taken in turn, so that a
busy machine disturbs all rows alike. Trust the ratios. ripgrep must be 15 or newer; `--rg` names it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
PAGE = PROJECT / "docs" / "benchmarks.md"
# As bin/kvdiag does: without its bytecode kept, every start compiles the engine again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

# What a measured process does; argv: file. It prints what it found, so that no work is left out.
READ = """
import sys
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.events import Matcher
matcher = Matcher()
with open(sys.argv[1], "rb") as stream:
    reader = LineReader([Log("x", stream)], matcher.phrases, Limits({limits}), dense={dense}, bars=matcher.bars, masker={masker})
    print(sum(1 for _ in reader), reader.files[0].batch_lines)
"""
PROGRAMS = {
    "start-up lines, masking off": READ.format(limits="", dense="()", masker=False),
    "start-up lines, masking on": READ.format(limits="", dense="()", masker=True),
    "and batch lines, sampled": READ.format(limits="exact_batch_bytes=0", dense="matcher.dense", masker=True),
    "and batch lines, as by default": READ.format(limits="", dense="matcher.dense", masker=True),
    "masked copy": """
import pathlib, sys, tempfile
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import masked_copy
with tempfile.TemporaryDirectory() as folder, open(sys.argv[1], "rb") as stream:
    print(masked_copy(Log("x", stream), pathlib.Path(folder))[0].lines)
""",
    "whole diagnosis": """
import sys
from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
with open(sys.argv[1], "rb") as stream:
    print(len(diagnose(Log("x", stream)).document["launches"]))
""",
    "(imports alone)": "import kvdiag.diagnosis.lines, kvdiag.diagnosis.events",
}
UNPACK = {
    "gz": "from isal import igzip as m\nf = m.open(__import__('sys').argv[1])\nwhile f.read(1 << 18): pass",
    "zst": "import zstandard, sys\nf = zstandard.ZstdDecompressor().stream_reader(open(sys.argv[1], 'rb'))\n"
    "while f.read(1 << 18): pass",
}


def cpu(command: list[str]) -> tuple[float, int, float]:
    """CPU seconds, largest memory in MB and wall seconds of a command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=PROJECT, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        raise SystemExit(f"{command[:2]} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, wall


def best(jobs: dict[str, list[str]], rounds: int) -> dict[str, tuple[float, int, float]]:
    """The fastest round of each job, the jobs taken in turn."""
    found: dict[str, tuple[float, int, float]] = {}
    for _ in range(rounds):
        for name, command in jobs.items():
            now = cpu(command)
            found[name] = min(found.get(name, now), now)
    return found


def python(program: str, path: Path) -> list[str]:
    return [sys.executable, "-c", program, str(path)]


def measure(path: Path, phrases: Path, rg: str, rounds: int, whole: bool) -> dict[str, tuple[float, int, float]]:
    jobs = {"ripgrep -F -j1, the same literals": [rg, "-F", "-j1", "-c", "-f", str(phrases), str(path)]}
    jobs |= {name: python(program, path) for name, program in PROGRAMS.items() if whole or name != "whole diagnosis"}
    return best(jobs, rounds)


def table(size_mb: float, found: dict[str, tuple[float, int, float]]) -> list[str]:
    base = found["ripgrep -F -j1, the same literals"][0]
    rows = [
        f"**{size_mb:,.0f} MB**",
        "",
        "| what | CPU s | MB/s | × ripgrep | RSS MB | wall s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, (seconds, memory, wall) in found.items():
        rate = "" if name.startswith("(") else f"{size_mb / seconds:,.0f}"
        share = "" if name.startswith("(") else f"{base / seconds:.2f}"
        rows.append(f"| {name} | {seconds:.2f} | {rate} | {share} | {memory} | {wall:.2f} |")
    return [*rows, ""]


def packed(path: Path, folder: Path, rounds: int) -> list[str]:
    import zstandard

    files = {"gz": folder / "x.gz", "zst": folder / "x.zst"}
    with path.open("rb") as source, gzip.open(files["gz"], "wb", 6) as out:
        shutil.copyfileobj(source, out)
    with path.open("rb") as source, files["zst"].open("wb") as out:
        zstandard.ZstdCompressor().copy_stream(source, out)
    rows = ["**Compressed, 64 MB unpacked**", ""]
    rows += ["| what | CPU s | × plain reading + unpacking |", "| --- | ---: | ---: |"]
    program = PROGRAMS["start-up lines, masking on"]
    plain = best({"plain": python(program, path)}, rounds)["plain"][0]
    for kind, file in files.items():
        found = best({"alone": python(UNPACK[kind], file), "read": python(program, file)}, rounds)
        alone, read = found["alone"][0], found["read"][0]
        rows.append(f"| unpacking {kind} alone | {alone:.2f} | |")
        rows.append(f"| reading {kind} | {read:.2f} | {read / (alone + plain):.2f} |")
    return [*rows, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1, 20, 64, 1000], help="in MB")
    parser.add_argument("--huge", action="store_true", help="also 4 GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rg", default=shutil.which("rg") or "rg")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    version = subprocess.run([options.rg, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    sys.path[:0] = [str(HERE), str(PROJECT)]
    from kvdiag.diagnosis.events import Matcher

    literals = Matcher().phrases
    lines = [
        f"ripgrep {version}, CPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{len(literals)} literals; load {os.getloadavg()[0]:.1f} at the start.",
        "",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        phrases = folder / "literals"
        phrases.write_bytes(b"\n".join(literals) + b"\n")
        for size in [*options.sizes, *([4000.0] if options.huge else [])]:
            path = folder / "big.log"
            # By another process: what this one has ever held counts as the memory of those it starts.
            subprocess.run([sys.executable, str(HERE / "loggen.py"), str(path), str(size)], check=True)
            found = measure(path, phrases, options.rg, 1 if size > 500 else options.rounds, whole=size <= 64)
            lines += table(size, found)
            if size == 64:
                lines += packed(path, folder, options.rounds)
            path.unlink()
    print("\n".join(lines))
    if options.write:
        text = PAGE.read_text()
        measured = f"{BEGIN}\n\n" + "\n".join(lines) + f"\n{END}"
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: measured, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
