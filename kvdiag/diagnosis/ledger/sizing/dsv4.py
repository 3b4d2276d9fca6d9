"""DeepSeek-V4's compressed attention: one byte rate a full token, printed by the log itself."""

from __future__ import annotations

PAGE_MULTIPLE = 128
"""Pages of this family are whole multiples of 128 tokens."""


def tokens(budget: float, bytes_per_full_token: float, page: int = 256, cap: int | None = None) -> int:
    """Full tokens for a budget in bytes at the rate the log prints, in whole pages.

    Source: 0.5.12+ pool_configurator.py, DSV4PoolConfigurator; it prints "DSV4 memory calculation:".
    """
    if budget <= 0 or bytes_per_full_token <= 0:
        return 0
    count = int(budget // bytes_per_full_token)
    if cap is not None:
        count = min(count, cap)
    page = max(1, page)
    return count // page * page
