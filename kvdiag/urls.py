"""Which part of the site answers which address."""

from importlib.util import find_spec

from django.urls import include, path

from kvdiag.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
# The upload door is last of all: it takes PUT on any remaining single-segment name, as `curl -T` sends it.
urlpatterns += [path("", include(f"{app}.urls")) for app in ("teams", "reports", "ingest") if find_spec(f"{app}.urls")]
