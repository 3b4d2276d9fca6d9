"""scenario(): one launch and one change, answered with figures, intervals, equations and limits, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvdiag.diagnosis.launches import Launch as ServerLaunch
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing, size_inputs
from kvdiag.diagnosis.ledger.sizing.stored import inputs_of_document
from kvdiag.diagnosis.ledger.what_if.answer import Figure, Scenario, Starts
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.command import command_line, flag_changes, value_of
from kvdiag.diagnosis.ledger.what_if.flags import changed_launch, for_card
from kvdiag.diagnosis.ledger.what_if.forward import CannotTell, NoFraction, base_launch, with_fraction
from kvdiag.diagnosis.ledger.what_if.inverse import fraction_asked, largest_with_free, smallest_start
from kvdiag.diagnosis.ledger.what_if.moves import moves_of
from kvdiag.diagnosis.ledger.what_if.outcome import Outcome
from kvdiag.diagnosis.ledger.what_if.words import cautions, equations, validity


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
        base = base_launch(sizing)
        changed = changed_launch(sizing, base, change)
        sizing = for_card(sizing, change)
        printed = fraction_asked(sizing, base, changed, change)
    except CannotTell as reason:
        return Scenario(
            starts=Starts.NO_FRACTION if isinstance(reason, NoFraction) else Starts.UNKNOWN,
            refused=str(reason),
            wanted_free_gib=sizing.wanted_free,
            needed_free_gib=sizing.needed_free,
        )
    then = changed if printed is None else with_fraction(sizing, changed, printed)
    return _answer(Outcome(sizing, change, base, then, printed), arguments)


def _own_context(sizing: Sizing, arguments: Mapping[str, Any]) -> int | None:
    """The model's context length: what the server took where the arguments are in the log and set none."""
    known = "context_length" in arguments and value_of(arguments, "context_length") is None
    return sizing.inputs.context_length if known else None


def _answer(outcome: Outcome, arguments: Mapping[str, Any]) -> Scenario:
    sizing, change, base, then = outcome.sizing, outcome.change, outcome.base, outcome.then
    tokens, free = outcome.tokens(), outcome.free()
    refused = outcome.refused(tokens, free)
    length = change.request_tokens or change.context_length or sizing.inputs.context_length
    flags = flag_changes(change, sizing.inputs, outcome.printed, arguments)
    known = refused is None or (tokens.after is not None and tokens.after > 0)
    return Scenario(
        starts=Starts.YES if refused is None else Starts.NO,
        refused=refused,
        opening_gib=Figure(base.opening, then.opening) if then.opening != base.opening else None,
        boundary_gib=Figure(base.boundary, then.boundary),
        moves=moves_of(sizing, base, then) if refused is None else (),
        fraction=Figure(sizing.inputs.fraction, outcome.printed or sizing.inputs.fraction),
        tokens=tokens if known else Figure(tokens.before, None),
        kv_gib=outcome.pool(tokens) if known else None,
        free_gib=free if known else None,
        requests=outcome.requests(tokens, length) if known else None,
        request_tokens=length,
        total_tokens=outcome.total(tokens) if known else None,
        host_gb=outcome.host(tokens) if known else None,
        wanted_free_gib=sizing.wanted_free,
        needed_free_gib=sizing.needed_free,
        starts_from=smallest_start(sizing, then) if then.bound != "at least" else None,
        keeps_wanted=largest_with_free(sizing, base, then, sizing.wanted_free),
        equations=tuple(equations(outcome, tokens, free)),
        validity=tuple(validity(outcome, free)),
        cautions=tuple(cautions(outcome, free, _own_context(sizing, arguments))),
        flags=flags,
        command=command_line(arguments, flags, sizing.inputs.release),
    )
