"""The site as a WSGI application, for gunicorn."""

import os
import sys

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from kvdiag.environment import WrongSetting

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")

try:
    import kvdiag.celery  # noqa: F401 - becomes the current Celery application, so that a view's delay() finds the broker

    application = get_wsgi_application()
except WrongSetting as wrong:
    sys.exit(f"kvdiag: {wrong}")
get_resolver().url_patterns  # noqa: B018 - loads every view now, before the server forks, not on the first request
