"""What tables beside the log say of the machine: driver, cards and their memory, processes, libraries."""

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.text import render

LOG = """[2026-03-02 09:14:00] server_args=ServerArgs(model_path='/m/unknown', tp_size=2, mem_fraction_static=0.88)
[2026-03-02 09:14:10 TP0] Load weight begin. avail mem=78.00 GB
[2026-03-02 09:14:10 TP1] Load weight begin. avail mem=78.00 GB
[2026-03-02 09:15:10 TP0] Load weight end. type=SomeForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB.
[2026-03-02 09:15:10 TP1] Load weight end. type=SomeForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB.
[2026-03-02 09:15:11 TP0] KV Cache is allocated. #tokens: 430080, K size: 26.25 GB, V size: 26.25 GB
[2026-03-02 09:15:11 TP1] KV Cache is allocated. #tokens: 430080, K size: 26.25 GB, V size: 26.25 GB
"""
NVIDIA_SMI = """Mon Mar  2 09:10:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   35C    P0             72W /  700W |    1234MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    0 |
| N/A   33C    P0             71W /  700W |       4MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|    0   N/A  N/A      4242      C   /opt/conda/bin/python                        1220MiB |
+-----------------------------------------------------------------------------------------+
"""
ROCM_SMI = """============================ ROCm System Management Interface ============================
GPU[0]\t\t: VRAM Total Memory (B): 206141652992
GPU[0]\t\t: VRAM Total Used Memory (B): 297795584
GPU[1]\t\t: VRAM Total Memory (B): 206141652992
GPU[1]\t\t: VRAM Total Used Memory (B): 0
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X
GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X
Driver version: 6.10.5
"""
NPU_SMI = """+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 97.9        46                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3384 / 65536         |
+===========================+===============+====================================================+
"""
CHECK_ENV = """Python: 3.12.3 (main, Nov  6 2024, 18:32:19) [GCC 13.2.0]
CUDA available: True
GPU 0,1: NVIDIA H100 80GB HBM3
GPU 0,1 Compute Capability: 9.0
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 12.4, V12.4.131
CUDA Driver Version: 550.127.05
PyTorch: 2.5.1+cu124
sglang: 0.4.3.post2
sgl_kernel: 0.0.3.post6
flashinfer: 0.2.1.post2
triton: 3.1.0
transformers: 4.48.3
"""
COLLECT_ENV = """Collecting environment information...
PyTorch version: 2.5.1+cu124
CUDA used to build PyTorch: 12.4
GPU models and configuration:
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version: 550.54.15
[pip3] torch==2.5.1
"""


def launch_of(*files: tuple[str, str]) -> dict[str, Any]:
    logs = [Log(name, io.BytesIO(text.encode())) for name, text in files]
    (launch,) = diagnose(*logs).document["launches"]
    return launch


def beside(table: str) -> dict[str, Any]:
    return launch_of(("server.log", LOG), ("table.txt", table))


def test_nvidia_smi_tells_driver_cards_memory_and_processes() -> None:
    found = beside(NVIDIA_SMI)
    machine = found["machine"]
    assert (machine["driver"], machine["runtime"], machine["driver_line"]) == (
        "550.54.15",
        "12.4",
        {"file": 1, "line": 3},
    )
    assert [(c["gpu"], c["name"], c["total_gib"], c["used_gib"]) for c in machine["cards"]] == [
        (0, "H100 80GB HBM3", 79.6475, 1.2051),
        (1, "H100 80GB HBM3", 79.6475, 0.0039),
    ]
    assert machine["cards"][1]["lines"] == [{"file": 1, "line": 12}, {"file": 1, "line": 13}]
    assert [(p["gpu"], p["pid"], p["program"], p["used_gib"]) for p in machine["processes"]] == [
        (0, 4242, "/opt/conda/bin/python", 1.1914)
    ]
    assert found["gpu"] == {
        "name": "H100 80GB HBM3", "count": 2, "capacity_gib": 79.6475, "basis": "printed", "driver": "550.54.15",
    }  # fmt: skip


