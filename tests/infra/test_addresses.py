"""Addresses: every name that a page or a view links to is one the site has."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.live import ROOT

NAMED_IN_TEMPLATES = re.compile(r"""{%-?\s*url\s+['"]([\w:-]+)['"]""")
NAMED_IN_CODE = re.compile(r"""\b(?:reverse|reverse_lazy|redirect)\(\s*"([\w:-]+)\"""")


def names(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for each in resolver.url_patterns:
        if isinstance(each, URLPattern):
            if each.name:
                yield f"{prefix}{each.name}"
        else:
            yield from names(each, f"{prefix}{each.namespace}:" if each.namespace else prefix)


def test_every_address_that_is_named_exists() -> None:
    known = set(names(get_resolver()))
    named = {
        (str(path.relative_to(ROOT)), name)
        for pattern, paths in (
            (NAMED_IN_TEMPLATES, (ROOT / "templates").rglob("*.html")),
            (
                NAMED_IN_CODE,
                (path for app in ("kvdiag", "ingest", "reports", "teams") for path in (ROOT / app).rglob("*.py")),
            ),
        )
        for path in paths
        for name in pattern.findall(path.read_text())
    }
    assert {(place, name) for place, name in named if name not in known} == set()


@pytest.mark.django_db
def test_the_json_answer_to_a_put_names_the_report(client: Client) -> None:
    """`curl -T server.log -H 'Accept: application/json' <site>/`"""
    answer = client.put("/server.log", b"no log of a server\n", "text/plain", headers={"accept": "application/json"})
    assert answer.status_code == 201
    assert answer.json()["report"].endswith(f"/r/{answer.json()['id']}.json")
