"""Reads and tries one expression of a team's in a process of its own: JSON on standard input and standard output.

Matching can be given up after a while, but compiling cannot: a short expression of nested repetitions may take minutes
and all memory of the machine, and one that calls itself as much of the stack. The process bounds both.

    {"name": …, "expression": …, "ignore_case": …, "sample": …}
    → {"entry": {…}, "shown": …, "count": …} or {"refused": "a sentence"}
"""

import json
import resource
import sys
from contextlib import suppress

from teams import redaction

CPU_S = 5
MEMORY = 1 << 30


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    asked = json.load(sys.stdin)
    try:
        entry = redaction.checked(asked["name"], asked["expression"], ignore_case=asked["ignore_case"])
        shown, count = redaction.tried([entry], asked["sample"])
    except redaction.BadPattern as bad:
        print(json.dumps({"refused": str(bad)}))
    except (MemoryError, RecursionError):
        return 2
    else:
        print(json.dumps({"entry": entry, "shown": shown, "count": count}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
