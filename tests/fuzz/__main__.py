"""Runs the target under atheris: python -m tests.fuzz FOLDER… [-max_total_time=3600 and other options of libFuzzer]."""

import os
import sys

import atheris

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

with atheris.instrument_imports(include=["kvdiag.diagnosis"]):
    import kvdiag.diagnosis.cli
    import kvdiag.diagnosis.events
    import kvdiag.diagnosis.rules

    kvdiag.diagnosis.rules.all_rules()
    from tests.fuzz.target import check


def main() -> None:
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
