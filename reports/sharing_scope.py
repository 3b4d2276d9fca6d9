"""What a reader of a facts-only link is given: figures and findings, without any of the log's own text.

Made by naming what goes in, not what stays out: a key that a later engine adds is left out until somebody decides. The
same restricted document feeds every form of a shared report, so that no page can show more than another.
"""

from __future__ import annotations

import re
from typing import Any

from kvdiag.diagnosis.defaults import known_fields
from reports.document import dig, listed
from reports.words import base_name

Document = dict[str, Any]

# Arguments whose words say how memory is used. Of SGLang's others numbers and switches are shown, apart from what names
# a place or opens something; one that SGLang does not have says what its owner's own code does.
SPOKEN_ARGUMENTS = {
    "attention_backend", "decode_attention_backend", "prefill_attention_backend", "mm_attention_backend",
    "sampling_backend", "kv_cache_dtype", "quantization", "dtype", "speculative_algorithm", "device", "load_format",
    "moe_runner_backend", "moe_a2a_backend", "deepep_mode", "schedule_policy", "disaggregation_mode",
    "hicache_write_policy", "hicache_mem_layout", "hicache_io_backend", "cuda_graph_mode", "mamba_ssm_dtype",
}  # fmt: skip
PLACES = {
    "port",
    "dist_init_addr",
    "host",
    "random_seed",
    "node_rank",
    "api_key",
}

OWN_WORDS = ("sizing", "gpu_oom", "host_oom")  # failures whose message SGLang or PyTorch words alike for everybody
# The rules that say an error is none of memory's cite the error after a colon.
_REASON = re.compile(r"(not for want of memory):.*", re.DOTALL)
CITED = 16  # characters in common with the failure's message: shorter ones are words that both use
# Engine sentences may cite what the log said: paths, addresses and quoted text come out of them.
_PATH = re.compile(r"(?<![\w/.])(?:~|\.{0,2})?(?:/[^\s/,;:'\"()<>]+){2,}/?")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b")

RANK_KEYS = {
    "id", "dp", "pp", "tp", "ep", "gpu", "capacity_gib", "readings", "entries", "opening_gib", "free_gib",
    "unexplained_gib", "earlier", "later", "kv_tokens", "kv_gib", "mamba_slots", "mamba_gib", "hicache_host_gib",
    "draft",
}  # fmt: skip
LAUNCH_KEYS = {
    "number", "first_line", "last_line", "started_at", "ready_after_s", "outcome", "stage", "verdict", "version",
    "parallel", "gpu", "kv_cache", "limits", "serving", "oom", "not_run", "passed", "not_applicable", "turn",
    "fraction", "coverage", "confidence", "phases", "checks", "parallel_seen", "ready_lines", "ranks_read",
    "oom_untold",
}  # fmt: skip
FINDING_KEYS = {"rule", "title", "severity", "confidence", "summary", "why", "ranks", "remedies", "formula"}
CONSTANT = {
    "rule",
    "as_under",
    "title",
    "flag",
    "formula",
    "module",
    "function",
}  # the engine's own words, whatever the log says
# Keys that hold the log's text; `inputs` repeats the arguments for the what-if of those who may see them.
SPOKEN_TEXT = {
    "inputs",
    "text",
    "message",
    "traceback",
    "command",
    "path",
    "name_in_log",
    "raw",
    "line_text",
    "lines_text",
    "node",
}


def facts_only(document: Document) -> Document:
    """The document without the log's text: no evidence, messages, command, paths, file names, or unread lines."""
    files = listed(document, "upload", "files")
    masked = dig(document, "upload", "masked") or {}
    return {
        "schema": document.get("schema"),
        "engine": document.get("engine"),
        "upload": {
            "files": [_file(file, number, len(files)) for number, file in enumerate(files, 1)],
            "masked": {kind: count for kind, count in masked.items() if isinstance(count, int)},
            "is_sglang": dig(document, "upload", "is_sglang"),
            **_starts(dig(document, "upload", "launches")),
        },
        "launches": [_launch(launch) for launch in listed(document, "launches")],
    }


def _starts(counts: Any) -> dict[str, Any]:
    """How many of very many starts the report reads."""
    kept = {key: dig(counts, key) for key in ("read", "all")}
    return {"launches": kept} if all(isinstance(count, int) for count in kept.values()) else {}


SCENARIO_KEYS = {
    "starts", "refused", "fraction", "tokens", "total_tokens", "kv_gib", "free_gib", "requests", "request_tokens",
    "host_gb", "wanted_free_gib", "needed_free_gib", "starts_from", "keeps_wanted", "equations", "validity", "cautions",
}  # fmt: skip


