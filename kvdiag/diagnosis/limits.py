"""How much of an upload the engine reads: sizes in bytes, counted on the unpacked text."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The reading limits of one diagnosis.

    kept_bytes         of one file; a longer one keeps its first quarter and its last three quarters of this, and the
                       gap between them is named exactly. None reads everything.
    unpacked_bytes     of all files of the upload together; more raises LogTooLarge. None sets no ceiling.
    unpacked_ratio     unpacked to packed, counted beyond the first `free_unpacked_bytes`; more is a bomb
    members            files in one archive
    line_bytes         of one line that is looked at; the rest of it is passed over
    exact_batch_bytes  up to this size every batch line is read, above it a sample of each block and the peaks
    batch_sample       batch lines of each kind that are read of one block above that size
    launches           starts that are diagnosed; of more the first quarter and the last three quarters of this
    """

    kept_bytes: int | None = None
    unpacked_bytes: int | None = None
    unpacked_ratio: int = 200
    free_unpacked_bytes: int = 16 * MIB
    members: int = 64
    line_bytes: int = 64 * KIB
    exact_batch_bytes: int = 2 * MIB
    batch_sample: int = 16
    launches: int = 200


DEFAULT_LIMITS = Limits()  # the command line: the machine is the reader's own
WEB_LIMITS = Limits(kept_bytes=512 * MIB, unpacked_bytes=4 * GIB)
