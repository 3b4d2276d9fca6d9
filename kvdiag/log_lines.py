"""The lines of the site's own log, without what would open something.

The address of a shared report, an invitation or a new password is a key. The database keeps such keys as hashes only,
so they must not stand in the log whenever a request fails and Django writes down its address.
"""

import logging
import re

# An address keeps the end of its secret: the five characters by which the list of links names it.
_ADDRESS = re.compile(r"(/(?:s|r|badge|setup|invitation|uploads|reports|key|confirm-email)/)[\w:-]{7,}([\w:-]{5})")
_TOKEN = re.compile(r"\bkvd_[\w-]{7,}([\w-]{4})")


class WithoutSecrets(logging.Formatter):
    """A formatter that shortens secrets wherever they stand: in the message, its arguments, a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return _TOKEN.sub(r"kvd_…\1", _ADDRESS.sub(r"\1…\2", super().format(record)))
