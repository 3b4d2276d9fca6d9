"""Secrets that are shown once and kept as a hash: set-up links, invitations, API tokens, share links."""

import base64
import hashlib
import hmac
import json
import secrets

from django.conf import settings
from django.http import QueryDict

TOKEN_BYTES = 32  # 256 bits for what acts as a person
LINK_BYTES = 16  # 128 bits for what only lets read


def new_secret(size: int = TOKEN_BYTES, prefix: str = "") -> str:
    """A fresh secret of `size` random bytes from the operating system, as URL-safe text."""
    return prefix + secrets.token_urlsafe(size)


def secret_from(seed: str, size: int = LINK_BYTES, prefix: str = "") -> str:
    """The secret of a seed: up to 32 bytes that nobody can work out without the site's key, and each time the same."""
    digest = hmac.digest(settings.SECRET_KEY.encode(), b"kvdiag secret\n" + seed.encode(), "sha256")
    return prefix + base64.urlsafe_b64encode(digest[:size]).rstrip(b"=").decode()


def form_seed(asked: QueryDict) -> str:
    """What a form held, if it had a random part of its own (`once`), else "": sent again it makes no second secret.

    Another choice in the same form is another seed.
    """
    if not asked.get("once"):
        return ""
    return json.dumps({name: asked.getlist(name) for name in sorted(asked) if name != "csrfmiddlewaretoken"})


def hash_secret(secret: str) -> str:
    """What is stored in place of a secret: SHA-256, in hex.

    The secrets are random and at least 128 bits long, so a slow hash would add nothing but time.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret_of(secret: str, stored_hash: str) -> bool:
    """True when the secret belongs to the stored hash; takes the same time for every wrong secret."""
    return bool(stored_hash) and secrets.compare_digest(hash_secret(secret), stored_hash)