def test_the_terminal_names_the_driver() -> None:
    report = diagnose(*(Log(name, io.BytesIO(text.encode())) for name, text in (("a.log", LOG), ("b", NVIDIA_SMI))))
    assert "2 × H100 80GB HBM3 · driver 550.54.15 · " in render(report, "text").splitlines()[0]


def test_rocm_smi_tells_them_too() -> None:
    machine = beside(ROCM_SMI)["machine"]
    assert machine["driver"] == "6.10.5"
    assert [(c["gpu"], c["name"], c["total_gib"], c["used_gib"]) for c in machine["cards"]] == [
        (0, "AMD Instinct MI300X", 191.9844, 0.2773),
        (1, "AMD Instinct MI300X", 191.9844, 0.0),
    ]


def test_npu_smi_tells_them_too() -> None:
    machine = beside(NPU_SMI)["machine"]
    assert machine["driver"] == "24.1.rc2"
    assert [(c["gpu"], c["name"], c["total_gib"], c["used_gib"]) for c in machine["cards"]] == [
        (0, "910B3", 64.0, 3.3047)
    ]


def test_check_env_tells_driver_cards_and_releases() -> None:
    found = beside(CHECK_ENV)
    assert found["version"]["exact"] == "0.4.3.post2"
    machine = found["machine"]
    assert machine["driver"] == "550.127.05"
    assert [(c["gpu"], c["name"], c["total_gib"]) for c in machine["cards"]] == [
        (0, "H100 80GB HBM3", None),
        (1, "H100 80GB HBM3", None),
    ]
    assert machine["libraries"] == {
        "PyTorch": "2.5.1+cu124", "sgl_kernel": "0.0.3.post6", "flashinfer": "0.2.1.post2", "triton": "3.1.0",
        "transformers": "4.48.3",
    }  # fmt: skip
    assert (found["gpu"]["capacity_gib"], found["gpu"]["basis"]) == (79.6475, "assumed")  # by the card's name


def test_collect_env_tells_driver_and_cards() -> None:
    machine = beside(COLLECT_ENV)["machine"]
    assert machine["driver"] == "550.54.15"
    assert [card["gpu"] for card in machine["cards"]] == [0, 1]
    assert machine["libraries"]["torch"] == "2.5.1"


@pytest.mark.parametrize("table", [NVIDIA_SMI, CHECK_ENV])
def test_a_table_in_the_log_itself_is_read_alike(table: str) -> None:
    assert launch_of(("server.log", table + LOG))["machine"]["driver"] == beside(table)["machine"]["driver"]
    assert launch_of(("server.log", LOG + table))["machine"]["driver"] == beside(table)["machine"]["driver"]


def test_a_table_changes_no_figure_of_a_rank() -> None:
    plain, told = launch_of(("server.log", LOG)), beside(NVIDIA_SMI)
    assert plain["machine"] is None
    for one, two in zip(plain["ranks"], told["ranks"], strict=True):
        for key in ("opening_gib", "free_gib", "kv_tokens", "kv_gib", "unexplained_gib"):
            assert one[key] == two[key]


def test_tables_of_unlike_machines_are_given_to_no_launch() -> None:
    other = NVIDIA_SMI.replace("H100 80GB HBM3", "A100-SXM4-40GB")
    found = launch_of(("server.log", LOG), ("a.txt", NVIDIA_SMI), ("b.txt", other))
    assert found["machine"] is None


def test_a_table_alone_is_no_launch() -> None:
    for table in (NVIDIA_SMI, ROCM_SMI, NPU_SMI, CHECK_ENV, COLLECT_ENV):
        assert diagnose(Log("table.txt", io.BytesIO(table.encode()))).document["launches"] == []


def test_cards_without_end_are_cut() -> None:
    table = "".join(f"GPU {n},{n + 1},999999999999: NVIDIA H100 80GB HBM3\n" for n in range(0, 900, 2))
    assert len(beside(table)["machine"]["cards"]) == 256
