"""Loading weights, of the target and of a draft model, and what comes with them."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import AMOUNT, DECIMAL, GIB, NUMBER, SIZE, ByteCount, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/model_runner.py: load_model()"


@read_from(
    r"Load weight begin\.",
    fields={"available": rf"avail mem={AMOUNT}"},
    samples={"0.2.15..0.5.23": "Load weight begin. avail mem=94.04 GB"},
    source=_SOURCE,
)
class WeightsBegin(Event):
    """Free memory of a rank's GPU before a model loads."""

    available: Bytes | None


@read_from(
    r"Load weight end\.",
    excludes=("Committed real weights",),
    fields={
        "architecture": r"type=(\w+)",
        "dtype": r"[, ]dtype=([\w.]+)",
        "quantization": r"quant=([\w.-]+)",
        "bits": rf"bits={NUMBER}",
        "format": r"fmt=([\w.-]+)",
        "available": rf"avail mem={AMOUNT}",
        "used": rf"mem usage={GIB}",
        "elapsed_s": rf"elapsed={DECIMAL}",
    },
    samples={
        "0.2.15..0.4.1": "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.27 GB",
        "0.4.3..0.5.8": "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB,"
        " mem usage=15.54 GB.",
        "0.5.9..0.5.9": "Load weight end. elapsed=252.37 s, type=KimiK25ForConditionalGeneration,"
        " dtype=torch.bfloat16, avail mem=21.71 GB, mem usage=72.33 GB.",
        "0.5.10..0.5.23": (
            "Load weight end. elapsed=4.20 s, type=LlamaForCausalLM, avail mem=49.33 GB, mem usage=29.15 GB.",
            "Load weight end. elapsed=12.02 s, type=Qwen3MoeForCausalLM, quant=fp8, fmt=e4m3, avail mem=49.33 GB,"
            " mem usage=29.15 GB.",
            "Load weight end. elapsed=12.02 s, type=Qwen3_5ForCausalLMMTP, quant=auto-round, bits=4,"
            " quant_algo=W4A16, requantization_method=none, avail mem=9.33 GB, mem usage=2.57 GB.",
        ),
    },
    source=_SOURCE,
)
class WeightsLoaded(Event):
    """A model's weights are on the GPU. A draft model makes a second event."""

    architecture: str | None
    dtype: str | None
    quantization: str | None
    available: Bytes | None
    used: Bytes | None  # absent up to 0.4.1; may be negative
    elapsed_s: float | None
    bits: int | None = None
    format: str | None = None

    @property
    def is_draft_by_type(self) -> bool:
        """Whether the class name is one of a speculative draft's."""
        name = self.architecture or ""
        return name.endswith(("Eagle", "Eagle3", "NextN", "MTP")) or "Draft" in name or "Eagle" in name


@read_from(
    r"Committed real weights after CUDA graph capture",
    fields={"elapsed_s": rf"capture in {DECIMAL}", "total_s": rf"startup overlap total {DECIMAL}"},
    samples={
        "0.5.19..0.5.23": "Load weight end. Committed real weights after CUDA graph capture in 1.20 s (capture overlap"
        " window 8.10 s, startup overlap total 21.43 s)"
    },
    source=_SOURCE,
)
class WeightsCommitted(Event):
    """Weights that loaded while graphs were captured are in place. No figure of memory."""

    elapsed_s: float | None
    total_s: float | None


