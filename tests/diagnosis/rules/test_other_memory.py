"""Disks, mapped files, the container's shared memory and lost slots are told apart, with the figures of their lines."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

BEGUN = "[2026-02-03 10:00:00 TP0] Load weight begin. avail mem=78.80 GB\n"
TRACE = "[2026-02-03 10:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"


def launch_of(text: str) -> dict[str, Any]:
    return diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]


def named(text: str) -> set[str]:
    return {finding["rule"] for finding in launch_of(text)["findings"]}


@pytest.mark.parametrize(
    "error",
    [
        "OSError: [Errno 28] No space left on device: '/data/hub/models--m/blobs/1.incomplete'",
        "RuntimeError: Data processing error: IO Error: No space left on device (os error 28)",
    ],
)
def test_a_full_disk_is_no_shared_memory(error: str) -> None:
    launch = launch_of(BEGUN + TRACE + error + "\n")
    assert named(BEGUN + TRACE + error + "\n") == {"not-device-memory"}
    assert launch["failure"]["kind"] == "other"
    assert "disk" in launch["verdict"]


def test_a_full_segment_is_shared_memory() -> None:
    found = named(BEGUN + TRACE + "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'\n")
    assert "dev-shm-too-small" in found


def test_a_full_device_without_a_path_may_be_either() -> None:
    launch = launch_of(BEGUN + TRACE + "OSError: [Errno 28] No space left on device\n")
    found = next(f for f in launch["findings"] if f["rule"] == "dev-shm-too-small")
    assert found["confidence"] == "possible"
    assert "disk" in found["summary"] and found["remedies"][0]["to"] is None


@pytest.mark.parametrize(
    "line",
    [
        "[2026-03-02 09:19:03] Scheduler or DataParallelController 4242 terminated with -7",
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -7).",
        "Exit code: -7",
        "      Exit Code:    135",
    ],
)
def test_the_exit_code_of_a_bus_error_is_a_sign_of_full_shared_memory(line: str) -> None:
    launch = launch_of(BEGUN + line + "\n")
    found = next(f for f in launch["findings"] if f["rule"] == "dev-shm-too-small")
    assert found["confidence"] == "likely"
    assert "bus error" in launch["verdict"]


@pytest.mark.parametrize("code", ["-9", "-11", "-6", "137"])
def test_other_exit_codes_are_no_bus_error(code: str) -> None:
    assert "dev-shm-too-small" not in named(BEGUN + f"child process exited with exit code {code}\n")


BUS = """Fatal Python error: Bus error

Current thread 0x00007f00 (most recent call first):
  File "/opt/sglang/srt/{frame}
