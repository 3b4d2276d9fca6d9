"""What a text that is no SGLang log looks like: a guess for one sentence, from phrases near its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = 64 << 10

# (what to call it, phrases of which one must be there); the first that fits is taken
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("`nvidia-smi` output", ("NVIDIA-SMI ", "| Processes:", "Volatile Uncorr. ECC")),
    ("`rocm-smi` output", ("ROCm System Management Interface",)),
    (
        "a vLLM log",
        ("vllm.engine", "vLLM API server", "[core.py:", "vllm.entrypoints", "[gpu_worker.py:", "EngineCore"),
    ),
    ("a TensorRT-LLM log", ("[TensorRT-LLM]", "[TRT-LLM]")),
    ("a llama.cpp log", ("llama_model_loader:", "llm_load_print_meta", "ggml_cuda_init")),
    ("a Text Generation Inference log", ("text_generation_launcher", "text_generation_router")),
    ("a web page", ("<!doctype html", "<!DOCTYPE html", "<html")),
    ("a kernel log", ("Linux version ", "NVRM: Xid", "systemd[1]: ")),
    ("`pip` output", ("Successfully installed ", "Requirement already satisfied", "Collecting ")),
    ("a Docker build log", ("Sending build context", "#1 [internal] load", "Step 1/")),
    ("a patch", ("diff --git ", "--- a/")),
    ("a web server's access log", ('HTTP/1.1" 200', 'HTTP/1.0" 200')),
    ("the output of `collect_env`", ("Collecting environment information", "PyTorch version:")),
    ("Python source code", ("\nimport ", "\ndef ", "\nfrom ")),
    ("a Markdown text", ("\n# ", "\n## ")),
)


def looks_like(folder: Path, files: list[dict[str, Any]]) -> str | None:
    """What the first file looks like, as the end of "It looks like …"; None when nothing fits."""
    for file in files[:1]:
        try:
            with (folder / file["path"]).open("rb") as masked:
                return kind_of(masked.read(HEAD).decode(errors="replace"))
        except (KeyError, OSError):
            return None
    return None


def kind_of(head: str) -> str | None:
    text = "\n" + head
    start = head.lstrip()[:1]
    for kind, phrases in KINDS:
        if any(phrase in text for phrase in phrases):
            return kind
    return "JSON" if start in ("{", "[") and '":' in head else None
