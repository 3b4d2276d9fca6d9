"""Reads and tries one expression of a team's in a process of its own: JSON on standard input and standard output.

    {"name": …, "expression": …, "ignore_case": …, "sample": …} → {"entry": {…}, "shown": …, "count": …}

Ends with status 2 and a sentence for an expression that is refused.
"""

import json
import sys

from kvdiag import bounded
from teams import redaction

CPU_S = 5
MEMORY = 1 << 30


def main() -> int:
    bounded.limit(MEMORY, CPU_S)
    asked = json.load(sys.stdin)
    try:
        entry = redaction.checked(asked["name"], asked["expression"], ignore_case=asked["ignore_case"])
        shown, count = redaction.tried([entry], asked["sample"])
    except redaction.BadPattern as bad:
        sys.stderr.write(str(bad))
        return bounded.REFUSED
    except (MemoryError, RecursionError):
        return 1
    print(json.dumps({"entry": entry, "shown": shown, "count": count}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
