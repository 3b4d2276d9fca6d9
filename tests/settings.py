"""The site's settings for tests: a data folder of their own, no server behind the broker, quick passwords."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_data = tempfile.mkdtemp(prefix="kvdiag-test-")
atexit.register(shutil.rmtree, _data, ignore_errors=True)
_for_tests = ("KVDIAG_REQUIRE_", "KVDIAG_TEST_", "KVDIAG_PYTHON")
for _name in [name for name in os.environ if name.startswith("KVDIAG_") and not name.startswith(_for_tests)]:
    del os.environ[_name]
for _name in ("REDIS_URL", "DATABASE_URL"):
    os.environ.pop(_name, None)
os.environ["KVDIAG_DATA"] = _data
Path(_data, "static").mkdir()  # WhiteNoise warns of a missing one
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright keeps an event loop in the thread that also uses the ORM

from kvdiag.settings import *  # noqa: E402, F403

CELERY_BROKER_URL = "memory://"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
