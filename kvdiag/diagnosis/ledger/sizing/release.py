"""Releases as the sizing rules compare them; they are read where the launch is."""

from __future__ import annotations

from kvdiag.diagnosis.release import Release, ReleaseRange, release

__all__ = ["Release", "ReleaseRange", "release"]
