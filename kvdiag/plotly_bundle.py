"""Serves the plotly.min.js that the plotly wheel carries, as the static file `plotly/plotly.min.js`."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "plotly.min.js"


def package_data() -> Path:
    """The wheel's folder that holds the bundle. The package is located, not imported: an import takes 0.1 s."""
    spec = find_spec("plotly")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "package_data"


class PlotlyFinder(BaseFinder):
    """Finds one file, so that nothing else of the package is published."""

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = [str(package_data() / NAME)] if path == f"plotly/{NAME}" else []
        return found if find_all else (found[0] if found else [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        storage = FileSystemStorage(location=package_data())
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield NAME, storage
