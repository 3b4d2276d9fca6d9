"""Launches as numbers: the composed one of eight cards, and real startups kept as bare figures."""

import json
from pathlib import Path
from typing import Any

from kvdiag.diagnosis.ledger.sizing import DraftModel, Family, PrintedPools, RankMemory, SizingInputs, size_inputs
from kvdiag.diagnosis.ledger.sizing.geometry import geometry_of
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange

STARTUPS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "startups.json").read_text(encoding="utf-8"))
_DTYPES = {"bf16": "bfloat16", "fp8": "fp8_e4m3", "fp4": "fp4_e2m1"}


def kimi(
    fraction: float = 0.88,
    tokens: int | None = 159_277,
    gib: float | None = 10.42,
    after: float = 21.71,
    end: float | None = 7.43,
    **more: Any,
) -> SizingInputs:
    """Kimi-K2.5 INT4 on eight 96 GB cards, release 0.5.9, with an EAGLE-3 draft loaded after the target's pool."""
    ranks = tuple(
        RankMemory(
            id=f"TP{n}", opening=94.04, after_weights=after, pool_end=11.27 if tokens else None, end=end, lowest=end
        )
        for n in range(8)
    )
    values: dict[str, Any] = {
        "ranks": ranks,
        "fraction": fraction,
        "fraction_given": True,
        "release": ReleaseRange.read("0.5.9"),
        "platform": "cuda",
        "family": Family.MLA,
        "geometry": geometry_of("/models/Kimi-K2.5-INT4"),
        "model": "/models/Kimi-K2.5-INT4",
        "kv_dtype": "bfloat16",
        "tp": 8,
        "pools": PrintedPools(tokens=tokens, gib=gib if tokens else None),
        "draft": DraftModel(
            algorithm="EAGLE3",
            weights=0.95,
            tokens=tokens,
            pool=0.60 if tokens else None,
            figures=2,
            steps=3,
            top_k=1,
            draft_tokens=4,
            before_pool=False,
        ),
        "tokens": tokens,
        "running_requests": 48 if tokens else None,
        "max_running_requests": 48,
        "context_length": 131_072,
        "chunked_prefill_size": 2048,
    }
    return SizingInputs(**{**values, **more})


def refused_kimi() -> SizingInputs:
    """The same launch with 0.55 and 10 MB less after the weights: SGLang refuses it."""
    return kimi(fraction=0.55, tokens=None, after=21.70, end=None, refused=True)


def startup(figures: dict[str, Any], release: str | None = "", scale: float = 1.0) -> SizingInputs:
    """A real startup; `release` None hides its release, `scale` multiplies what its pool line prints."""
    version = figures.get("version_for_model") if release == "" else release
    family = Family(figures["kv_family"])
    steps, top_k, draft_tokens = figures.get("spec_params") or (None, None, None)
    draft = None
    if figures.get("spec"):
        draft = DraftModel(
            algorithm=figures["spec"],
            steps=steps,
            top_k=top_k,
            draft_tokens=draft_tokens,
            pool=figures.get("draft_gb"),
            tokens=figures.get("draft_tokens_logged"),
            before_pool=False,
        )
    tokens = int(figures["kv_tokens"] * scale)
    slots = figures.get("slots_logged")
    return SizingInputs(
        ranks=(
            RankMemory(
                id="TP0",
                opening=figures["pre_load_avail_gb"],
                after_weights=figures["avail_after_weights_gb"],
                pool_end=figures.get("memory_pool_end_gb"),
            ),
        ),
        fraction=figures["f"],
        release=ReleaseRange.read(version),
        platform="npu" if "Ascend" in figures.get("gpu", "") else "cuda",
        family=family,
        geometry=geometry_of(figures["model"]),
        model=figures["model"],
        kv_dtype=_DTYPES.get(figures.get("kv_dtype", "")),
        page_size=figures["page_size"],
        tp=figures["tp"],
        dp=figures["dp"],
        dp_attention=figures.get("dp_attention", False),
        pools=PrintedPools(
            tokens=tokens,
            gib=figures["kv_gb"] * scale,
            figures=figures.get("kv_pieces", 4),
            swa_tokens=figures.get("swa_tokens_logged"),
            state_slots=slots,
            state_gib=(slots + 1) * figures["per_slot"] / 2**30 if slots else None,  # one more is allocated
            bytes_per_full_token=figures["cell"] if family is Family.DSV4 else None,
        ),
        draft=draft,
        tokens=tokens,
        running_requests=figures.get("max_running_logged"),
        max_total_tokens=figures.get("max_total_tokens"),
        max_running_requests=figures.get("max_running_requests"),
        context_length=figures.get("context_len"),
        radix_cache=figures.get("radix", True),
        swa_ratio=figures.get("swa_ratio"),
    )


def document(inputs: SizingInputs) -> dict[str, Any]:
    """The launch as a stored report holds it, as far as sizing reads it; through JSON."""
    return dict(
        json.loads(
            json.dumps(
                {
                    "kv_cache": size_inputs(inputs).to_document(),
                    "arguments": {"mem_fraction_static": {"value": inputs.fraction, "origin": "given"}},
                    "ranks": [],
                }
            )
        )
    )
