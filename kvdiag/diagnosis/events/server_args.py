"""The arguments of a launch: the line SGLang prints of them, the command a user pasted, and what was changed."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import DECIMAL, NUMBER, WORD, Event, read_from

_SOURCE = "sglang/srt/entrypoints/engine.py (srt/server.py up to 0.4.0): _launch_subprocesses()"
_ARGS = "sglang/srt/server_args.py: __post_init__()"


@read_from(
    r"server_args=ServerArgs\(|server_args=\{",
    fields={"body": r"server_args=(?:ServerArgs\(|\{)(.*)", "form": r"server_args=(ServerArgs|\{)"},
    samples={
        "0.2.15..0.5.17": "server_args=ServerArgs(model_path='m', mem_fraction_static=0.85, tp_size=4)",
        "0.5.19..0.5.23": "server_args={'model_path': 'm', 'mem_fraction_static': 0.85, 'tp_size': 4}",
    },
    source=_SOURCE,
)
class ServerArgs(Event):
    """The full argument set, as text: a call's arguments up to 0.5.17, a dict's items from 0.5.19."""

    body: str | None
    form: str | None = None


@read_from(
    r"sglang[.](?:launch_server|bench_one_batch|bench_latency|bench_offline_throughput)(?:[\"',]|\s+(?:-|\\|\[)|\s*$)"
    r"|sglang serve\s+[-\w/\\]",
    literals=(
        "sglang.launch_server",
        "sglang.bench_one_batch",
        "sglang.bench_latency",
        "sglang.bench_offline",
        "sglang serve ",
    ),
    excludes=(
        "server_args=",
        "Traceback",
        'File "',
        "Warning",
        "Killed",
        "deprecated",
        "Example:",
        "<model",
        "DeepGEMM",
    ),
    fields={"command": r"(.*)"},
    samples=(
        "python3 -m sglang.launch_server --model-path m --tp 8 --mem-fraction-static 0.88",
        "python3 -m sglang.bench_one_batch --model-path m --batch-size 1",
        "python3 -m sglang.bench_latency --model-path m --batch-size 1",
        "python3 -m sglang.bench_offline_throughput --model-path m",
        "sglang serve --model-path m --tp 8",
        '      command: ["python3", "-m", "sglang.launch_server", "--tp", "8"]',
    ),
    source="a shell's command line, a container's command",
)
class LaunchCommand(Event):
    """A launch command above the log or within it: the line that names the module, and whatever else stands on it."""

    command: str | None


@read_from(
    # A bare NAME=VALUE may be PyTorch's own hint, broken over two lines.
    r"^\W{0,32}(?:(?:export |set -x |ENV |-e |--env[ =]|- )[\"']?PYTORCH_(?:[A-Z]{2,5}_)?ALLOC_CONF[ =:]"
    r"|(?:os\.environ\[)?[\"']?PYTORCH_(?:[A-Z]{2,5}_)?ALLOC_CONF(?:[\"']?: |[\"']\] ?= ?)"
    r"|value: ?).{0,80}\bexpandable_segments:True(?! to\b)"
    r"|^\s{0,32}PYTORCH_(?:[A-Z]{2,5}_)?ALLOC_CONF=\S{0,80}expandable_segments:True\S{0,80} \\\s*$",
    literals=("expandable_segments:True",),
    excludes=("out of memory", "try setting"),
    samples=(
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "  -e PYTORCH_ALLOC_CONF=expandable_segments:True \\",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \\",
        "      - PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        '      PYTORCH_NPU_ALLOC_CONF: "expandable_segments:True"',
        'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"',
        '              value: "expandable_segments:True"',
    ),
    source="a shell's, a container's or a manifest's settings around a launch command",
    fallback=True,
)
class ExpandableSegments(Event):
    """PyTorch's allocator is told to grow its segments."""


_OWN_FLAGS = (  # of SGLang's server alone, each with a number
    "mem-fraction-static",
    "chunked-prefill-size",
    "max-prefill-tokens",
    "max-running-requests",
    "cuda-graph-max-bs",
    "schedule-conservativeness",
    "speculative-num-steps",
    "speculative-eagle-topk",
    "speculative-num-draft-tokens",
    "max-mamba-cache-size",
    "mamba-full-memory-ratio",
    "swa-full-tokens-ratio",
    "hicache-ratio",
    "hicache-size",
)
_SHARED_FLAGS = (  # that a block of them may begin with
    "model-path",
    "model",
    "tp-size",
    "tp",
    "dp-size",
    "ep-size",
    "context-length",
    "kv-cache-dtype",
    "page-size",
    "attention-backend",
    "max-total-tokens",
)
OWN_FLAG = rf"(?<!\S)--({'|'.join(_OWN_FLAGS)})[ =]\d"


