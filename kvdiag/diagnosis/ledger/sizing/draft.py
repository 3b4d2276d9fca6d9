"""The draft model of speculative decoding: tokens added for it, bytes charged for it, bytes its own pool takes."""

from __future__ import annotations

from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange

_TREE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_BLOCK = ("DFLASH", "DSPARK")


def headroom(
    algorithm: str | None,
    requests: int | None,
    steps: int | None,
    top_k: int | None,
    draft_tokens: int | None,
) -> int:
    """Tokens that 0.4.3 … 0.5.6 add to the pool for a draft: N·steps·topk + N·draft tokens + 100, unbudgeted.

    N is --max-running-requests, undivided by dp. 0 when the log does not give the parameters.
    Source: 0.4.3–0.5.6 model_runner.py, init_memory_pool().
    """
    if not algorithm or algorithm.upper() not in _TREE or not requests or not steps or not draft_tokens:
        return 0
    return requests * steps * (top_k or 1) + requests * draft_tokens + 100


def adds_headroom(release: ReleaseRange) -> bool | None:
    """Whether the release adds that headroom: 0.4.3 up to 0.5.6."""
    return release.within("0.4.3", "0.5.7")


def charged_cell(cell: float, layers: int, draft_layers: int = 1) -> int:
    """Bytes per token including the draft, as charged since 0.5.14: int(c · (1 + L_d / L)).

    It takes the target's width for the draft's layers; an EAGLE-3 head on an MLA target really takes more.
    Source: 0.5.14+ pool_configurator.py, DefaultPoolConfigurator.
    """
    return int(cell * (1 + draft_layers / layers)) if layers > 0 else int(cell)


def is_charged(
    release: ReleaseRange, before_pool: bool | None, algorithm: str | None = None, hybrid_window: bool = False
) -> bool | None:
    """Whether the budget already pays for the draft's pool.

    The order of the log decides before the version text does: a draft loaded before the target's pool is budgeted.
    Targets with sliding windows charge it since 0.5.15, block drafts (DFLASH, DSPARK) on them since 0.5.19 only.
    Source: pool_configurator.py, DefaultPoolConfigurator and HybridSWAPoolConfigurator.
    """
    if before_pool is False:
        return False
    if hybrid_window:
        return release.reaches("0.5.19" if (algorithm or "").upper() in _BLOCK else "0.5.15")
    return True if before_pool is True else release.reaches("0.5.14")
