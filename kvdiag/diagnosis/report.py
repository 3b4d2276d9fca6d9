"""Report: the kvdiag.report/1 document, made from launches, ledgers, sizing and findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.cards import readable
from kvdiag.diagnosis.events.failure import DeviceOutOfMemory
from kvdiag.diagnosis.events.hardware import DeviceNamed, DriverPrinted
from kvdiag.diagnosis.events.kv_pool import KVCacheDtype
from kvdiag.diagnosis.events.pattern import NotUnderstood
from kvdiag.diagnosis.events.ready import FiredUp
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.exceptions import exceptions_of
from kvdiag.diagnosis.excerpt import excerpt
from kvdiag.diagnosis.launches import MOST_RANKS, Launch, moment
from kvdiag.diagnosis.ledger.model import Entry, Ledger, Moment, Pool
from kvdiag.diagnosis.ledger.overflow import card_at_overflow
from kvdiag.diagnosis.levers import levers
from kvdiag.diagnosis.lines import FileInfo, LogLine
from kvdiag.diagnosis.machine import machine_of
from kvdiag.diagnosis.rules.checking import Checked
from kvdiag.diagnosis.rules.rule import Case, Evidence, Finding, Remedy, Severity
from kvdiag.diagnosis.rules.thresholds import DEFAULT_THRESHOLDS, Thresholds
from kvdiag.diagnosis.timeline import timeline
from kvdiag.diagnosis.traffic import serving_document
from kvdiag.diagnosis.units import to_gib
from kvdiag.diagnosis.verdict import turn, verdict

SCHEMA = "kvdiag.report/1"
ENGINE = "0.1.0"
MAX_NOT_UNDERSTOOD = 50
MAX_EVIDENCE = 8
MOST_OVERFLOWS = 1_000  # of one launch, told one by one
MAX_TEXT = 2_000


@dataclass(frozen=True)
class Report:
    """The report on one upload, as its document."""

    document: dict[str, Any]

    @classmethod
    def of(
        cls,
        cases: Iterable[tuple[Case, Checked]],
        files: Sequence[FileInfo],
        masked: dict[str, int],
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
    ) -> Report:
        """From the checked cases of an upload; thresholds that are not kvdiag's own are named in it."""
        held = thresholds.to_document()
        notes: dict[tuple[str, ...], dict[str, str]] = {}
        launches = [_launch(case, checked, files, notes) for case, checked in cases]
        started = max((launch["number"] for launch in launches), default=0)
        left_out = {"launches": {"read": len(launches), "all": started}} if started > len(launches) else {}
        return cls(
            {
                "schema": SCHEMA,
                "engine": ENGINE,
                **({"thresholds": held} if held else {}),
                "upload": {
                    "files": [_file(info) for info in files],
                    "masked": masked,
                    "is_sglang": bool(launches),
                    **left_out,
                },
                "launches": launches,
            }
        )

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Report:
        """A stored document back. Raises ValueError when it is of another schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError(f"this is no {SCHEMA} document")
        return cls(document)

    def to_json(self) -> str:
        """The document as one line of JSON."""
        return json.dumps(self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    @property
    def is_sglang(self) -> bool:
        """Whether anything in the upload was printed by SGLang."""
        return bool(self.document["upload"]["is_sglang"])

    @property
    def worst(self) -> Severity | None:
        """The worst severity of all findings; None without findings."""
        found = [Severity(f["severity"]) for launch in self.document["launches"] for f in launch["findings"]]
        return min(found, key=lambda s: s.weight, default=None)


def _file(info: FileInfo) -> dict[str, Any]:
    known = {
        name: getattr(info, name) for name in ("name", "bytes", "lines", "encoding", "compression", "carriers", "gap")
    }
    extra = {key: value for key, value in vars(info).items() if key not in known and not key.startswith("_")}
    return {**known, **{k: v for k, v in extra.items() if v not in (None, 0, False)}}


class _Lines:
    """Line references: integers, or file and line with several files."""

    def __init__(self, many: bool) -> None:
        self.many = many

    def of(self, line: LogLine) -> int | dict[str, int]:
        return {"file": line.file, "line": line.number} if self.many else line.number

    def at(self, place: tuple[int, int]) -> int | dict[str, int]:
        return {"file": place[0], "line": place[1]} if self.many else place[1]

    def all(self, lines: Iterable[LogLine]) -> list[int | dict[str, int]]:
        found = []
        for line in lines:
            ref = self.of(line)
            if ref not in found:
                found.append(ref)
        return found


def _launch(
    case: Case, checked: Checked, files: Sequence[FileInfo], notes: dict[tuple[str, ...], dict[str, str]]
) -> dict[str, Any]:
    """One launch of the document. `notes` holds what is said of the rules: hundreds of alike starts share it."""
    launch, lines = case.launch, _Lines(len(files) > 1)

    def note(rule: str, title: str, because: str) -> dict[str, str]:
        return notes.setdefault((rule, title, because), {"rule": rule, "title": title, "because": because})

    outcome = case.outcome
    failure = None
    if outcome.failure is not None:
        failure = {
            "kind": outcome.failure.kind.value,
            "stage": outcome.failure.stage.value if outcome.failure.stage else None,
            "message": outcome.failure.message,
            "lines": lines.all(outcome.failure.lines),
            "consequences": [
                {"what": c.what, "rank": c.line.rank, "line": lines.of(c.line)} for c in outcome.failure.consequences
            ],
        }
    clocked = [e.line for e in launch.events if e.line.clock]
    first = next((line for line in clocked if "T" in (line.clock or "")), clocked[0] if clocked else None)
    start = first.clock if first else None  # a dated one, if any
    ready = launch.first(FiredUp)
    ready_after = _ready_after(launch, start)
    return {
        "number": launch.number,
        "first_line": lines.of(launch.first_line) if launch.first_line else None,
        "last_line": lines.of(launch.last_line) if launch.last_line else None,
        "started_at": start,
        "ready_after_s": ready_after,
        "ready_lines": lines.all((first, ready.line)) if ready_after is not None and first and ready else [],
        "outcome": outcome.outcome,
        "stage": outcome.stage.value if outcome.stage else None,
        "failure": failure,
        "verdict": verdict(case, checked),
        "coverage": _coverage(case),
        "version": dict(launch.release),
        "model": _model(launch),
        "parallel": _parallel(launch),
        "parallel_seen": _parallel_seen(launch),
        **({"ranks_read": MOST_RANKS} if launch.has_more_ranks else {}),
        "arguments": _arguments(launch, lines),
        "phases": [
            {
                "phase": p.name,
                "rank": p.rank,
                "seconds": p.seconds,
                "first_line": lines.of(p.first_line),
                "last_line": lines.of(p.last_line),
                "slowest": p.slowest,
            }
            for p in timeline(launch)
        ],
        "ranks": [_rank(case, ledger, lines) for ledger in case.ledgers],
        "gpu": _gpu(case),
        "machine": _machine(launch, lines),
        "kv_cache": _kv_cache(case, lines),
        "levers": levers(case),
        "limits": _limits(case, lines),
        "serving": serving_document(launch, lines.of, files),
        "exceptions": [
            {
                "type": e.kind,
                "message": e.message,
                "ranks": e.ranks,
                "lines": lines.all(e.lines),
                "frames": list(e.frames),
                "count": e.count,
            }
            for e in exceptions_of(launch)
        ],
        **_overflows(launch, lines),
        "findings": _findings(checked.findings, lines),
        "turn": turn(case, checked).value,
        "checks": {
            "passed": [note(p.id, p.title, p.because) for p in checked.passed],
            "not_applicable": [note(rule.id, rule.title, because) for rule, because in checked.not_applicable],
        },
        "cleared": [{"claim": c.claim, "because": c.because, "lines": lines.all(c.lines)} for c in checked.cleared],
        "not_run": [{"rule": rule.id, "because": because} for rule, because in checked.not_run],
        "not_understood": [
            {"line": lines.of(e.line), "text": e.line.shown[:500]}
            for e in launch.each(NotUnderstood)[:MAX_NOT_UNDERSTOOD]
        ],
    }


def _arguments(launch: Launch, lines: _Lines) -> dict[str, Any]:
    """The arguments by name; those that are one and the same share what is written of them."""
    written: dict[int, dict[str, Any]] = {}
    for a in launch.arguments.values():
        if id(a) not in written:
            written[id(a)] = {"value": a.value, "origin": a.origin, "lines": [lines.at(x) for x in a.lines]}
    return {name: written[id(a)] for name, a in launch.arguments.items()}


def _ready_after(launch: Launch, start: str | None) -> float | None:
    """Seconds from the first line to the server's readiness; None where the log begins after the weights began."""
    if not launch.begins:
        return None
    ready = launch.first(FiredUp)
    begin, end = moment(start), moment(ready.line.clock) if ready else None
    if begin is None or end is None or ("T" in (start or "")) != ("T" in (ready.line.clock or "") if ready else False):
        return None
    seconds = (end - begin).total_seconds()
    return seconds if seconds >= 0 else None