@read_from(
    r"^\s{0,32}(?:- [\"']?(?=--[a-z-]+=))?--"
    rf"(?:(?:{'|'.join(_OWN_FLAGS)})[ =]\d|(?:{'|'.join(_SHARED_FLAGS)})[ =][^\sA-Z])",
    literals=tuple(f"--{name}" for name in (*_OWN_FLAGS, *_SHARED_FLAGS)),
    excludes=("sglang.", "sglang serve", "usage:"),
    fields={"text": r"(.*)"},
    samples=("--mem-fraction-static 0.85", "    --tp-size 2 \\", "  - --max-running-requests=16"),
    source="flags of a launch command, pasted without its head",
    fallback=True,
)
class FlagLine(Event):
    """A line of flags that stands without the head of its command, or below it."""

    text: str | None


@read_from(
    r"page_size=\w+, .*_size=",
    literals=("page_size=",),
    excludes=("server_args=", "kvcached", "mem_size_per_layer"),
    fields={"body": r"(\w+=.*)"},
    samples=(
        "page_size=128, hybrid_kvcache_ratio=None, swa_full_tokens_ratio=0.8, radix_eviction_policy='lru',"
        " device='npu',"
        " tp_size=1",
    ),
    source="a part of the server_args line, as quoted in reports",
)
class ServerArgsFragment(Event):
    """A piece of the server_args line without its beginning."""

    body: str | None


@read_from(
    r"Automatically reduce --mem-fraction-static to",
    fields={"value": r"--mem-fraction-static to ([\d.]+\d)"},
    constants={"argument": "mem_fraction_static"},
    samples={"0.4.1..0.4.8": "Automatically reduce --mem-fraction-static to 0.792 because this is a multimodal model."},
    source="sglang/srt/model_executor/model_runner.py: __init__()",
)
@read_from(
    r"Multimodal model: Dynamically adjusted --mem-fraction-static from",
    fields={"value": r" to: ([\d.]+\d)", "before": r"from: ([\d.]+\d)"},
    constants={"argument": "mem_fraction_static"},
    samples={"0.4.9..0.4.10": "Multimodal model: Dynamically adjusted --mem-fraction-static from: 0.850 to: 0.808."},
    source=_ARGS,
)
@read_from(
    r"Automatically turn off --chunked-prefill-size and adjust --mem-fraction-static",
    constants={"argument": "chunked_prefill_size", "value": "-1"},
    samples={
        "0.2.15..0.4.0": "Automatically turn off --chunked-prefill-size and adjust --mem-fraction-static for multimodal"
        " models."
    },
    source="sglang/srt/model_executor/model_runner.py: __init__()",
)
@read_from(
    r"Setting max_running_requests to",
    fields={"value": rf"max_running_requests to {NUMBER}"},
    constants={"argument": "max_running_requests"},
    samples={"0.5.12..0.5.23": "Setting max_running_requests to 256 for DeepseekV4ForCausalLM."},
    source=_ARGS,
)
@read_from(
    r"Setting KV cache dtype to",
    fields={"value": rf"KV cache dtype to {WORD}"},
    constants={"argument": "kv_cache_dtype"},
    samples={"0.5.12..0.5.14": "Setting KV cache dtype to fp8_e4m3 for DeepseekV4ForCausalLM."},
    source=_ARGS,
)
@read_from(
    r"Setting swa_full_tokens_ratio to",
    fields={"value": rf"swa_full_tokens_ratio to {DECIMAL}"},
    constants={"argument": "swa_full_tokens_ratio"},
    samples={"0.5.12..0.5.14": "Setting swa_full_tokens_ratio to 0.1 for DeepseekV4ForCausalLM."},
    source=_ARGS,
)
@read_from(
    r"Reset swa_full_tokens_ratio to",
    fields={"value": rf"swa_full_tokens_ratio to {DECIMAL}"},
    constants={"argument": "swa_full_tokens_ratio"},
    samples={
        "0.5.9..0.5.23": "Reset swa_full_tokens_ratio to 1.0 for Step3p5ForCausalLM model with hierarchical cache"
    },
    source=_ARGS,
)
@read_from(
    r"Disable hybrid SWA memory for",
    constants={"argument": "disable_hybrid_swa_memory", "value": "True"},
    samples={"0.5.9..0.5.23": "Disable hybrid SWA memory for Step3p5ForCausalLM model with hierarchical cache"},
    source=_ARGS,
)
@read_from(
    r"normally scales mem_fraction_static by",
    fields={"before": rf"mem_fraction_static by {DECIMAL}"},
    constants={"argument": "mem_fraction_static"},
    samples={
        "0.5.19..0.5.23": "attention_backend=aiter with context_len=131072 (>8192) normally scales"
        " mem_fraction_static by"
        " 0.85; the explicit value is kept."
    },
    source=_ARGS,
)
@read_from(
    r"setting symmetric memory prealloc size to",
    fields={"value": r"prealloc size to (\d+)GB"},
    constants={"argument": "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE"},
    samples={
        "0.5.9..0.5.23": "Symmetric memory is enabled, setting symmetric memory prealloc size to 4GB as default.Use"
        " environment variable SGLANG_SYMM_MEM_PREALLOC_GB_SIZE to change the prealloc size."
    },
    source=_ARGS,
)
@read_from(
    r"chunked prefill size is adjusted to|chunked_prefill_size is adjusted to|The chunked prefill size is adjusted to"
    r"|chunked prefill size is adjusted from",
    literals=("prefill size is adjusted", "prefill_size is adjusted"),
    fields={"value": r"adjusted (?:from \d+ )?to (\d+)"},
    constants={"argument": "chunked_prefill_size"},
    samples={"": "DP attention is enabled. The chunked prefill size is adjusted to 4096 to avoid MoE kernel issues."},
    source=_ARGS,
)
@read_from(
    r"max_running_requests to 48 for speculative decoding|Max running requests is reset to",
    fields={"value": r"(?:requests is reset to|max_running_requests to) (\d+)"},
    literals=("Max running requests is reset to", "for speculative decoding"),
    constants={"argument": "max_running_requests"},
    samples={"": "Max running requests is reset to 48 for speculative decoding."},
    source=_ARGS,
)
@read_from(
    r"[Ss]etting page size to|page_size to \d+",
    literals=("etting page size to", "etting page_size to", "change page_size to", "hanging page_size to"),
    fields={"value": r"page[ _]size to (\d+)"},
    constants={"argument": "page_size"},
    samples={
        "": (
            "Setting page size to 64 for FlashMLA attention backend.",
            "Setting page_size to 64 for the DSA attention backend.",
        )
    },
    source=_ARGS,
)
class ArgumentAdjusted(Event):
    """SGLang changed an argument and said so; `value` None where the line tells only of it."""

    argument: str
    value: str | None
    before: str | None = None


