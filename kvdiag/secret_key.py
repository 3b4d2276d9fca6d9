"""The key that signs cookies and links: made once, kept in a file only its owner may read."""

import os
import secrets
from pathlib import Path

from kvdiag.environment import WrongSetting


def read_or_create_key(path: Path) -> str:
    """The key in this file; a new one is written (mode 0600) when there is none.

    Two processes that start together get the same key: the file is filled first and then linked into place, and only
    one link succeeds.
    Raises WrongSetting when the file can be neither read nor made, or holds too short a key.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(64))
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                pass  # another process was first; its key counts
            finally:
                draft.unlink()
        key = path.read_text().strip()
    except OSError as problem:
        raise WrongSetting(f"The secret key file {path} cannot be used: {problem.strerror}.") from None
    if len(key) < 32:
        raise WrongSetting(f"The secret key in {path} is shorter than 32 characters; delete the file for a new one.")
    return key
