"""Compiles one pattern for the log's search, in a process of its own: standard input to a database on standard output.

Scanning takes time linear in the log, but compiling has no bound: a short pattern of nested repetitions may take a
minute and gigabytes. The process bounds both, and ends with status 2 and a sentence for a pattern that is refused.
"""

import resource
import sys
from typing import Any

import hyperscan

CPU_S = 2
MEMORY = 512 << 20


def database_of(expression: bytes) -> Any:
    """The expression as the log's search scans with it. Raises hyperscan.error."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_MULTILINE
    database.compile(expressions=[expression], flags=[flags])
    return database


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        database = database_of(sys.stdin.buffer.read())
    except (hyperscan.error, MemoryError) as problem:
        sys.stderr.write(str(problem)[:160])
        return 2
    sys.stdout.buffer.write(hyperscan.dumpb(database))
    return 0


if __name__ == "__main__":
    sys.exit(main())
