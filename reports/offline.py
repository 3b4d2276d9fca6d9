"""The report as one HTML file: styles and scripts inside, charts as still drawings, no address of the outside.

Needs Django's templates and no server, so `kvdiag diagnose --format html` makes the same file as the site.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from reports.document import Document, launches
from reports.log_excerpt import excerpt
from reports.page import ReportPage

_ROOT = Path(__file__).resolve().parent.parent
_STYLES = ("tokens", "base", "components", "report", "log", "still", "print")
_SCRIPTS = ("theme", "kvdiag", "report", "export")

# Attributes of our own markup that hold an id, or point at one; a log's quotes are escaped and never match.
_IDS = re.compile(
    r"""( (?:id|for|aria-labelledby|data-copy|data-filter|data-table|data-name)="|href="\#|url\(\#)([a-zA-Z])"""
)


def offline_page(document: Document, name: str = "") -> str:
    """The whole document as a page to keep: every launch, the lines it rests on, no log beyond them."""
    engine = _engine()
    from django.template import Context

    found = launches(document)
    body = engine.get_template("reports/body.html")
    items = excerpt(document)
    parts = []
    for number in [launch.get("number") or 1 for launch in found] or [1]:
        page = ReportPage(document, number, name=name)
        context = {
            "page": page,
            "offline": True,
            "launch_anchors": True,
            "report_url": "",
            "log_items": items if page.launch in found[-1:] or not found else [],
        }
        html = body.render(Context(context))
        parts.append((number, _apart(html, number) if len(found) > 1 else html))
    first = ReportPage(document, found[-1].get("number") or 1 if found else 1, name=name)
    context = {"page": first, "parts": parts, "styles": _joined("css", _STYLES), "scripts": _joined("js", _SCRIPTS)}
    return str(engine.get_template("reports/offline.html").render(Context(context)))


def _apart(html: str, number: int) -> str:
    """Several launches in one file keep anchors and names apart; anchors of log lines are the log's own, and shared."""

    def renamed(match: re.Match[str]) -> str:
        return f"{match.group(1)}n{number}-{match.group(2)}"

    kept = re.sub(r'(?:href="#| id=")(?=L\d|F\d+L\d|launch-)', lambda match: match.group().replace('"', '"\x00'), html)
    named = re.sub(r'( aria-label="[^"]*)"', rf'\1, launch {number}"', kept)
    return _IDS.sub(renamed, named).replace("\x00", "")


@cache
def _engine() -> Any:
    """Django's template engine over our templates; settings only as far as the filters need them."""
    from django.conf import settings

    if not settings.configured:
        settings.configure(USE_I18N=False, USE_TZ=True)
        import django

        django.setup()
    from django.template import Engine

    libraries = {name: f"reports.templatetags.{name}" for name in ("figures", "icons", "prose", "drawings")}
    libraries["static"] = "django.templatetags.static"
    return Engine(dirs=[str(_ROOT / "templates")], libraries=libraries, autoescape=True)


@cache
def _joined(folder: str, names: tuple[str, ...]) -> str:
    text = "\n".join((_ROOT / "static" / folder / f"{name}.{folder}").read_text("utf-8") for name in names)
    # Our own files; a closing tag in one of them would end the element they stand in.
    assert "</" not in text.replace("</svg", "").replace("</i", "") or folder == "js"
    return text
