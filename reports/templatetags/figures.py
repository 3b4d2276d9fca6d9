"""Figures in words: |gib, |tokens, |duration, basis marks and line links.

A figure the log does not give is said in words; it never becomes 0 or a dash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from reports import words
from reports.document import LineRef, line_refs

register = template.Library()

register.filter("gib", words.gib)
register.filter("signed_gib", words.signed_gib)
register.filter("tokens", words.tokens)
register.filter("about", words.about)
register.filter("percent", words.percent)
register.filter("duration", words.duration)
register.filter("fraction", words.fraction)
register.filter("size", words.size)
register.filter("of_severity", words.of_severity)
register.filter("stamp", words.stamp)
register.filter("base", words.base_name)
register.filter("sentence", words.sentence)


@register.filter
def minus(text: Any) -> str:
    """Numbers with the true minus sign."""
    return str(text).replace("-", "−")


@register.simple_tag
def basis(word: str | None) -> SafeString:
    """The basis mark: a full, half or hollow dot with its word."""
    if word not in ("printed", "derived", "assumed"):
        return mark_safe("")
    return format_html('<span class="basis basis--{0}">{0}</span>', word)


@register.simple_tag
def lines(refs: Any, most: int = 4) -> SafeString:
    """Links to log lines, `most` of them, then how many more there are."""
    found: list[LineRef] = (
        list(refs)
        if isinstance(refs, Iterable) and not isinstance(refs, dict | str) and all(isinstance(r, LineRef) for r in refs)
        else line_refs(refs)
    )
    links = format_html_join(" ", '<a class="ln" href="#{}">{}</a>', ((ref.anchor, ref.label) for ref in found[:most]))
    if len(found) > most:
        return format_html('{} <span class="quiet small">and {} more</span>', links, len(found) - most)
    return links
