"""How fast logs are read, beside ripgrep with the same literals in the same run.

    python benchmarks/scan.py                       # 1 MB to 1 GB, three rounds; prints the table
    python benchmarks/scan.py --write               # and puts it into docs/benchmarks.md
    python benchmarks/scan.py --sizes 1 64 --huge   # other sizes in MB; --huge adds 4 GB

Every figure is CPU time (user and system) of a process of its own, the fastest of the rounds, taken in turn, so that a
busy machine disturbs all rows alike. Trust the ratios. Wall seconds mean nothing on a busy machine. ripgrep must be 15
or newer; `--rg` names it.
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
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
PAGE = PROJECT / "docs" / "benchmarks.md"
# As bin/kvdiag does: without its bytecode kept, every start compiles the engine again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["PYTHONPATH"] = str(PROJECT)
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

# What a measured process does; argv: file. It prints what it found, so that no work is left out.
READ = """
import sys
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.events import Matcher
matcher = Matcher()
with open(sys.argv[1], "rb") as stream:
    reader = LineReader(
        [Log("x", stream)], matcher.phrases, Limits({limits}), dense={dense}, bars=matcher.bars, masker={masker}
    )
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
# What no reader can do without, each alone: nothing is read of a line that is found.
PARTS = {
    "looking for the literals alone": """
import sys
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.scanner import BUFFER, scanner_for
scanner = scanner_for(Matcher().phrases)
with open(sys.argv[1], "rb", 0) as stream:
    print(sum(len(scanner.ends(block)) for block in iter(lambda: stream.read(BUFFER), b"")))
""",
    "counting the lines alone": """
import sys
with open(sys.argv[1], "rb", 0) as stream:
    print(sum(block.count(b"\\n") for block in iter(lambda: stream.read(1 << 18), b"")))
""",
}
EXTREMES = {"2,000 ranks in one start": ("2000", "ranks"), "10,000 starts in one file": ("10000", "starts")}
UNPACK = {
    "gz": "from isal import igzip as m\nf = m.open(__import__('sys').argv[1])\nwhile f.read(1 << 18): pass",
    "zst": "import zstandard, sys\nf = zstandard.ZstdDecompressor().stream_reader(open(sys.argv[1], 'rb'))\n"
    "while f.read(1 << 18): pass",
}


class Measured(NamedTuple):
    """CPU seconds, largest memory in MB and wall seconds of a command."""

    cpu_s: float
    memory_mb: int
    wall_s: float


def run(command: list[str]) -> Measured:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=PROJECT, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        raise SystemExit(f"{command[:2]} failed with {process.returncode}")
    return Measured(usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, wall)


def best(jobs: dict[str, list[str]], rounds: int) -> dict[str, Measured]:
    """The least of each figure over the rounds of each job, the jobs taken in turn."""
    found: dict[str, Measured] = {}
    for _ in range(rounds):
        for name, command in jobs.items():
            now = run(command)
            old = found.get(name, now)
            found[name] = Measured(
                min(old.cpu_s, now.cpu_s), min(old.memory_mb, now.memory_mb), min(old.wall_s, now.wall_s)
            )
    return found


def python(program: str, path: Path) -> list[str]:
    return [sys.executable, "-c", program, str(path)]


def measure(path: Path, phrases: Path, rg: str, rounds: int) -> dict[str, Measured]:
    jobs = {"ripgrep -F -j1, the same literals": [rg, "-F", "-j1", "-c", "-f", str(phrases), str(path)]}
    jobs |= {name: python(program, path) for name, program in PROGRAMS.items()}
    jobs["kvdiag diagnose, in all"] = [sys.executable, "-P", "-m", "kvdiag.diagnosis.cli", "diagnose", str(path)]
    return best(jobs, rounds)


def table(size_mb: float, found: dict[str, Measured]) -> list[str]:
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
    rows = [f"**Compressed, {path.stat().st_size / 1e6:,.0f} MB unpacked**", ""]
    rows += ["| what | CPU s | wall s | wall × unpacking alone | CPU × plain reading + unpacking |"]
    rows += ["| --- | ---: | ---: | ---: | ---: |"]
    program = PROGRAMS["start-up lines, masking on"]
    known = best({name: python(each, path) for name, each in {"reading it plain": program, **PARTS}.items()}, rounds)
    rows += [f"| {name} | {each.cpu_s:.2f} | {each.wall_s:.2f} | | |" for name, each in known.items()]
    plain, parts = known["reading it plain"], sum(known[name].cpu_s for name in PARTS)
    for kind, file in files.items():
        tool = {"gz": "gzip", "zst": "zstd"}[kind]
        jobs = {"alone": python(UNPACK[kind], file), "read": python(program, file)}
        if shutil.which(tool):
            jobs["tool"] = [tool, "-dc", str(file)]
        found = best(jobs, rounds)
        alone, read = found["alone"], found["read"]
        if "tool" in found:
            rows.append(f"| {tool} -dc | {found['tool'].cpu_s:.2f} | {found['tool'].wall_s:.2f} | | |")
        rows.append(f"| unpacking {kind} alone, as kvdiag does | {alone.cpu_s:.2f} | {alone.wall_s:.2f} | 1.00 | |")
        rows.append(
            f"| reading {kind} | {read.cpu_s:.2f} | {read.wall_s:.2f} | {read.wall_s / alone.wall_s:.2f} |"
            f" {read.cpu_s / (alone.cpu_s + plain.cpu_s):.2f} |"
        )
        both = (alone.cpu_s + parts) / 2
        rows.append(
            f"| {kind}: both parts and unpacking, shared by two cores | | {both:.2f} | {both / alone.wall_s:.2f} | |"
        )
    return [*rows, ""]


def extremes(folder: Path) -> list[str]:
    """Whole diagnoses of logs that repeat what is kept."""
    rows = [
        "**What is kept, repeated**",
        "",
        "| whole diagnosis of | MB | CPU s | RSS MB |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, arguments in EXTREMES.items():
        path = folder / "odd.log"
        subprocess.run([sys.executable, str(HERE / "loggen.py"), str(path), *arguments], check=True)
        found = run(python(PROGRAMS["whole diagnosis"], path))
        rows.append(f"| {name} | {path.stat().st_size / 1e6:.0f} | {found.cpu_s:.2f} | {found.memory_mb} |")
        path.unlink()
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
            few = 1 if size > 500 else options.rounds
            lines += table(size, measure(path, phrases, options.rg, few))
            if size in (64, 1000):
                lines += packed(path, folder, few)
            path.unlink()
        lines += extremes(folder)
    print("\n".join(lines))
    if options.write:
        text = PAGE.read_text()
        measured = f"{BEGIN}\n\n" + "\n".join(lines) + f"\n{END}"
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: measured, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
