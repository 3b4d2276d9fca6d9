"""What a report leaves out of a log that holds very many server starts, or ranks."""

from __future__ import annotations

from typing import Any


def left_out(document: dict[str, Any]) -> str:
    """What the report leaves out, in whole sentences; "" for nothing."""
    return " ".join(filter(None, (_starts(document), _ranks(document))))


def _starts(document: dict[str, Any]) -> str:
    """A sentence on the starts that are not in the report: how many there were, and which are read; "" for none.

    Source: the document's upload.launches, which stands there only when some were left out.
    """
    counts = (document.get("upload") or {}).get("launches") or {}
    read, whole = counts.get("read"), counts.get("all")
    if not isinstance(read, int) or not isinstance(whole, int) or whole <= read:
        return ""
    numbers = [launch.get("number") for launch in document.get("launches") or []]
    first = next((count for count, number in enumerate(numbers) if number != count + 1), len(numbers))
    return f"The log holds {whole:,} server starts: the first {first:,} and the last {read - first:,} are read."


def _ranks(document: dict[str, Any]) -> str:
    """Of a start with more ranks than are read.

    Source: the launch's ranks_read, which stands there only then.
    """
    found = [launch for launch in document.get("launches") or [] if isinstance(launch.get("ranks_read"), int)]
    return f"Of each start only the first {found[0]['ranks_read']:,} ranks are read." if found else ""
