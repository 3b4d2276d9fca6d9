"""Why the door does not take a body: a status, a code that stays the same, and a sentence that says what to do."""

from __future__ import annotations


class Refused(Exception):
    """An upload or a part of one is not taken; nothing of it is kept.

    status   HTTP status of the answer
    code     short name of the reason, for programs
    headers  further headers of the answer, such as Retry-After
    """

    def __init__(self, status: int, code: str, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.sentence = sentence
        self.headers = headers or {}


def too_large(received: int | None, limit: int, name: str = "server.log") -> Refused:
    """413: the limit, what came, and the command that makes a log small.

    received  bytes announced or counted; None when the sender did not say and the limit was simply reached
    """
    size = f"The body is {in_mib(received)}" if received is not None and received > limit else "The body is larger"
    return Refused(
        413,
        "too_large",
        f"{size}; the limit is {in_mib(limit)}. Compress it and send it again: "
        f"zstd {name} && curl -T {name}.zst <address>. Logs shrink to a tenth or less.",
    )


def empty() -> Refused:
    return Refused(
        400,
        "empty",
        "The body is empty. Send the log itself: curl --data-binary @server.log <address>. "
        "(curl -d strips line ends, and @ reads a file.)",
    )


def nothing_chosen() -> Refused:
    """The same in the words of the page, where nobody types a command."""
    return Refused(400, "empty", "Nothing came. Choose a log that is not empty, or paste its text.")


def in_mib(size: int | None) -> str:
    """A size in MiB for a sentence; small ones in KiB or bytes, so that a limit never reads as 0."""
    if size is None:
        return "an unknown size"
    if size < 10 << 10:
        return f"{size:,} bytes"
    if size < 1 << 20:
        return f"{size / (1 << 10):.0f} KiB"
    mib = size / (1 << 20)
    return f"{mib:,.0f} MiB" if mib == int(mib) else f"{mib:,.1f} MiB"
