"""Logs to try the site with, one click and no account."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "samples"


@dataclass(frozen=True)
class Sample:
    """One log of the folder `samples`, all of them composed from published figures."""

    key: str
    title: str
    says: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.key}.log"


ALL = (
    Sample("kimi-k25-8gpu", "Kimi-K2.5, 8 GPUs", "Ready, 7.43 GiB of each GPU stays free"),
    Sample("kimi-k25-8gpu-refused", "Kimi-K2.5 with 0.55", "Refused: the weights exceed the fraction"),
)


def available() -> list[Sample]:
    """The samples whose files are there."""
    return [sample for sample in ALL if sample.path.is_file()]


def find(key: str) -> Sample | None:
    return next((sample for sample in available() if sample.key == key), None)
