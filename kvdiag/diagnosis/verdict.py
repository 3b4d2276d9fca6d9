"""The verdict: what a launch came to, with direction and size, in plain sentences; and the turn of the knob."""

from __future__ import annotations

import re
from enum import StrEnum
from signal import Signals

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd, GraphSizes
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.failure import CaptureFailed
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.host_memory import HostPool
from kvdiag.diagnosis.events.kv_pool import PoolEnd
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import FiredUp, ServerLimits
from kvdiag.diagnosis.events.server_args import ArgumentsRefused, ContextTooLong
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.lazy import lazy
from kvdiag.diagnosis.ledger.model import Pool
from kvdiag.diagnosis.ledger.what_if import Change, scenario_of
from kvdiag.diagnosis.outcome import Failure, FailureKind, Stage
from kvdiag.diagnosis.rules._pricing import FRACTION, OTHERS
from kvdiag.diagnosis.rules.checking import Checked
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, flags_beside
from kvdiag.diagnosis.units import Bytes, format_gib, format_prediction, format_tokens, times_or_percent


class Turn(StrEnum):
    """Which way to turn the fraction: UP, DOWN, LEAVE it, or NONE where the log gives no direction."""

    UP = "up"
    DOWN = "down"
    LEAVE = "leave"
    NONE = "none"


def turn(case: Case, checked: Checked) -> Turn:
    """The turn that the first remedy of the worst finding with remedies asks for."""
    least = 0 if case.outcome.outcome == "failed" else Severity.ADVICE.weight
    for finding in checked.findings:
        if finding.severity is None or finding.severity.weight > least or finding.part_of:
            continue
        if not finding.remedies:
            continue
        first = next((remedy for remedy in finding.remedies if remedy.flag != OTHERS), finding.remedies[0])
        if first.flag != FRACTION:
            break  # the verdict says to turn something else first
        return Turn.DOWN if first.direction is Direction.LOWER else Turn.UP
    quiet = not any(f.severity in (Severity.CRITICAL, Severity.WARNING) for f in checked.findings)
    return Turn.LEAVE if case.is_ready and quiet and case.fraction is not None else Turn.NONE


def verdict(case: Case, checked: Checked) -> str:
    """Plain words for every outcome."""
    lead = next((f for f in checked.findings if f.severity is not Severity.INFO and not f.part_of), None)
    match case.outcome.outcome:
        case "ready":
            return _ready(case, checked, lead)
        case "failed":
            return _failed(case, lead)
    return _cut(case, lead)


def _ready(case: Case, checked: Checked, lead: Finding | None) -> str:
    facts = _facts(case, lead)
    if lead is not None:
        told = f"Ready: {facts}." if facts else "Ready."
        return f"{told} {_sentence(lead.summary)} {_act(lead)} {_unexplained(case)}".strip()
    further, unexplained = _further(case), _unexplained(case)
    if not facts:  # a log whose start was cut off proves nothing of the memory
        missing = "The log prints neither the size of the KV pool nor what is free at the end"
        return f"Ready. {missing}, so there is no verdict on memory. Nothing else asks for a change. {further}".strip()
    passed = f"; {len(checked.passed)} checks passed" if not further else ""
    told = "Ready." if unexplained else "Ready, nothing to fix."
    return f"{told} {facts}{passed}. {_below_wanted(case)}{unexplained}{further}".strip()


def _unexplained(case: Case) -> str:
    """How much of a GPU no line names, where it is much; "" else."""
    least = case.thresholds.foreign_memory
    lost = max(
        (sum(e.size for e in x.entries if e.pool is Pool.UNEXPLAINED and not e.what) for x in case.ledgers), default=0
    )
    if lost < least:
        return ""
    return f"{format_gib(Bytes(lost))} are unexplained: another program took them, or a step that prints no line. "


def _below_wanted(case: Case) -> str:
    """That less is free than wanted, where no rule takes it for too little; "" else."""
    free, wanted = case.free_at_end, case.wanted_free
    if free is None or wanted is None or free.available >= wanted:
        return ""
    least = format_gib(free.available)
    return f"{least} free is less than the {format_gib(wanted)} wanted, but more than half of it, which is enough. "


