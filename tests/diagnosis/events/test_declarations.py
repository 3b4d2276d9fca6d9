"""The declarations hold together: each wording is read by one of them, cheaply, and none of its figures is lost."""

import re
import subprocess
import sys
from collections import Counter

import pytest
import regex

from kvdiag.diagnosis.events import DECLARATIONS, Matcher, NotUnderstood
from kvdiag.diagnosis.events import expression as expressions
from kvdiag.diagnosis.events.expression import SHORT, expression
from kvdiag.diagnosis.events.pattern import Declaration, Event, field_names, literals_of, read_from
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.wording import EXAMINED, bounds

MATCHER = Matcher()
SAMPLES = [(declaration, when, text) for declaration in DECLARATIONS for when, text in declaration.sampled]


def line(text: str) -> LogLine:
    return LogLine(0, 1, text)


def test_every_sample_is_read_by_the_declaration_it_stands_in_and_by_no_other() -> None:
    wrong = {}
    for declaration, _, text in SAMPLES:
        claims = [claimed for claimed, _ in MATCHER.claims(line(text))]
        if claims != [declaration]:
            wrong[text] = [claimed.event.__name__ for claimed in claims]
    assert wrong == {}


def test_every_field_is_found_in_one_of_the_samples() -> None:
    missing = []
    for declaration in DECLARATIONS:
        events = [declaration.read(line(text)) for text in declaration.samples]
        for name in declaration.fields:
            if not any(getattr(event, name) is not None for event in events if event is not None):
                missing.append((declaration.event.__name__, declaration.source, name))
    assert missing == []


def test_every_declaration_names_its_source_and_has_a_sample() -> None:
    assert [d.event.__name__ for d in DECLARATIONS if not d.source or not d.samples] == []


def test_a_phrase_of_a_declaration_holds_one_of_its_literals_in_every_sample() -> None:
    assert [text for d, _, text in SAMPLES if not any(literal in text for literal in d.literals)] == []


def test_release_ranges_are_of_examined_releases() -> None:
    known = {(x.major, x.minor, x.patch) for x in EXAMINED}
    odd = []
    for _, when, text in SAMPLES:
        for end in when.split("..") if when else ():
            parts = tuple(int(x) for x in end.split("."))
            if parts not in known:
                odd.append((end, text))
    # 0.4.2, 0.5.0 and the like were not examined; the catalogue names none of them
    assert odd == []


def test_a_declaration_without_a_literal_is_refused() -> None:
    class Nothing(Event):
        """Never declared."""

    with pytest.raises(ValueError, match="no literal"):
        read_from(r"\d+ \w", samples=("1 a",), source="nowhere")(Nothing)


def test_a_field_that_the_event_lacks_is_refused() -> None:
    class Nothing(Event):
        """Never declared."""

    with pytest.raises(ValueError, match="no field size"):
        read_from(r"Nothing said", fields={"size": r"(\d+)"}, samples=("Nothing said",), source="nowhere")(Nothing)


def test_literals_are_the_plain_text_of_a_phrase() -> None:
    assert literals_of(r"Load weight end\.") == ("Load weight end.",)
    assert literals_of(r"one thing|another\.") == ("one thing", "another.")
    assert literals_of(r"Capture \w+ graph begin") == (" graph begin",)
    assert literals_of(r"(?:a|b) c") == ()


def test_a_key_with_a_figure_is_found_where_the_figure_follows_it() -> None:
    found = expression(r"avail mem=(-?\d+(?:\.\d+)?(?:e-?\d+)?) ?GB").search("avail mem=, then avail mem=1.50 GB")
    assert found is not None
    assert found[1] == "1.50"


def test_a_line_of_memory_that_nothing_reads_announces_itself() -> None:
    events = list(MATCHER.read([line("Load weights finished. avail mem=12.00 GB"), line("Nothing of note")]))
    assert [type(event) for event in events] == [NotUnderstood]


def test_an_exception_is_read_where_nothing_else_reads_its_line() -> None:
    kinds = [type(event).__name__ for event in MATCHER.read([line("ValueError: Unrecognized model in /m")])]
    assert kinds == ["ExceptionRaised"]
    kinds = [
        type(event).__name__
        for event in MATCHER.read([line("RuntimeError: Not enough memory. Please try to increase")])
    ]
    assert kinds == ["NoRoomForPool"]


