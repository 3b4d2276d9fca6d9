"""The lines of a log that its report rests on, with the gaps between them: what the log viewer shows first.

Readable without JavaScript; with it, gaps open and the whole log is one scroll away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from reports import words
from reports.document import Document, Launch, LineRef, dig, launches, line_refs, listed
from reports.log_pieces import Piece, pieces_of
from reports.steps import leading_rank

# Beyond these the excerpt no longer helps the eye; the viewer and its minimap still know them all.
MOST_LINES = 160
MOST_FACTS = 800
MOST_RANKS = 64

Fetch = Callable[[list[LineRef]], dict[LineRef, str]]


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the excerpt, or the gap before the next one."""

    kind: str  # line | gap | cut
    ref: LineRef | None = None
    mark: str = ""
    hit: bool = False
    pieces: tuple[Piece, ...] = ()
    first: int = 0
    last: int = 0
    file: int = 0
    words: str = ""


def marks_of(document: Document) -> dict[LineRef, str]:
    """Every line something rests on: the worst severity of its findings, or "fact" where a figure was read."""
    marks: dict[LineRef, str] = {}

    def put(refs: Iterable[LineRef], mark: str) -> None:
        for ref in refs:
            if ref not in marks or _weight(mark) < _weight(marks[ref]):
                marks[ref] = mark

    facts = 0
    for launch in launches(document):
        for refs in _fact_refs(launch, listed(launch, "ranks")[:MOST_RANKS]):
            facts += len(refs)
            if facts <= MOST_FACTS:
                put(refs, "fact")
        put(line_refs([entry.get("line") for entry in listed(launch, "oom")]), "critical")
        put(line_refs(dig(launch, "failure", "lines") or []), "critical")
        for finding in listed(launch, "findings"):
            severity = str(finding.get("severity") or "info")
            put(line_refs([piece.get("line") for piece in listed(finding, "evidence")]), severity)
        for entry in listed(launch, "cleared"):
            put(line_refs(entry.get("lines") or []), "fact")
    return dict(sorted(marks.items()))


def _weight(mark: str) -> int:
    return words.SEVERITIES.index(mark) if mark in words.SEVERITIES else len(words.SEVERITIES)


def told_facts(document: Document) -> set[LineRef]:
    """Lines with figures of one rank of each launch: the others say the same, or differ and are in a finding."""
    found: set[LineRef] = set()
    for launch in launches(document):
        leading = leading_rank(launch)
        for refs in _fact_refs(launch, [leading] if leading else listed(launch, "ranks")[:1]):
            found.update(refs)
    return found


def _fact_refs(launch: Launch, ranks: list[dict[str, Any]]) -> Iterable[list[LineRef]]:
    yield line_refs([launch.get("first_line")])
    for name in ("mem_fraction_static", "model_path"):
        yield line_refs(dig(launch, "arguments", name, "lines") or [])[:1]
    for rank in ranks:
        yield line_refs([reading.get("line") for reading in listed(rank, "readings")])
        for entry in listed(rank, "entries"):
            yield line_refs(entry.get("lines") or [])
    for phase in listed(launch, "phases"):
        yield line_refs([phase.get("last_line")])
    yield line_refs([entry.get("line") for entry in listed(launch, "not_understood")])


def texts_of(document: Document) -> dict[LineRef, tuple[str, list[Any]]]:
    """The lines whose text the document carries itself, with the figures that are evidence in them."""
    texts: dict[LineRef, tuple[str, list[Any]]] = {}
    for launch in launches(document):
        for finding in listed(launch, "findings"):
            for piece in listed(finding, "evidence"):
                for ref in line_refs(piece.get("line")):
                    texts.setdefault(ref, (str(piece.get("text") or ""), []))[1].append(piece.get("value"))
        for entry in listed(launch, "not_understood"):
            for ref in line_refs(entry.get("line")):
                texts.setdefault(ref, (str(entry.get("text") or ""), []))
    return texts


