"""The real engine as on a machine that takes its time: it reads in small pieces, and rests after each."""

import sys
import threading
import time
from collections.abc import Iterator

from ingest import engine_process
from kvdiag.diagnosis import scanner

REST_S = 0.12
read = scanner.Blocks.__iter__


def rest(blocks: scanner.Blocks) -> Iterator[scanner.Block]:
    for block in read(blocks):
        yield block
        if threading.current_thread() is threading.main_thread():
            time.sleep(REST_S)


if __name__ == "__main__":
    engine_process.warm_up()
    scanner.BUFFER = 32 << 10  # type: ignore[misc]
    scanner.Blocks.__iter__ = rest  # type: ignore[method-assign]
    engine_process.warm_up = lambda: None
    engine_process.TELL_S = 0.1
    sys.exit(engine_process.main())
