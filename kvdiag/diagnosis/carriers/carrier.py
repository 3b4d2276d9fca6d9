"""What a carrier is: the wrapper that a collector, a container engine or a person put around a log line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kvdiag.diagnosis.lazy import lazy


class Peeled(NamedTuple):
    """A line without one wrapper.

    text   what was inside; several lines where the wrapper held several
    clock  the wrapper's time as printed, ISO 8601 where the date is whole; None when it gives none
    node   the process or machine it names: pod, compose service, Slurm task, Ray process, journald host
    host   whether `node` is a machine's own name, which is masked
    cut    whether the wrapper says that the line goes on in its next record (docker and CRI split at 16 KiB)
    """

    text: str
    clock: str | None = None
    node: str = ""
    host: bool = False
    cut: bool = False


class Carrier(NamedTuple):
    """One kind of wrapper.

    name   as the report gives it
    first  the characters that such a line can begin with; a cheap test before `peel`
    peel   the line without the wrapper, or None when it has none of this kind
    again  the same for a file that is known to have such wrappers, where less is asked of a line
    """

    name: str
    first: frozenset[str]
    peel: Callable[[str], Peeled | None]
    again: Callable[[str], Peeled | None] | None = None


DIGITS: Final = frozenset("0123456789")
LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"

# What a line of a server can begin with. Wrappers as short as "0: " are believed only before one of these.
LOOKS_PRINTED: Final = lazy(
    r"\s*(?:\[\d{4}-\d\d-\d\d[ T]\d\d:|\[\d\d:\d\d:\d\d|\[(?:DP|TP|PP|EP)\d|\[(?:rank|default)\d{1,5}\]:"
    r"|Traceback \(most|  File \"|INFO[: ]"
    r"|WARNING[: ]|Load |KV Cache |Memory pool |Capture |Init |max_total_num|server_args|torch\.|Compiling|Capturing"
    r"|The server is|\w*(?:Error|Exception):|Decode batch|Prefill batch|Rank \d+ scheduler|Loading |Mamba |Use |Using )"
)
