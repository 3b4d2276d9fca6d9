"""Registers the app `ingest`."""

from django.apps import AppConfig


class IngestConfig(AppConfig):
    """Uploads and stored reports."""

    name = "ingest"
    default_auto_field = "django.db.models.BigAutoField"
