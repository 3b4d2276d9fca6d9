"""Report → Plotly figures, as plain dictionaries. No Django, no Plotly import, no theme.

Colours are names ("@pool-kv") that static/js/charts.js resolves, so one figure is right in light and dark. Words come
from fixed lists and figures from the document: log text never enters a figure, because Plotly reads labels as HTML.

Beside Plotly's own keys a figure carries a few of ours, which charts.js takes out before it draws:

    annotation.kv   {"name", "gib", "axis", "span"}: words that follow the unit switch, left out where they do not fit
    annotation.only "wide" or "narrow": shown on that width only
    trace.pool      the pool of a horizontal bar, which gives it type, colour, pattern and outline
    trace.kv        {"name", "gib", "where", "anchor"}: what hover says, and the log line a click leads to
    figure.scale    {"opening", "bytes_per_token"}: what the unit switch divides by
    figure.narrow   layout that replaces parts of `layout` on a phone
"""

from __future__ import annotations

from reports.charts.beside import budgets_compared, difference, scenario
from reports.charts.card import memory_budget
from reports.charts.parts import Figure
from reports.charts.ranks import MOST_BARS, memory_by_rank
from reports.charts.start import waterfall
from reports.charts.traffic import MOST_POINTS, serving

__all__ = [
    "MOST_BARS",
    "MOST_POINTS",
    "Figure",
    "budgets_compared",
    "difference",
    "memory_budget",
    "memory_by_rank",
    "scenario",
    "serving",
    "waterfall",
]