def scenario_within_facts(found: dict[str, Any]) -> dict[str, Any]:
    """A what-if answer without the log's text: no command, and of a flag's values only those that the facts show."""
    shown = {key: _plain(value) for key, value in found.items() if key in SCENARIO_KEYS}
    verdict = {"tone": dig(found, "verdict", "tone"), "text": scrub(str(dig(found, "verdict", "text") or ""))}
    flags = [_flag(flag) for flag in listed(found, "flags")]
    # A drawing's words come from fixed lists, its figures from the facts.
    return shown | {"verdict": verdict, "flags": flags, "figure": found.get("figure")}


def _flag(flag: dict[str, Any]) -> dict[str, Any]:
    name = str(flag.get("flag") or "").split(" ")[-1].lstrip("-").replace("-", "_")
    kept = {key: flag.get(key) for key in ("from", "to")}
    return {"flag": flag.get("flag")} | {key: _value(name, value) for key, value in kept.items()}


def _value(name: str, value: Any) -> Any:
    """The value of a flag where the facts show it; else a sign that it had one."""
    if value is None or value == "" or isinstance(value, bool | int | float) or name in SPOKEN_ARGUMENTS:
        return _plain(value)
    return value if _NUMBER.fullmatch(str(value)) else "…"


def _file(file: dict[str, Any], number: int, count: int) -> dict[str, Any]:
    kept = {key: file.get(key) for key in ("bytes", "lines", "gap")}
    return {
        **kept,
        "name": "log" if count == 1 else f"log {number}",
        "encoding": None,
        "compression": None,
        "carriers": [],
    }


def _launch(launch: dict[str, Any]) -> dict[str, Any]:
    shown = {key: _plain(value) for key, value in launch.items() if key in LAUNCH_KEYS}
    model = launch.get("model") or {}
    shown["model"] = {
        **{key: _plain(model.get(key)) for key in ("architecture", "quantization", "dtype", "kv_cache_dtype")},
        "path": base_name(model.get("path")).rpartition("/")[2] or None,
    }
    shown["arguments"] = {name: kept for name, each in _arguments(launch) if (kept := _argument(name, each))}
    shown["ranks"] = [
        {key: _plain(value) for key, value in rank.items() if key in RANK_KEYS} for rank in listed(launch, "ranks")
    ]
    failure = launch.get("failure")
    shown["failure"] = (
        {"kind": failure.get("kind"), "stage": failure.get("stage"), "message": None, "lines": []} if failure else None
    )
    shown["findings"] = [
        {**{key: _plain(value) for key, value in finding.items() if key in FINDING_KEYS}, "evidence": []}
        for finding in listed(launch, "findings")
    ]
    shown["not_understood"] = []
    own_words = dig(launch, "failure", "kind") in OWN_WORDS
    message = "" if own_words else str(dig(launch, "failure", "message") or "")[:2000]
    cited = {message[at : at + CITED] for at in range(len(message) - CITED + 1)}
    for key in ("verdict", "findings", "checks"):
        shown[key] = _uncited(shown.get(key), cited)
    return shown


def _arguments(launch: dict[str, Any]) -> list[tuple[str, Any]]:
    arguments = launch.get("arguments")
    return list(arguments.items()) if isinstance(arguments, dict) else []


def _argument(name: str, argument: Any) -> dict[str, Any] | None:
    value = dig(argument, "value")
    if name in PLACES or name.endswith("_port") or name not in known_fields() | SPOKEN_ARGUMENTS:
        return None
    if not (value is None or isinstance(value, bool | int | float) or name in SPOKEN_ARGUMENTS):
        return None
    return {"value": _plain(value), "origin": dig(argument, "origin")}


def _plain(value: Any) -> Any:
    """The value without text of the log: keys that hold such text go, and sentences lose paths and addresses."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in SPOKEN_TEXT}
        return {key: each if key in CONSTANT and isinstance(each, str) else _plain(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return scrub(value) if isinstance(value, str) else value


def _uncited(value: Any, cited: set[str]) -> Any:
    """The value with sentences that cite the failure's message cut short there: the message is the log's own text.

    cited  every piece of the message that is long enough
    """
    if isinstance(value, dict):
        return {key: each if key in CONSTANT else _uncited(each, cited) for key, each in value.items()}
    if isinstance(value, list):
        return [_uncited(each, cited) for each in value]
    if not isinstance(value, str):
        return value
    value = _REASON.sub(r"\1.", value)
    found = (at for at in range(len(value) - CITED + 1) if value[at : at + CITED] in cited) if cited else iter(())
    at = next(found, None)
    return value if at is None else f"{value[:at].rstrip(' :“')} …"


def scrub(sentence: str) -> str:
    """A sentence of the engine without paths, addresses and URLs that it may have taken from the log."""
    for pattern, word in ((_URL, "<address>"), (_MAIL, "<address>"), (_ADDRESS, "<address>"), (_PATH, "<path>")):
        sentence = pattern.sub(word, sentence)
    return sentence[:2000]
