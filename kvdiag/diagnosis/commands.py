"""A pasted launch command: of a shell, a container, a Kubernetes manifest; its flags by field name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from kvdiag.diagnosis.arguments import MAX_ARGUMENTS, Value
from kvdiag.diagnosis.defaults import known_fields
from kvdiag.diagnosis.events.server_args import OWN_FLAG, FlagLine, LaunchCommand
from kvdiag.diagnosis.lazy import lazy
from kvdiag.diagnosis.wrapping import NARROWEST, is_own_line

MAX_LINES = 120  # of one command over several lines

# Short and former spellings of a flag, to the field name of the server_args line.
_ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "tensor_parallel": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "attn_cp": "attn_cp_size",
    "attention_context_parallel_size": "attn_cp_size",
    "moe_dp": "moe_dp_size",
    "dcp": "dcp_size",
    "decode_context_parallel_size": "dcp_size",
    "ctx_length": "context_length",
    "max_model_len": "context_length",
    "mem_fraction": "mem_fraction_static",
    "nccl_init_addr": "dist_init_addr",
    "speculative_algo": "speculative_algorithm",
    "speculative_draft_model": "speculative_draft_model_path",
    "speculative_draft": "speculative_draft_model_path",
    "quant": "quantization",
}

# Of a benchmark's own, beside the server's.
_BENCHMARK = frozenset(
    [
        "batch",
        "batch_size",
        "input_len",
        "output_len",
        "run_name",
        "result_filename",
        "correctness_test",
        "cut_len",
        "profile",
        "num_prompts",
        "dataset_name",
        "dataset_path",
        "log_decode_step",
        "profile_filename_prefix",
    ]
)

_MODULE = lazy(r"sglang[.](?:launch_server|bench_\w+)|\bsglang serve\b")
_BARE = lazy(r"sglang[.]launch_server$")
_ENVIRONMENT = lazy(
    r"(?:^|[\s'\"=,])((?:SGLANG|SGL|PYTORCH|FLASHINFER|NCCL|NVSHMEM|CUDA|HIP|ROCR|ASCEND|HCCL|TORCH|VLLM|SYMM)_[A-Z0-9_]+)"
    r"=(\"[^\"]*\"|'[^']*'|[^\s'\"]+)"
)
_ITEM = lazy(r"^\s*-\s+(?![-\w]+:\s)(.*?)\s*$")
_KEY = lazy(r"^\s*(?:-\s+)?(?:command|args|entrypoint)\s*:\s*(.*)$")
_JSON_STRING = lazy(r'"((?:[^"\\]|\\.)*)"')
_QUOTED_MODULE = lazy(r"^\s*[\"'](?:sglang[.]launch_server|sglang)[\"'],?\s*$")
_ENDS = frozenset((">", ">>", "|", "2>&1", "&", "&&", ";", "||", "|&", "2>", "<", "1>"))
_FLAG = lazy(r"\s*--[a-z][\w-]+(?:[ =]|$)")  # goes on a command whose backslash was forgotten
_FLAG_ITEM = lazy(r"\s*- [\"']?(--[a-z][\w-]+=.*)$")
_FLAG_START = lazy(r"(?<!\S)[\"']?-")
_HOLDS_FLAG = lazy(r"(?:^|\s)--[a-z][\w-]+|^-[a-z]+(?:-[a-z]+)*(?:\s|$)")
_ONE_WORD = lazy(r"\s*[\w./:+-]{1,200}\s*$")
_VARIABLE = lazy(r"\$[\w({]")
_OWN_FLAG = lazy(OWN_FLAG)
_NEXT_STATEMENT = lazy(r"^(?:\[\d{4}-|Traceback|INFO|WARNING|#|\$ |>>> )")


def command_text(command: LaunchCommand) -> tuple[str, bool]:
    """A command with the lines it goes on over: after a backslash, down a list, up to a list's closing bracket.

    And whether it is cut: by a record that is glued onto it. A text that ends with a command is whole, for what people
    paste has no line end there.
    """
    first, following = command.command or "", command.line.following(MAX_LINES)
    return join_lines(first, following), command.line.is_glued


def block_of_flags(lines: Sequence[FlagLine]) -> str | None:
    """The flags of a command whose head was not pasted: one block of lines, with two of SGLang's server alone.

    None where lines stand apart: they may be settings that were tried one after another.
    """
    if not lines:
        return None
    first = lines[0]
    texts = [first.text or ""]
    for after in first.line.following(MAX_LINES):
        if not _FLAG.match(after) and not _FLAG_ITEM.match(after):
            break
        texts.append(after)
    last = first.line.number + len(texts) - 1
    if any(x.line.file != first.line.file or not first.line.number <= x.line.number <= last for x in lines):
        return None
    whole = " ".join(_of_an_item(text).removesuffix("\\").rstrip() for text in texts)
    own = _OWN_FLAG.findall(whole)
    return whole if len(own) > 1 and len(set(own)) == len(own) else None


def _of_an_item(text: str) -> str:
    """A line of flags without the dash and the quotes of a manifest's list."""
    item = _FLAG_ITEM.match(text)
    return item[1].strip().rstrip("\"'") if item else text.strip()


