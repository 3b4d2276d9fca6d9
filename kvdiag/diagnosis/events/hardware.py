"""What the log, or a table pasted beside it, says of the cards, their driver and the libraries."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, ByteCount, Event, InMiB, read_from
from kvdiag.diagnosis.units import Bytes

_MAKERS = ("NVIDIA", "AMD", "Ascend", "Tesla", "GeForce", "Quadro", "Intel")
_LIBRARIES = (
    "PyTorch", "torch", "sgl_kernel", "sgl-kernel", "flashinfer", "flashinfer_python", "triton", "transformers",
    "torch_npu", "aiter", "deep_ep", "deep_gemm",
)  # fmt: skip


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
@read_from(
    rf"^[GNX]PU [\d,]{{1,400}}: (?:{'|'.join(_MAKERS)})",
    literals=tuple(f": {maker}" for maker in _MAKERS),
    fields={"name": r"PU [\d,]+: (\w[\w ./-]*?)(?: \(|\s*$)", "gpus": r"^[GNX]PU ([\d,]+):"},
    samples=(
        "GPU 0,1,2,3,4,5,6,7: NVIDIA H100 80GB HBM3",
        "NPU 0,1: Ascend910_9382",
        "GPU 1: NVIDIA H100 80GB HBM3",
        "GPU 0: NVIDIA L4 (UUID: GPU-5e1f3a0c-1111-2222-3333-444455556666)",
    ),
    source="sglang check_env, torch: collect_env, nvidia-smi -L",
)
@read_from(
    r"^\| +\d+ +[A-Z].*\| +0000000[0-9A-F]:",
    literals=tuple(f"0000000{digit}:" for digit in "0123456789ABCDEF"),
    fields={"name": r"^\| +\d+ +([A-Z][\w ./-]*?)\.* +(?:On|Off|N/A|TCC|WDDM) *\|", "gpus": r"^\| +(\d+)"},
    samples=("|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |",),
    source="nvidia-smi",
)
@read_from(
    r"^GPU\[\d+\]\s*: Card [Ss]eries:",
    literals=("Card Series:", "Card series:"),
    fields={"name": r"[Ss]eries:\s*(\w[\w ./-]*?)\s*$", "gpus": r"^GPU\[(\d+)"},
    samples=("GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X",),
    source="rocm-smi --showproductname",
)
@read_from(
    r"^\| \d+ +(?:Ascend)?[0-9]{3}\w{1,6} +\| (?:OK|Warning|Alarm)",
    literals=("| OK ", "| Warning ", "| Alarm "),
    fields={"name": r"^\| \d+ +(\w+)", "gpus": r"^\| (\d+)"},
    samples=("| 0     910B3               | OK            | 97.9        46                0    / 0             |",),
    source="npu-smi info",
)
class DeviceNamed(Event):
    """The name of the GPU: as a kernel's configuration carries it, or as a tool lists it with the GPUs' numbers."""

    name: str | None
    gpus: str | None = None


@read_from(
    r"^\|.*\d+ ?MiB */ *\d+ ?MiB",
    literals=("MiB /", "MiB/"),
    fields={"used": rf"{NUMBER} ?(MiB)(?= */)", "total": rf"/ *{NUMBER} ?(MiB)"},
    samples=("| N/A   35C    P0             72W /  600W |   1234MiB /  97887MiB |      0%      Default |",),
    source="nvidia-smi",
)
@read_from(
    r"^GPU\[\d+\]\s*: VRAM Total Memory \(B\):",
    literals=("VRAM Total Memory (B):",),
    fields={"total": ByteCount(r"\(B\): *(\d+)"), "gpu": r"^GPU\[(\d+)"},
    samples=("GPU[0]\t\t: VRAM Total Memory (B): 206141652992",),
    source="rocm-smi --showmeminfo vram",
)
@read_from(
    r"^GPU\[\d+\]\s*: VRAM Total Used Memory \(B\):",
    literals=("VRAM Total Used Memory (B):",),
    fields={"used": ByteCount(r"\(B\): *(\d+)"), "gpu": r"^GPU\[(\d+)"},
    samples=("GPU[0]\t\t: VRAM Total Used Memory (B): 297795584",),
    source="rocm-smi --showmeminfo vram",
)
@read_from(
    r"^\| \d+ +\| [0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.\d +\|.* \d+ */ *\d+ *\|",
    literals=(":00.0 ",),
    fields={"used": InMiB(r"(\d+) */ *\d+ *\|$"), "total": InMiB(r"/ *(\d+) *\|$")},
    samples=("| 0                         | 0000:C1:00.0  | 0           0    / 0          3384 / 65536         |",),
    source="npu-smi info",
)
class CardTable(Event):
    """A card's row of a table that a vendor's tool prints: memory in use and in all."""

    used: Bytes | None = None
    total: Bytes | None = None
    gpu: int | None = None


@read_from(
    r"Driver Version: +\d|[Dd]river version: +\d",
    literals=("Driver Version: ", "river version: "),
    fields={"driver": r"[Dd]river [Vv]ersion: +([\d.]+\w*)", "runtime": r"(?:CUDA|ROCm) Version: +([\d.]+)"},
    samples=(
        "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |",
        "CUDA Driver Version: 550.127.05",
        "ROCM Driver Version: 6.10.5",
        "Nvidia driver version: 550.54.15",
        "Driver version: 6.10.5",
    ),
    source="nvidia-smi, rocm-smi, sglang check_env, torch: collect_env",
)
@read_from(
    r"^\| npu-smi \d",
    literals=("| npu-smi ",),
    fields={"driver": r"Version: +([\d.]+\w*)"},
    samples=("| npu-smi 24.1.rc2                 Version: 24.1.rc2                                          |",),
    source="npu-smi info",
)
class DriverPrinted(Event):
    """The release of the GPUs' driver, and of the newest CUDA it runs."""

    driver: str | None
    runtime: str | None = None


