"""Registers the app `teams`."""

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    """People, their teams, and the deployments the teams look after."""

    name = "teams"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from teams import signals  # noqa: F401 - connects its receivers
