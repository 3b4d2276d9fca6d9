"""The pool takes nearly all that was free before it.

What it sees
    pool / (pool + free after it) above 0.85, and less free after the pool, or when capture starts, than is wanted at
    the end.
Why it matters
    With a small model the pool is huge and the slack is small: graphs, images and long prompts have to fit in it.
What to do
    Lower the fraction, or cap the tokens. More GPUs are useless. Where the table of requests takes a good part of what
    is missing and nobody set its length, fewer requests at once.
Sources
    SGLang, model_runner.py: profile_max_num_token().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.ledger.model import Moment
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._formulas import wanted as free_wanted
from kvdiag.diagnosis.rules._pricing import fewer_rows, knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    limits = case.thresholds
    wanted = case.wanted_range[0]
    for ledger in sorted(case.ledgers, key=lambda x: x.rank):
        size, after = ledger.kv_size, ledger.reading(Moment.POOL_END)
        begin = ledger.reading(Moment.CUDA_GRAPH_BEGIN)
        if size is None or after is None:
            continue
        size = Bytes(size + (ledger.mamba_size or 0))
        left = after if begin is None or after.available <= begin.available else begin
        if size / max(1, size + after.available) <= limits.pool_takes_share or left.available >= wanted:
            continue
        need = Bytes(wanted - left.available)
        end = case.free_at_end
        calm = end is not None and end.available >= limits.thin_share * wanted
        yield Finding(
            summary=f"The KV pool takes {format_gib(size)} and leaves {format_gib(left.available)};"
            f" {format_gib(wanted)}"
            " are wanted at the end",
            why="The pool fills what the model leaves; graphs and the first large batch have to fit in the rest.",
            formula=worked(
                "pool / (pool + free after it)",
                f"{gib(size)} / ({gib(size)} + {gib(after.available)}) ="
                f" {size / max(1, size + after.available):.2f}; {free_wanted(case)}",
            ),
            ranks=(ledger.rank,),
            evidence=tuple(
                e for p in ledger.pools[:2] for e in cite(*p.lines[:1], figure="kv_gib", value=to_gib(size, 4))
            )
            + cite(after, begin),
            remedies=remedies(
                lower_fraction(case, need),
                fewer_rows(case, need),
                knob(case, "--max-total-tokens", Direction.SET, cost="It costs KV tokens above the cap."),
            ),
            severity=Severity.ADVICE if calm else Severity.WARNING,
            confidence=Confidence.CERTAIN if case.card is not None else Confidence.LIKELY,
            stake=to_gib(need) or 0.0,
        )
        return
