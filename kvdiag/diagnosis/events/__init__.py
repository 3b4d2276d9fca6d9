"""Events: typed facts, one file per phase of a launch."""

from __future__ import annotations

from kvdiag.diagnosis.events import (  # noqa: F401  (importing declares)
    buffers,
    cuda_graph,
    distributed,
    failure,
    frames,
    hardware,
    host_memory,
    kv_pool,
    libraries,
    model_config,
    overflow,
    platform,
    progress,
    ready,
    requests,
    server_args,
    serving,
    weights,
)
from kvdiag.diagnosis.events.pattern import DECLARATIONS, Event, Matcher, NotUnderstood

__all__ = ["DECLARATIONS", "Event", "Matcher", "NotUnderstood"]
