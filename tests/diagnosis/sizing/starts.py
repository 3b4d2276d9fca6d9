"""Starts of a server as a release prints them: free memory is kept per rank, and every line is worded by the release.

A start is composed from SGLang's own formulas, written down here once more and apart from the engine's; what it took is
then known to the byte, so that a report on its log can be held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GIB = 2**30
Size = float | dict[str, float]


def rows(tokens: float, context: int, most: int = 4096) -> int:
    """Requests that SGLang assumes where nobody sets a limit."""
    return max(2048, min(int(tokens / context * 512), most))


def pages(tokens: float, page: int) -> int:
    return int(tokens) // page * page


class Start:
    """One start; sizes in GiB. `free` is what each rank has left."""

    def __init__(
        self,
        release: str,
        model: str,
        fraction: float,
        opening: float | list[float],
        *,
        tp: int = 1,
        pp: int = 1,
        dp_attention: int = 1,
        ep: int = 1,
        context: int = 32_768,
        limit: int | None = None,
        printed: bool = True,
        fraction_in_effect: float | None = None,
        **arguments: Any,
    ) -> None:
        self.release = tuple(int(part) for part in release.split("."))
        self.fraction = fraction_in_effect or fraction
        self.context, self.limit, self.second = context, limit, 0
        self.lines: list[str] = []
        self.tp, self.pp, self.dp, self.ep = tp, pp, dp_attention, ep
        self.ranks = [self._rank(stage, number) for stage in range(pp) for number in range(tp)]
        openings = opening if isinstance(opening, list) else [opening] * len(self.ranks)
        self.free = dict(zip(self.ranks, openings, strict=True))
        self.opening = min(openings)
        if printed:
            values = {
                "model_path": model,
                "tp_size": tp,
                "pp_size": pp,
                "dp_size": dp_attention,
                "enable_dp_attention": dp_attention > 1,
                "mem_fraction_static": fraction,
                "max_running_requests": limit,
                "max_total_tokens": None,
                "page_size": 1,
                "disable_radix_cache": False,
                "kv_cache_dtype": "auto",
                "speculative_algorithm": None,
                **arguments,
            }
            listed = ", ".join(f"{name}={value!r}" for name, value in values.items())
            self.say(f"server_args={values!r}" if self.after("0.5.19") else f"server_args=ServerArgs({listed})", [None])

    def after(self, release: str) -> bool:
        """Whether the start is of that release or a later one."""
        return self.release >= tuple(int(part) for part in release.split("."))

    def _rank(self, stage: int, number: int) -> str:
        if not self.after("0.4.6"):
            return f" TP{number}"
        data = f" DP{number // (self.tp // self.dp)}" if self.dp > 1 else ""
        tensor, pipe = f" TP{number}" if self.tp > 1 else "", f" PP{stage}" if self.pp > 1 else ""
        expert = f" EP{number}" if self.ep > 1 else ""
        return data + (pipe + tensor + expert if self.after("0.5.5") else tensor + expert + pipe)

    def say(self, message: str | Callable[[str], str], ranks: list[Any] | None = None) -> None:
        """A line of every rank, or of the ranks given; None is the main process."""
        for rank in self.ranks if ranks is None else ranks:
            self.second += 1
            clock = f"{9 + self.second // 3600:02d}:{self.second // 60 % 60:02d}:{self.second % 60:02d}"
            day = "2026-03-02 " if self.after("0.3.6") else ""
            text = message if isinstance(message, str) else message(rank)
            self.lines.append(f"[{day}{clock}{rank or ''}] {text}")

    def take(self, size: Size) -> None:
        """Memory that is gone; negative where it comes back."""
        for rank in self.ranks:
            self.free[rank] -= size[rank] if isinstance(size, dict) else size

    @property
    def least(self) -> float:
        return min(self.free.values())

    @property
    def budget(self) -> float:
        """R = A − P × (1 − f), now."""
        return self.least - self.opening * (1 - self.fraction)

    def load(self, architecture: str, size: Size) -> None:
        """Weights of the target or of a draft."""
        self.say(lambda rank: f"Load weight begin. avail mem={self.free[rank]:.2f} GB")
        before = dict(self.free)
        self.take(size)

        def end(rank: str) -> str:
            now = self.free[rank]
            usage = f", mem usage={before[rank] - now:.2f} GB." if self.after("0.4.3") else ""
            elapsed = "elapsed=41.07 s, " if self.after("0.5.9") else ""
            dtype = "" if self.after("0.5.10") else "dtype=torch.bfloat16, "
            return f"Load weight end. {elapsed}type={architecture}, {dtype}avail mem={now:.2f} GB{usage}"

        self.say(end)

    def pool(
        self,
        tokens: int,
        size: Size,
        *,
        latent: bool = False,
        label: str = "",
        dtype: str = "bfloat16",
        lost: float = 0.0,
    ) -> None:
        """One KV pool. `lost` is allocated with it and left out of its line."""
        kind = f"dtype: torch.{dtype}, " if self.after("0.5.13") else ""
        head = f"{label} " if label and self.after("0.5.17") else ""

        def line(rank: str) -> str:
            whole = size[rank] if isinstance(size, dict) else size
            parts = f"KV size: {whole:.2f} GB" if latent else f"K size: {whole / 2:.2f} GB, V size: {whole / 2:.2f} GB"
            if not self.after("0.4.3"):
                return f"KV Cache is allocated. {parts}."
            return f"{head}KV Cache is allocated. {kind}#tokens: {tokens}, {parts}"

        if self.after("0.4.5") or (self.after("0.4.1") and not latent):
            self.say(line)
        self.take(size)
        self.take(lost)

    def windows(
        self, full: int, window: int, full_cell: float, window_cell: float, page: int = 1
    ) -> tuple[float, float]:
        """Both pools of a sliding-window hybrid, in the order the release allocates them."""
        sizes = ((full + page) * full_cell / GIB, (window + page) * window_cell / GIB)
        word = "sliding" if self.after("0.5.7") else "Sliding"
        self.say(f"Use {word} window memory pool. full_layer_tokens={full}, swa_layer_tokens={window}")
        if self.after("0.5.17"):
            self.pool(full, sizes[0], label="Full")
            self.pool(window, sizes[1], label="SWA")
        else:
            self.pool(window, sizes[1])
            self.pool(full, sizes[0])
        total = f"{sum(sizes):.2f}" if self.after("0.5.7") else repr(sum(sizes))
        self.say(f"SWAKVPool mem usage: {total} GB, swa size: {window}, full size: {full}")
        return sizes

    def states(self, slots: int, state: int, convolution: int, drafts: int = 0) -> float:
        """Request states: one slot more than is counted, and as many draft states as requests and one may have."""
        size, conv = (slots + 1) * state / GIB, (slots + 1) * convolution / GIB
        said = f"max_mamba_cache_size: {slots}, conv_state size: {conv:.2f}GB, ssm_state size: {size - conv:.2f}GB "
        if drafts:
            more, windows = drafts * state / GIB, drafts * convolution / GIB
            said += f"intermediate_ssm_state_cache size: {more - windows:.2f}GB "
            said += f"intermediate_conv_window_cache size: {windows:.2f}GB "
            size += more
        self.say(f"Mamba Cache is allocated. {said}")
        self.take(size)
        return size

    def pool_end(self, requests: int = 0, draft_tokens: int = 0) -> None:
        """The request table, and the reading after it."""
        self.take(requests * (self.context + 4 + draft_tokens) * 4 / GIB)
        self.say(lambda rank: f"Memory pool end. avail mem={self.free[rank]:.2f} GB")

    def graph(self, size: float, *, kind: str = "decode", role: str = "target", workspace: float = 0.0) -> None:
        """A capture, and the workspaces before it."""
        self.take(workspace)
        before = dict(self.free)
        self.take(size)
        if not self.after("0.4.3"):
            self.say("Capture cuda graph begin. This can take up to several minutes.")
            return
        if self.after("0.5.14"):
            name = f"{role} {kind} CUDA graph"
            more = (
                "backend=full, num_tokens_per_req=1, "
                if self.after("0.5.17")
                else "backend=full, num_tokens_per_bs=1, "
            )
            begin, end = f"Capture {name} begin. {more}", f"Capture {name} end. elapsed=12.26 s, "
        else:
            name = "piecewise CUDA graph" if kind == "prefill" else f"{'draft ' if role == 'draft' else ''}cuda graph"
            minutes = "" if kind == "prefill" else "This can take up to several minutes. "
            begin, end = f"Capture {name} begin. {minutes}", f"Capture {name} end. Time elapsed: 12.26 s. "

        def after(rank: str) -> str:
            used, left = f"mem usage={before[rank] - self.free[rank]:.2f} GB", f"avail mem={self.free[rank]:.2f} GB"
            if self.after("0.5.14"):
                return f"{end}{used}, {left}."
            return f"{end}{used}. {left}." if self.after("0.4.6") else f"{end}{left}. {used}."

        self.say(lambda rank: f"{begin}avail mem={before[rank]:.2f} GB")
        self.say(after)

    def ready(self, tokens: int, requests: int, chunk: int = 8192) -> None:
        """The summary and the ready line."""

        def summary(rank: str) -> str:
            chunked = f"chunked_prefill_size={chunk}, " if self.after("0.4.3") else ""
            free = f", available_gpu_mem={self.free[rank]:.2f} GB" if self.after("0.4.7") else ""
            return (
                f"max_total_num_tokens={tokens}, {chunked}max_prefill_tokens=16384, max_running_requests={requests},"
                f" context_len={self.context}{free}"
            )

        self.say(
            summary, [rank for rank in self.ranks if not self.after("0.4.6") or "TP" not in rank or " TP0" in rank]
        )
        self.say("The server is fired up and ready to roll!", [None])

    @property
    def log(self) -> bytes:
        return ("\n".join(self.lines) + "\n").encode()
