"""Every limit of the site, in one place: sizes, times, rates. Each can be changed by the variable of its name.

`MAX_UPLOAD_BYTES` is set by `KVDIAG_MAX_UPLOAD_BYTES`, and so on. Sizes are bytes, times seconds unless the name says
otherwise.
"""

from dataclasses import dataclass, fields

from kvdiag.environment import Environment

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
DAY_S = 86_400


@dataclass(frozen=True)
class SiteLimits:
    """What one upload, one reader and one team may use."""

    # One upload
    max_upload_bytes: int = 64 * MIB  # request body, as sent, of somebody not signed in
    max_member_upload_bytes: int = 256 * MIB  # the same for a team member or a token
    max_unpacked_bytes: int = 512 * MIB  # after decompression
    max_unpacked_ratio: int = 200  # unpacked : packed, counted beyond the first 16 MiB
    max_archive_members: int = 64
    max_lines: int = 5_000_000
    max_line_bytes: int = 64 * KIB  # analysed; the rest of a longer line is kept but folded
    # One diagnosis
    analysis_soft_s: int = 60  # the task is told to stop
    analysis_hard_s: int = 90  # its process is killed
    analysis_memory_bytes: int = 1 * GIB
    analysis_attempts: int = 3
    max_passing_bytes: int = 32 * MIB  # a log that is answered within its request and not kept, unpacked
    passing_soft_s: int = 20  # processor time for it
    lease_s: int = 30  # a running row whose worker has not answered for so long is queued again
    # Retention
    keep_anonymous_days: int = 7  # raw log and report
    keep_member_log_days: int = 90  # raw log, since the last view
    keep_member_facts_days: int = 395  # report of a team: 13 months
    share_days: int = 7
    trash_days: int = 14
    # Rates, per minute
    anonymous_uploads_per_minute: int = 10
    anonymous_reads_per_minute: int = 60
    token_requests_per_minute: int = 120
    # One team
    team_reports: int = 10_000
    team_bytes: int = 50 * GIB
    team_members: int = 20
    # The disk
    min_free_disk_bytes: int = 512 * MIB  # an upload that would leave less is refused

    def as_dict(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


def read_limits(environment: Environment) -> SiteLimits:
    """The limits, as the environment changes them.

    Raises WrongSetting for a value that is no whole number of at least 1.
    """
    defaults = SiteLimits()
    return SiteLimits(
        **{
            name: environment.whole_number(f"KVDIAG_{name.upper()}", default, least=1)
            for name, default in defaults.as_dict().items()
        }
    )
