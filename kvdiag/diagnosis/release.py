"""Releases of SGLang: read, compared, and the range a log leaves open."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.-]?(post|rc|dev|a|b)\.?(\d+)?)?")
_STAGE = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """One release, such as 0.4.3.post4. A development build sorts just before the release it leads to."""

    major: int
    minor: int
    patch: int
    stage: int = 0
    count: int = 0

    @staticmethod
    def read(text: str | None) -> Release | None:
        """The release in a version text; None when there is none, or only the 0.0.0 of a build without a tag."""
        found = _NUMBER.match(text.strip()) if text else None
        if not found:
            return None
        major, minor, patch = int(found[1]), int(found[2]), int(found[3] or 0)
        if (major, minor, patch) == (0, 0, 0):
            return None
        return Release(major, minor, patch, _STAGE[found[4] or ""], int(found[5] or 0))

    def __str__(self) -> str:
        name = {number: word for word, number in _STAGE.items()}[self.stage]
        tail = f".{name}{self.count}" if name else ""
        return f"{self.major}.{self.minor}.{self.patch}{tail}"


@lru_cache(1024)
def release(text: str) -> Release:
    """A release written in our own tables. Raises ValueError when it cannot be read."""
    found = Release.read(text)
    if found is None:
        raise ValueError(f"not a release: {text!r}")
    return found


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """The releases a log may come from: at least `since`, below `before`; both ends open when None."""

    exact: Release | None = None
    since: Release | None = None
    before: Release | None = None

    @staticmethod
    def read(exact: str | None = None, since: str | None = None, before: str | None = None) -> ReleaseRange:
        """From version texts as the report document has them (`version.exact`, `from`, `before`)."""
        return ReleaseRange(Release.read(exact), Release.read(since), Release.read(before))

    def reaches(self, text: str) -> bool | None:
        """Whether the log's release is `text` or later: True or False where it is sure, else None."""
        wanted = release(text)
        if self.exact is not None:
            return self.exact >= wanted
        if self.since is not None and self.since >= wanted:
            return True
        if self.before is not None and self.before <= wanted:
            return False
        return None

    def within(self, since: str, before: str | None = None) -> bool | None:
        """Whether the release lies in since ≤ release < before; None where the range leaves it open."""
        low = self.reaches(since)
        high = False if before is None else self.reaches(before)
        if low is False or high is True:
            return False
        return True if low is True and high is False else None

    def narrowed(self, since: Release | None, before: Release | None) -> ReleaseRange | None:
        """What is left of the range by one more sign; None when the sign contradicts it."""
        low = self.since if since is None or (self.since is not None and self.since > since) else since
        high = self.before if before is None or (self.before is not None and self.before < before) else before
        if low is not None and high is not None and low >= high:
            return None
        return ReleaseRange(self.exact, low, high)

    def may(self, since: str, before: str | None = None) -> bool:
        """Whether some release of the range lies in since ≤ release < before."""
        if self.within(since, before) is False:
            return False
        low, high = release(since), release(before) if before else None
        # an open range may still miss the wanted one altogether
        if self.since is not None and high is not None and self.since >= high:
            return False
        return not (self.before is not None and self.before <= low)

    @property
    def known(self) -> bool:
        """Whether the log names its release."""
        return self.exact is not None

    def __str__(self) -> str:
        if self.exact is not None:
            return str(self.exact)
        if self.since and self.before:
            return f"{self.since} or later, before {self.before}"
        if self.since:
            return f"{self.since} or later"
        return f"before {self.before}" if self.before else "an unknown release"
