"""What the log, or a table pasted beside it, says of the cards."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from
from kvdiag.diagnosis.units import Bytes


@read_from(
    r"device_name=[A-Za-z]",
    fields={"name": r"device_name=([\w-]+?)(?:,|\.json|$)"},
    samples=(
        "Using default MoE kernel config. Performance might be sub-optimal! Config file not found at"
        " /opt/configs/E=384,N=256,device_name=NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition,dtype=int4_w4a16.json",
        "Using MoE kernel config from /opt/configs/E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json.",
    ),
    source="sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_config.py: get_moe_configs()",
    releases="0.2.15..0.5.23",
)
class DeviceNamed(Event):
    """The name of the GPU, as the name of a kernel's configuration carries it."""

    name: str | None


@read_from(
    r"^\|.*\d+ ?MiB */ *\d+ ?MiB",
    literals=("MiB /", "MiB/"),
    fields={"used": rf"{NUMBER} ?(MiB)(?= */)", "total": rf"/ *{NUMBER} ?(MiB)"},
    samples=("| N/A   35C    P0             72W /  600W |   1234MiB /  97887MiB |      0%      Default |",),
    source="nvidia-smi",
)
class CardTable(Event):
    """A card's row of an nvidia-smi table: memory in use and in all."""

    used: Bytes | None
    total: Bytes | None
