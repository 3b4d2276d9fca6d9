"""Runs one of kvdiag's modules; a package that is missing or does not load is one sentence, not a traceback.

python -m kvdiag.up.run kvdiag.diagnosis.cli diagnose server.log
"""

import runpy
import sys

OURS = ("kvdiag", "ingest", "reports", "teams")


def main() -> None:
    module, *sys.argv[1:] = sys.argv[1:]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as problem:
        if problem.name is None or problem.name.partition(".")[0] in OURS:
            raise
        sys.exit(f"kvdiag: The environment is broken ({problem.msg.rstrip('.')}); delete .venv and start again.")


if __name__ == "__main__":
    main()
