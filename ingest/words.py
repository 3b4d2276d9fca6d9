"""The words of the progress page: what each phase did, in numbers."""

from __future__ import annotations

from typing import Any

from ingest.lease import Turn
from ingest.models import Phase, Upload
from ingest.refusals import in_mib

TITLES = {
    Phase.RECEIVED: "Received",
    Phase.UNPACKED: "Unpacked",
    Phase.CLEANED: "Cleaned",
    Phase.PARSED: "Read",
    Phase.RULES: "Rules",
    Phase.READY: "Ready",
}
# while it lasts
DOING = {
    Phase.RECEIVED: "Receiving",
    Phase.UNPACKED: "Unpacking",
    Phase.CLEANED: "Hiding secrets",
    Phase.PARSED: "Reading",
    Phase.RULES: "Checking rules",
    Phase.READY: "Ready",
}
OF_ENGINE = {
    "unpacked": Phase.UNPACKED,
    "cleaned": Phase.CLEANED,
    "reading": Phase.PARSED,
    "ledger": Phase.RULES,
    "rules": Phase.RULES,
}


def counted(number: int, one: str, many: str = "") -> str:
    """`1 line`, `2 lines`, `1,204 lines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def received(upload: Upload) -> str:
    """`61.4 MiB`, with the number of files where there are several."""
    size = in_mib(upload.bytes_received)
    return size if len(upload.files) < 2 else f"{size} in {counted(len(upload.files), 'file')}"


def unpacked(files: list[dict[str, Any]]) -> str:
    """`zstd, 447 MiB, 3,900,000 lines`."""
    packings = sorted({file["compression"] for file in files if file.get("compression")})
    size = in_mib(sum(file["bytes"] for file in files))
    return ", ".join([*packings, size, counted(sum(file["lines"] for file in files), "line")])


def unpacking(written: int, read: int, of: int) -> tuple[str, float | None]:
    """`63 % of 61.4 MiB, 282 MiB of text so far`, and the share; a packed file is measured before it is unpacked.

    written     bytes of the copy
    read, of    bytes of the files as they were sent
    """
    if not read or not of:
        return "", None
    if not written:
        return f"measuring, {100 * read // of} % of {in_mib(of)}", None
    return f"{100 * read // of} % of {in_mib(of)}, {in_mib(written)} of text so far", read / of


def cleaned(masked: dict[str, int]) -> str:
    hidden = sum(masked.values())
    return f"{counted(hidden, 'value')} hidden" if hidden else "nothing to hide found"


def out_of_memory(limit: int) -> str:
    """Why the engine was stopped that took more than so many bytes, and what to do."""
    return (
        f"Reading this log took more than {limit >> 20} MiB of memory, so it was stopped. "
        "Send the part from the server's start to the first requests."
    )


def not_sglang(files: list[dict[str, Any]], kind: str | None) -> str:
    """The plain sentence for a log of something else."""
    lines = sum(file.get("lines") or 0 for file in files)
    guess = f" It looks like {kind}." if kind else ""
    return (
        f"This is not an SGLang log. {counted(lines, 'line')} {'was' if lines == 1 else 'were'} read, "
        f"none was printed by a server start.{guess} Send the text that `sglang.launch_server` prints, "
        "from its first line. Its text was not kept."
    )


class Progress:
    """Turns the child's messages into phases of the row."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.files: list[dict[str, Any]] = []

    def take(self, message: dict[str, Any]) -> None:
        if "known" in message:
            self._turn.tell_known(message["known"])
        phase = OF_ENGINE.get(message.get("phase", ""))
        if phase is None:
            return
        if phase is Phase.CLEANED:
            self.files = message["files"]
            self._turn.tell(Phase.UNPACKED, unpacked(self.files))
            self._turn.tell(Phase.CLEANED, cleaned(message["masked"]))
        elif phase is Phase.UNPACKED:
            self._turn.tell(
                phase, *unpacking(message.get("bytes") or 0, message.get("read") or 0, message.get("of") or 0)
            )
        elif phase is Phase.PARSED:
            total = sum(file["lines"] for file in self.files)
            lines = message.get("lines") or 0
            said = f"{lines:,} of {counted(total, 'line')}" if total else counted(lines, "line")
            share = min(1.0, lines / total) if total else None
            self._turn.tell(phase, said if share is None else f"{share:.0%}, {said}".replace("%", " %", 1), share=share)
        else:
            self._turn.amend(Phase.PARSED, counted(sum(file["lines"] for file in self.files), "line"))
            self._turn.tell(phase)
