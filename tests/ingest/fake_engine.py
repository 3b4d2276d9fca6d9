"""A child process that stands in for the engine: the first word of the log says how it ends."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).resolve().parent.parent / "documents"


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def masked(job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    files = []
    for number, raw in enumerate(job["files"]):
        path = f"{job['masked_folder']}/{number}/log"
        (folder / path).parent.mkdir(parents=True)
        content = (folder / "raw" / str(number)).read_bytes()
        (folder / path).write_bytes(content)
        lines = content.count(b"\n")
        files.append({"name": raw["name"], "path": path, "bytes": len(content), "lines": lines, "compression": None})
    return files


def main() -> int:
    job = json.loads(sys.stdin.readline())
    folder = Path(job["folder"])
    first = job["masked_files"][0]["path"] if job["masked_files"] else "raw/0"
    wish = (folder / first).read_text().split()[0]
    say(phase="unpacked", lines=0)
    if wish == "unreadable":
        say(refused="unreadable", sentence="The file is binary, not text. Send the log as text.")
        return 0
    if wish == "memory":
        return 77
    if wish == "disk":
        return 79
    if wish == "mistake":
        raise RuntimeError("a rule of the engine is wrong")
    if wish == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    files = job["masked_files"] or masked(job, folder)
    say(phase="cleaned", files=files, masked={"api_key": 1})
    say(phase="reading", lines=1)
    if wish == "slow":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    name = "not-sglang.json" if wish == "other" else "kimi-k25-8gpu.json"
    document = json.loads((DOCUMENTS / name).read_text())
    if wish == "nul":
        document["launches"][0]["verdict"] = "before\0after"
    (folder / job["document"]).write_text(json.dumps(document))
    say(phase="rules", lines=0)
    say(result="not_sglang" if wish == "other" else "report")
    return 0


if __name__ == "__main__":
    sys.exit(main())
