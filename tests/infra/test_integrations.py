"""The examples under docs/integrations, each tried for its syntax by the tool that would read it."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "docs" / "integrations"
SCRIPTS = sorted(EXAMPLES.glob("slurm/*.sbatch"))
UNITS = sorted(EXAMPLES.glob("systemd/*.service"))
WORKFLOWS = sorted(EXAMPLES.glob("github-actions/*.yml"))
MANIFESTS = sorted(EXAMPLES.glob("kubernetes/*.yaml"))


def bash_reads(script: str) -> None:
    """Bash parses the script."""
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def commands_of(text: str) -> list[list[str]]:
    """The words of every kvdiag push or watch in a text, up to the end of that command."""
    joined = text.replace("\\\n", " ")
    found = re.findall(r"(?:kvdiag|push\.py) (push|watch)([^|\n>`#]*)", joined)
    return [[name, *rest.split()] for name, rest in found]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_reads_the_batch_scripts(path: Path) -> None:
    bash_reads(path.read_text())
    options = re.findall(r"^#SBATCH (--[a-z-]+)=\S+$", path.read_text(), re.MULTILINE)
    assert options and len(options) == path.read_text().count("#SBATCH")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_have_their_sections_and_a_command_that_bash_reads(path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    assert {"Unit", "Service"} <= set(unit.sections()) <= {"Unit", "Service", "Install"}
    command = re.fullmatch(r"/bin/bash -c '(.*)'", unit["Service"]["ExecStart"])
    assert command and "'" not in command[1]
    bash_reads(command[1].replace("%H", "host"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_fit_their_schema_and_their_steps_are_bash(path: Path) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                bash_reads(re.sub(r"\$\{\{.*?\}\}", "x", step["run"]))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_whole_and_name_what_they_use(path: Path) -> None:
    found: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(path.read_text())}
    assert all(each["apiVersion"] and each["metadata"]["name"] for each in found.values())
    pod = found["Deployment"]["spec"]["template"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    (server,) = pod["spec"]["containers"]
    keys = {
        each["valueFrom"]["secretKeyRef"]["key"]
        for each in server["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert keys == set(found["Secret"]["stringData"])
    assert {each["name"] for each in server["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    bash_reads(server["args"][0])


def test_every_example_calls_push_and_watch_as_they_are() -> None:
    import argparse

    from kvdiag.diagnosis.push import add_commands

    parser = argparse.ArgumentParser(exit_on_error=False)
    add_commands(parser.add_subparsers(dest="command"))
    calls = [call for path in EXAMPLES.rglob("*") if path.is_file() for call in commands_of(path.read_text())]
    calls = [[word for word in call if word not in ("…", "…`")] for call in calls]
    assert len(calls) >= 8
    for call in calls:
        parser.parse_args([word.strip("'\"") for word in call])


def test_no_example_holds_a_key_or_passes_one_as_an_argument() -> None:
    for path in EXAMPLES.rglob("*"):
        if path.is_file():
            assert not re.search(r"kvd_[A-Za-z0-9]{16,}", path.read_text()), path
            assert "--token " not in path.read_text(), path


def test_the_signature_check_in_the_documentation_accepts_our_own_calls_only() -> None:
    import time

    from reports.alerts_sending import signature

    text = (EXAMPLES.parent / "teams.md").read_text()
    named: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], named)
    now, body = int(time.time()), b'{"event":"test"}'
    assert named["is_genuine"](signature("key", now, body), body, "key")
    assert not named["is_genuine"](signature("key", now, body), body + b" ", "key")
    assert not named["is_genuine"](signature("other", now, body), body, "key")
    assert not named["is_genuine"](signature("key", now - 600, body), body, "key")
