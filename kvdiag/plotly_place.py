"""Where the plotly wheel keeps the bundle for browsers."""

from importlib.util import find_spec
from pathlib import Path


def bundle() -> Path:
    """The plotly.min.js of the installed wheel. The package is located, not imported: an import takes 0.1 s."""
    spec = find_spec("plotly")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
