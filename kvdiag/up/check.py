"""`bin/kvdiag test`: style, types, then every test. Arguments go to pytest.

Ends with pytest's summary, with status 1 when any step failed, and then with a line that names those steps.
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
    arguments = sys.argv[1:] or ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "worksteal", "-q"]
    failed = []
    for step in (*STEPS, ("pytest", *arguments)):
        print(f"== {' '.join(step)}", flush=True)
        if subprocess.run([sys.executable, "-m", *step], cwd=ROOT, check=False).returncode:
            failed.append(" ".join(step))
    if failed:
        print(f"== failed: {'; '.join(failed)}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