def _joined(document: Document) -> set[LineRef]:
    """Lines whose evidence is told with what stands on the next ones: in the log they are as they were printed."""
    pieces = [
        piece
        for launch in launches(document)
        for finding in listed(launch, "findings")
        for piece in listed(finding, "evidence")
    ]
    return {ref for piece in pieces if piece.get("joined") for ref in line_refs(piece.get("line"))}


def excerpt(document: Document, fetch: Fetch | None = None, marks: dict[LineRef, str] | None = None) -> list[Item]:
    """The marked lines in order, and what lies between.

    fetch  gives the text of lines that the document does not carry
    marks  of `marks_of`, where they are known already
    """
    marks = marks_of(document) if marks is None else marks
    texts = texts_of(document)
    chosen = [ref for ref, mark in marks.items() if mark != "fact"][:MOST_LINES]
    room = MOST_LINES - len(chosen)
    told = told_facts(document)
    chosen += [ref for ref, mark in marks.items() if mark == "fact" and ref in told][:room]
    chosen.sort()
    joined = _joined(document)
    missing = [ref for ref in chosen if ref not in texts or ref in joined]
    if fetch and missing:
        texts |= {ref: (text, texts.get(ref, ("", []))[1]) for ref, text in fetch(missing).items()}
    chosen = [ref for ref in chosen if ref in texts]
    files = listed(document, "upload", "files")
    items: list[Item] = []
    for number, file in enumerate(files):
        items += _file_items(number, file, [ref for ref in chosen if ref.file == number], marks, texts)
    return items


def _file_items(
    number: int,
    file: dict[str, Any],
    refs: list[LineRef],
    marks: dict[LineRef, str],
    texts: dict[LineRef, tuple[str, list[Any]]],
) -> list[Item]:
    items: list[Item] = []
    cut = file.get("gap") if isinstance(file.get("gap"), dict) else None
    at = 1

    def gap(first: int, last: int) -> None:
        if last < first:
            return
        if cut and first <= (cut.get("first_line") or 0) <= last:
            said = f"{words.plural(last - first + 1, 'line')}, of which our limit left some out"
            items.append(Item("cut", first=first, last=last, file=number, words=said))
            return
        items.append(Item("gap", first=first, last=last, file=number, words=words.plural(last - first + 1, "line")))

    for ref in refs:
        gap(at, ref.line - 1)
        text, figures = texts[ref]
        mark = marks[ref]
        items.append(Item("line", ref, mark, mark != "fact", pieces_of(text[:4000], *figures)))
        at = ref.line + 1
    total = file.get("lines") or 0
    gap(at, total)
    return items


def viewer_data(document: Document, marks: dict[LineRef, str] | None = None) -> dict[str, Any]:
    """What the viewer's script needs: sizes of the files, marks for gutter and minimap, launches, phases, ranks."""
    marks = marks_of(document) if marks is None else marks
    ranks: dict[str, None] = {}
    phases = []
    bounds = []
    for launch in launches(document):
        for rank in listed(launch, "ranks"):
            if rank.get("id"):
                ranks[str(rank["id"])] = None
        first, last = line_refs(launch.get("first_line")), line_refs(launch.get("last_line"))
        if first and last:
            bounds.append([first[0].file, first[0].line, last[0].line, launch.get("number")])
        for phase in listed(launch, "phases"):
            begin, end = line_refs(phase.get("first_line")), line_refs(phase.get("last_line"))
            if begin and end and begin[0].file == end[0].file:
                phases.append([str(phase.get("phase")), begin[0].file, begin[0].line, end[0].line])
    return {
        "files": [
            {"name": str(file.get("name") or "log"), "lines": file.get("lines") or 0, "gap": file.get("gap")}
            for file in listed(document, "upload", "files")
        ],
        "marks": [[ref.file, ref.line, mark] for ref, mark in marks.items()],
        "ranks": list(ranks)[:600],
        "launches": bounds,
        "phases": phases[:200],
    }
