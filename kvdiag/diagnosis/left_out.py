"""What a report leaves out of a log that holds very many server starts."""

from __future__ import annotations

from typing import Any


def starts_left_out(document: dict[str, Any]) -> str:
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
