"""SizingInputs in the report document: written with a launch, read back for what-if and compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry, geometry_of
from kvdiag.diagnosis.ledger.sizing.inputs import (
    AutomaticFraction,
    DraftModel,
    Family,
    FractionCandidate,
    FreeWanted,
    PrintedPools,
    RankMemory,
    SizingInputs,
)
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange

_FAMILIES = {"mha": Family.MHA, "mla": Family.MLA, "swa": Family.SWA, "mamba": Family.LINEAR, "sparse": Family.DSA}


def to_document(inputs: SizingInputs) -> dict[str, Any]:
    """As plain JSON values; figures that are None or at their default are left out."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(inputs):
        value = getattr(inputs, field.name)
        match value:
            case ReleaseRange():
                pairs = (("exact", value.exact), ("from", value.since), ("before", value.before))
                value = {key: str(release) for key, release in pairs if release is not None}
            case tuple():
                value = [_plain(item) for item in value]
            case Family():
                value = value.value
            case FreeWanted():
                value = {} if value == FreeWanted() else _plain(value)
            case AutomaticFraction():
                value = dataclasses.asdict(value)
            case PrintedPools() | DraftModel() | Geometry():
                value = _plain(value)
        said = value is not None and (value is not False or field.name == "fraction_given")  # None is not False there
        if said and value not in ({}, [], ""):
            found[field.name] = value
    return found


def inputs_of_document(launch: Mapping[str, Any]) -> SizingInputs:
    """The numbers of a stored launch: those kept with it, else what the document's own keys tell."""
    cache = _mapping(launch.get("kv_cache"))
    kept = cache.get("inputs")
    return _kept(kept) if isinstance(kept, Mapping) else _from_keys(launch, cache)


def _plain(value: Any) -> dict[str, Any]:
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) is not None
    }


def _kept(kept: Mapping[str, Any]) -> SizingInputs:
    values = {key: kept[key] for key in _names(SizingInputs) if key in kept}
    release = _mapping(kept.get("release"))
    values["release"] = ReleaseRange.read(release.get("exact"), release.get("from"), release.get("before"))
    values["ranks"] = tuple(RankMemory(**_only(RankMemory, rank)) for rank in kept.get("ranks", ()))
    values["pools"] = PrintedPools(**_only(PrintedPools, _mapping(kept.get("pools"))))
    values["draft"] = DraftModel(**_only(DraftModel, kept["draft"])) if kept.get("draft") is not None else None
    values["geometry"] = Geometry(**_only(Geometry, kept["geometry"])) if kept.get("geometry") else None
    values["family"] = Family(kept["family"]) if kept.get("family") else None
    if isinstance(kept.get("automatic"), Mapping):
        known = kept["automatic"]
        candidates = tuple(FractionCandidate(**_only(FractionCandidate, one)) for one in known.get("candidates", ()))
        values["automatic"] = AutomaticFraction(**{**_only(AutomaticFraction, known), "candidates": candidates})
    values["wanted"] = FreeWanted(**_only(FreeWanted, _mapping(kept.get("wanted"))))
    # booleans that are True by default are kept out when they are False
    for name in ("radix_cache", "overlap_schedule"):
        values[name] = bool(kept.get(name, False))
    return SizingInputs(**values)


