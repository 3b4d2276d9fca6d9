"""scenario(): one launch and one change, answered with figures, intervals, equations and limits, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.launches import Launch as ServerLaunch
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT
from kvdiag.diagnosis.ledger.sizing.free_memory import HIGHEST, STEP, end_free, least_on_the_way, lowest_free
from kvdiag.diagnosis.ledger.sizing.inputs import Family
from kvdiag.diagnosis.ledger.sizing.limits import cap_binds
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing, size_inputs
from kvdiag.diagnosis.ledger.sizing.stored import inputs_of_document
from kvdiag.diagnosis.ledger.what_if import forward
from kvdiag.diagnosis.ledger.what_if.answer import Figure, Scenario
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.command import command_line, flag_changes
from kvdiag.diagnosis.ledger.what_if.forward import CannotTell, Launch
from kvdiag.diagnosis.units import GIB

_STEPS = round(HIGHEST / STEP)


def scenario(launch: Mapping[str, Any] | ServerLaunch, change: Change) -> Scenario:
    """What a launch would have with a change: from the engine's launch or from one in a stored report document.

    Without a change the launch itself comes back. Never raises on a launch; Change.read() does on bad values.
    """
    if isinstance(launch, Mapping):
        arguments = launch.get("arguments")
        return scenario_of(
            size_inputs(inputs_of_document(launch)), change, arguments if isinstance(arguments, Mapping) else {}
        )
    from kvdiag.diagnosis.ledger.booking import book
    from kvdiag.diagnosis.ledger.sizing import size

    return scenario_of(size(launch, book(launch)), change, launch.arguments)


def scenario_of(sizing: Sizing, change: Change, arguments: Mapping[str, Any] | None = None) -> Scenario:
    """The same for a sizing already made; `arguments` are the launch's, for the new command."""
    arguments = arguments or {}
    try:
        base = forward.base_launch(sizing)
        changed = forward.changed_launch(sizing, base, change)
        printed = _fraction(sizing, base, changed, change)
    except CannotTell as reason:
        return Scenario(refused=str(reason), wanted_free_gib=sizing.wanted_free)
    then = changed if printed is None else forward.with_fraction(sizing, changed, printed)
    answer = _Answer(sizing, change, base, then, printed)
    return answer.scenario(arguments)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The launch before and after, and what is said about both."""

    sizing: Sizing
    change: Change
    base: Launch
    then: Launch
    printed: float | None

    def scenario(self, arguments: Mapping[str, Any]) -> Scenario:
        sizing, change, then = self.sizing, self.change, self.then
        tokens, free = self._tokens(), self._free()
        refused = self._refused(tokens, free)
        length = change.request_tokens or change.context_length or sizing.inputs.context_length
        flags = flag_changes(change, sizing.inputs, self.printed, arguments)
        known = refused is None or tokens.after is not None and tokens.after > 0
        return Scenario(
            refused=refused,
            fraction=Figure(sizing.inputs.fraction, self.printed or sizing.inputs.fraction),
            tokens=tokens if known else Figure(tokens.before, None),
            kv_gib=Figure(_pool(self.base, tokens.before), _pool(then, tokens.after)) if known else None,
            free_gib=free if known else None,
            requests=self._requests(tokens, length) if known else None,
            request_tokens=length,
            total_tokens=self._total(tokens) if known else None,
            host_gb=self._host(tokens) if known else None,
            wanted_free_gib=sizing.wanted_free,
            starts_from=smallest_start(sizing, then),
            keeps_wanted=largest_with_free(sizing, self.base, then, sizing.wanted_free),
            equations=tuple(self._equations(tokens, free)),
            validity=tuple(self._validity(free)),
            cautions=tuple(self._cautions(free)),
            flags=flags,
            command=command_line(arguments, flags),
        )

    def _tokens(self) -> Figure:
        before = self.sizing.inputs.tokens
        after = tokens_of(self.sizing, self.base, self.then)
        margin = self._margin(after)
        page = page_of(self.then)
        low, high = max(0, int(after - margin) // page * page), int(after + margin) // page * page
        return Figure(before, after, min(after, low), max(after, self._capped(high)))

    def _margin(self, after: int) -> float:
        """Tokens by which the printed digits leave the count open."""
        before, base, then = self.sizing.inputs.tokens, self.base, self.then
        if before is not None and after == before and then == base:
            return 0.0
        cell = then.arithmetic.cell
        relative = (cell.high - cell.low) / 2 / cell.value if cell.value else 0.0
        loose = HALF_DIGIT * abs(then.fraction - base.fraction) + then.shaky
        if before is None:
            loose += HALF_DIGIT * (2 - then.fraction)
        else:
            after = after - before
        return then.arithmetic.page + abs(after) * relative + loose * GIB / then.arithmetic.bytes_per_reported_token

    def _capped(self, tokens: int) -> int:
        cap = self.then.arithmetic.cap
        if cap is None:
            return tokens
        page = page_of(self.then)
        return min(tokens, cap // page * page)

    def _free(self) -> Figure | None:
        end = end_free(self.sizing.inputs)
        if end is None:
            return None
        after = free_of(self.sizing, self.base, self.then)
        assert after is not None
        tokens = tokens_of(self.sizing, self.base, self.then)
        cells = self.then.target_cell + self.then.draft_cell
        margin = 0.0 if self.then == self.base else self._margin(tokens) * cells / GIB + self.then.shaky
        draft = self.sizing.inputs.draft
        if draft is not None and draft.pool and self.then.draft_cell:
            moved = abs(tokens - (self.sizing.inputs.tokens or 0)) * self.then.draft_cell / GIB
            margin += moved * HALF_DIGIT * draft.figures / draft.pool
        return Figure(end, after, after - margin - HALF_DIGIT, after + margin + HALF_DIGIT)

    def _refused(self, tokens: Figure, free: Figure | None) -> str | None:
        then = self.then
        if then.after_weights <= 0:
            usage = then.opening - then.after_weights
            return f"no start: the weights would take about {usage:.1f} GiB of the {then.opening:.2f} a card has free"
        if then.budget <= 0:
            factor = self.sizing.budget.fraction / (self.sizing.inputs.fraction or 1.0) if self.sizing.budget else 1.0
            least = (1 - then.after_weights / then.opening) / factor
            return (
                f"no start: the weights leave {then.after_weights:.2f} GiB, the reserve would be "
                f"{then.opening * (1 - then.fraction):.2f}; raise --mem-fraction-static above {least:.4f}"
            )
        if not tokens.after:
            return "no start: the budget does not hold a single page of tokens"
        if free is not None and free.after is not None and free.after < 0:
            return f"no start: {-free.after:.2f} GiB more would be needed than the card has"
        lowest = lowest_of(self.sizing, self.base, then)
        if lowest is not None and lowest < 0:
            return f"no start: {-lowest:.2f} GiB more would be needed on the way than the card has"
        return None

    def _requests(self, tokens: Figure, length: int | None) -> Figure | None:
        if not length:
            return None
        inputs = self.sizing.inputs
        groups = inputs.dp if inputs.dp_attention else 1
        limit = forward.running_limit(self.sizing, self.base, Change(), int(tokens.before or 0))

        def count(value: float | None, most: int | None, ranks: int) -> int | None:
            if value is None:
                return None
            fit = int(value) // length
            return ranks * (fit if most is None else min(fit, most))

        then_groups = self.change.dp_attention or groups
        most = forward.running_limit(self.sizing, self.then, self.change, int(tokens.after or 0))
        return Figure(
            count(tokens.before, limit, groups),
            count(tokens.after, most, then_groups),
            count(tokens.low, most, then_groups),
            count(tokens.high, most, then_groups),
        )

    def _total(self, tokens: Figure) -> Figure | None:
        """Tokens of the whole server where DP ranks each have their own."""
        inputs = self.sizing.inputs
        before = inputs.dp if inputs.dp_attention else 1
        after = self.change.dp_attention or before
        if before == after == 1 or tokens.after is None:
            return None
        return Figure(
            None if tokens.before is None else tokens.before * before,
            tokens.after * after,
            None if tokens.low is None else tokens.low * after,
            None if tokens.high is None else tokens.high * after,
        )

    def _host(self, tokens: Figure) -> Figure | None:
        """Host memory a rank, in 10^9 bytes: the size given, or ratio × tokens × bytes of a token."""
        inputs, change = self.sizing.inputs, self.change

        def size(count: float | None, cell: float, ratio: float | None, given: float | None) -> float | None:
            if given:
                return given
            return None if not ratio or count is None else ratio * count * cell / 1e9

        before = size(tokens.before, self.base.target_cell, inputs.hicache_ratio or 2.0, inputs.hicache_gb)
        before = before if inputs.hicache else None
        if change.hicache_ratio is not None:
            return Figure(before, size(tokens.after, self.then.target_cell, change.hicache_ratio, None))
        if change.hicache_size_gb is not None:
            return Figure(before, change.hicache_size_gb)
        if not inputs.hicache:
            return None
        after = size(tokens.after, self.then.target_cell, inputs.hicache_ratio or 2.0, inputs.hicache_gb)
        return Figure(before, after)

    def _equations(self, tokens: Figure, free: Figure | None) -> list[str]:
        base, then = self.base, self.then
        lines = [
            f"budget = {then.after_weights:.2f} − {then.opening:.2f} × (1 − {then.fraction:.4g})"
            f" = {_signed(then.budget, 3)} GiB"
        ]
        if then.budget <= 0 or not tokens.after:
            return lines
        state = then.arithmetic.state_gib(then.budget)
        minus = f" − {state:.3f} of request states" if state > 0 else ""
        lost = f" − {then.lost:.3f} that this log's pool lacks" if abs(then.lost) >= HALF_DIGIT else ""
        kept = f"({then.budget:.3f}{minus}{lost})" if minus or lost else f"{then.budget:.3f}"
        cell = then.arithmetic.bytes_per_reported_token
        capped = then.arithmetic.cap is not None and tokens.after >= then.arithmetic.cap - then.arithmetic.page
        lines.append(
            f"tokens = --max-total-tokens = {int(tokens.after):,}"
            if capped
            else f"tokens = {kept} GiB × 2^30 / {cell:,.0f} B = about {int(tokens.after):,}"
        )
        if free is not None and free.after is not None and free.before is not None and then != base:
            more = then.pools_gib(tokens.after) - base.pools_gib(tokens.before or 0)
            fixed = f" {_change(-then.fixed)} outside the pools" if abs(then.fixed) >= HALF_DIGIT else ""
            lines.append(f"free = {free.before:.2f} {_change(-more)} for the pools{fixed} = {free.after:.2f} GiB")
            if then.draft_cell and tokens.before is not None and tokens.after != tokens.before:
                draft = tokens.after * then.draft_cell / GIB - tokens.before * base.draft_cell / GIB
                lines.append(f"of the pools, {_change(draft)} GiB are the draft's, at {then.draft_cell:,.0f} B a token")
        host = self._host(tokens)
        if host is not None and host.after is not None and self.change.hicache_ratio is not None:
            lines.append(
                f"host = {self.change.hicache_ratio:g} × {int(tokens.after):,} × {then.target_cell:,.0f} B "
                f"= {host.after:.1f} × 10^9 B a rank"
            )
        return lines

    def _validity(self, free: Figure | None) -> list[str]:
        inputs = self.sizing.inputs
        said = list(self.then.notes)
        if free is None:
            said.append("the log does not reach the end of the start, so the free memory there is not known")
        elif self.then != self.base:
            said.append("graphs, workspaces and activations are taken to need what they need in this log")
        if len([rank for rank in inputs.ranks if rank.after_weights is not None]) < inputs.world:
            said.append("the log does not show every rank; a smaller one elsewhere would lower every figure")
        if inputs.release.exact is None and self.sizing.budget and len(self.sizing.budget.candidates) > 1:
            said.append("the release is not known; the way of counting that fits the log is used")
        if self.change.hicache_ratio is not None or self.change.hicache_size_gb is not None:
            said.append("a host tier keeps evicted prefixes; it does not let more requests run at once")
            if inputs.draft is not None or inputs.family in (Family.DSA, Family.LINEAR, Family.SWA):
                said.append("pools of a draft, an index, a window or request states add host memory of their own")
        return said

    def _cautions(self, free: Figure | None) -> list[str]:
        said = []
        wanted = self.sizing.wanted_free
        if free is not None and free.after is not None and wanted is not None and 0 <= free.after < wanted - 0.005:
            word = "less than half of" if free.after < wanted / 2 else "under"
            said.append(f"{free.after:.2f} GiB free at the end is {word} the {wanted:.2f} GiB wanted")
        name = self.change.kv_cache_dtype or ""
        if "fp8" in name or "fp4" in name:
            said.append(
                f"{name} needs an attention backend that takes it, and without calibrated scales answers may get worse"
            )
        if self.change.hicache_ratio is not None or self.change.hicache_size_gb is not None:
            said.append("each rank takes this much host memory, and 10 GiB of it must stay free")
        if (self.change.context_length or 0) > (self.sizing.inputs.context_length or 1 << 60):
            said.append("a longer context than the model was trained for needs settings of its own")
        if cap_binds(self.sizing.inputs) and self.printed is not None and self.then.arithmetic.cap is not None:
            said.append("--max-total-tokens sets the pool in this launch, whatever the fraction")
        return said


def tokens_of(sizing: Sizing, base: Launch, then: Launch) -> int:
    """Tokens of the changed launch: the log's own count plus what the arithmetic says the change moves."""
    observed = sizing.inputs.tokens
    count = then.tokens()
    if observed is None or not count:
        return count
    moved = max(0, observed + count - base.tokens())
    page = page_of(then)
    cap = then.arithmetic.cap
    if cap is not None:
        moved = min(moved, cap // page * page)
    return moved


def free_of(sizing: Sizing, base: Launch, then: Launch) -> float | None:
    """GiB free at the end of the changed launch; None where this log does not reach its end."""
    end = end_free(sizing.inputs)
    if end is None:
        return None
    before = sizing.inputs.tokens or 0
    return end - (then.pools_gib(tokens_of(sizing, base, then)) - base.pools_gib(before)) - then.fixed


def lowest_of(sizing: Sizing, base: Launch, then: Launch) -> float | None:
    """GiB free at the lowest point on the way to the end, changed launch; None where the log does not show it."""
    lowest = lowest_free(sizing.inputs)
    if lowest is None:
        return None
    before = sizing.inputs.tokens or 0
    more = then.pools_gib(tokens_of(sizing, base, then)) - base.pools_gib(before)
    return lowest - more - then.fixed


def page_of(launch: Launch) -> int:
    """Tokens of one page."""
    return max(1, launch.arithmetic.page)


def smallest_start(sizing: Sizing, launch: Launch) -> float | None:
    """The smallest fraction in steps of 0.001 that gets a pool; None when none does."""
    return _first_step(lambda fraction: forward.with_fraction(sizing, launch, fraction).tokens() > 0)


def largest_with_free(sizing: Sizing, base: Launch, launch: Launch, wanted: float | None) -> float | None:
    """The largest fraction in steps of 0.001 that starts and leaves so much free; None when none does."""
    start = smallest_start(sizing, launch)
    if wanted is None or start is None or end_free(sizing.inputs) is None or cap_binds(sizing.inputs):
        return None

    lowest = lowest_free(sizing.inputs)

    def too_much(fraction: float) -> bool:
        then = forward.with_fraction(sizing, launch, fraction)
        free, on_the_way = free_of(sizing, base, then), lowest_of(sizing, base, then)
        if free is None or free < wanted - 1e-9:
            return True
        return lowest is not None and on_the_way is not None and on_the_way < least_on_the_way(lowest, wanted) - 1e-9

    first = _first_step(too_much)
    if first is None and launch.arithmetic.cap is not None:
        return None  # the cap sets the pool, whatever the fraction
    most = HIGHEST if first is None else round(first - STEP, 3)
    return most if most >= start else None


def _fraction(sizing: Sizing, base: Launch, launch: Launch, change: Change) -> float | None:
    """The fraction a change asks for, directly or turned round. Raises CannotTell when none is feasible."""
    if change.mem_fraction_static is not None:
        return change.mem_fraction_static
    if change.free_gib is not None:
        return _for_free(sizing, base, launch, change.free_gib)
    if change.tokens is not None:
        return _for_tokens(sizing, base, launch, change.tokens)
    return None


def _for_free(sizing: Sizing, base: Launch, launch: Launch, wanted: float) -> float:
    end = end_free(sizing.inputs)
    if end is None:
        raise CannotTell("the log does not reach the end of the start, so the free memory there is not known")
    if cap_binds(sizing.inputs) and launch.arithmetic.cap is not None:
        raise CannotTell("--max-total-tokens sets the pool, so the fraction moves no free memory")
    most = largest_with_free(sizing, base, launch, wanted)
    if most is None:
        start = smallest_start(sizing, launch)
        least = "no fraction starts" if start is None else f"the smallest that starts is {start:.3f}"
        raise CannotTell(f"no feasible fraction leaves {wanted:.2f} GiB free at the end: {least}")
    return most


def _for_tokens(sizing: Sizing, base: Launch, launch: Launch, wanted: int) -> float:
    cap = launch.arithmetic.cap
    if cap is not None and cap < wanted:
        raise CannotTell(f"no feasible fraction: --max-total-tokens {cap:,} keeps the pool below {wanted:,} tokens")
    found = _first_step(
        lambda fraction: tokens_of(sizing, base, forward.with_fraction(sizing, launch, fraction)) >= wanted
    )
    if found is None:
        most = tokens_of(sizing, base, forward.with_fraction(sizing, launch, HIGHEST))
        raise CannotTell(f"no feasible fraction: even {HIGHEST} gives about {most:,} tokens, not {wanted:,}")
    free = free_of(sizing, base, forward.with_fraction(sizing, launch, found))
    if free is not None and free < 0:
        raise CannotTell(
            f"no feasible fraction: {wanted:,} tokens need {found:.3f}, and {-free:.2f} GiB more than the card has"
        )
    return found


def _first_step(holds: Callable[[float], bool]) -> float | None:
    """The first multiple of 0.001 up to 0.99 for which a claim holds that, once true, stays true."""
    low, high = 1, _STEPS + 1
    while low < high:
        middle = (low + high) // 2
        if holds(round(middle * STEP, 3)):
            high = middle
        else:
            low = middle + 1
    return None if low > _STEPS else round(low * STEP, 3)


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _change(value: float) -> str:
    """+0.25 or − 0.25, as a term of a sum."""
    return ("+ " if value >= 0 else "− ") + f"{abs(value):.2f}"


def _pool(launch: Launch, tokens: float | None) -> float | None:
    if tokens is None:
        return None
    way = launch.arithmetic
    beside = way.window.window * way.window_tokens if way.window is not None and way.window_tokens is not None else 0.0
    return (tokens * launch.target_cell + beside) / GIB


__all__ = ["free_of", "largest_with_free", "scenario", "scenario_of", "smallest_start", "tokens_of"]
