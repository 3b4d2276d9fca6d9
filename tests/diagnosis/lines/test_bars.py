"""Progress bars and batch lines read the short way are what the long way makes of them."""

import io
import random

import pytest

from kvdiag.diagnosis.events import DECLARATIONS, Matcher
from kvdiag.diagnosis.lines import LineReader, Log, LogLine

MATCHER = Matcher()
SAMPLES = [text for d in DECLARATIONS if d.alone for text in d.samples]
BARS = [text for d in DECLARATIONS if d.alone and not d.dense for text in d.samples]
BATCHES = [text for d in DECLARATIONS if d.dense for text in d.samples]
PREFIX = "[2026-03-08 12:29:13 TP0] "
GLUED = [
    "{bar}",
    "\r{bar}\r{bar}",
    "{bar}  ",
    "{bar}" + PREFIX + "Load weight begin. avail mem=21.63 GB",
    "{bar}[12:29:13] Load weight begin. avail mem=21.63 GB",
    "w-1  | {bar}",
    "\x1b[2m{bar}\x1b[0m",
    "[2m{bar}[0m",
    "{bar} token=hf_abcdefghijklmnopqrstuvwxyz",
    "{bar} 10.11.12.13",
    "{bar} to zoe@example.org",
    "{bar}\\n" + PREFIX + "Load weight begin.",
    "{bar}\u00a0",
    "  {bar}",
    '{{"log": "{bar}"}}',
]


def texts(raw: str, *, short: bool) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """What is read, and what was hidden; without the short way a batch line is one line among others."""
    reader = LineReader(
        [Log("x", io.BytesIO(raw.encode()))],
        MATCHER.phrases if short else [*MATCHER.phrases, *MATCHER.dense],
        dense=MATCHER.dense if short else (),
        bars=MATCHER.bars if short else (),
    )
    return [key(line) for line in reader], reader.masked


def key(line: LogLine) -> tuple[object, ...]:
    return (line.number, line.text, line.clock, line.rank, line.node, line.shown, line.batches)


@pytest.mark.parametrize("form", GLUED)
@pytest.mark.parametrize("bar", BARS)
def test_a_bar_reads_alike_on_both_ways(bar: str, form: str) -> None:
    raw = (form.format(bar=bar) + "\n") * 3
    assert texts(raw, short=True) == texts(raw, short=False)


@pytest.mark.parametrize(
    "form",
    [
        PREFIX + "{}",
        PREFIX + "{}  ",
        PREFIX + "{} hf_abcdefghijklmnopqrstuvwxyz",
        PREFIX + "{}, #peer: 10.11.12.13",
        PREFIX + "{}" + PREFIX + "Load weight begin.",
        "w-1  | " + PREFIX + "{}",
        "[12:29:13 TP0] {}",
    ],
)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_batch_line_reads_alike_on_both_ways(batch: str, form: str) -> None:
    raw = (form.format(batch) + "\n") * 3
    assert texts(raw, short=True) == texts(raw, short=False)


def test_what_is_taken_for_harmless_hides_no_address() -> None:
    """Lines are alike but for their digits; the first ones hold versions and local addresses, which stay."""
    rng = random.Random(4)
    for form in ("{}Decode batch, #running-req: 1, peer: {}, #queue-req: 0", "{}Decode batch, #x: 1, {}: 3"):
        lines = [form.format(PREFIX, "127.0.0.1")] * 3
        lines += [form.format(PREFIX, ".".join(str(rng.randrange(11, 250)) for _ in range(4))) for _ in range(20)]
        raw = "\n".join(lines)
        short, masked = texts(raw, short=True)
        assert (short, masked) == texts(raw, short=False)
        assert masked["ip_address"] == 20


def test_the_samples_take_the_short_way() -> None:
    """Else the rest here shows nothing: their shapes are known to hide nothing."""
    raw = "\n".join([*BARS, *(PREFIX + text for text in BATCHES)])
    reader = LineReader([Log("x", io.BytesIO(raw.encode()))], MATCHER.phrases, dense=MATCHER.dense, bars=MATCHER.bars)
    lines = list(reader)
    assert len(lines) == len(BARS) + len(BATCHES)
    assert sum(line.after == () for line in lines) > 0.8 * len(lines)
