"""The report as one file: whole, without the outside, without Django's server."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
from reports.offline import offline_page
from tests.documents import FOLDER, NAMES, changed, document

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_asks_for_nothing(name: str) -> None:
    page = offline_page(document(name))
    tags = re.findall(r"<(?:link|img|script|iframe)\b[^>]*>", page)
    assert not any("src=" in tag or "href=" in tag for tag in tags)
    assert "url(http" not in page and "@import" not in page


def test_every_launch_is_in_the_file_with_anchors_of_its_own() -> None:
    page = offline_page(document("llama-two-launches"))
    assert 'id="launch-1"' in page and 'id="launch-2"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_charts_are_drawn_in_the_file() -> None:
    page = offline_page(document("kimi-k25-8gpu"))
    assert page.count('<svg class="still"') == 2
    assert "Plotly" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("figure", ["0.00", "0.001", "99999999999.0"])
def test_charts_of_a_log_without_any_free_memory_are_drawn(figure: str) -> None:
    log = (ROOT / "tests" / "corpus" / "kimi-k25-8gpu" / "log.txt").read_text()
    odd = re.sub(r"avail([ _])mem=[\d.]+", rf"avail\1mem={figure}", log)
    assert "<svg" in offline_page(diagnose(Log("log.txt", io.BytesIO(odd.encode()))).document)


def test_words_of_a_log_stay_words_in_the_file() -> None:
    evil = "</style></script><script>alert(1)</script><img src=x>"
    page = offline_page(changed(document("llama-refused"), lambda leaf: evil if isinstance(leaf, str) else leaf))
    assert "<script>alert" not in page
    assert "<img" not in page


def test_the_command_line_needs_no_settings_of_the_site() -> None:
    code = (
        "import json, sys; from reports.offline import offline_page;"
        f"sys.stdout.write(offline_page(json.load(open({str(FOLDER / 'kimi-k25-8gpu.json')!r}))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={"PATH": "/usr/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert "159,277" in done.stdout


def test_without_the_pages_the_command_says_what_is_missing(monkeypatch, capsys) -> None:
    from kvdiag.diagnosis import cli

    monkeypatch.setitem(sys.modules, "reports.offline", None)
    log = ROOT / "tests/corpus/kimi-k25-8gpu/log.txt"
    assert cli.main(["diagnose", "--format", "html", str(log)]) == 2
    said = capsys.readouterr()
    assert not said.out and "bin/kvdiag" in said.err and said.err.count("\n") == 1
