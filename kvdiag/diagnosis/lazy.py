"""Regular expressions that are compiled when they are first used.

Most logs have one carrier or none, and few odd lines: compiling every expression for them takes longer than reading a
small log.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Stands for an expression until an attribute of it is asked for; from then on it has the expression's own."""

    def __init__(self, expression: str | bytes) -> None:
        self._expression = expression

    def __getattr__(self, name: str) -> Any:
        # Only what is not there yet is asked for here.
        compiled = re.compile(self._expression)
        found = getattr(compiled, name)
        setattr(self, name, found)
        return found


def lazy(expression: AnyStr) -> re.Pattern[AnyStr]:
    """The expression, compiled on first use. A mistake in it raises then, not before."""
    return cast("re.Pattern[AnyStr]", _Lazy(expression))
