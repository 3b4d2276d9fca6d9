"""The image and the compose file, as far as that can be told without an engine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import ROOT


def program(name: str) -> str:
    path = Path(sys.executable).with_name(name)
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} has no wheel for this machine")
    return found


def test_the_compose_file_follows_the_specification() -> None:
    done = subprocess.run(
        [program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(ROOT / "docker-compose.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_passes_its_linter() -> None:
    done = subprocess.run([program("hadolint"), str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_special_and_copies_no_secret() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER (?!0|root)", dockerfile, flags=re.MULTILINE)
    assert "secret.key" not in dockerfile
    assert (ROOT / ".dockerignore").read_text().startswith("*\n"), "only what is named goes into the image"


def test_all_that_the_image_copies_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert [name for name in names if not (ROOT / name).exists()] == []
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), flags=re.MULTILINE))
    assert names <= let_in


def test_compose_asks_for_the_password_and_knows_none() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    assert re.findall(r"\$\{POSTGRES_PASSWORD(?!:\?)", compose) == []
    assert "${POSTGRES_PASSWORD:?" in compose