_CAPTURES = (GraphBegin, GraphEnd, CaptureProgress, CaptureFailed)
_STAGES = {
    Stage.ARGUMENTS: "while arguments are read",
    Stage.DISTRIBUTED: "while the ranks find each other",
    Stage.WEIGHTS: "while the weights load",
    Stage.KV_CACHE: "while the KV pool is made",
    Stage.CUDA_GRAPH: "while graphs are captured",
    Stage.WARMUP: "in the warm-up request",
    Stage.SERVING: "while serving",
}
_KINDS = {
    FailureKind.GPU_OOM: "GPU memory ran out",
    FailureKind.HOST_OOM: "the host's memory ran out",
    FailureKind.SIZING: "no room was left for the KV pool",
    FailureKind.ASSERTION: "an assertion failed",
    FailureKind.COMMUNICATION: "communication between ranks failed",
    FailureKind.KERNEL: "a kernel failed",
    FailureKind.OTHER: "another error ended it",
}


_DIED = lazy(r"scheduler died during initialization \(exit code: (-?\d{1,9})\)")
_COLLECTIVE = lazy(r"Watchdog caught collective operation timeout")
_OPERATION = lazy(r"OpType=(\w{1,40})")
_TIMEOUT = lazy(r"Timeout\(ms\)=(\d{4,12})")
_QUOTED = (FailureKind.OTHER, FailureKind.COMMUNICATION, FailureKind.ASSERTION, FailureKind.KERNEL)


def _failed(case: Case, lead: Finding | None) -> str:
    failure = case.outcome.failure
    where = _where(case)
    if lead is not None:
        return f"Failed{where}. {_sentence(lead.summary)} {_act(lead)}".strip()
    what = _KINDS[failure.kind] if failure is not None else "the log does not say why"
    if failure is not None and (code := _DIED.search(failure.message)):
        return f"Failed{where}: a rank's process ended with exit code {_named(code[1])}; why, the log does not say."
    if failure is not None and _COLLECTIVE.search(failure.message):
        return f"Failed{where}: {_collective(failure.message)}."
    message = failure.message.strip().splitlines()[0] if failure is not None and failure.message.strip() else ""
    message = message if len(message) <= 160 else f"{message[:160].rpartition(' ')[0] or message[:160]} …"
    quoted = f": {message}" if message and failure is not None and failure.kind in _QUOTED else ""
    if quoted.endswith("Traceback (most recent call last):") or (quoted and _begins_a_traceback(failure)):
        return f"Failed{where}: the log ends within a traceback, before the line that names the error."
    return _sentence(f"Failed{where}: {what}{quoted}")


def _collective(message: str) -> str:
    """What torch's watchdog waited for: `a collective (ALLREDUCE) between the ranks did not end within 600 s`."""
    operation, timeout = _OPERATION.search(message), _TIMEOUT.search(message)
    name = f" ({operation[1]})" if operation else ""
    within = f"{int(timeout[1]) // 1000} s" if timeout else "its time"
    return f"a collective{name} between the ranks did not end within {within}"


def _named(code: str) -> str:
    """An exit code with its signal: `-3 (SIGQUIT)`."""
    signal = next((s.name for s in Signals if s == -int(code)), "")
    return f"{code} ({signal})" if signal else code


def _begins_a_traceback(failure: Failure | None) -> bool:
    """Whether all that is left of an error is the line that its traceback begins under."""
    return failure is not None and bool(
        re.fullmatch(r"Exception in \w+:|.* hit an exception:", failure.message.strip())
    )


def _where(case: Case) -> str:
    """When it failed, in words; "" where the log does not show it."""
    failure, reached = case.outcome.failure, case.outcome.stage
    stage = failure.stage if failure is not None else reached  # what was reached may be another process's, later
    launch = case.launch
    if stage is Stage.WEIGHTS and reached in (None, Stage.ARGUMENTS, Stage.DISTRIBUTED):
        loads = any(frame.site == "load" for frame in launch.each(Frame))
        return " while the weights load" if loads else " before the weights load"
    if stage is Stage.ARGUMENTS and not launch.has(ArgumentsRefused, ContextTooLong):
        return ""  # the command is all that the log shows of the start
    if stage is Stage.CUDA_GRAPH and not launch.has(*_CAPTURES):
        return " after the KV pool was made"
    # Only the first node says that it is ready.
    if stage is Stage.SERVING and not launch.has(FiredUp) and not launch.has_traffic and launch.has(ServerLimits):
        return " after its start" if (launch.number_of("nnodes") or 1) > 1 else " before it was ready"
    return f" {_STAGES[stage]}" if stage is not None else ""