def test_a_failed_capture_tells_of_the_overflow_within_it() -> None:
    text = "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total"
    kinds = {type(event).__name__ for event in MATCHER.read([line(text)])}
    assert kinds == {"CaptureFailed", "DeviceOutOfMemory"}


def test_events_are_frozen_and_say_which_fields_are_missing() -> None:
    event = MATCHER.claims(line("Memory pool end. avail mem=1.00 GB"))[0][1]
    with pytest.raises(AttributeError):
        event.available = None  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="available"):
        type(event)(line=line(""))


def test_field_names_leave_the_line_out() -> None:
    declaration: Declaration = next(d for d in DECLARATIONS if d.event.__name__ == "PoolEnd")
    assert field_names(declaration.event) == ["available"]


def test_a_wording_bounds_the_release_by_its_examined_neighbours() -> None:
    since, before = bounds("0.4.3..0.4.3")
    assert (str(since), str(before)) == ("0.4.2", "0.4.5")
    since, before = bounds("0.5.17..0.5.23")
    assert (str(since), before) == ("0.5.16", None)


def test_importing_the_events_compiles_no_expression() -> None:
    code = (
        "import re\nfrom kvdiag.diagnosis import lines\ncount = 0\nplain = re.compile\n"
        "import kvdiag.diagnosis.events\nfrom kvdiag.diagnosis.events.expression import _KNOWN\n"
        "print(sum(e.search.__name__ != '_first' for e in _KNOWN.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_no_two_declarations_have_the_same_phrase_and_event() -> None:
    counted = Counter((d.event, d.phrase.pattern, d.excludes) for d in DECLARATIONS)
    assert [key for key, count in counted.items() if count > 1] == []


def patterns() -> list[str]:
    """Every expression of the declarations."""
    found = {d.phrase.pattern for d in DECLARATIONS}
    found |= {p if isinstance(p, str) else p.pattern for d in DECLARATIONS for p in d._patterns.values()}
    return sorted(found)


def test_both_libraries_read_the_samples_alike() -> None:
    """A short text is searched without a time limit, by another library than a long one."""
    texts = [text for d in DECLARATIONS for text in d.samples]
    for pattern in patterns():
        for text in texts[:: max(1, len(texts) // 200)]:
            one, other = re.compile(pattern).search(text), regex.compile(pattern).search(text)
            assert (one and (one.span(), one.groups())) == (other and (other.span(), other.groups())), pattern


@pytest.mark.parametrize(
    "unit", ["0", "a", "A", "_", "a.", "A.", "0.", "0 ", "  ", "(", "[", "|", "a=", "/a", "a: ", "{lit}"]
)
def test_no_expression_needs_a_time_limit_on_a_short_text(unit: str) -> None:
    """It would not end if one did: the ways to read such a text grow with each character."""
    for pattern in patterns():
        words = re.findall(r"[A-Za-z][A-Za-z _.=-]{2,}", re.sub(r"\\.", "", pattern)) or ["x"]
        body = unit.replace("{lit}", words[0]) * SHORT
        search = expression(pattern).search
        for text in (body[:SHORT], (words[0] + body)[:SHORT], body[: SHORT - len(words[-1])] + words[-1]):
            search(text)


@pytest.mark.parametrize(
    ("pattern", "is_timed"),
    [
        (r"\bserver_args=(?:ServerArgs\(|\{)(.*)", False),
        (r"a[*+]b\+c{3}", False),
        (r"(\w+) watchdog timeout", True),
        (r"x(.*)y", True),
        (r"a{2,}", True),
    ],
)
def test_an_expression_that_may_try_much_on_a_long_text_is_timed(
    pattern: str, is_timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(expressions, "_timed", lambda wanted: lambda text: asked.append(wanted))
    search = expressions._compile(pattern)
    search("z" * SHORT)
    assert asked == []
    search("z" * (SHORT + 1))
    assert asked == [pattern] * is_timed