def _model(launch: Launch) -> dict[str, Any]:
    loaded = launch.first(WeightsLoaded)
    dtype = launch.last(KVCacheDtype)
    return {
        "path": launch.value("model_path"),
        "architecture": loaded.architecture if loaded else None,
        "quantization": (loaded.quantization if loaded else None) or launch.value("quantization"),
        "dtype": (loaded.dtype if loaded else None) or launch.value("dtype"),
        "kv_cache_dtype": (dtype.dtype if dtype else None) or launch.value("kv_cache_dtype"),
    }


_SIZES = ("tp", "pp", "dp", "ep")


def _parallel(launch: Launch) -> dict[str, int]:
    def size(key: str) -> int:
        given = launch.number_of(f"{key}_size")
        if given is not None:
            return int(given)
        seen = launch.highest(key.upper())
        return 1 if seen is None else seen + 1

    return {**{key: size(key) for key in _SIZES}, "nodes": int(launch.number_of("nnodes") or 1)}


def _parallel_seen(launch: Launch) -> list[str]:
    """Sizes that no argument tells: the ranks in the log show how large they are at the least."""
    return [key for key in _SIZES if launch.number_of(f"{key}_size") is None and (launch.highest(key.upper()) or 0) > 0]


def _coverage(case: Case) -> dict[str, int]:
    """How many of the facts that a whole start shows were read: arguments, readings, pools, limits, the end."""
    launch, limits = case.launch, case.limits
    rank = next((x for x in case.ledgers if x.rank == (case.lowest.rank if case.lowest else None)), None)
    loaded = launch.first(WeightsLoaded)
    release = dict(launch.release)
    facts = (
        bool(launch.server_args or launch.commands),
        case.fraction is not None,
        launch.value("model_path") is not None,
        loaded is not None and loaded.architecture is not None,
        bool(release.get("exact") or release.get("from") or release.get("before")),
        launch.first(DeviceNamed) is not None or any(x.capacity is not None for x in case.ledgers),
        case.opening is not None,
        rank is not None and rank.taken(Pool.WEIGHTS) is not None,
        case.after_weights is not None,
        rank is not None and rank.kv_tokens is not None,
        rank is not None and rank.kv_size is not None,
        case.after_pool is not None,
        rank is not None and rank.taken(Pool.CUDA_GRAPHS) is not None,
        limits is not None and limits.tokens is not None,
        limits is not None and limits.max_running_requests is not None,
        case.context_length is not None,
        limits is not None and limits.chunked_prefill_size is not None,
        case.free_at_end is not None,
        launch.has(FiredUp),
        case.outcome.outcome != "incomplete",
    )
    return {"read": sum(facts), "of": len(facts)}


