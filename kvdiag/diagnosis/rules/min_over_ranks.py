"""Every rank uses the tokens of the rank that has least memory.

What it sees
    Free memory after loading that differs between the ranks of a pipeline stage.
Why it matters
    The lowest rank sets the pool of all; what the others have more stays idle. Averages hide it.
What to do
    Find what holds memory on the low rank's card, or use cards of one size.
Sources
    SGLang, model_runner.py: the minimum over all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.ledger.model import Moment
from kvdiag.diagnosis.rules.judgements import low_ranks
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.ADVICE, needs=(WeightsLoaded,))
def check(case: Case) -> Iterator[Finding]:
    low = low_ranks(case)
    if not low:
        return
    after = {x.rank: x.reading(Moment.WEIGHTS_END) for x in case.ledgers}
    sizes = sorted(r.available for r in after.values() if r is not None)
    middle, least = sizes[len(sizes) // 2], sizes[0]
    names = ", ".join(x.rank or "one rank" for x in low)
    yield Finding(
        summary=f"{names} {'has' if len(low) == 1 else 'have'} {format_gib(least)} free after loading, the others"
        f" {format_gib(middle)}: the lowest rank sets everybody's pool",
        why="Each of the others leaves the difference idle.",
        ranks=tuple(x.rank for x in low),
        evidence=cite(
            *(after[x.rank] for x in low[:2]), *[r for r in after.values() if r and r.available >= middle][:2]
        ),
        stake=to_gib(Bytes(middle - least)) or 0.0,
    )
