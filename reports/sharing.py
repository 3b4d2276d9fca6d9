"""Share links: the sheet that makes them, and the pages their readers see."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ingest.documents import lines_answer
from ingest.models import State, StoredReport, Upload
from ingest.sender import sent_it
from reports import sharing_links
from reports.document import launch_number, listed
from reports.models import ShareLink
from reports.page import ReportPage
from reports.sharing_links import What, Who, Wish
from reports.sharing_panel import shared_panel
from reports.sharing_scope import facts_only
from reports.sharing_tools import may_share
from reports.stored import log_context
from teams import access
from teams.access import Action
from teams.tokens import LINK_BYTES, form_seed, new_secret

PERIODS = {"1": "1 day", "7": "7 days", "30": "30", "90": "90"}
GRANT_S = 1800  # how long a password or a counted view keeps a reader in


# --- Making links -----------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
def share_sheet(request: HttpRequest, public_id: str) -> HttpResponse:
    """What, who, how long; the reader's page beside it; the links in force. The new link is on the answer only.

    The page's form has a random part (`once`), so that an answer that is loaded again makes no second link.
    """
    upload = get_object_or_404(access.visible(Upload, to=request.user), public_id=public_id)
    if not may_share(request, upload):
        if upload.team_id is None:
            raise Http404
        return render(request, "teams/not_allowed.html", {"team": upload.team}, status=403)
    stored = upload.report
    if stored is None or upload.state != State.READY:
        raise Http404
    made, problem = "", ""
    if request.method == "POST":
        try:
            form = form_seed(request.POST)
            _, token = sharing_links.make_link(upload, wish_of(request.POST), by=request.user, form=form)
            made = request.build_absolute_uri(f"/s/{token}/")
        except sharing_links.Refused as refused:
            problem = str(refused)
    page = ReportPage(facts_only(stored.document), name="")
    context = {
        "section": "dashboard",
        "upload": upload,
        "team": upload.team,
        "page": page,
        "once": new_secret(LINK_BYTES),
        "made": made,
        "markdown": markdown_of(stored, made) if made else "",
        "problem": problem,
        "asked": request.POST,
        "periods": PERIODS.items(),
        "ends": timezone.now() + timedelta(days=7),
        "tomorrow": timezone.localdate() + timedelta(days=1),
        "masked_count": sum(count for count in (upload.masked or {}).values() if isinstance(count, int)),
        "line_count": sum(file.get("lines") or 0 for file in upload.files),
        "has_log": any(file.get("path") for file in upload.files),
        "evidence": evidence_of(stored)[:3],
        "links": sharing_links.links_in_force(upload),
    }
    return render(request, "reports/share.html", context, status=400 if problem else 200)


def wish_of(asked: Any) -> Wish:
    """The choices of the sheet. Raises Refused for what cannot be read."""
    days, views, who = asked.get("days", "7"), asked.get("max_views", "").strip(), asked.get("who", Who.LINK)
    expires_at: datetime | None
    if days == "never" and who == Who.TEAM:
        expires_at = None
    elif days == "date":
        expires_at = _end_of(asked.get("date", ""))
    else:
        if days not in PERIODS:
            raise sharing_links.Refused("Choose how long the link lasts.")
        expires_at = timezone.now() + timedelta(days=int(days))
    if views and not views.isdecimal():
        raise sharing_links.Refused("The view limit is a number from 1 to 10,000.")
    return Wish(
        what=asked.get("what", What.FACTS),
        who=who,
        expires_at=expires_at,
        password=asked.get("password", ""),
        max_views=int(views[:9]) if views else None,
        show_preview=bool(asked.get("show_preview")),
    )


def _end_of(text: str) -> datetime:
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise sharing_links.Refused("Choose the day on which the link ends.")
    return timezone.make_aware(datetime(day.year, day.month, day.day, 23, 59))


def evidence_of(stored: StoredReport) -> list[dict[str, Any]]:
    """Lines the findings cite: what a link with the log shows beyond the facts."""
    lines = []
    for launch in listed(stored.document, "launches")[-1:]:
        for finding in listed(launch, "findings"):
            lines += [each for each in listed(finding, "evidence") if each.get("text")]
    return lines


def markdown_of(stored: StoredReport, url: str) -> str:
    """A block for an issue: the verdict, key figures, and the link."""
    page = ReportPage(facts_only(stored.document))
    figures = "\n".join(f"| {key.name} | {key.figure} {key.unit} |" for key in page.keys) if page.has_launch else ""
    table = f"\n\n| | |\n| --- | --- |\n{figures}" if figures else ""
    facts = ", ".join(value for _, value in page.facts[:4] if value)
    return f"**{page.verdict_word}.** {page.verdict_line}\n\n{facts}{table}\n\n[Report]({url})\n"


@require_POST
def share_revoke(request: HttpRequest, public_id: str) -> HttpResponse:
    """End a link at once."""
    link = access.visible(ShareLink, to=request.user).select_related("upload__team").filter(public_id=public_id).first()
    if link is None:
        link = _own_link(request, public_id)
    elif not access.may(request.user, Action.SHARE, link):
        return render(request, "teams/not_allowed.html", {"team": link.upload.team}, status=403)
    if link is None and not access.is_person(request.user):
        return redirect_to_login("/dashboard/")
    if link is None:
        raise Http404
    sharing_links.revoke(link, by=request.user)
    messages.success(request, "Revoked. The link leads nowhere from now on.")
    if request.POST.get("back") == "links" and link.upload.team is not None:
        return redirect("team_links", slug=link.upload.team.slug)
    return redirect("share_sheet", public_id=link.upload.public_id)


def _own_link(request: HttpRequest, public_id: str) -> ShareLink | None:
    """The link into an upload of nobody, for the browser that sent it."""
    link = ShareLink.objects.select_related("upload").filter(public_id=public_id, upload__deleted_at=None).first()
    return link if link is not None and sent_it(request, link.upload) else None


# --- Following links --------------------------------------------------------------------------------------------------


def no_such_link(request: HttpRequest) -> HttpResponse:
    """The one answer to a link that ended, was revoked, is not for this reader, or never existed."""
    return render(request, "reports/share_ended.html", status=404)


def reader_of(request: HttpRequest, token: str) -> ShareLink | None:
    """The link, when it is open and for this reader; members' links look like no link to everybody else."""
    link = sharing_links.link_of(token)
    if link is None or not (link.is_open() or (_has_grant(request, link) and _is_only_used_up(link))):
        return None
    if link.who == Who.TEAM and access.role_in(link.upload.team_id, request.user) is None:
        return None
    return link


