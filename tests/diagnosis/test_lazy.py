"""Expressions that are compiled on first use: each compiles, and is one from then on."""

import importlib
import pkgutil
import re

import kvdiag.diagnosis
from kvdiag.diagnosis.lazy import _Lazy, lazy


def test_every_one_of_the_engine_compiles() -> None:
    names = [module.name for module in pkgutil.walk_packages(kvdiag.diagnosis.__path__, "kvdiag.diagnosis.")]
    found = [
        value
        for name in names
        if not name.endswith("__main__")
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, _Lazy)
    ]
    assert len(found) > 30
    for expression in found:
        assert expression.search is not None


def test_it_does_what_the_expression_does() -> None:
    word = lazy(r"(\w)(\w+)")
    assert word.pattern == r"(\w)(\w+)"
    assert word.sub(r"\2\1", "load weight") == "oadl eightw"
    assert [found.span() for found in word.finditer("a bc def")] == [(2, 4), (5, 8)]
    assert word.match("  ab") is None
    assert lazy(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_it_is_compiled_once(monkeypatch) -> None:
    made: list[str] = []
    compile_ = re.compile
    monkeypatch.setattr(re, "compile", lambda text, *rest: made.append(text) or compile_(text, *rest))
    word = lazy(r"[a-z]{3}x")
    assert made == []
    for _ in range(3):
        word.match("abcx")
    assert made == [r"[a-z]{3}x"]
