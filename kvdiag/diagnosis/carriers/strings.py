r"""Lines as strings of a document: a notebook, a JSON array, a Python list. `"[2025-…] Load weight begin.\n",`"""

from __future__ import annotations

import json

from kvdiag.diagnosis.carriers.carrier import Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_STRING = lazy(r'"((?:[^"\\]|\\.)*)"?,?\s*\]?\}?,?\s*$')
_PYTHON = lazy(r"'((?:[^'\\]|\\.)*)'?,?\s*\]?\s*$")
_KEYED = lazy(
    r'"(?:text|data|output|[Ll]og|logs|stdout|stderr|lines?|@?message|msg|MESSAGE|textPayload)": *\[?\s*(?=")'
)


def unescape(text: str) -> str:
    """A JSON string's content as text; as it stands when its escapes are broken."""
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return (
            text.replace("\\n", "\n")
            .replace("\\r", "\r")
            .replace("\\t", "\t")
            .replace('\\"', '"')
            .replace("\\\\", "\\")
        )


def _peel(text: str) -> Peeled | None:
    if text.startswith("'"):
        found = _PYTHON.match(text)
        if not found:
            return None
        return Peeled(found[1].replace("\\n", "\n").replace("\\'", "'").replace("\\\\", "\\").rstrip("\n"))
    if keyed := _KEYED.match(text):
        text = text[keyed.end() :]
    found = _STRING.match(text)
    return Peeled(unescape(found[1]).rstrip("\n")) if found else None


STRINGS = Carrier("strings", frozenset("\"'"), _peel)