def join_lines(first: str, following: Sequence[str]) -> str:
    """See command_text."""
    if _is_list(first) or _QUOTED_MODULE.match(first):
        return _bracketed(first, following)
    item, key = _ITEM.match(first), _KEY.match(first)
    if (item or (key and not key[1].strip("|>-' \""))) and not first.rstrip().endswith("\\"):
        return _items(first, following)
    text, at, last = first.rstrip(), 0, first
    folded = bool(key) or first[:1].isspace() or bool(_BARE.search(text))  # of a manifest, which needs no backslash
    while at < len(following):
        after = following[at]
        if text.endswith("\\") or ((at or folded) and _FLAG.match(after)):
            text = f"{text.removesuffix(chr(92)).rstrip()} {after.strip()}"
        elif _is_cut(last, after):
            text = _mended(text, after)
        else:
            break
        at, last = at + 1, after
    if key and at == 0 and _MODULE.search(first):
        rest = _items("", following)  # `command: [...]` above, `args:` below
        text = f"{text} {rest}".rstrip()
    return text


def _is_cut(line: str, after: str) -> bool:
    """Whether a terminal broke a command behind `line`: no backslash, and flags, or one's value, in the line after."""
    if len(line) < NARROWEST or is_own_line(after) or _NEXT_STATEMENT.match(after):
        return False
    if _HOLDS_FLAG.search(after):
        return True
    words = line.split()
    return bool(words and words[-1].startswith("--") and "=" not in words[-1] and _ONE_WORD.match(after))


def _mended(text: str, after: str) -> str:
    """The two joined: in the middle of a word, unless a flag ends the first part or begins the second."""
    left, right = text.split()[-1], after.strip().split(None, 1)[0]
    if right.startswith("--") or after[:1].isspace():
        return f"{text} {after.strip()}"
    if left.startswith("--") and "=" not in left:
        fields = known_fields()
        is_whole = field_name(left) in fields and field_name((left + right).partition("=")[0]) not in fields
        return f"{text} {after.strip()}" if is_whole else text + after.strip()
    return text + after.strip()


def _is_list(text: str) -> bool:
    return bool(re.search(r"\[\s*[\"']", text)) and bool(re.search(r"[\"'],\s*(?:[\"']|$)|[\"']\s*\]", text))


def _bracketed(first: str, following: Sequence[str]) -> str:
    whole = first[first.index("[") :] if "[" in first else first
    at = 0
    while "]" not in whole and at < len(following):
        whole += f" {following[at]}"
        at += 1
    inner = whole.partition("]")[0]
    words = _JSON_STRING.findall(inner) or re.findall(r"'([^']*)'", inner)
    rest = _items("", following[at:])
    return " ".join([*(_quoted(word) for word in words), rest]).rstrip()


