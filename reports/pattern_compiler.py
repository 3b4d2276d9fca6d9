"""Compiles one pattern for the log's search, in a process of its own: standard input to a database on standard output.

Scanning takes time linear in the log, but compiling has no bound. The process ends with status 2 and a sentence for a
pattern that is refused.
"""

import sys
from typing import Any

import hyperscan

from kvdiag import bounded

CPU_S = 2
MEMORY = 512 << 20


def database_of(expression: bytes) -> Any:
    """The expression as the log's search scans with it. Raises hyperscan.error."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_MULTILINE
    database.compile(expressions=[expression], flags=[flags])
    return database


def main() -> int:
    bounded.limit(MEMORY, CPU_S)
    try:
        database = database_of(sys.stdin.buffer.read())
    except (hyperscan.error, MemoryError) as problem:
        sys.stderr.write(str(problem)[:160])
        return bounded.REFUSED
    sys.stdout.buffer.write(hyperscan.dumpb(database))
    return 0


if __name__ == "__main__":
    sys.exit(main())