def _machine(launch: Launch, lines: _Lines) -> dict[str, Any] | None:
    """The machine as tables beside the log show it: driver, cards, their processes, the libraries' releases."""
    found = machine_of(launch)
    if found is None:
        return None
    driver = found.driver
    return {
        "driver": driver.driver if driver else None,
        "runtime": driver.runtime if driver else None,
        "driver_line": lines.of(driver.line) if driver else None,
        "cards": [
            {
                "gpu": card.gpu,
                "name": card.name,
                "total_gib": to_gib(card.total, 4),
                "used_gib": to_gib(card.used, 4),
                "lines": lines.all(card.lines),
            }
            for card in found.cards
        ],
        "processes": [
            {
                "gpu": process.gpu,
                "pid": process.process,
                "program": process.program,
                "used_gib": to_gib(process.used, 4),
                "line": lines.of(process.line),
            }
            for process in found.processes
        ],
        "libraries": {each.library: each.release for each in found.libraries},
    }


def _gpu(case: Case) -> dict[str, Any]:
    """The cards: name as the log has it, how many ranks, capacity with its basis; the driver's release."""
    named = case.launch.first(DeviceNamed)
    first = next((x for x in case.ledgers if x.capacity is not None), None)
    driver = case.launch.last(DriverPrinted)
    return {
        "name": readable(named.name) if named is not None and named.name else None,
        "count": len(case.ledgers) or None,
        **({"at_least": True} if _may_have_more(case) else {}),
        "capacity_gib": to_gib(first.capacity, 4) if first else None,
        "basis": first.capacity_basis.value if first and first.capacity_basis else None,
        "driver": driver.driver if driver is not None else None,
    }