def _items(first: str, following: Sequence[str]) -> str:
    """Words that stand one on a line, as in a manifest."""
    words: list[str] = []
    for text in (first, *following):
        key = _KEY.match(text)
        if key:
            inline = key[1].strip()
            if inline.startswith("["):
                words += [_quoted(w) for w in _JSON_STRING.findall(inline)]
            elif inline not in ("", "|", ">", "|-", ">-"):
                words.append(inline)
            continue
        item = _ITEM.match(text)
        if item:
            value = item[1]
            unquoted = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else None
            words.append(_quoted(unquoted) if unquoted is not None else value.rstrip("\\").strip())
        elif _FLAG.match(text):
            words.append(text.strip())  # of a text that is folded over several lines
        elif text.strip() and text is not first:
            break
    return " ".join(words)


def _quoted(word: str) -> str:
    return shlex.quote(word) if not _MODULE.search(word) or " " not in word else word


def read_command(command: str, is_cut: bool = False) -> dict[str, Value]:
    """The flags after the module's name by field name, and the environment variables SGLang and its libraries read.

    A flag without a value is True, one with several a list. Values are typed as they look.

    is_cut  the log ends within the command: its last flag may have gone on, and is not taken
    """
    if is_cut:
        return read_command(_without_last_flag(command))
    module = _MODULE.search(command)
    found: dict[str, Value] = {name: _typed(_bare(value)) for name, value in _ENVIRONMENT.findall(command[:20_000])}
    words = _words(_inside(command, module.start())[module.end() :] if module else command)
    if words and words[-1] in ("-", "--"):  # the begin of a flag, where a text was cut
        words = words[:-1]
    name: str | None = None
    if module and module[0].endswith("serve") and words and words[0][:1] not in ("-", "$"):
        found["model_path"] = words[0]
    for word in words:
        if word.startswith("--") and len(word) > 2:
            flag, equals, value = word[2:].partition("=")
            name = field_name(flag)
            if not re.fullmatch(r"\w+", name) or name in _BENCHMARK:
                name = None
                continue
            if not (equals and _VARIABLE.search(value)):
                found[name] = _typed(value) if equals else True
            name = None if equals else name
        elif word in _ENDS or word.startswith((">", "2>")):
            break
        elif word.endswith(";"):
            if name is not None:
                found[name] = _typed(word[:-1])
            break
        elif name is not None and _VARIABLE.search(word):
            found.pop(name, None)  # a shell's variable: its value stands elsewhere
            name = None
        elif name is not None:
            now = found.get(name)
            typed = _typed(word)
            found[name] = typed if now is True else [*now, typed] if isinstance(now, list) else [now, typed]
        if len(found) >= MAX_ARGUMENTS:
            break
    return found


def _without_last_flag(command: str) -> str:
    """What stands before a command's last flag; before its last word where it has no flag."""
    flags = list(_FLAG_START.finditer(command, max(0, command.find("sglang"))))
    if not flags:
        return command.rstrip().rpartition(" ")[0]
    last = flags[-1].start()
    return command if _ENDS.intersection(command[last:].split()) else command[:last]


def _inside(text: str, at: int) -> str:
    """Up to the bracket that closes one before `at`: a program that starts servers prints the words as a list."""
    depth = text.count("[", 0, at) - text.count("]", 0, at)
    if depth > 0:
        for end in range(at, len(text)):
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            if depth == 0:
                return text[:end]
    return text


def _words(text: str) -> list[str]:
    text = text.replace("\\\n", " ").replace("\\ ", " ") if text.count("\\ ") > 1 else text
    try:
        return shlex.split(text, comments=False)
    except ValueError:
        return [word.strip("'\"") for word in text.split()]


def _bare(value: str) -> str:
    return value[1:-1] if value[:1] in "'\"" and value[-1:] == value[:1] and len(value) > 1 else value


def field_name(flag: str) -> str:
    """The server_args field of a flag."""
    name = flag.strip().lstrip("-").replace("-", "_")
    return _ALIASES.get(name, name)


def _typed(word: str) -> Value:
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    if re.fullmatch(r"-?\d*\.\d+|-?\d+\.\d*", word) and len(word) < 30:
        return float(word)
    return {"true": True, "false": False, "none": None}.get(word.lower(), word)
