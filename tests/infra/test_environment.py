"""Settings: each value is checked, and a wrong one is one sentence naming the variable."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kvdiag.broker import read_broker
from kvdiag.database import read_database
from kvdiag.environment import Environment, WrongSetting
from kvdiag.limits import SiteLimits, read_limits
from kvdiag.secret_key import read_or_create_key
from tests.live import ROOT, clean_environment


def test_an_empty_variable_counts_as_not_set() -> None:
    assert Environment({"KVDIAG_DEBUG": ""}).flag("KVDIAG_DEBUG", True) is True


@pytest.mark.parametrize("value", ["maybe", "2", "ja"])
def test_a_flag_that_is_neither_yes_nor_no_is_refused(value: str) -> None:
    with pytest.raises(WrongSetting, match="KVDIAG_DEBUG .* write 1 or 0"):
        Environment({"KVDIAG_DEBUG": value}).flag("KVDIAG_DEBUG", False)


@pytest.mark.parametrize("value", ["-1", "0", "ten", "1.5"])
def test_a_limit_below_one_or_no_number_is_refused(value: str) -> None:
    with pytest.raises(WrongSetting, match="KVDIAG_MAX_UPLOAD_BYTES"):
        read_limits(Environment({"KVDIAG_MAX_UPLOAD_BYTES": value}))


def test_every_limit_can_be_changed_by_the_variable_of_its_name() -> None:
    names = SiteLimits().as_dict()
    limits = read_limits(Environment({f"KVDIAG_{name.upper()}": "7" for name in names}))
    assert set(limits.as_dict().values()) == {7}


def test_sqlite_waits_for_its_write_lock_and_writes_ahead(tmp_path: Path) -> None:
    database = read_database(Environment({}), tmp_path)
    assert database["NAME"] == str(tmp_path / "kvdiag.sqlite3")
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in database["OPTIONS"]["init_command"]


def test_a_postgresql_url_is_taken_apart(tmp_path: Path) -> None:
    url = "postgresql://ops:p%40ss@db.example:5433/kv?sslmode=require"
    database = read_database(Environment({"DATABASE_URL": url}), tmp_path)
    parts = {name: database[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME", "OPTIONS")}
    assert parts == {
        "USER": "ops",
        "PASSWORD": "p@ss",
        "HOST": "db.example",
        "PORT": "5433",
        "NAME": "kv",
        "OPTIONS": {"sslmode": "require"},
    }


@pytest.mark.parametrize(
    "url", ["mysql://db/kv", "postgresql://db", "postgresql://db:port/kv", "sqlite://", "sqlite://relative.db"]
)
def test_a_database_url_that_cannot_be_used_is_refused_without_repeating_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="DATABASE_URL"):
        read_database(Environment({"DATABASE_URL": url}), tmp_path)


@pytest.mark.parametrize(
    ("url", "celery_url", "redis_url"),
    [
        ("redis://cache:6379/2", "redis://cache:6379/2", "redis://cache:6379/2"),
        ("rediss://cache/0", "rediss://cache/0", "rediss://cache/0"),
        ("redis+socket:///run/b.sock", "redis+socket:///run/b.sock", "unix:///run/b.sock"),
        ("unix:///run/b.sock", "redis+socket:///run/b.sock", "unix:///run/b.sock"),
    ],
)
def test_redis_is_named_as_celery_and_as_its_client_spell_it(
    url: str, celery_url: str, redis_url: str, tmp_path: Path
) -> None:
    broker = read_broker(Environment({"REDIS_URL": url}), tmp_path, longest_task_s=90)
    assert (broker.celery_url, broker.redis_url) == (celery_url, redis_url)


def test_a_lost_task_comes_back_only_after_the_longest_task_would_have_ended(tmp_path: Path) -> None:
    broker = read_broker(Environment({"REDIS_URL": "redis://cache"}), tmp_path, longest_task_s=90)
    assert broker.transport_options["visibility_timeout"] > 90


@pytest.mark.parametrize("url", ["amqp://mq", "redis://", "redis+socket://host/path", "redis+socket://"])
def test_a_redis_url_that_cannot_be_used_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="REDIS_URL"):
        read_broker(Environment({"REDIS_URL": url}), tmp_path, longest_task_s=90)


def test_without_redis_tasks_are_files_in_the_data_folder(tmp_path: Path) -> None:
    broker = read_broker(Environment({}), tmp_path, longest_task_s=90)
    assert broker.redis_url is None
    assert broker.transport_options["data_folder_in"].startswith(str(tmp_path))


def test_the_secret_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret.key"
    key = read_or_create_key(path)
    assert read_or_create_key(path) == key
    assert len(key) >= 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["secret.key"]


def test_a_key_file_with_too_short_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("short")
    with pytest.raises(WrongSetting, match="shorter than 32"):
        read_or_create_key(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KVDIAG_ANONYMOUS_UPLOADS", "perhaps"),
        ("KVDIAG_ANALYSIS_SOFT_S", "90"),
        ("KVDIAG_PUBLIC_URL", "kvdiag.example.org"),
        ("KVDIAG_LOG_LEVEL", "loud"),
        ("DATABASE_URL", "postgresql://"),
        ("KVDIAG_SECRET_KEY_FILE", "/proc/version/secret.key"),
    ],
)
def test_a_wrong_value_stops_the_start_with_one_sentence(name: str, value: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check"],
        env=clean_environment(KVDIAG_DATA=str(tmp_path / "data"), **{name: value}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch(r"kvdiag: [^\n]+\.\n", done.stderr)


def test_every_setting_is_in_the_example_file_and_nothing_else_is() -> None:
    source = "".join((ROOT / "kvdiag" / name).read_text() for name in ("settings.py", "database.py", "broker.py"))
    read = set(re.findall(r"environment\.(?:text|flag|whole_number|words|folder|url)\(\s*\"(\w+)\"", source))
    read |= {f"KVDIAG_{name.upper()}" for name in SiteLimits().as_dict()}
    compose = set(re.findall(r"\$\{(\w+)[:}]", (ROOT / "docker-compose.yml").read_text()))
    example = set(re.findall(r"^# ([A-Z_]+)=", (ROOT / ".env.example").read_text(), flags=re.MULTILINE))
    assert example == read | compose


def test_the_example_file_names_the_defaults_of_the_limits() -> None:
    example = (ROOT / ".env.example").read_text()
    wrong = [
        name
        for name, default in SiteLimits().as_dict().items()
        if f"\n# KVDIAG_{name.upper()}={default}\n" not in example
    ]
    assert wrong == []
