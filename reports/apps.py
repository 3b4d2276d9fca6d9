"""The way out: report pages, comparisons, shares and the team's views of them."""

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """Shows what the engine knows; computes no memory figure of its own."""

    name = "reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from reports import deployments_watch, retention  # noqa: F401 - connect their receivers
