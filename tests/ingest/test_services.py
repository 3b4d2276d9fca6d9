"""The row is the truth: who may take it, what each end leaves behind, and what a lost worker costs."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from ingest import isolation, lease, services, upkeep
from ingest.models import Phase, State, StoredReport, Upload
from ingest.signals import report_stored

pytestmark = pytest.mark.django_db


def ran(upload: Upload) -> Upload:
    services.diagnose_upload(upload.pk)
    upload.refresh_from_db()
    return upload


def test_a_log_becomes_a_report_and_the_raw_bytes_go(accept, broker, uploads_folder: Path) -> None:
    upload = accept("report\n")
    assert broker.sent == [upload.pk] and upload.state == State.QUEUED
    upload = ran(upload)
    assert upload.state == State.READY and upload.lease_until is None
    assert upload.report.kv_tokens == 159_277 and upload.report.outcome == "ready"
    folder = uploads_folder / upload.public_id
    assert sorted(path.name for path in folder.iterdir()) == ["masked-1"]
    assert (folder / upload.files[0]["path"]).read_text() == "report\n"


def test_the_phases_are_told_in_their_order(accept) -> None:
    upload = ran(accept("report\n"))
    assert [entry["phase"] for entry in upload.phases] == [str(phase) for phase in Phase]


def test_a_second_run_leaves_the_same_rows(accept) -> None:
    upload = ran(accept("report\n"))
    ran(upload)
    assert StoredReport.objects.count() == 1 and upload.attempt == 1


def test_the_log_is_not_kept_when_its_sender_said_so(accept, uploads_folder: Path) -> None:
    upload = ran(accept("report\n", keep_log=False))
    assert upload.report is not None and "path" not in upload.files[0]
    assert list((uploads_folder / upload.public_id).iterdir()) == []


def test_other_apps_hear_of_each_stored_report(accept) -> None:
    heard = []

    def listen(sender, report, **more) -> None:
        heard.append(report.upload_id)

    report_stored.connect(listen)
    try:
        upload = ran(accept("report\n"))
    finally:
        report_stored.disconnect(listen)
    assert heard == [upload.pk]


def test_nul_characters_of_a_log_do_not_reach_the_database(accept) -> None:
    assert ran(accept("nul\n")).report.verdict == "before\ufffdafter"


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        ("unreadable", "unreadable", "binary, not text"),
        ("other", "not_sglang", "This is not an SGLang log. 1 line was read"),
        ("memory", "out_of_memory", "MiB of memory"),
        ("disk", "disk_full", "press “Try again” once its operator has made room"),
        ("mistake", "mistake", "kvdiag made a mistake"),
    ],
)
def test_a_log_that_cannot_be_diagnosed_fails_with_a_sentence(accept, wish: str, code: str, says: str) -> None:
    upload = ran(accept(f"{wish}\n"))
    assert upload.state == State.FAILED and upload.error_code == code and says in upload.error
    assert upload.report is None


@pytest.mark.parametrize("wish", ["unreadable", "other"])
def test_nothing_is_stored_of_what_is_no_log(accept, uploads_folder: Path, wish: str) -> None:
    upload = ran(accept(f"{wish}\n"))
    assert list(uploads_folder.iterdir()) == [] and not services.may_retry(upload)


def test_what_another_log_looks_like_is_said(accept) -> None:
    upload = ran(accept("other\n+---+\n| NVIDIA-SMI 580.10 |\n"))
    assert "It looks like `nvidia-smi` output." in upload.error


def test_a_log_that_kills_its_process_is_given_up_after_three_attempts(accept, broker) -> None:
    upload = accept("crash\n")
    for attempt in (1, 2, 3):
        upload = ran(upload)
        assert upload.attempt == attempt
    assert upload.state == State.FAILED and upload.error_code == "killed"
    assert broker.sent == [upload.pk] * 3
    assert ran(upload).attempt == 3


def test_a_log_that_takes_too_long_is_stopped_once_and_for_all(accept, settings, monkeypatch) -> None:
    monkeypatch.setattr(isolation, "LOOK_S", 0.01)
    monkeypatch.setattr(services, "run_isolated", quick(soft_s=0.05, hard_s=0.1))
    upload = ran(accept("slow\n"))
    assert upload.state == State.FAILED and upload.error_code == "out_of_time" and upload.attempt == 1


def quick(**times: float):
    """run_isolated with other time limits."""

    def run(job, **arguments):
        return isolation.run_isolated(job, **(arguments | times))

    return run


def test_a_cancelled_upload_stops_its_process(accept, monkeypatch, uploads_folder: Path) -> None:
    monkeypatch.setattr(isolation, "LOOK_S", 0.01)
    monkeypatch.setattr(lease, "LOOK_S", 0.0)
    upload = accept("slow\n")

    def run(job, **arguments):
        services.cancel_upload(upload)
        return isolation.run_isolated(job, **arguments)

    monkeypatch.setattr(services, "run_isolated", run)
    upload = ran(upload)
    assert upload.state == State.CANCELLED and upload.report is None
    assert [path.name for path in (uploads_folder / upload.public_id).iterdir()] == ["raw"]


def test_a_cancelled_upload_can_be_read_after_all(accept, broker, django_capture_on_commit_callbacks) -> None:
    upload = accept("report\n")
    services.cancel_upload(upload)
    upload.refresh_from_db()
    with django_capture_on_commit_callbacks(execute=True):
        assert services.retry_upload(upload)
    assert ran(upload).state == State.READY


def test_only_one_worker_takes_an_upload(accept) -> None:
    upload = accept("report\n")
    assert lease.claim(upload.pk) is not None
    assert lease.claim(upload.pk) is None


def test_an_upload_whose_worker_died_is_queued_again_and_diagnosed_once(accept, broker) -> None:
    upload = accept("report\n")
    dead = lease.claim(upload.pk)
    Upload.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    upkeep.sweep()
    assert broker.sent == [upload.pk, upload.pk]
    assert ran(upload).state == State.READY
    # the dead worker was only slow: it comes back, and changes nothing
    assert not dead.write(state=State.FAILED, error="late")
    upload.refresh_from_db()
    assert upload.state == State.READY and StoredReport.objects.count() == 1


def test_a_late_worker_stores_no_second_report(accept, monkeypatch, uploads_folder: Path) -> None:
    upload = accept("report\n")

    def run(job, **arguments):
        ended = isolation.run_isolated(job, **arguments)
        Upload.objects.filter(pk=upload.pk).update(state=State.RUNNING, attempt=2)
        return ended

    monkeypatch.setattr(services, "run_isolated", run)
    upload = ran(upload)
    assert upload.state == State.RUNNING and StoredReport.objects.count() == 0
    assert (uploads_folder / upload.public_id / "raw" / "0").is_file()
    assert not (uploads_folder / upload.public_id / "masked-1").exists()


def test_a_worker_that_dies_each_time_is_given_up(accept) -> None:
    upload = accept("report\n")
    for _ in range(3):
        assert lease.claim(upload.pk)
        Upload.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        upkeep.sweep()
    upload.refresh_from_db()
    assert upload.state == State.FAILED and upload.error_code == "worker_lost"
    assert upload.reference in upload.error


def test_a_message_that_the_broker_lost_is_sent_again(accept, broker) -> None:
    broker.is_away = True
    upload = accept("report\n")
    assert upload.state == State.QUEUED and broker.sent == []
    broker.is_away = False
    upkeep.sweep()
    assert broker.sent == [upload.pk]
    upkeep.sweep()
    assert broker.sent == [upload.pk]  # it is on its way: not at every sweep


def test_a_running_upload_with_a_lease_is_left_alone(accept, broker) -> None:
    upload = accept("report\n")
    lease.claim(upload.pk)
    upkeep.sweep()
    assert broker.sent == [upload.pk]


def test_a_better_engine_reads_the_masked_copy_again(accept, django_capture_on_commit_callbacks) -> None:
    upload = ran(accept("report\n"))
    StoredReport.objects.update(engine="0.0.9")
    with django_capture_on_commit_callbacks(execute=True):
        assert services.diagnose_again(upload)
    upload = ran(upload)
    assert upload.state == State.READY
    assert set(upload.reports.values_list("engine", flat=True)) == {"0.0.9", "0.1.0"}


def test_deleting_leaves_nothing(accept, uploads_folder: Path) -> None:
    services.delete_upload(ran(accept("report\n")))
    assert not Upload.objects.exists() and not StoredReport.objects.exists()
    assert list(uploads_folder.iterdir()) == []


def test_what_has_expired_is_purged(accept, uploads_folder: Path) -> None:
    upload = ran(accept("report\n"))
    kept = ran(accept("report again\n"))
    Upload.objects.filter(pk=upload.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    upkeep.purge()
    assert list(Upload.objects.all()) == [kept]
    assert [path.name for path in uploads_folder.iterdir()] == [kept.public_id]


def test_the_log_of_a_kept_report_goes_at_its_own_time(accept, uploads_folder: Path) -> None:
    upload = ran(accept("report\n"))
    Upload.objects.update(log_until=timezone.now() - timedelta(seconds=1))
    upkeep.purge()
    upload.refresh_from_db()
    assert upload.report is not None and "path" not in upload.files[0]
    assert list((uploads_folder / upload.public_id).iterdir()) == []


def test_raw_bytes_of_a_cancelled_upload_are_kept_for_an_hour(accept, uploads_folder: Path) -> None:
    upload = accept("report\n")
    services.cancel_upload(upload)
    upkeep.purge()
    assert (uploads_folder / upload.public_id).exists()
    Upload.objects.update(finished_at=timezone.now() - timedelta(seconds=upkeep.RAW_KEPT_S + 1))
    upkeep.purge()
    assert list(uploads_folder.iterdir()) == []


def test_several_files_are_one_upload(accept) -> None:
    upload = ran(accept("report\n", "report\n"))
    assert [file["name"] for file in upload.files] == ["node0.log", "node1.log"]
    assert StoredReport.objects.count() == 1
