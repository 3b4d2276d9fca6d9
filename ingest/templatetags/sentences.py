"""Sentences in templates: the first one bold, what stands in backticks as code."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def said(text: str) -> SafeString:
    """The text with its first sentence bold and `code` set as code; everything escaped."""
    first, stop, rest = text.partition(". ")
    if not stop:
        return format_html("<b>{}</b>", with_code(text))
    return format_html("<b>{}.</b> {}", with_code(first), with_code(rest))


@register.filter
def with_code(text: str) -> SafeString:
    """The text with what stands in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a lone backtick is a character
        return format_html("{}", text)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if odd % 2 else part,) for odd, part in enumerate(parts))
    )