def _cut(case: Case, lead: Finding | None) -> str:
    stage, facts = case.outcome.stage, _facts(case, lead)
    if case.launch.has_traffic:
        head = f"The log shows {_shown(case)}{': ' + facts if facts else ''}."
    elif stage is None or (stage is Stage.ARGUMENTS and not case.launch.server_args):
        head = _host_memory(case) or "The log shows no step of the start."
    else:
        end = {Stage.WARMUP: "before the server says that it is ready"}.get(stage, _STAGES[stage])
        if stage is Stage.CUDA_GRAPH and not case.launch.has(*_CAPTURES):
            end = "after the KV pool is made"
        elif stage is Stage.CUDA_GRAPH and _all_captured(case):
            end = "after a capture of graphs"
        follows = case.launch.begins or sum(case.launch.has(step) for step in _STEPS) > 1  # one step after another
        shown = f"The log ends {end}" if follows else "The log shows part of a start, without its beginning"
        head = f"{shown}{': ' + facts if facts else ''}."
    if lead is not None:
        return f"{head} {_sentence(lead.summary)} {_act(lead)}".strip()
    if facts or case.launch.has_traffic:
        return f"{head} Nothing in it asks for a change."
    return f"{head} No verdict on memory yet: send the {'rest of the' if case.launch.begins else 'whole'} log."


def _host_memory(case: Case) -> str:
    """What HiCache takes of the host, where a log shows nothing else of the start; "" where it does not."""
    ranks: dict[str, int] = {}
    for pool in case.launch.each(HostPool):
        ranks[pool.rank] = ranks.get(pool.rank, 0) + (pool.size or 0)
    if not any(ranks.values()):
        return ""
    least, most = min(ranks.values()), max(ranks.values())
    head = f"Of the start, the log shows only the host memory that HiCache takes: {most / 1e9:,.2f} GB"
    if len(ranks) == 1:
        [rank] = ranks
        return f"{head} on {rank}." if rank else f"{head}."
    on = "on each" if least == most else "at most on one"
    return f"{head} {on} of the {len(ranks)} ranks in it, {sum(ranks.values()) / 1e9:,.2f} GB together."


_STEPS = (DistributedBegin, WeightsBegin, DistributedEnd, WeightsLoaded, PoolEnd, ServerLimits, *_CAPTURES)


def _shown(case: Case) -> str:
    """How much of the start a log has that serves, in words."""
    launch = case.launch
    if not launch.has(*_STEPS):
        return "serving, and no start or end of it"
    start = "the start" if launch.begins else "part of the start"
    return f"{start} and serving, and no line that says that the server is ready"


def _all_captured(case: Case) -> bool:
    """Whether the last line of a capture is its end."""
    last = next(iter(reversed(case.launch.each(GraphBegin, GraphSizes, GraphEnd, CaptureProgress))), None)
    return isinstance(last, GraphEnd)


def _facts(case: Case, lead: Finding | None) -> str:
    """Tokens and free memory; a figure that the leading finding says itself is not said before it."""
    free = case.free_at_end
    parts = []
    if case.tokens is not None and not _says(lead, case.tokens):
        counts = {ledger.kv_tokens for ledger in case.ledgers if ledger.kv_tokens is not None}
        least = "at least " if len(counts) > 1 else ""
        each = f" on each of {len(case.ledgers)} GPUs" if len(case.ledgers) > 1 else ""
        parts.append(f"{least}{format_tokens(case.tokens)} KV tokens{each}")
    if free is not None and (lead is None or format_gib(free.available) not in lead.summary):
        early = " before graphs were captured" if case.is_ready and case.has_graphs_after_end else ""
        parts.append(f"{format_gib(free.available)} free{early}")
    return ", ".join(parts)


