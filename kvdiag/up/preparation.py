"""Bringing the database and the static files up to date.

Whether there is anything to do is first told from the files alone, without loading Django: a later start has nothing to
do, and should not take a second to find that out.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from kvdiag import settings
from kvdiag.plotly_place import bundle

MARK = "prepared"  # in the data folder and in the folder of collected files: from which sources, into which database


def is_prepared(data: Path) -> bool:
    """Whether database and static files match the checkout. Always asked anew of a database that is no local file."""
    database = settings.DATABASES["default"]
    state = _state_of_sources()
    return (
        database["ENGINE"].endswith("sqlite3")
        and Path(database["NAME"]).exists()
        and _reads(data / MARK, f"{state} {database['NAME']}")
        and _reads(settings.STATIC_ROOT / MARK, state)
    )


def prepare(data: Path) -> None:
    """Migrates, and collects what the browser needs: hashed names, compressed copies.

    Raises django.db.DatabaseError when the database does not answer.
    """
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    state = _state_of_sources()
    call_command("migrate", interactive=False, verbosity=0)
    connection.close()
    (data / MARK).write_text(f"{state} {settings.DATABASES['default']['NAME']}")
    if not _reads(settings.STATIC_ROOT / MARK, state):
        call_command("collectstatic", interactive=False, clear=True, verbosity=0)
        (settings.STATIC_ROOT / MARK).write_text(state)


def _reads(mark: Path, text: str) -> bool:
    return mark.exists() and mark.read_text() == text


def _state_of_sources() -> str:
    """A digest of the pins, and of path, size and time of each migration and static file."""
    digest = hashlib.sha256((settings.BASE_DIR / "requirements.txt").read_bytes())
    for path in sorted(_sources()):
        found = path.stat()
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield bundle()
    for app in ("ingest", "reports", "teams"):
        yield from (settings.BASE_DIR / app / "migrations").glob("*.py")
        yield from _files_below(settings.BASE_DIR / app / "static")
    yield from _files_below(settings.BASE_DIR / "static")


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
