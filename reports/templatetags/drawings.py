"""{% still figure words %}: a chart as a still drawing; {% figure_json figure "id" %}: what the live one is made of."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from reports.still import still as draw

register = template.Library()


@register.simple_tag
def still(figure: Any, spoken: str = "") -> SafeString:
    """The drawing of a figure of reports/charts/; nothing without a figure."""
    return mark_safe(draw(figure, spoken)) if figure else mark_safe("")  # noqa: S308 - still() escapes every word


# So that no word of the figure ends the element it stands in. Five replacements are far quicker than one translate().
_ESCAPES = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


@register.simple_tag
def figure_json(figure: Any, element_id: str) -> SafeString:
    """The figure as a JSON script element, without a space too many; nothing without a figure."""
    if not figure:
        return mark_safe("")
    text = json.dumps(figure, ensure_ascii=False, separators=(",", ":"))
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return format_html('<script id="{}" type="application/json">{}</script>', element_id, mark_safe(text))  # noqa: S308


@register.filter
def splitwords(text: str) -> list[str]:
    """ "a b c" as a list."""
    return text.split()
