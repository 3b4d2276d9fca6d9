"""How many requests may run at once: the release's clamps on max_running_requests, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.inputs import SizingInputs
from kvdiag.diagnosis.ledger.sizing.release import Release, release

ROW_BYTES = 2048
"""Bytes by which the request table grows a token where SGLang counts its rows: 512 / context × context × 4."""
_ERAS = ("0.3.6", "0.4.7", "0.5.10", "0.5.14")
"""First releases of the four ways to clamp max_running_requests."""


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """The limit one rank (one DP worker) reports, and the formula with its numbers."""

    limit: int
    formula: str


def estimate(tokens: int, context: int, at: Release | None = None) -> int:
    """Requests assumed when nobody sets a limit: clamp(int(tokens / context · 512), 2048, 4096).

    Source: model_runner.py, init_memory_pool(); 0.5.10+ _resolve_max_num_reqs(). In 0.3.0 the ceiling is 5120.
    """
    ceiling = 5120 if at is not None and at < release("0.3.6") else 4096
    return max(min(int(tokens / max(1, context) * 512), ceiling), 2048)


def running_requests(
    tokens: int,
    context: int,
    at: Release,
    *,
    given: int | None = None,
    dp: int = 1,
    state_slots: int | None = None,
    per_request: int = 1,
) -> RequestLimit:
    """max_running_requests as the summary line prints it, for one DP worker.

    0.3.6–0.5.9: min(tokens // 2 or given // dp, table size), the table one larger up to 0.4.6;
    0.5.10–0.5.13: min(given // dp, estimate), else min(estimate, tokens // 2);
    0.5.14+: min(max(1, given // dp), tokens // 2). Hybrid models: never above slots // slots per request.
    Source: 0.3.6–0.5.6 managers/tp_worker.py, TpModelWorker; 0.5.7–0.5.9 model_runner.py, initialize();
    0.5.10–0.5.15 model_runner_kv_cache_mixin.py, _resolve_max_num_reqs(); 0.5.17+ mem_cache/kv_cache_configurator.py,
    resolve_max_num_reqs().
    """
    dp = max(1, dp)
    guess = estimate(tokens, context, at)
    guessed = f"clamp({tokens:,} / {context:,} × 512, 2048, 4096) = {guess:,}"
    if at >= release("0.5.14"):
        if given is not None:
            limit = min(max(1, given // dp), tokens // 2)
            formula = f"min({given:,} // {dp}, {tokens:,} // 2) = {limit:,}"
        else:
            limit = min(guess, tokens // 2)
            formula = f"min({guessed}, {tokens:,} // 2) = {limit:,}"
    elif at >= release("0.5.10"):
        if given is not None:
            limit = min(given // dp, guess)
            formula = f"min({given:,} // {dp}, {guessed}) = {limit:,}"
        else:
            limit = min(guess, tokens // 2)
            formula = f"min({guessed}, {tokens:,} // 2) = {limit:,}"
    else:
        extra = 1 if at < release("0.4.7") else 0
        table = (given if given is not None else guess) + extra
        asked = given // dp if given is not None else tokens // 2
        limit = min(asked, table)
        first = f"{given:,} // {dp}" if given is not None else f"{tokens:,} // 2"
        second = f"{given + extra:,}" if given is not None else f"{guessed}{' + 1' if extra else ''}"
        formula = f"min({first}, {second}) = {limit:,}"
    if state_slots is not None and state_slots // max(1, per_request) < limit:
        limit = state_slots // max(1, per_request)
        formula = f"{state_slots:,} state slots // {max(1, per_request)} a request = {limit:,}"
    return RequestLimit(limit, formula)


def matching_limits(inputs: SizingInputs, tokens: int) -> list[RequestLimit]:
    """The limit at so many tokens by each way of counting that gives the reported one at the log's own count."""
    known, context = inputs.tokens, inputs.context_length
    if not known or not context or inputs.running_requests is None:
        return []
    found = []
    for at in _eras(inputs):

        def limit(count: int, at: Release = at) -> RequestLimit:
            dp = inputs.dp if inputs.dp_attention else 1
            return running_requests(count, context, at, given=inputs.max_running_requests, dp=dp)

        if limit(known).limit == inputs.running_requests:
            found.append(limit(tokens))
    return found


def rows_at(inputs: SizingInputs, tokens: int) -> int | None:
    """Requests that may run at another number of tokens, where nobody sets a limit; the log's own where it is set."""
    if inputs.max_running_requests is not None:
        return inputs.running_requests
    limits = {one.limit for one in matching_limits(inputs, tokens)}
    return limits.pop() if len(limits) == 1 else inputs.running_requests


def _eras(inputs: SizingInputs) -> tuple[Release, ...]:
    if inputs.release.exact is not None:
        return (inputs.release.exact,)
    ends = (*_ERAS[1:], None)
    return tuple(release(first) for first, end in zip(_ERAS, ends, strict=True) if inputs.release.may(first, end))


def request_table_bytes(requests: int, context: int, draft_tokens: int = 0) -> int:
    """Bytes of the request-to-token table, outside the budget: requests × (context + 4 + draft) × 4.

    Source: mem_cache/memory_pool.py, ReqToTokenPool.
    """
    return requests * (context + 4 + max(0, draft_tokens)) * 4


def longest_request(tokens: int, context: int) -> int:
    """Tokens the longest request may have: min(context − 1, tokens − 1)."""
    return max(0, min(context - 1, tokens - 1))
