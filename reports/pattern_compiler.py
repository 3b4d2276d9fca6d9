"""Compiles one pattern for the log's search, in a process of its own: standard input to a database on standard output.

Scanning takes time linear in the log, but compiling has no bound: a short pattern of nested repetitions may take a
minute and gigabytes. The process bounds both, and ends with status 2 and a sentence for a pattern that is refused.
"""

import resource
import sys

import hyperscan

CPU_S = 2
MEMORY = 512 << 20


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_MULTILINE
    try:
        database.compile(expressions=[sys.stdin.buffer.read()], flags=[flags])
    except (hyperscan.error, MemoryError) as problem:
        sys.stderr.write(str(problem)[:160])
        return 2
    sys.stdout.buffer.write(hyperscan.dumpb(database))
    return 0


if __name__ == "__main__":
    sys.exit(main())
