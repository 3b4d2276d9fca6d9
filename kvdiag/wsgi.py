"""The site as a WSGI application, for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

import kvdiag.celery  # noqa: F401 - makes it the current Celery application, so that a view's delay() finds the broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")
application = get_wsgi_application()