@read_from(
    r"Loading \w+ checkpoint shards: +\d+%|Multi-thread loading (?:\w+ ){0,2}shards: +\d+%"
    r"|Loading safetensors using [\w ]+: +\d+%",
    literals=("checkpoint shards:", "Multi-thread loading", "Loading safetensors using"),
    fields={
        "percent": r"(?:shards|\w{6,}): +(\d+)%",
        "done": r"\| +(\d+)/\d+ \[",
        "total": r"\| +\d+/(\d+) \[",
        "what": r"(Loading \w+ checkpoint shards|Multi-thread loading (?:\w+ ){0,2}shards|Loading safetensors using"
        r" [\w ]+):",
    },
    samples={
        "0.3.6..0.5.23": (
            "Loading safetensors checkpoint shards:  25% Completed | 2/8 [00:01<00:05,  1.13it/s]",
            "Loading pt checkpoint shards: 100% Completed | 8/8 [00:07<00:00,  1.13it/s]",
            "Loading np_cache checkpoint shards: 100% Completed | 8/8 [00:07<00:00,  1.13it/s]",
        ),
        "0.5.9..0.5.23": (
            "Multi-thread loading shards:  13% Completed | 19/142 [00:25<00:00,  5.66it/s]",
            "Multi-thread loading pt checkpoint shards:  13% Completed | 1/8 [00:25<00:00,  5.66it/s]",
        ),
        "0.5.23..0.5.23": (
            "Loading safetensors using Runai Model Streamer:  13% Completed | 1/8 [00:25<00:00,  5.66it/s]",
            "Loading safetensors using Fastsafetensor loader:  13% Completed | 1/8 [00:25<00:00,  5.66it/s]",
            "Loading safetensors using InstantTensor:  13% Completed | 1/8 [00:25<00:00,  5.66it/s]",
        ),
    },
    source="sglang/srt/model_loader/weight_utils.py, tqdm",
    alone=True,
)
class ShardProgress(Event):
    """How many files of a checkpoint are read; a bar carries no rank. A launch keeps the last of a run of bars."""

    percent: int | None
    done: int | None
    total: int | None
    what: str | None


@read_from(
    r"Update weights begin\.|Update engine weights online from disk begin\.",
    fields={"available": rf"avail mem={AMOUNT}"},
    samples={
        "0.2.15..0.3.6": "Update weights begin. avail mem=10.20 GB",
        "0.4.0..0.5.23": "Update engine weights online from disk begin. avail mem=10.20 GB",
    },
    source=_SOURCE,
)
class OnlineUpdateBegin(Event):
    """New weights arrive in a running server: not a start."""

    available: Bytes | None


@read_from(
    r"LoRA adapter (?:un)?loading (?:starts|completes)",
    literals=("LoRA adapter loading ", "LoRA adapter unloading "),
    fields={"action": r"LoRA adapter (\w+ \w+)", "available": rf"avail mem={AMOUNT}"},
    samples={
        "0.4.9..0.5.23": (
            "LoRA adapter loading starts: LoRARef(lora_id=a, lora_name=b). avail mem=10.20 GB",
            "LoRA adapter loading completes: LoRARef(lora_id=a, lora_name=b). avail mem=10.18 GB",
            "LoRA adapter unloading starts: LoRARef(lora_id=a, lora_name=b). avail mem=10.18 GB",
            "LoRA adapter unloading completes: LoRARef(lora_id=a, lora_name=b). avail mem=10.20 GB",
        )
    },
    source="sglang/srt/model_executor/model_runner.py: load_lora_adapter()",
)
class LoraAdapter(Event):
    """An adapter comes or goes; `action` such as "loading starts"."""

    action: str | None
    available: Bytes | None


@read_from(
    r"LoRA manager ready\.",
    samples={"0.3.6..0.4.8": "LoRA manager ready."},
    source="sglang/srt/model_executor/model_runner.py: init_lora_manager()",
)
@read_from(
    r" as backend of LoRA kernels\.",
    fields={"backend": r"Using (\w+) as backend"},
    samples={"0.4.3..0.5.23": "Using triton as backend of LoRA kernels."},
    source="sglang/srt/lora/lora_manager.py",
)
class LoraReady(Event):
    """LoRA is on; the size of its pool is never printed."""

    backend: str | None


@read_from(
    r"\[offloader\]",
    fields={
        "module": rf"module_index={NUMBER}",
        "allocated": ByteCount(r"memory_allocated(?:\(\))?=(\d+)"),
    },
    samples={
        "0.5.1..0.5.23": (
            "[offloader] offload module_index=3 submodule=mlp memory_allocated=12884901888",
            "[offloader] post_init torch.cuda.memory_allocated()=12884901888",
        )
    },
    source="sglang/srt/offloader.py",
)
class Offload(Event):
    """Weights moved to the host; `allocated` is what the GPU still holds."""

    module: int | None
    allocated: Bytes | None


