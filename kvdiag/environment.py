"""Reading one setting from the environment: the value, or the sentence that says what is wrong with it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

_YES = {"1", "true", "yes", "on"}
_NO = {"0", "false", "no", "off"}


class WrongSetting(Exception):
    """A setting has a value kvdiag cannot use; str() is one sentence naming the variable and what fits."""


@dataclass(frozen=True)
class Environment:
    """The variables a process was started with. An empty variable counts as not set, as Compose hands them over."""

    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def text(self, name: str, default: str) -> str:
        return self.variables.get(name, "").strip() or default

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, "1" if default else "0").lower()
        if value in _YES:
            return True
        if value in _NO:
            return False
        raise WrongSetting(f"{name} is {value!r}; write 1 or 0.")

    def whole_number(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        value = self.text(name, str(default))
        bounds = f"from {least:,} to {most:,}" if most is not None else f"of at least {least:,}"
        try:
            number = int(value.replace("_", ""))
        except ValueError:
            raise WrongSetting(f"{name} is {value!r}; write a whole number {bounds}.") from None
        if number < least or (most is not None and number > most):
            raise WrongSetting(f"{name} is {number}; write a whole number {bounds}.")
        return number

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A comma-separated list."""
        return tuple(word.strip() for word in self.text(name, ",".join(default)).split(",") if word.strip())

    def folder(self, name: str, default: Path) -> Path:
        """An absolute folder; it need not exist yet."""
        path = Path(self.text(name, str(default))).expanduser()
        if path.exists() and not path.is_dir():
            raise WrongSetting(f"{name} is {path}, which is a file; name a folder.")
        return path.absolute()

    def url(self, name: str, default: str, schemes: tuple[str, ...]) -> SplitResult | None:
        """A URL with one of these schemes; None when it is not set and there is no default."""
        value = self.text(name, default)
        if not value:
            return None
        parts = urlsplit(value)
        if parts.scheme not in schemes:
            forms = ", ".join(f"{scheme}://" for scheme in schemes)
            raise WrongSetting(f"{name} does not begin with any of {forms}.")
        try:
            parts.port  # noqa: B018 - the property refuses a port that is no number
        except ValueError:
            raise WrongSetting(f"{name} has a port that is no number from 0 to 65535.") from None
        return parts
