"""Which part of the site answers which address."""

from django.urls import include, path

from kvdiag.api.docs import docs_page, limits_page
from kvdiag.api.v1 import api
from kvdiag.health import healthz, readyz

handler400 = "kvdiag.error_pages.bad_request"
handler403 = "kvdiag.error_pages.forbidden"
handler404 = "kvdiag.error_pages.not_found"
handler500 = "kvdiag.error_pages.failed"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/", docs_page, name="api"),
    path("api/v1/", api.urls),
    path("limits/", limits_page, name="limits"),
    path("", include("teams.urls")),
    path("", include("reports.urls")),
    # Last of all: the upload door takes PUT on any remaining name of one segment, as `curl -T` sends it.
    path("", include("ingest.urls")),
]
