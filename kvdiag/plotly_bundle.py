"""Serves the plotly.min.js that the plotly wheel carries, as the static file `plotly/plotly.min.js`."""

from collections.abc import Iterator
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

from kvdiag.plotly_place import bundle


class PlotlyFinder(BaseFinder):
    """Finds one file, so that nothing else of the package is published."""

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = [str(bundle())] if path == f"plotly/{bundle().name}" else []
        return found if find_all else (found[0] if found else [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        storage = FileSystemStorage(location=bundle().parent)
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield bundle().name, storage