@read_from(
    r"^\| +\d+ +(?:(?:N/A|\d+) +(?:N/A|\d+) +)?\d+ +(?:C|G|C\+G|M\+C) +\S",
    literals=("   C   ", "   G   ", " C+G   ", " M+C   "),
    excludes=("Xorg", "gnome-shell", "WDDM", "kwin", "Xwayland"),
    fields={
        "gpu": r"^\| +(\d+)",
        "process": r"(\d+) +(?:C|G|C\+G|M\+C) +\S",
        "program": r" (?:C|G|C\+G|M\+C) +(\S+)",
        "used": rf"{NUMBER} ?(MiB) +\|$",
    },
    samples=("|    0   N/A  N/A      4242      C   /opt/conda/bin/python                        1220MiB |",),
    source="nvidia-smi",
)
class CardProcess(Event):
    """A process that a table of nvidia-smi shows on a card."""

    gpu: int | None
    process: int | None
    program: str | None
    used: Bytes | None


@read_from(
    rf"^(?:{'|'.join(_LIBRARIES)})(?: version)?: v?\d+\.\d"
    r"|^\[(?:pip3|conda)\] (?:torch|triton|flashinfer\w*)(?:==| +)\d",
    literals=(*(f"{name}: " for name in _LIBRARIES), "PyTorch version: ", "torch==", "triton==", "[conda] "),
    fields={
        "library": r"^(?:\[\w+\] )?([A-Za-z][\w-]*)",
        "release": r"(?:: v?|==| +)(\d[\w.+]*)",
    },
    samples=("PyTorch: 2.5.1+cu124", "PyTorch version: 2.5.1+cu124", "sgl_kernel: 0.0.3.post6", "[pip3] triton==3.1.0"),
    source="sglang check_env, torch: collect_env",
)
class LibraryPrinted(Event):
    """The release of a library that the server runs with."""

    library: str | None
    release: str | None


MACHINE = (DeviceNamed, CardTable, DriverPrinted, CardProcess, LibraryPrinted)
