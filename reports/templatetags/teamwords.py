"""How the team's pages spell people, times and changes."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from reports.deployments_history import Panel
from reports.words import when
from teams.audit import person_name

register = template.Library()
register.filter("person", person_name)
register.filter("when", when)

NOISE = 0.0005  # a change of less than a twentieth of a per cent is rounding


@register.simple_tag
def dots(panel: Panel) -> SafeString:
    """The launches of a drawing, each a dot that says when and how much; made here, as there are hundreds."""
    return mark_safe(
        "".join(
            f'<circle class="h-dot" cx="{dot.x}%" cy="{dot.y}" r="4"><title>{escape(dot.word)}</title></circle>'
            for dot in panel.dots
        )
    )


@register.filter
def listed(value: Any) -> list[Any]:
    """A list as it is, anything else as the only one of its list."""
    return value if isinstance(value, list) else [value]


@register.filter
def change(ratio: float | None) -> str:
    """0.37 → "+37 %", −0.039 → "−3.9 %", 0 → "0.0 %"."""
    if ratio is None:
        return ""
    percent = 100 * ratio
    digits = 0 if abs(percent) >= 10 else 1
    text = f"{abs(percent):,.{digits}f}\u00a0%"
    if abs(ratio) < NOISE:
        return "0.0\u00a0%"
    return f"{'+' if ratio > 0 else '−'}{text}"


@register.filter
def tone(ratio: float | None) -> str:
    """The class of a change: good from 1 % more on, bad from 1 % fewer on."""
    if ratio is None or abs(ratio) < 0.01:
        return ""
    return "delta--good" if ratio > 0 else "delta--bad"


@register.filter
def of(mapping: dict[Any, Any] | None, key: Any) -> Any:
    """What a mapping holds for a key that the template knows; None for nothing."""
    return mapping.get(key) if mapping else None


@register.filter
def words(text: str) -> list[str]:
    """The words of a text, for a loop in a template."""
    return text.split()


OUTCOMES = {"ready": "Ready", "failed": "Failed", "incomplete": "Log ends early"}


@register.filter
def outcomes(text: str) -> list[tuple[str, Any]]:
    """Outcomes with their names, for a list of choices."""
    return [(value, OUTCOMES[value]) for value in text.split()]
