"""Icons as inline SVG, drawn in the colour of the text beside them.

`{% icon "ready" %}` is decoration: a word always stands beside it, or the control has a label.
"""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_OCTAGON = '<path d="M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4z"/><path d="M8 4.8v3.7M8 11h.01"/>'
_TRIANGLE = '<path d="M8 2l6.3 11.5H1.7z"/><path d="M8 6.4v3.2M8 11.6h.01"/>'
_CHECKED = '<circle cx="8" cy="8" r="6.2"/><path d="M5.2 8.2l2 2 3.6-4.1"/>'
_CLOCK = '<circle cx="8" cy="8" r="6.2" stroke-dasharray="2.4 1.9"/><path d="M8 4.8V8l2.2 1.6"/>'

ICONS: dict[str, str] = {
    # severities and outcomes
    "critical": _OCTAGON,
    "failed": _OCTAGON,
    "warning": _TRIANGLE,
    "advice": '<circle cx="8" cy="8" r="6.2"/><path d="M5.4 8.6L8 5.6l2.6 3M8 5.8v5"/>',
    "info": '<circle cx="8" cy="8" r="6.2"/><path d="M8 7.4v3.6M8 5h.01"/>',
    "ready": _CHECKED,
    "good": _CHECKED,
    "incomplete": _CLOCK,
    "running": '<circle cx="8" cy="8" r="6.2"/><path d="M8 4.8V8l2.2 1.6"/>',
    # the turn of the knob
    "up": '<path d="M8 13V3.5M4.5 7L8 3.2 11.5 7"/>',
    "down": '<path d="M8 3v9.5M4.5 9L8 12.8 11.5 9"/>',
    "hold": '<path d="M3.2 6h9.6M3.2 10h9.6"/>',
    # controls
    "theme": '<circle cx="8" cy="8" r="5.8"/>'
    '<path d="M8 2.2a5.8 5.8 0 0 1 0 11.6z" fill="currentColor" stroke="none"/>',
    "menu": '<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>',
    "more": '<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.4"/>',
    "share": '<path d="M8 10V2.5M5 5l3-2.8L11 5M3 8.5V13h10V8.5"/>',
    "compare": '<path d="M5 2.5v11M11 2.5v11M2.5 6L5 3.2M13.5 10L11 12.8"/>',
    "swap": '<path d="M3 5.5h9M9.5 3L12 5.5 9.5 8M13 10.5H4M6.5 8L4 10.5 6.5 13"/>',
    "download": '<path d="M8 2.5V10M5 7.4l3 2.8 3-2.8M3 13.3h10"/>',
    "copy": '<rect x="5.5" y="5.5" width="8" height="8" rx="1.5"/>'
    '<path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>',
    "rename": '<path d="M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z"/>',
    "mute": '<path d="M3 6v4h2.4L9 13V3L5.4 6zM11.5 6.2l3 3.6M14.5 6.2l-3 3.6"/>',
    "chevron": '<path d="M6 3.5L10.5 8 6 12.5"/>',
    "tick": '<path d="M3.5 8.5l3 3 6-7"/>',
    "dash": '<path d="M4.5 8h7"/>',
    "cross": '<path d="M4 4l8 8M12 4l-8 8"/>',
    "upload": '<path d="M8 11V3M4.8 6L8 2.8 11.2 6M3 13.3h10"/>',
    "search": '<circle cx="7" cy="7" r="4.3"/><path d="M10.3 10.3L13.5 13.5"/>',
    "keyboard": '<rect x="1.8" y="4" width="12.4" height="8" rx="1.5"/>'
    '<path d="M4.5 7h.01M7 7h.01M9.5 7h.01M12 7h-.5M5 9.8h6"/>',
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """The named icon; an unknown name is our own mistake and raises KeyError."""
    return format_html(
        '<svg class="i" viewBox="0 0 16 16" aria-hidden="true">{}</svg>',
        mark_safe(ICONS[name]),  # noqa: S308 - a constant of this file
    )
