"""`bin/kvdiag test`: style, types, then every test. Arguments go to pytest.

Ends with pytest's summary as the last line, and with status 1 when any step failed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
)


def main() -> int:
    failed = False
    for step in STEPS:
        print(f"== {' '.join(step)}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", *step], cwd=ROOT, check=False).returncode != 0
    arguments = sys.argv[1:] or ["-n", str(min(os.cpu_count() or 1, 4)), "-q"]
    print(f"== pytest {' '.join(arguments)}", flush=True)
    failed |= subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