def _says(finding: Finding | None, count: int) -> bool:
    """Whether a finding's summary opens with a count as the size of the pool."""
    return finding is not None and finding.rule == "max-total-tokens-cap" and format_tokens(count) in finding.summary


def _further(case: Case) -> str:
    """How far the fraction could go and still leave what is wanted; "" where that is not much further."""
    sizing, free = case.sizing, case.free_at_end
    if sizing is None or sizing.fractions is None or case.fraction is None or free is None:
        return ""
    if case.has_graphs_after_end:
        return ""  # what the graphs took is not known
    if sizing.inputs.unified_memory:
        return ""  # what is free there is the host's as well
    to = sizing.fractions.keeps_wanted
    if to is None or to < case.fraction + 0.002 or sizing.limited_by.value != "memory":
        return ""
    answer = scenario_of(sizing, Change(mem_fraction_static=to))
    if answer.refused or answer.tokens is None or not answer.tokens.before or answer.tokens.after is None:
        return ""
    gain = answer.tokens.after / answer.tokens.before - 1
    left = answer.free_gib
    if gain < 0.005 or left is None or left.after is None:
        return ""
    return (
        f"Memory limits the KV cache; a fraction of {to:g} would fit about"
        f" {format_prediction(answer.tokens.after)} tokens (+{100 * gain:.0f} %) and leave about {left.after:.1f} GiB."
    )


def _sentence(text: str) -> str:
    line = text.split("\n", 1)[0].strip()
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."


def _act(finding: Finding) -> str:
    """The first remedy as a sentence, with the first flag where it is none; "" where there is none to turn."""
    told = [_told(remedy, finding.summary) for remedy in finding.remedies[:2]]
    if len(told) == 2 and finding.remedies[0].flag == OTHERS:
        return f"{told[0].rstrip('.')}, or {told[1][:1].lower()}{told[1][1:]}"
    return next(iter(told), "")


_VERBS = {
    Direction.RAISE: "Raise",
    Direction.LOWER: "Lower",
    Direction.SET: "Set",
    Direction.REMOVE: "Remove",
}


def _told(remedy: Remedy, said: str) -> str:
    """A remedy as a sentence; `said` stands before it, and what it names is not named again."""
    if remedy.flag == "upgrade":
        return f"Upgrade to {remedy.to}." if remedy.to else "Upgrade."
    words = [_VERBS[remedy.direction], f"the {remedy.flag}" if " " in remedy.flag else remedy.flag]
    known = remedy.before is not None and f"{remedy.flag} {_counted(remedy.before)}" in said
    if remedy.before is not None and remedy.to is not None and remedy.direction is not Direction.SET and not known:
        words.append(f"from {remedy.before}")
    if remedy.to is not None and remedy.direction is not Direction.REMOVE:
        words.append(f"to {remedy.to}")
    amount = re.search(r"\bBy ((?:about|at least) [\d.]*\d)", remedy.note) if remedy.to is None else None
    if amount is not None:
        words.append(f"by {amount[1]}")
    beside = flags_beside(remedy.flag, remedy.to, () if remedy.command is None else remedy.command[1])
    if beside:
        words.append(f"with {beside}")
    tokens, freed = remedy.effect.get("kv_tokens"), remedy.effect.get("free_at_overflow_gib")
    size = ""
    if tokens is not None and tokens.after is not None:
        change = times_or_percent(tokens.before, tokens.after) if tokens.before else ""
        size = f": about {format_prediction(tokens.after)} tokens" + (f" ({change})" if change else "")
        if remedy.to == str(tokens.after):  # the flag counts tokens itself
            size = f": {change} tokens" if change.endswith("as many") else f": {change}" if change else ""
    elif freed is not None and freed.after is not None and freed.before is not None:
        size = f": about {freed.after - freed.before:.1f} GiB more free"
    return f"{' '.join(words)}{size}."


def _counted(value: str) -> str:
    """A flag's count as summaries spell it."""
    return format_tokens(int(value)) if value.isdecimal() else "(none)"
