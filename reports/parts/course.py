"""The course of a launch: the steps of its start, and its traffic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports import charts, words
from reports.document import listed
from reports.parts.launch import ShownLaunch
from reports.steps import Phase, Step, held_up, leading_rank, steps_of, timeline_of


@dataclass
class Course(ShownLaunch):
    """What the waterfall, the timeline and the serving series show."""

    @cached_property
    def steps(self) -> list[Step]:
        return steps_of(self.launch)

    @cached_property
    def timeline(self) -> list[Phase]:
        return timeline_of(self.launch)

    @cached_property
    def held_up(self) -> list[str]:
        return held_up(self.launch)

    @cached_property
    def step_rank(self) -> str:
        rank = leading_rank(self.launch)
        return str(rank.get("id") or "") if rank else ""

    @cached_property
    def waterfall_figure(self) -> charts.Figure | None:
        return charts.waterfall(self.steps)

    @cached_property
    def serving(self) -> dict[str, Any] | None:
        serving = self.launch.get("serving")
        return serving if isinstance(serving, dict) else None

    @cached_property
    def serving_figure(self) -> charts.Figure | None:
        points = [point for point in listed(self.serving, "series") if isinstance(point, dict)]
        return charts.serving(points) if points else None

    @cached_property
    def serving_facts(self) -> list[tuple[str, str]]:
        serving = self.serving or {}
        facts = [
            ("Decode batches", words.tokens(serving.get("decode_batches"))),
            ("Prefill batches", words.tokens(serving.get("prefill_batches"))),
            ("Peak use of the pool", words.percent(_times(serving.get("peak_token_usage"), 100), 0)),
            ("Peak running", words.tokens(serving.get("peak_running"))),
            ("Peak queue", words.tokens(serving.get("peak_queue"))),
            ("Retractions", words.tokens(serving.get("retractions"))),
        ]
        return [(name, value) for name, value in facts if value]


def _times(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None
