"""Which part of the site answers which address."""

from importlib.util import find_spec

from django.urls import include, path

from kvdiag.api.docs import docs_page, limits_page
from kvdiag.api.v1 import api
from kvdiag.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/", docs_page, name="api"),
    path("api/v1/", api.urls),
    path("limits/", limits_page, name="limits"),
]
# The upload door is last of all: it takes PUT on any remaining single-segment name, as `curl -T` sends it.
urlpatterns += [path("", include(f"{app}.urls")) for app in ("teams", "reports", "ingest") if find_spec(f"{app}.urls")]
