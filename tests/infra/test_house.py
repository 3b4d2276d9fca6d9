"""The house: imports point one way, and nothing tracked speaks of the machine or the network it was made on."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import ROOT

# kvdiag (wiring) → reports → ingest → teams; any of them → kvdiag.diagnosis, which imports none of them.
MAY_IMPORT = {
    "kvdiag.diagnosis": {"kvdiag.diagnosis"},
    "teams": {"teams", "kvdiag.diagnosis", "kvdiag"},
    "ingest": {"ingest", "teams", "kvdiag.diagnosis", "kvdiag"},
    "reports": {"reports", "ingest", "teams", "kvdiag.diagnosis", "kvdiag"},
    "kvdiag": {"kvdiag", "reports", "ingest", "teams", "kvdiag.diagnosis"},
}
# What an app may take from the wiring: what imports no app itself.
PLAIN_WIRING = {"kvdiag.bounded", "kvdiag.limits", "kvdiag.environment", "kvdiag.up.parent", "kvdiag.plotly_place"}
# `diagnose --format html` prints the page the site would hand out for reading offline.
DOORS_TO_THE_SITE = {("kvdiag.diagnosis.cli", "reports.offline")}
NOT_IN_THE_ENGINE = {"django", "celery", "redis", "kombu", "ninja", "allauth", "plotly", "requests", "urllib.request"}


def part_of(module: str) -> str | None:
    """The part of the house a module belongs to; None for what is not ours."""
    if module == "kvdiag.diagnosis" or module.startswith("kvdiag.diagnosis."):
        return "kvdiag.diagnosis"
    top = module.partition(".")[0]
    return top if top in MAY_IMPORT else None


def sources() -> list[Path]:
    return [
        path
        for top in ("kvdiag", "ingest", "reports", "teams")
        for path in sorted((ROOT / top).rglob("*.py"))
        if "migrations" not in path.parts
    ]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        here = part_of(module)
        assert here is not None
        for name in imports(path):
            there = part_of(name)
            if there is None or any(module == door and name.startswith(page) for door, page in DOORS_TO_THE_SITE):
                continue
            from_wiring = here != "kvdiag" and there == "kvdiag" and name != "kvdiag"
            is_plain = any(name == plain or name.startswith(f"{plain}.") for plain in PLAIN_WIRING)
            if there not in MAY_IMPORT[here] or (from_wiring and not is_plain):
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_the_engine_imports_no_web_no_queue_and_no_network() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "kvdiag" / "diagnosis").rglob("*.py")
        for name in imports(path)
        if path.name != "push.py"  # the one door that sends
        and any(name == each or name.startswith(f"{each}.") for each in NOT_IN_THE_ENGINE)
    ]
    assert wrong == []


DOORS = [name for name in ("cli", "push") if (ROOT / "kvdiag" / "diagnosis" / f"{name}.py").exists()]


@pytest.mark.parametrize("module", ["kvdiag.diagnosis", *(f"kvdiag.diagnosis.{name}" for name in DOORS)])
def test_a_command_loads_neither_django_nor_celery(module: str) -> None:
    code = f"import sys, {module}; print([name for name in ('django', 'celery', 'plotly') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )  # a copy without its history has nothing tracked
    if listed.returncode:
        pytest.skip("this copy is no git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


# Written in two parts, so that this file does not name them either.
FOREIGN = re.compile(
    "|".join(
        re.escape(first + second)
        for first, second in [
            ("/wo", "rk/"),
            ("/tmp/", "kv/"),
            ("/root/", ".pyenv"),
            ("../", "shared"),
            ("pypi", ".org"),
            ("pythonhosted", ".org"),
            ("npmjs", ".org"),
            ("npmjs", ".com"),
            ("deb.debian", ".org"),
            ("registry.", "npm"),
        ]
    )
)


def test_nothing_tracked_names_a_path_of_this_machine_or_a_package_registry() -> None:
    wrong = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" in content[:8192] or "corpus" in path.parts:  # pictures; logs printed elsewhere
            continue
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            if FOREIGN.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert wrong == []


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    named = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE))))
    project = (ROOT / "pyproject.toml").read_text()
    declared = set(re.findall(r'^    "([a-z][a-z0-9-]+)(?:\[\w+\])?[><=]', project, flags=re.MULTILINE))
    assert declared - named == set()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements-fuzz.txt"])
def test_every_pin_has_hashes(name: str) -> None:
    pins = re.split(r"\n(?=[a-z])", (ROOT / name).read_text())
    assert [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin] == []


def test_every_file_and_command_that_the_readme_names_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    linked = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert [name for name in linked if not (ROOT / name).exists()] == []
    door = (ROOT / "bin" / "kvdiag").read_text()
    commands = set(re.findall(r"bin/kvdiag ([a-z][a-z-]*)", readme))
    assert [name for name in commands if not re.search(rf"^[a-z| -]*\b{name}\b[a-z| -]*\)", door, re.MULTILINE)] == []
