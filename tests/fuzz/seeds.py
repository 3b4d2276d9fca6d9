"""The seeds and the dictionary of the fuzz target, from the corpus and the declarations.

python -m tests.fuzz.seeds FOLDER       writes FOLDER/seeds/ and FOLDER/words.dict
"""

import gzip
import io
import json
import sys
import zipfile
from pathlib import Path

from kvdiag.diagnosis.events import DECLARATIONS
from kvdiag.diagnosis.masking import PATTERNS

CORPUS = Path(__file__).parent.parent / "corpus"
PIECE = 6_000  # bytes of a seed: a longer one is read fewer times a second
WORDS = (
    b"\n", b"\r", b"\x1b[31m", b"\xff\xfe", b"\0", b"\\n", b"\xef\xbc\x8c", b"[2025-03-08 12:29:13 TP0] ",
    b"1e999", b"nan", b"-1", b"9" * 31, b'{"log":"', b'"}', b"  | ", b"> ", b"-----BEGIN PRIVATE KEY-----", b"0: ",
    b"Mar 08 12:29:13 h s[1]: ", b"2025-03-08T12:29:13.159073700Z ", b"ServerArgs(", b"'", b")",
)  # fmt: skip


def seeds() -> dict[str, bytes]:
    """Pieces of each log, with each carrier's clothes on some, and all wordings of each event together."""
    found: dict[str, bytes] = {}
    for path in sorted(CORPUS.glob("*/log.txt")):
        lines = path.read_bytes().splitlines(keepends=True)
        piece = b""
        for line in [*lines, b""]:
            if len(piece) + len(line) > PIECE or not line:
                found[f"{path.parent.name}-{len(found)}"] = piece
                piece = b""
                if sum(name.startswith(path.parent.name) for name in found) >= 4:
                    break
            piece += line[:PIECE]
    for name, raw in list(found.items())[::12]:
        text = raw.decode("utf-8", "replace")
        found[f"json-{name}"] = "\n".join(json.dumps({"log": f"{line}\n"}) for line in text.split("\n")).encode()
        found[f"wrapped-{name}"] = "\n".join(text[n : n + 80] for n in range(0, len(text), 80)).encode()
        found[f"gzip-{name}"] = gzip.compress(raw, mtime=0)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("a/server.log", raw)
        found[f"zip-{name}"] = packed.getvalue()
    events: dict[str, list[str]] = {}
    for declaration in DECLARATIONS:
        events.setdefault(declaration.event.__module__, []).extend(declaration.samples)
    for module, samples in events.items():
        for at in range(0, len(samples), 12):
            lines = [f"[2025-03-08 12:29:{n:02} TP0] {text}" for n, text in enumerate(samples[at : at + 12])]
            found[f"{module.rsplit('.', 1)[-1]}-{at}"] = "\n".join(lines).encode()
    return found


def words() -> list[bytes]:
    """What the engine looks for: the literals of all declarations and patterns."""
    literals = {literal.encode() for d in DECLARATIONS for literal in d.literals}
    literals |= {literal.encode() for pattern in PATTERNS for literal in pattern.literals}
    return sorted(literals | set(WORDS))


def main(folder: Path) -> None:
    (folder / "seeds").mkdir(parents=True, exist_ok=True)
    for name, raw in seeds().items():
        (folder / "seeds" / name).write_bytes(raw)
    quoted = ("".join(f"\\x{byte:02x}" for byte in word[:64]) for word in words())
    (folder / "words.dict").write_text("".join(f'"{word}"\n' for word in quoted))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
