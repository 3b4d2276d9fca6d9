"""Report documents for the pages: written by hand, or made from those. Names, figures and lines are invented."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def document(name: str) -> dict[str, Any]:
    """A document of its own, free to be changed."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def with_ranks(count: int, *, odd: int = 0) -> dict[str, Any]:
    """The eight-rank document with as many ranks; every `odd`-th has less free memory than the rest."""
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    pattern = launch["ranks"][0]
    ranks = []
    for number in range(count):
        rank = copy.deepcopy(pattern)
        rank |= {"id": f"TP{number}", "tp": number, "gpu": number % 8}
        if odd and number % odd == odd - 1:
            lost = 0.5 + 0.1 * (number % 7)
            rank["free_gib"] = round(rank["free_gib"] - lost, 4)
            rank["entries"][-1]["gib"] = round(rank["entries"][-1]["gib"] + lost, 4)
            rank["unexplained_gib"] = rank["entries"][-1]["gib"]
        ranks.append(rank)
    launch["ranks"] = ranks
    return made


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with every leaf put through `change`."""
    if isinstance(value, dict):
        return {key: changed(one, change) for key, one in value.items()}
    if isinstance(value, list):
        return [changed(one, change) for one in value]
    return change(value)
