"""What if: a launch and a change to tokens, requests, free and host memory, or a reason why the log cannot tell."""

from __future__ import annotations

from kvdiag.diagnosis.ledger.what_if.answer import Figure, FlagChange, Scenario, Starts
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.scenario import scenario, scenario_of

__all__ = ["Change", "Figure", "FlagChange", "Scenario", "Starts", "scenario", "scenario_of"]
