"""Sentences of the engine on the page: flags and fractions in mono, log lines in pieces. All of it is escaped text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from reports.budget import spell_ranks
from reports.log_pieces import Piece
from reports.pools import ENTRY_NAMES, POOLS

register = template.Library()

_FLAG = r"--[a-z][a-z0-9-]+|\b[a-z]+(?:_[a-z0-9]+)+(?:\.py\b|\(\))?(?:=[\w.]+)?|\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+"
_FRACTION = r"(?<![\w.])0\.\d{1,4}(?!\d|\s*(?:GiB|GB|s\b|%|×))"


def _marked_up(text: str, fractions: Collection[str]) -> SafeString:
    parts: list[SafeString] = []
    at = 0
    for match in re.finditer(f"(?:{_FLAG})|(?:{_FRACTION})", text):
        word = match.group()
        if word.startswith("0.") and word not in fractions:
            continue
        parts.append(conditional_escape(text[at : match.start()]))
        parts.append(format_html("<code>{}</code>", word))
        at = match.end()
    parts.append(conditional_escape(text[at:]))
    # A figure and its unit stay on one line.
    joined = re.sub(r"(?<=\d) (?=(?:GiB|GB|%|s|min)\b|%)", "\u00a0", "".join(parts))
    return mark_safe(joined)  # noqa: S308 - every part above is escaped


@register.simple_tag
def coded(text: Any, fractions: Collection[str] = ()) -> SafeString:
    """A sentence with its flags and the launch's fractions in mono."""
    return _marked_up(str(text or ""), fractions or ())


def _lowered(text: str) -> str:
    """The sentence within another one; "KV" and flags stay as they are."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


@register.simple_tag
def cost(text: Any, fractions: Collection[str] = ()) -> SafeString:
    """A remedy's cost as a sentence that starts with "It costs"."""
    words = str(text or "").strip()
    if re.match(r"it costs\b", words, re.IGNORECASE):
        words = words[8:].lstrip()
    if not words:
        return mark_safe("")
    if re.match(r"(costs? )?nothing\b", words, re.IGNORECASE) or not re.match(r"[A-Z][a-z]+ ", words):
        return format_html("<b>It costs</b> {}", _marked_up(_lowered(words), fractions or ()))
    return format_html("<b>Cost</b> {}", _marked_up(words, fractions or ()))


@register.simple_tag
def pieces(parts: Iterable[Piece]) -> SafeString:
    """A log line: its clock dimmed, its evidence marked, the rest plain text."""
    shown = []
    for piece in parts:
        if piece.kind == "mark":
            shown.append(format_html("<mark>{}</mark>", piece.text))
        elif piece.kind:
            shown.append(format_html('<span class="{}">{}</span>', piece.kind, piece.text))
        else:
            shown.append(conditional_escape(piece.text))
    return mark_safe("".join(shown))  # noqa: S308 - every part above is escaped


@register.filter
def ranks_words(ranks: Any) -> str:
    """A list of ranks in words."""
    return spell_ranks([str(rank) for rank in ranks]) if isinstance(ranks, list) and ranks else ""


@register.filter
def pool_name(pool: str) -> str:
    """The name of a shown pool."""
    return POOLS.get(pool, pool)


@register.filter
def pool_entry(pool: str) -> str:
    """The contract's pool in a sentence: "communicators", "KV cache"."""
    name = ENTRY_NAMES.get(pool, pool)
    return name if name[:2].isupper() else name[:1].lower() + name[1:]