@read_from(
    r"is larger than max supported value|is greater than the derived context_length|greater than the derived context",
    literals=("is greater than the derived context", "context_length ("),
    fields={"given": r"context_length \((\d+)\)", "derived": r"derived context_length \((\d+)\)"},
    samples={
        "0.3.6..0.4.10": "ValueError: User-specified context_length (131072) is greater than the derived context_length"
        " (32768). This may lead to incorrect model outputs or CUDA errors. To allow overriding this maximum, set"
        " the env"
        " var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        "0.5.1..0.5.23": "Warning: User-specified context_length (131072) is greater than the derived context_length"
        " (32768). This may lead to incorrect model outputs or CUDA errors.",
    },
    source="sglang/srt/configs/model_config.py",
)
class ContextTooLong(Event):
    """More context is asked for than the model has. Not a memory error."""

    given: int | None
    derived: int | None


@read_from(
    r"Overriding the draft model's max_position_embeddings to",
    fields={"derived": rf"embeddings to {NUMBER}"},
    samples={"0.5.3..0.5.23": "Overriding the draft model's max_position_embeddings to 131072."},
    source="sglang/srt/configs/model_config.py",
)
class DraftContextRaised(Event):
    """The draft takes the target's context length."""

    derived: int | None


@read_from(
    r"launch_server\.py: error:|sglang: error: |: error: argument --|: error: unrecognized arguments"
    r"|error: the following arguments are required",
    literals=(": error: ",),
    fields={"message": r"error: (.*)"},
    samples=(
        "launch_server.py: error: unrecognized arguments: --mem-fraction",
        "usage: launch_server.py: error: argument --tp: invalid int value: 'x'",
    ),
    source="argparse",
)
@read_from(
    r"--cuda-graph-prefill-max-context exceeds",
    fields={"message": r"(--cuda-graph.*)"},
    samples={"0.5.21..0.5.23": "ValueError: --cuda-graph-prefill-max-context exceeds the context length (32768)."},
    source=_ARGS,
)
@read_from(
    r"enable-hierarchical-cache and disable-radix-cache are mutually exclusive",
    fields={"message": r"(The arguments .*)"},
    samples={
        "0.5.1..0.5.23": "ValueError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually"
        " exclusive and cannot be used at the same time."
    },
    source=_ARGS,
)
class ArgumentsRefused(Event):
    """The command line is not accepted."""

    message: str | None


@read_from(
    r"(?:(?i:sglang)(?: [vV]ersion:?|==|:v| ?: +| {2,})|(?i:sglang)-(?!\d[\w.]*/))\s*v?\d+\.\d+",
    literals=(
        "sglang:v",
        "sglang version",
        "SGLang Version",
        "SGLang version",
        "sglang==",
        "sglang: ",
        "sglang-0.",
        "sglang   ",
    ),
    excludes=("server_args=",),
    fields={
        "version": r"(?:(?i:sglang)(?: [vV]ersion:?|==|:v| ?: +| {2,})|(?i:sglang)-(?!\d[\w.]*/))"
        r"\s*v?(\d+\.\d+(?:\.\d+)?(?:[.-]?(?:post|rc|dev)\d+)?)"
    },
    samples={
        "0.5.8..0.5.23": "sglang version: 0.5.9",
        "": (
            "sglang: 0.4.6.post5",
            "sglang==0.4.3.post4",
            "Successfully installed flashinfer-0.2.3 sglang-0.4.6 torch-2.6.0",
            "sglang                    0.5.2",
            "SGLang Version 0.5.11+05fb6a52",
            "image: lmsysorg/sglang:v0.5.2-cu126",
        ),
    },
    source="`sglang version`, check_env, pip, container banners",
)
class VersionPrinted(Event):
    """The release, where something prints it: no server does by itself."""

    version: str | None