def _is_only_used_up(link: ShareLink) -> bool:
    """True when nothing but the view limit closes the link: whoever was counted may reload for a while."""
    now = timezone.now()
    ended = any(end is not None and end <= now for end in (link.expires_at, link.upload.expires_at))
    return link.revoked_at is None and link.upload.deleted_at is None and not ended


def _grants(request: HttpRequest) -> dict[str, float]:
    now = timezone.now().timestamp()
    return {key: until for key, until in request.session.get("shares", {}).items() if until > now}


def _has_grant(request: HttpRequest, link: ShareLink) -> bool:
    return str(link.pk) in _grants(request)


def needs_door(request: HttpRequest, link: ShareLink) -> bool:
    """True when the reader must first give the password, or agree to be counted."""
    return (link.who == Who.PASSWORD or link.max_views is not None) and not _has_grant(request, link)


@require_http_methods(["GET", "HEAD", "POST"])
def shared_page(request: HttpRequest, token: str) -> HttpResponse:
    """The report as the link's reader may see it. GET changes nothing: a view is counted by a click or a script."""
    link = reader_of(request, token)
    if link is None:
        return no_such_link(request)
    if request.method == "POST":
        return _enter(request, link, token)
    if needs_door(request, link):
        return render(request, "reports/share_door.html", {"link": link})
    stored = link.upload.report
    if stored is None:
        return no_such_link(request)
    return render(request, "reports/shared.html", shared_context(request, link, stored, token))


def shared_context(request: HttpRequest, link: ShareLink, stored: StoredReport, token: str) -> dict[str, Any]:
    """What the page is made from: of a facts-only link the restricted document and nothing of the upload's own."""
    with_log = link.what == What.LOG
    document = stored.document if with_log else facts_only(stored.document)
    number = launch_number(request.GET.get("launch", ""))
    page = ReportPage(
        document,
        number=number if number is not None else len(listed(document, "launches")),
        name=link.upload.title if with_log else "",
    )
    context: dict[str, Any] = {
        "page": page,
        "link": link,
        "link_token": token,
        "report_url": f"/s/{token}/",
        "report_base": f"/s/{token}",
        "is_shared": True,
        "can_log": False,
        "log_why": "The log is not part of this link." if not with_log else "",
        "log_items": [],
    }
    if with_log:
        context |= log_context(link.upload, document)
    return context | shared_panel(request, link, stored, page)


def _enter(request: HttpRequest, link: ShareLink, token: str) -> HttpResponse:
    """The password, or the click, behind which a view is counted."""
    if link.who == Who.PASSWORD and not _has_grant(request, link):
        if not sharing_links.count_try(link):
            return render(request, "reports/share_door.html", {"link": link, "slow": True}, status=429)
        if not sharing_links.opens(link, request.POST.get("password", "")):
            return render(request, "reports/share_door.html", {"link": link, "wrong": True}, status=403)
        sharing_links.forget_tries(link)
    if not _has_grant(request, link) and not sharing_links.count_view(link):
        return no_such_link(request)
    request.session["shares"] = {**_grants(request), str(link.pk): timezone.now().timestamp() + GRANT_S}
    return redirect("shared", token=token)


@require_POST
def shared_seen(request: HttpRequest, token: str) -> HttpResponse:
    """A browser says that somebody looks at the page. Counts once a session, and only links without a door."""
    link = reader_of(request, token)
    if link is None:
        return no_such_link(request)
    seen = request.session.get("shares_seen", [])
    if link.max_views is None and link.who != Who.PASSWORD and link.pk not in seen:
        sharing_links.count_view(link)
        request.session["shares_seen"] = [*seen[-50:], link.pk]
    return HttpResponse(status=204)


def log_link(request: HttpRequest, token: str) -> ShareLink | None:
    """The link, when this reader may read the log through it now."""
    link = reader_of(request, token)
    if link is None or link.what != What.LOG or needs_door(request, link):
        return None
    return link


@require_GET
def shared_log(request: HttpRequest, token: str) -> HttpResponse:
    """Numbered lines of the masked log, of a link that shows it."""
    link = log_link(request, token)
    if link is None:
        return no_such_link(request)
    return lines_answer(request, link.upload)


@require_GET
def shared_log_find(request: HttpRequest, token: str) -> HttpResponse:
    """Search in the masked log, of a link that shows it."""
    from reports.views import find_answer  # that file's pages link back to this one

    link = log_link(request, token)
    if link is None:
        return no_such_link(request)
    return find_answer(request, link.upload)


@require_GET
def shared_json(request: HttpRequest, token: str) -> HttpResponse:
    """The document within the link's scope."""
    link = reader_of(request, token)
    stored = link.upload.report if link is not None and not needs_door(request, link) else None
    if link is None or stored is None:
        return no_such_link(request)
    return JsonResponse(stored.document if link.what == What.LOG else facts_only(stored.document))
