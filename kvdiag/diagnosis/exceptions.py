"""Exceptions of a launch, each told once: its type and message, the ranks that raised it, the innermost frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdiag.diagnosis.events.failure import ProcessFailed, Traceback
from kvdiag.diagnosis.launches import CHANGING, Launch, wording_of
from kvdiag.diagnosis.lazy import lazy
from kvdiag.diagnosis.lines import LogLine

MAX_EXCEPTIONS = 20  # different ones that are told
MAX_FRAMES = 6  # of one, the innermost
MAX_MESSAGE = 600  # characters

_HEAD = lazy(
    r"^(?:\[rank\d+\]: ?)?(?:E +)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|OutOfResources|Interrupt|Failure))"
    r"(?:: ?(.*))?$"
)
_FRAME = lazy(r'^File "([^"]{1,300})", line (\d{1,9})(?:, in (\S{1,100}))?')


@dataclass
class Raised:
    """One exception: where it was printed, by whom, how often. Frames are innermost last."""

    kind: str
    message: str
    ranks: list[str] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    frames: tuple[str, ...] = ()
    count: int = 0


def exceptions_of(launch: Launch) -> list[Raised]:
    """The exceptions in the order they were first printed; the same one of many ranks is one."""
    found: dict[tuple[str, str], Raised] = {}
    worded: dict[str, Raised] = {}
    open_traces: dict[str, LogLine] = {}  # by rank, the traceback that has not ended yet
    for event in launch.events:
        if isinstance(event, Traceback | ProcessFailed):
            open_traces[event.rank] = event.line
            continue
        head = _HEAD.match(event.line.text[: 4 * MAX_MESSAGE])
        if head is None:
            continue
        kind, message = head[1], (head[2] or "").strip()[:MAX_MESSAGE]
        key = (kind, CHANGING.sub("#", message))
        rank = event.rank
        if not rank and rank not in open_traces and open_traces:
            rank = next(reversed(open_traces))  # a traceback's lines carry no prefix: it ends the last one begun
        trace = open_traces.pop(rank, None)
        if key not in found:
            if len(found) >= MAX_EXCEPTIONS:
                continue
            found[key] = Raised(kind, message, frames=_frames(trace, event.line))
        one = worded[wording_of(event)] = found[key]
        one.count += 1
        if rank and rank not in one.ranks:
            one.ranks.append(rank)
        if len(one.lines) < 4:
            one.lines.append(event.line)
    for (_, _, wording), more in launch.unkept.items():
        if wording in worded:
            worded[wording].count += more
    return list(found.values())


def _frames(trace: LogLine | None, ended: LogLine) -> tuple[str, ...]:
    """The innermost frames of a traceback: of the lines behind its head, or of a long one those above its end."""
    if trace is None:
        return ()
    texts = trace.following(80)
    end = next((number for number, text in enumerate(texts) if _HEAD.match(text)), None)
    if end is None and trace.file == ended.file:
        texts = ended.preceding(80)
        begin = max((number for number, text in enumerate(texts) if "Traceback (most recent" in text), default=0)
        texts = texts[begin:]
    found = []
    for text in texts[:end]:
        frame = _FRAME.match(text.strip())
        if frame is not None:
            found.append(f"{frame[1]}, line {frame[2]}" + (f", in {frame[3]}" if frame[3] else ""))
    return tuple(found[-MAX_FRAMES:])