def _may_have_more(case: Case) -> bool:
    """Whether no argument tells the ranks, so that those in the log are a lower bound; one without a name is alone.

    Where the names show several, `parallel_seen` says so.
    """
    told = case.launch.number_of("tp_size") is not None or case.launch.commands or _parallel_seen(case.launch)
    return not told and any(ledger.rank for ledger in case.ledgers)


def _coordinate(rank: str, key: str) -> int | None:
    found = re.search(rf"\b{key}(\d+)", rank)
    return int(found[1]) if found else None


def _rank(case: Case, ledger: Ledger, lines: _Lines) -> dict[str, Any]:
    draft = ledger.draft_pools
    return {
        "id": ledger.rank,
        **{key.lower(): _coordinate(ledger.rank, key) for key in ("DP", "PP", "TP", "EP")},
        "node": ledger.rank.partition("/")[0] if "/" in ledger.rank else None,
        "gpu": ledger.gpu,
        "capacity_gib": to_gib(ledger.capacity, 4),
        "capacity_basis": ledger.capacity_basis.value if ledger.capacity_basis else None,
        "readings": [
            {
                "moment": r.moment.value,
                "model": r.model.value,
                "available_gib": to_gib(r.available),
                "line": lines.of(r.line),
            }
            for r in ledger.readings
            if r.moment is not Moment.READY or ledger.closing is r
        ],
        "entries": [_entry(e, lines) for e in ledger.entries],
        "opening_gib": to_gib(ledger.opening.available) if ledger.opening else None,
        "opening_basis": ledger.opening_basis.value if ledger.opening else None,
        "opening_line": lines.of(ledger.opening.line) if ledger.opening else None,
        "free_gib": to_gib(ledger.closing.available) if ledger.closing else None,
        "free_line": lines.of(ledger.closing.line) if ledger.closing else None,
        "unexplained_gib": to_gib(ledger.unexplained),
        "earlier": [_entry(e, lines) for e in ledger.earlier],
        "later": [_entry(e, lines) for e in ledger.later],
        "kv_tokens": ledger.kv_tokens,
        "kv_gib": to_gib(ledger.kv_size),
        "mamba_slots": ledger.mamba_slots,
        "mamba_gib": to_gib(ledger.mamba_size),
        "hicache_host_gib": to_gib(ledger.host_size),
        "draft": {
            "kv_tokens": max((p.tokens for p in draft if p.tokens is not None), default=None),
            "kv_gib": to_gib(ledger.draft_kv_size),
        }
        if draft
        else None,
    }


def _entry(entry: Entry, lines: _Lines) -> dict[str, Any]:
    found = {
        "pool": entry.pool.value,
        "model": entry.model.value,
        "gib": to_gib(entry.size),
        "basis": entry.basis.value,
        "lines": lines.all(entry.lines),
    }
    words = {"what": entry.what, "graphs": entry.graphs}
    return found | {key: value for key, value in words.items() if value}


def _kv_cache(case: Case, lines: _Lines) -> dict[str, Any]:
    if case.sizing is not None:
        return case.sizing.to_document(lines.at)
    return {
        "family": None,
        "tokens": case.tokens,
        "gib_per_rank": next((to_gib(x.kv_size) for x in case.ledgers if x.kv_size is not None), None),
        "bytes_per_token": None,
        "budget": None,
        "limited_by": "unknown",
    }


