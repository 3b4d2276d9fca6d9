"""The browser hides what the server hides: the same list, line by line, with the same pseudonyms."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from kvdiag.diagnosis.masking import PATTERNS, Masker
from tests.diagnosis.lines.test_masking import KEPT as KEPT_LINES
from tests.diagnosis.lines.test_masking import PLANTED
from tests.diagnosis.lines.test_masking_operators import KEPT, PASTED

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).resolve().parent.parent.parent / "static" / "ingest" / "redaction.js"


def hidden_by_the_browser(page: Page, texts: list[str]) -> list[str]:
    page.goto("about:blank")
    published: list[dict[str, Any]] = [pattern.as_dict() for pattern in PATTERNS]
    page.evaluate(f"window.fetch = async () => ({{ json: async () => ({{ patterns: {json.dumps(published)} }}) }})")
    page.add_script_tag(content=SCRIPT.read_text())
    return page.evaluate(
        """async (texts) => {
            const out = [];
            for (const text of texts) out.push(await kvRedaction.hide(text, await kvRedaction.masker(), () => true));
            return out;
        }""",
        texts,
    )


def hidden_by_the_server(text: str) -> str:
    masker = Masker()
    return "\n".join(masker.mask_in_order(line) for line in text.split("\n"))


def test_the_browser_hides_what_the_server_hides(page: Page) -> None:
    texts = [text for text, _ in PASTED.values()] + KEPT + [line for line, _ in PLANTED] + KEPT_LINES
    texts.append("\n".join(texts))
    found = hidden_by_the_browser(page, texts)
    unlike = [(text, mine) for text, mine in zip(texts, found, strict=True) if mine != hidden_by_the_server(text)]
    assert unlike == []


def test_the_browser_compiles_every_pattern(page: Page) -> None:
    page.goto("about:blank")
    wrong = page.evaluate(
        """(patterns) => patterns.filter(({ expression, flags, keep, after }) => {
            try { new RegExp(expression, flags); new RegExp(`^(?:${keep})$`); new RegExp(after); return false; }
            catch { return true; }
        })""",
        [pattern.as_dict() for pattern in PATTERNS],
    )
    assert wrong == []