def _from_keys(launch: Mapping[str, Any], cache: Mapping[str, Any]) -> SizingInputs:
    arguments = _mapping(launch.get("arguments"))
    limits, model = _mapping(launch.get("limits")), _mapping(launch.get("model"))
    parallel, version = _mapping(launch.get("parallel")), _mapping(launch.get("version"))
    ranks = [rank for rank in launch.get("ranks") or () if isinstance(rank, Mapping)]

    def argument(name: str) -> Any:
        value = arguments.get(name)
        return value.get("value") if isinstance(value, Mapping) else value

    def number(name: str) -> float | None:
        value = argument(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def whole(name: str) -> int | None:
        value = number(name)
        return None if value is None else int(value)

    counts = [int(rank["kv_tokens"]) for rank in ranks if rank.get("kv_tokens")]
    counts += [int(value) for value in (limits.get("max_total_num_tokens"),) if value]
    smallest = min((rank for rank in ranks if rank.get("kv_tokens")), key=lambda r: int(r["kv_tokens"]), default=None)
    family = _FAMILIES.get(str(cache.get("family")))
    path = model.get("path")
    return SizingInputs(
        ranks=tuple(_rank(rank, launch) for rank in ranks),
        fraction=number("mem_fraction_static"),
        fraction_given=_mapping(arguments.get("mem_fraction_static")).get("origin") == "given",
        release=ReleaseRange.read(version.get("exact"), version.get("from"), version.get("before")),
        platform=argument("device") if isinstance(argument("device"), str) else None,
        attention_backend=argument("attention_backend") if isinstance(argument("attention_backend"), str) else None,
        family=family,
        geometry=geometry_of(path if isinstance(path, str) else None),
        model=path if isinstance(path, str) else None,
        architecture=model.get("architecture"),
        kv_dtype=model.get("kv_cache_dtype"),
        page_size=whole("page_size") or 1,
        tp=int(parallel.get("tp") or 1),
        pp=int(parallel.get("pp") or 1),
        dp=int(parallel.get("dp") or 1),
        ep=int(parallel.get("ep") or 1),
        nodes=int(parallel.get("nodes") or 1),
        dp_attention=argument("enable_dp_attention") is True,
        pools=PrintedPools(
            tokens=int(smallest["kv_tokens"]) if smallest else None,
            gib=smallest.get("kv_gib") if smallest else None,
            figures=1 if family in (Family.MLA, Family.DSA) else 2,
            state_slots=smallest.get("mamba_slots") if smallest else None,
            state_gib=smallest.get("mamba_gib") if smallest else None,
        ),
        draft=_draft(smallest, argument("speculative_algorithm"), whole),
        tokens=min(counts) if counts else None,
        running_requests=limits.get("max_running_requests"),
        max_total_tokens=whole("max_total_tokens"),
        max_running_requests=whole("max_running_requests"),
        context_length=limits.get("context_len") or whole("context_length"),
        chunked_prefill_size=whole("chunked_prefill_size"),
        cuda_graph_max_bs=whole("cuda_graph_max_bs") or whole("cuda_graph_max_bs_decode"),
        radix_cache=argument("disable_radix_cache") is not True,
        swa_ratio=number("swa_full_tokens_ratio"),
        mamba_ratio=number("mamba_full_memory_ratio"),
        max_mamba_cache_size=whole("max_mamba_cache_size"),
        hicache=argument("enable_hierarchical_cache") is True,
        hicache_ratio=number("hicache_ratio"),
        hicache_gb=number("hicache_size"),
        refused=_mapping(launch.get("failure")).get("kind") == "sizing",
    )


def _rank(rank: Mapping[str, Any], launch: Mapping[str, Any]) -> RankMemory:
    readings = [reading for reading in rank.get("readings") or () if isinstance(reading, Mapping)]

    def first(moment: str, model: str = "target") -> float | None:
        return next(
            (r.get("available_gib") for r in readings if r.get("moment") == moment and r.get("model") == model), None
        )

    loads = []
    for reading in readings:
        if reading.get("moment") == "pool_end":
            break
        if reading.get("moment") == "weights_end":
            loads.append(reading.get("available_gib"))
    moments = [reading.get("moment") for reading in readings]
    start = moments.index("pool_end") if "pool_end" in moments else len(readings)
    later = [r["available_gib"] for r in readings[start:] if r.get("available_gib") is not None]
    done = launch.get("outcome") == "ready" or _mapping(launch.get("limits")).get("max_total_num_tokens")
    return RankMemory(
        id=str(rank.get("id") or ""),
        opening=first("weights_begin"),
        after_weights=loads[-1] if loads else None,
        usage=_booked(rank, "weights", "target"),
        pool_end=first("pool_end"),
        end=rank.get("free_gib") if done else None,
        lowest=min(later) if later else None,
        graphs=_booked(rank, "cuda_graphs", "target"),
        capacity=rank.get("capacity_gib"),
        tokens=rank.get("kv_tokens"),
        pool=rank.get("kv_gib"),
    )


def _draft(rank: Mapping[str, Any] | None, algorithm: Any, whole: Any) -> DraftModel | None:
    kept = _mapping(rank.get("draft")) if rank else {}
    if not kept and not isinstance(algorithm, str):
        return None
    readings: Sequence[Mapping[str, Any]] = (rank or {}).get("readings") or ()
    order = [(r.get("moment"), r.get("model")) for r in readings]
    load, pool = ("weights_end", "draft"), ("pool_end", "target")
    before = order.index(load) < order.index(pool) if load in order and pool in order else None
    return DraftModel(
        algorithm=algorithm if isinstance(algorithm, str) else None,
        weights=_booked(rank or {}, "weights", "draft"),
        tokens=kept.get("kv_tokens"),
        pool=kept.get("kv_gib"),
        figures=2,
        steps=whole("speculative_num_steps"),
        top_k=whole("speculative_eagle_topk"),
        draft_tokens=whole("speculative_num_draft_tokens"),
        before_pool=before,
        graphs=_booked(rank or {}, "cuda_graphs", "draft"),
    )


def _booked(rank: Mapping[str, Any], pool: str, model: str) -> float | None:
    """GiB a rank gave to one pool of one model; None without an entry."""
    sizes = [
        entry["gib"]
        for entry in rank.get("entries") or ()
        if entry.get("pool") == pool and entry.get("model") == model and entry.get("gib") is not None
    ]
    return sum(sizes) if sizes else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _only(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _names(kind) if name in values}
