"""The Celery application: web processes queue with it, the worker and beat run it."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")

import kvdiag.worker_limits  # noqa: E402, F401 - connects itself to the worker's signals

app = Celery("kvdiag")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
