"""Bringing the database and the static files up to date, only where something has changed."""

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor


def migrate() -> bool:
    """Applies what is missing; True when there was something.

    Raises django.db.DatabaseError when the database does not answer.
    """
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        call_command("migrate", interactive=False, verbosity=0)
    connection.close()
    return bool(pending)


def collect_static() -> bool:
    """Hashes, compresses and collects the static files; True when any had changed since the last time."""
    mark = Path(settings.STATIC_ROOT) / ".collected"
    state = _state_of_sources()
    if mark.exists() and mark.read_text() == state:
        return False
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    mark.write_text(state)
    return True


def _state_of_sources() -> str:
    """A digest over the path, size and time of every file a finder knows."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            found = Path(storage.path(path)).stat()
            digest.update(f"{storage.path(path)}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