def _limits(case: Case, lines: _Lines) -> dict[str, Any]:
    limits = case.limits
    return {
        "max_total_num_tokens": limits.tokens if limits else None,
        "chunked_prefill_size": limits.chunked_prefill_size if limits else None,
        "max_prefill_tokens": limits.max_prefill_tokens if limits else None,
        "max_running_requests": limits.max_running_requests if limits else None,
        "context_len": limits.context_len if limits else None,
        "available_gpu_mem_gib": to_gib(limits.available) if limits else None,
        "line": lines.of(limits.line) if limits else None,
    }


def _overflows(launch: Launch, lines: _Lines) -> dict[str, Any]:
    """The overflows; of very many, those in the middle are counted in `oom_untold` alone."""
    found = launch.each(DeviceOutOfMemory)
    untold = len(found) - MOST_OVERFLOWS
    if untold <= 0:
        return {"oom": [_oom(oom, lines) for oom in found]}
    half = MOST_OVERFLOWS // 2
    told = [*found[:half], *found[-half:]]
    return {"oom": [_oom(oom, lines) for oom in told], "oom_untold": untold}


def _oom(oom: DeviceOutOfMemory, lines: _Lines) -> dict[str, Any]:
    return {
        "line": lines.of(oom.line),
        "rank": oom.rank,
        "device": (oom.device or "").lower() or None,
        "gpu": oom.gpu,
        "tried_gib": to_gib(oom.tried),
        "capacity_gib": to_gib(oom.capacity),
        "free_gib": to_gib(oom.free),
        "in_use_gib": to_gib(oom.held),
        "allocated_gib": to_gib(oom.allocated),
        "reserved_unallocated_gib": to_gib(oom.reserved_unallocated),
        "private_pools_gib": to_gib(oom.private_pools),
        "card": [
            {"part": share.part.value, "gib": to_gib(share.size), "basis": share.basis.value}
            for share in card_at_overflow(oom)
        ],
    }


def _findings(findings: Sequence[Finding], lines: _Lines) -> list[dict[str, Any]]:
    """The findings; a remedy that an earlier one offers in the same words names that finding's rule in `as_under`."""
    told: list[tuple[Remedy, str]] = []
    found = []
    for finding in findings:
        written = _finding(finding, lines)
        for remedy, entry in zip(finding.remedies, written["remedies"], strict=True):
            rule = next((rule for earlier, rule in told if earlier == remedy and rule != finding.rule), None)
            if rule is not None:
                entry["as_under"] = rule
        told += [(remedy, finding.rule) for remedy in finding.remedies]
        found.append(written)
    return found


def _finding(finding: Finding, lines: _Lines) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value if finding.severity else "info",
        "confidence": finding.confidence.value,
        "summary": finding.summary,
        "why": finding.why or None,
        "formula": finding.formula or None,
        "ranks": list(finding.ranks),
        "evidence": [_evidence(e, lines) for e in finding.evidence[:MAX_EVIDENCE]],
        "remedies": [_remedy(r) for r in finding.remedies],
        "part_of": finding.part_of or None,
    }


def _evidence(evidence: Evidence, lines: _Lines) -> dict[str, Any]:
    line = evidence.line
    broken = {"joined": True} if line.whole != line.shown else {}  # the figure may stand on one of the next lines
    return {
        "line": lines.of(line),
        "text": excerpt(line.whole, MAX_TEXT, evidence.value, evidence.figure),
        "figure": evidence.figure or None,
        "value": evidence.value,
        **broken,
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "flag": remedy.flag,
        "direction": remedy.direction.value,
        "from": remedy.before,
        "to": remedy.to,
        "effect": {
            name: {
                key: value
                for key, value in (("from", e.before), ("to", e.after), ("low", e.low), ("high", e.high))
                if value is not None
            }
            for name, e in remedy.effect.items()
        },
        "cost": remedy.cost,
        "note": remedy.note or None,
        "command": None if remedy.command is None else {"from": list(remedy.command[0]), "to": list(remedy.command[1])},
    }