"""


def test_a_bus_error_while_weights_are_read_is_the_files() -> None:
    bus = BUS.format(frame='model_loader/loader.py", line 377 in load_model')
    launch = launch_of(f"{BEGUN}{bus}[2026-02-03 10:00:30] Exit code: -7\n")
    assert {finding["rule"] for finding in launch["findings"]} == {"not-device-memory"}
    assert "weight file" in launch["findings"][0]["summary"]


def test_a_bus_error_elsewhere_is_only_likely_shared_memory() -> None:
    launch = launch_of(BEGUN + BUS.format(frame='distributed/parallel_state.py", line 20 in init'))
    found = next(f for f in launch["findings"] if f["rule"] == "dev-shm-too-small")
    assert found["confidence"] == "likely"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "ValueError: token_to_kv_pool_allocator memory leak detected! self.max_total_num_tokens=81000,"
            " available_size=900, evictable_size=80060, protected_size=0\n",
            "40 of 81,000 slots of the KV pool belong to no request",
        ),
        (
            "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=81064, protected_size=0,"
            " self.max_total_num_tokens=81000\nself.tree_cache.evictable_size()=300\n",
            "SGLang counts 64 more slots of the KV pool than there are: some were given back twice",
        ),
        (
            "ValueError: token_to_kv_pool_allocator memory leak detected! full_available_size=1000,"
            " full_evictable_size=80000, self.token_to_kv_pool_allocator.size=81000,"
            " self.tree_cache.full_protected_size()=0\nmamba_available_size=300, mamba_evictable_size=99,"
            " self.req_to_token_pool.mamba_pool.size=402, self.tree_cache.mamba_protected_size()=0\n",
            "3 of 402 state slots belong to no request",
        ),
        (
            "UserWarning: req_to_token_pool memory leak detected!available_size=2047, total_size=2048\n",
            "1 of 2,048 rows of the request table belong to no request",
        ),
    ],
)
def test_a_leak_says_how_many_slots_of_what(lines: str, said: str) -> None:
    found = [f["summary"] for f in launch_of(BEGUN + lines)["findings"] if f["rule"] == "kv-slot-leak"]
    assert found == [said]


@pytest.mark.parametrize(("left", "pages"), [(31_808, True), (8_191, False)])
def test_a_batch_that_finds_more_slots_than_it_asks_for_lacks_pages(left: int, pages: bool) -> None:
    launch = launch_of(
        f"{TRACE}RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\n"
        f"Available tokens: {left} (self.token_to_kv_pool_allocator.available_size()={left})\n"
    )
    (finding,) = [f for f in launch["findings"] if f["rule"] == "token-slots-exhausted"]
    assert ("whole pages" in finding["summary"]) == pages
    assert ("--page-size" in {r["flag"] for r in finding["remedies"]}) == pages


@pytest.mark.parametrize(("full", "first"), [(899_840, "--swa-full-tokens-ratio"), (9_000, "--max-running-requests")])
def test_a_window_pool_is_widened_first_where_the_full_pool_lies_idle(full: int, first: str) -> None:
    launch = launch_of(
        "Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\n"
        f"Available full tokens: {full} (full_available_size={full} + full_evictable_size_=0)\n"
        "Available swa: 3840 (available_size=3840 + component_evictable_size_=0)\n"
    )
    (finding,) = [f for f in launch["findings"] if f["rule"] == "token-slots-exhausted"]
    assert finding["remedies"][0]["flag"] == first


def test_the_slots_left_are_read_without_blanks_too() -> None:
    launch = launch_of(
        f"{TRACE}RuntimeError: Prefill out of memory. Try to lower your batch size.Try to allocate 1444 tokens."
        "Avaliable tokens:5120self.token to kv pool allocator.available size()=5120self.tree cache.evictable size()=0\n"
    )
    (finding,) = [f for f in launch["findings"] if f["rule"] == "token-slots-exhausted"]
    assert "whole pages" in finding["summary"]


def test_a_kill_without_a_step_of_the_start_is_not_said_to_be_in_it() -> None:
    kill = "Out of memory: Killed process 4242 (sglang::schedul)\n"
    (alone,) = launch_of(kill)["findings"]
    assert "starting" not in alone["summary"]
    waited = "[2026-02-03 10:00:30] Rank 0 scheduler is dead. Please check if there are relevant logs.\n"
    for more in (BEGUN + kill, waited + "[2026-02-03 10:00:31] Exit code: -9\n"):
        assert "while it was starting" in launch_of(more)["findings"][0]["summary"]


CAPTURING = """[2026-02-03 10:00:09 TP0] Memory pool end. avail mem=40.00 GB
[2026-02-03 10:00:10 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=39.00 GB
"""


@pytest.mark.parametrize(
    "fault",
    [
        "Memory access fault by GPU node-2 (Agent handle: 0x9c1b2a0) on address 0x7f3f8c000000. Reason: Unknown.",
        "[rank2]:[E428 ProcessGroupNCCL.cpp:2057] [PG ID 2 Rank 2] Process group watchdog thread terminated with"
        " exception: HIP error: operation not permitted on an event last recorded in a capturing stream",
    ],
)
def test_a_fault_of_the_device_is_no_lost_partner_and_no_shortage(fault: str) -> None:
    launch = launch_of(f"{CAPTURING}{fault}\n[2026-02-03 10:00:30] Exit code: -6\n")
    assert launch["failure"]["kind"] == "kernel"
    assert [f["rule"] for f in launch["findings"]] == ["not-memory"]


def test_a_host_tier_of_unknown_size_is_told_what_was_free() -> None:
    error = "ValueError: Not enough host memory available. Requesting 40.00 GB but only have 44.87 GB free."
    found = next(f for f in launch_of(f"{TRACE}{error}\n")["findings"] if f["rule"] == "hicache-host-memory-short")
    notes = {remedy["flag"]: remedy["note"] for remedy in found["remedies"]}
    assert "34 GB at most" in notes["--hicache-size"]
    assert "0.85 of what it is now" in notes["--hicache-ratio"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you"
            " tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)",
            "The host's memory ran out: 8.00 GiB were asked for at once; GPU memory is not short",
        ),
        ("memory allocation of 1073741824 bytes failed", "The host's memory ran out: 1.00 GiB were asked for at once"),
        ("OSError: [Errno 12] Cannot allocate memory", "The host's memory ran out; GPU memory is not short"),
        ("RuntimeError: unable to mmap 1073741824 bytes from file <m>: Cannot allocate memory (12)", "The host's"),
    ],
)
def test_an_allocator_of_the_host_is_no_reason_for_flags_of_the_gpu(error: str, said: str) -> None:
    launch = launch_of(CAPTURING.replace("39.00", "3.90").replace("40.00", "4.10") + f"{TRACE}{error}\n")
    first = launch["findings"][0]
    assert first["rule"] == "not-device-memory"
    assert first["severity"] == "critical"
    assert first["summary"].startswith(said)
    assert launch["failure"]["kind"] == "host_oom"


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "RuntimeError: call aclnnMatmul failed, detail:EL0004: Memory_Allocation_Failure(EL0004): Failed to allocate",
        "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate. Code: 0x1008 Available Free mem : 0 MB",
        "RuntimeError: CUDA Runtime Error: out of memory",
        "RuntimeError: MACA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.62 GiB of which"
        " 1.20 GiB is free.",
    ],
)
def test_every_vendors_words_for_a_full_device_are_read(error: str) -> None:
    launch = launch_of(f"{CAPTURING}{TRACE}{error}\n")
    assert "decode-graph-oom" in {f["rule"] for f in launch["findings"]}
    assert launch["failure"]["kind"] == "gpu_oom"


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: Ninja build failed. Ninja output:\nc++: fatal error: Killed signal terminated program cc1plus",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "subprocess.CalledProcessError: Command '['ninja', '-v']' died with <Signals.SIGKILL: 9>.",
    ],
)
def test_a_killed_compiler_tells_of_the_hosts_memory(error: str) -> None:
    launch = launch_of(f"{CAPTURING}{TRACE}{error}\n")
    (found,) = launch["findings"]
    assert found["rule"] == "not-device-memory"
    assert {"container memory", "MAX_JOBS"} <= {remedy["flag"] for remedy in found["remedies"]}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "out of resource: shared memory, Required: 131072, Hardware limit: 101376.",
            "memory than this GPU has: 131,072 b",
        ),
        ("out of resource: threads, Required: 2048, Hardware limit: 1024.", "threads than this GPU has: 2,048 against"),
        (
            "out of resource: tensor memory, Required: 544, Hardware limit: 512.",
            "memory than this GPU has: 544 against",
        ),
        ("out of resource: triton_red_fused_0 Required: 131072 Hardware limit:101376", "on-chip memory than this GPU"),
    ],
)
def test_a_kernels_resource_is_named_with_its_own_unit(error: str, said: str) -> None:
    found = launch_of(f"{CAPTURING}{TRACE}triton.runtime.errors.OutOfResources: {error}\n")["findings"]
    assert said in next(f for f in found if f["rule"] == "kernel-shared-memory-limit")["summary"]


def test_two_ranks_on_one_card_are_named_as_the_library_names_them() -> None:
    (found,) = launch_of(
        f"{BEGUN}{TRACE}torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage, NCCL"
        " version 2.27.3 ncclInvalidUsage: This usually reflects invalid usage of NCCL library. Last error: Duplicate"
        " GPU detected : rank 0 and rank 1 both on CUDA device 6000\n"
    )["findings"]
    assert found["rule"] == "two-ranks-one-gpu"
    assert "Rank 0 and rank 1" in found["summary"]


def test_words_of_a_shortage_that_nothing_reads_are_not_cleared_of_memory() -> None:
    launch = launch_of(f"{CAPTURING}{TRACE}RuntimeError: graph instantiation: out of memory\n")
    assert "not-memory" not in {finding["rule"] for finding in launch["findings"]}


def test_a_reading_from_before_a_capture_is_not_set_against_what_was_asked_for() -> None:
    launch = launch_of(
        f"{CAPTURING}{TRACE}torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.58 GiB. GPU 0 has a total"
        " capacity of 47.58 GiB. Of the allocated memory 42.14 GiB is allocated by PyTorch, and 1.20 GiB is reserved by"
        " PyTorch but unallocated.\n"
    )
    assert "39.00 GiB free" not in launch["verdict"]


def test_a_host_buffer_that_is_not_pinned_is_no_device_memory() -> None:
    launch = launch_of(
        BEGUN + TRACE + "RuntimeError: cudaHostRegister failed (rc=1, invalid argument) for ptr=0x6f6388400000"
        " size=531470745600; host buffer is not pinned and device transfers may silently return stale data.\n"
    )
    (found,) = launch["findings"]
    assert found["rule"] == "not-device-memory" and "494.97 GiB were asked for at once" in found["summary"]
    assert launch["failure"]["kind"] == "host_oom"


def test_memory_that_a_network_card_cannot_register_is_a_matter_of_locked_pages() -> None:
    launch = launch_of(
        BEGUN
        + "node0:312:1044 [0] NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
        + TRACE
        + "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    )
    (found,) = launch["findings"]
    assert [r["flag"] for r in found["remedies"]] == ["ulimit -l"]
    assert launch["failure"]["kind"] == "host_oom"