@read_from(
    r"Required memory for warmup:",
    fields={"required": rf"for warmup: {GIB}", "available": rf"Available memory: {GIB}"},
    samples={"0.5.6..0.5.23": "Required memory for warmup: 1.8125GB, Available memory: 9.2031GB"},
    source="sglang/srt/layers/deep_gemm_wrapper/compile_utils.py",
)
@read_from(
    r" is less than required memory ",
    fields={
        "available": rf"Available memory {GIB}",
        "required": rf"required memory {GIB}",
        "reduced_to": rf"reducing max_m to {NUMBER}",
    },
    samples={
        "0.5.6..0.5.23": "Available memory 0.7031GB is less than required memory 1.8125GB for warmup, reducing max_m to"
        " 4096 to avoid out of memory"
    },
    source="sglang/srt/layers/deep_gemm_wrapper/compile_utils.py",
)
@read_from(
    r"DeepGEMM masked layout budget:",
    fields={"required": rf"budget: {SIZE}", "available": rf"from {SIZE}"},
    samples={"0.5.19..0.5.23": "DeepGEMM masked layout budget: 1.50 GiB from 9.20 GiB free."},
    source="sglang/srt/layers/deep_gemm_wrapper/compile_utils.py",
)
class DeepGemmWarmup(Event):
    """Memory that DeepGEMM's warm-up wants and finds."""

    required: Bytes | None
    available: Bytes | None
    reduced_to: int | None = None


@read_from(
    r"torch-memory-saver is not installed|torch_memory_saver is not enabled",
    samples={
        "0.4.6..0.5.23": "enable_memory_saver is enabled, but torch-memory-saver is not installed. Please install it.",
        "0.4.5..0.5.23": "`region` will not save memory because torch_memory_saver is not enabled.",
    },
    source="sglang/srt/torch_memory_saver_adapter.py",
)
class MemorySaverOff(Event):
    """Memory will not be released on request."""


@read_from(
    r"Model does not fit to the GPU mem\.",
    constants={"what": "calibration"},
    samples={"": "Model does not fit to the GPU mem. We apply the following memory limit for calibration: ..."},
    source="sglang/srt/model_loader/loader.py: ModelOptModelLoader",
)
@read_from(
    r"Loading weights with BitsAndBytes quantization",
    constants={"what": "bitsandbytes"},
    samples={"0.4.0..0.5.23": "Loading weights with BitsAndBytes quantization.  May take a while ..."},
    source="sglang/srt/model_loader/loader.py: BitsAndBytesModelLoader",
)
@read_from(
    r"Using draft model load_format:",
    constants={"what": "draft load format"},
    samples={"0.5.3..0.5.23": "Using draft model load_format: 'auto'"},
    source=_SOURCE,
)
@read_from(
    r"Initialized DFLASH draft runner\.|DFLASH draft runner ready\.",
    constants={"what": "DFLASH draft"},
    samples={
        "0.5.11..0.5.23": (
            "Initialized DFLASH draft runner. attention_backend=fa3, model=DFlashDraftModel, block_size=16,"
            " draft_window_size=None, compact_cache=False",
            "DFLASH draft runner ready. mask_token=1",
        )
    },
    source="sglang/srt/speculative: DFLASH",
)
class LoadNotice(Event):
    """How the next weights are loaded. `what` names it; the draft's load format stands just before the draft loads."""

    what: str


@read_from(
    r"could finish the model loading, but there are other ranks that didn't finish loading",
    fields={"tp": r"TP rank (\d+) could finish"},
    samples={
        "0.4.3..0.5.23": "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't"
        " finish loading. It is likely due to unexpected failures (e.g., OOM) or a slow node."
    },
    source=_SOURCE,
)
class LoadBarrier(Event):
    """A healthy rank waited in vain for the others: a consequence. Look at the ranks that did not finish."""

    tp: int | None
