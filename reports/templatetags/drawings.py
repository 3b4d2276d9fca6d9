"""{% still figure words %}: a chart as a still drawing; |splitwords for lists in templates."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString, mark_safe

from reports.still import still as draw

register = template.Library()


@register.simple_tag
def still(figure: Any, spoken: str = "") -> SafeString:
    """The drawing of a figure of reports/charts.py; nothing without a figure."""
    return mark_safe(draw(figure, spoken)) if figure else mark_safe("")  # noqa: S308 - still() escapes every word


@register.filter
def splitwords(text: str) -> list[str]:
    """ "a b c" as a list."""
    return text.split()
