"""Pages of a long list by a cursor: the next page begins after the last row shown, whatever was added meanwhile."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)


class BadCursor(ValueError):
    """A cursor that no page of ours has handed out."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some rows, and the cursor of those that follow; "" at the end."""

    rows: list[Row]
    next: str


def page(queryset: QuerySet[Row], *, by: str, size: int, cursor: str = "", descending: bool = True) -> Page[Row]:
    """The rows after the cursor, ordered by a column that is never NULL, and by id where it is equal.

    Raises BadCursor.
    """
    sign = "-" if descending else ""
    queryset = queryset.order_by(f"{sign}{by}", f"{sign}pk")
    if cursor:
        value, pk = _read(cursor, _signer(queryset, by))
        side = "lt" if descending else "gt"
        queryset = queryset.filter(Q(**{f"{by}__{side}": value}) | Q(**{by: value, f"pk__{side}": pk}))
    rows = list(queryset[: size + 1])
    more = len(rows) > size
    rows = rows[:size]
    return Page(rows, _write(_value(rows[-1], by), rows[-1].pk, _signer(queryset, by)) if more else "")


def _value(row: Any, path: str) -> Any:
    for step in path.split("__"):
        row = getattr(row, step)
    return row


def _write(value: Any, pk: int, signer: Signer) -> str:
    kind, text = ("t", value.isoformat()) if isinstance(value, datetime) else ("v", value)
    return signer.sign(base64.urlsafe_b64encode(json.dumps([kind, text, pk]).encode()).decode().rstrip("="))


def _signer(queryset: QuerySet[Any], by: str) -> Signer:
    """Cursors are signed for their column: what a query is given is of its kind, and in its range."""
    return Signer(sep="~", salt=f"kvdiag.cursor {queryset.model._meta.label_lower} {by}")


def _read(cursor: str, signer: Signer) -> tuple[Any, int]:
    try:
        written = signer.unsign(cursor)
        kind, value, pk = json.loads(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
        return (datetime.fromisoformat(value) if kind == "t" else value), pk
    except (BadSignature, ValueError):
        raise BadCursor("The cursor is not one of ours; start again without it.") from None
