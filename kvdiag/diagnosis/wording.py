"""The release of a launch by its wording: a range that every line narrows, exact where something prints it.

No server prints its release. A wording stands in the examined releases A to B: then the release is later than the one
examined before A, and earlier than the one examined after B.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kvdiag.diagnosis.defaults import fields_by_release
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.server_args import ServerArgs, VersionPrinted
from kvdiag.diagnosis.release import Release, ReleaseRange, release

if TYPE_CHECKING:
    from kvdiag.diagnosis.launches import Launch

EXAMINED = tuple(
    release(text)
    for text in [
        "0.2.15",
        "0.3.0",
        "0.3.6",
        "0.4.0",
        "0.4.1.post7",
        "0.4.3.post4",
        "0.4.5.post3",
        "0.4.6.post5",
        "0.4.7.post1",
        "0.4.8.post1",
        "0.4.9.post6",
        "0.4.10.post2",
        "0.5.1.post3",
        "0.5.2",
        "0.5.3.post3",
        "0.5.4.post3",
        "0.5.5.post3",
        "0.5.6.post2",
        "0.5.7",
        "0.5.8.post1",
        "0.5.9",
        "0.5.10.post1",
        "0.5.11",
        "0.5.12.post1",
        "0.5.13.post1",
        "0.5.14",
        "0.5.15.post1",
        "0.5.17",
        "0.5.19",
        "0.5.21",
        "0.5.23",
    ]
)

# Wordings that tell releases apart where one declaration reads several of them: text of a line, releases that print it.
_SIGNS = (
    (r"^Load weight end\. type=.*dtype=[\w.]+, avail mem=[\d.]+ GB$", "0.2.15..0.4.1"),
    (r"^Load weight end\. type=.*mem usage=", "0.4.3..0.5.8"),
    (r"^Load weight end\. elapsed=.*, dtype=torch", "0.5.9..0.5.9"),
    (r"^Load weight end\. elapsed=[\d.]+ s, type=\w+, (?:quant=|avail mem=)", "0.5.10..0.5.23"),
    (r"^Init nccl begin\.", "0.2.15..0.3.0"),
    (r"^Init torch distributed begin\.", "0.3.6..0.5.19"),
    (r"^Init torch distributed ends\. mem usage=", "0.4.3..0.5.8"),
    (r"^Init torch distributed ends\. elapsed=", "0.5.9..0.5.19"),
    (r"^Memory baseline taken\.", "0.5.21..0.5.23"),
    (r"KV Cache is allocated\. K size", "0.4.1..0.4.1"),
    (r"KV Cache is allocated\. #tokens", "0.4.3..0.5.12"),
    (r"KV Cache is allocated\. dtype", "0.5.13..0.5.23"),
    (r"^(?:Full|SWA) KV Cache ", "0.5.17..0.5.23"),
    (r"^Use Sliding window", "0.4.9..0.5.6"),
    (r"^Use sliding window", "0.5.7..0.5.23"),
    (r"^Mamba Cache is allocated\. conv_state", "0.5.2..0.5.2"),
    (r"^Mamba Cache is allocated\. max_mamba", "0.5.3..0.5.23"),
    (r"^Capture cuda graph begin\. This can take up to several minutes\.$", "0.2.15..0.4.1"),
    (r"^Capture cuda graph begin\..*avail mem=", "0.4.3..0.5.13"),
    (r"^Capture cuda graph end\. Time elapsed: [\d.]+ s$", "0.4.0..0.4.1"),
    (r"^Capture cuda graph end\..*avail mem=.*mem usage=", "0.4.3..0.4.5"),
    (r"^Capture cuda graph end\..*mem usage=.*avail mem=", "0.4.6..0.5.13"),
    (r"^Capture piecewise CUDA graph", "0.5.6..0.5.13"),
    (r"^Capture draft extend cuda graph", "0.4.7..0.5.13"),
    (r"^Capture (?:target|draft) \w+ \w+ graph (?:begin|end)\.", "0.5.14..0.5.23"),
    (r"num_tokens_per_bs=", "0.5.14..0.5.15"),
    (r"num_tokens_per_req=", "0.5.17..0.5.23"),
    (r"graph end\. bs=\[", "0.5.23..0.5.23"),
    (r"^max_total_num_tokens=\d+, max_prefill_tokens=", "0.2.15..0.4.1"),
    (r"^max_total_num_tokens=\d+, chunked_prefill_size=", "0.4.3..0.5.23"),
    (r"^max_total_num_tokens=.*context_len=\d+$", "0.2.15..0.4.6"),
    (r"available_gpu_mem=", "0.4.7..0.5.23"),
    (r"available_cpu_mem=", "0.5.2..0.5.23"),
    (r"^Prefill batch[.(]", "0.2.15..0.5.3"),
    (r"^Prefill batch(?:,| \[)", "0.5.4..0.5.23"),
    (r"^Decode batch\.", "0.2.15..0.5.3"),
    (r"^Decode batch(?:,| \[)", "0.5.4..0.5.23"),
    (r"batch.*cache hit rate:", "0.2.15..0.4.1"),
    (r"largest-len:", "0.4.3..0.4.3"),
    (r"#unbootstrapped-req:", "0.4.6..0.5.2"),
    (r"#pending-token:", "0.5.11..0.5.23"),
    (r"#bootstrap-req:", "0.5.12..0.5.23"),
    (r"accept rate:", "0.5.3..0.5.23"),
    (r"^Decode out of memory happened", "0.2.15..0.4.6"),
    (r"^KV cache pool is full", "0.4.7..0.5.23"),
    (r"#new_tokens_gained:", "0.5.7..0.5.23"),
    (r"Allocating [\d.]+ GB host memory for hierarchical KV cache", "0.4.1..0.5.15"),
    (r"hierarchical KV host pool:", "0.5.17..0.5.23"),
    (r"^Capturing batches \(avail_mem=", "0.4.5..0.4.7"),
    (r"^Capturing batches \(bs=", "0.4.8..0.5.23"),
    (r"^Capturing num tokens \(num_tokens=", "0.5.3..0.5.19"),
    (r"^Capturing prefill shape \(", "0.5.21..0.5.23"),
    (r"Capture prefill CUDA graph failed:", "0.5.14..0.5.23"),
    (r"Piecewise CUDA Graph failed with error:", "0.5.10..0.5.13"),
    (r"Failed to retract any request\.", "0.4.7..0.5.6"),
    (r"Out of memory even after retracting all", "0.5.7..0.5.9"),
)


_ONE_DIGIT = str.maketrans("123456789", "000000000")


class _Signs:
    """The signs, compiled once and tried together before they are tried singly."""

    compiled: tuple[tuple[re.Pattern[str], Release | None, Release | None], ...] = ()

    @classmethod
    def all(cls) -> tuple[tuple[re.Pattern[str], Release | None, Release | None], ...]:
        if not cls.compiled:
            cls.compiled = tuple((re.compile(text), *bounds(when)) for text, when in _SIGNS)
        return cls.compiled


def bounds(examined: str) -> tuple[Release | None, Release | None]:
    """From "0.4.3..0.4.3" to the releases that may have the wording: from 0.4.2 on, before 0.4.5."""
    first, _, last = examined.partition("..")
    low, high = release(first), release(last or first)
    earlier = [x for x in EXAMINED if _base(x) < _base(low)]
    later = [x for x in EXAMINED if _base(x) > _base(high)]
    since: Release | None = None
    if earlier:
        before_it = earlier[-1]
        same = (before_it.major, before_it.minor) == (low.major, low.minor)
        since = Release(low.major, low.minor, before_it.patch + 1) if same else Release(low.major, low.minor, 0)
    return since, (_plain(later[0]) if later else None)


def _base(text: Release) -> tuple[int, int, int]:
    return (text.major, text.minor, text.patch)


def _plain(text: Release) -> Release:
    return Release(text.major, text.minor, text.patch)


def release_of(launch: Launch, printed: VersionPrinted | None = None) -> tuple[ReleaseRange, str]:
    """The release range of a launch, and whether it is "printed" or follows from "wording".

    A sign that contradicts the others is passed over: builds between releases mix wordings.
    """
    said = launch.first(VersionPrinted) or printed
    exact = Release.read(said.version) if said is not None else None
    found = ReleaseRange()
    for since, before in _evidence(launch):
        found = found.narrowed(since, before) or found
    if exact is not None:
        # A build between releases may mix wordings: what contradicts its own name is no bound of it.
        since = found.since if found.since is None or found.since <= exact else None
        before = found.before if found.before is None or found.before > exact else None
        return ReleaseRange(exact, since, before), "printed"
    return found, "wording"


def _evidence(launch: Launch) -> Iterator[tuple[Release | None, Release | None]]:
    seen: set[object] = set()
    tried: set[str] = set()  # ranks print the same lines with other figures, which no sign asks for
    for event in (*launch.events, *launch.series.edges):
        text = event.line.text[:400]
        alike = text.translate(_ONE_DIGIT)
        if alike in tried:
            continue
        tried.add(alike)
        for number, (sign, since, before) in enumerate(_Signs.all()):
            if number not in seen and sign.search(text):
                seen.add(number)
                yield since, before
    for args in launch.each(ServerArgs)[:1]:
        yield bounds("0.5.19..0.5.23" if args.form == "{" else "0.2.15..0.5.17")
        yield from _by_fields(launch.printed_fields)
    for event in launch.events:
        if event.releases and event.releases not in seen:
            seen.add(event.releases)
            yield bounds(event.releases)


def _by_fields(printed: Iterable[str]) -> Iterator[tuple[Release | None, Release | None]]:
    """What the fields of a server_args line say: none that the release lacks, and few that it has are left out."""
    names = set(printed)
    if not names:
        return
    known = fields_by_release(EXAMINED)
    listed = set().union(*known.values()) & names
    misses = {r: len(listed - fields) for r, fields in known.items()}
    fitting = [r for r in EXAMINED if misses[r] == min(misses.values())]
    if misses[fitting[0]] > 2 or len(listed) < 8:
        return
    absent = {r: len(known[r] - names) for r in fitting}
    if min(absent.values()) <= 3 and len(listed) > 20:  # the line is whole: what it lacks tells as well
        fitting = [r for r in fitting if absent[r] == min(absent.values())]
    first, last = _plain(fitting[0]), _plain(fitting[-1])
    yield bounds(f"{first}..{last}")


def as_document(found: ReleaseRange, basis: str) -> Mapping[str, str | None]:
    """`version` of the report document."""
    return {
        "exact": str(found.exact) if found.exact else None,
        "from": str(found.since) if found.since else None,
        "before": str(found.before) if found.before else None,
        "basis": basis,
    }


def of_events(events: Iterable[Event]) -> VersionPrinted | None:
    """The last printed release among events."""
    return next((e for e in reversed(list(events)) if isinstance(e, VersionPrinted)), None)
