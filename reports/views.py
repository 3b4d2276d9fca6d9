"""Pages of the way out. A view fetches, asks, and answers; what a report says is arranged in reports/page.py."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET

from ingest.models import Upload
from ingest.views import progress_page, upload_of
from reports import stored
from reports.budget import card_of
from reports.document import LineRef, dig, launch_number, launches, listed
from reports.log_search import BadPattern, search
from reports.page import ReportPage
from reports.pools import POOLS
from reports.sharing_tools import tools_of
from reports.what_if_panel import panel_answer, panel_of, scenario_query


@gzip_page
@require_GET
def report_page(request: HttpRequest, public_id: str) -> HttpResponse:
    """The report, or its progress until there is one. ?launch=2 chooses among several starts; the last one is shown."""
    upload = upload_of(request, public_id)
    report = upload.report
    if report is None:
        return progress_page(request, upload)
    page = page_of(request, upload, report.document)
    if "knobs" in request.GET:  # the panel's form, sent without its script: an address with the scenario alone
        return redirect(f"/r/{public_id}/?{scenario_query(page, request.GET)}#whatif")
    return render(
        request,
        "reports/report.html",
        page_context(page, request.GET, upload=upload) | tools_of(request, upload, report),
    )


def page_of(request: HttpRequest, upload: Upload, document: dict[str, Any]) -> ReportPage:
    """The chosen launch of a stored document as a page."""
    number = launch_number(request.GET.get("launch", ""))
    return ReportPage(document, number if number is not None else len(launches(document)), name=upload.name)


def page_context(page: ReportPage, asked: Mapping[str, str], *, upload: Upload) -> dict[str, Any]:
    """What the report's templates need; `asked` are the address's settings for the what-if panel."""
    return {
        "page": page,
        "section": "report",
        "upload": upload,
        "public_id": upload.public_id,
        "report_url": f"/r/{upload.public_id}/",
        "report_base": f"/r/{upload.public_id}",
        "extra_facts": _extra_facts(upload),
        "crumbs": _crumbs(upload),
        **stored.log_context(upload, page.document),
        **panel_of(page, asked),
    }


def _extra_facts(upload: Upload) -> list[tuple[str, str]]:
    facts = []
    if upload.uploader is not None:
        facts.append(("Uploaded by", upload.uploader.get_full_name() or upload.uploader.get_username()))
    if upload.log_until is not None:
        facts.append(("Log kept until", f"{upload.log_until:%-d %b %Y}"))
    return facts


def _crumbs(upload: Upload) -> list[tuple[str, str]]:
    if upload.team is None:
        return []
    crumbs = [(upload.team.name, "/dashboard/")]
    if upload.deployment is not None:
        crumbs.append((str(upload.deployment), f"/deployments/{upload.deployment.public_id}/"))
    crumbs.append((f"{upload.created_at:%-d %b, %H:%M}", ""))
    return crumbs


# --- Parts of a report ------------------------------------------------------------------------------------------------


def _launch_of(request: HttpRequest, document: dict[str, Any]) -> dict[str, Any]:
    asked = request.GET.get("launch", "")
    found = launches(document)
    chosen = [launch for launch in found if str(launch.get("number")) == asked] or found[-1:]
    if not chosen:
        raise Http404("This report has no launch.")
    return chosen[0]


@gzip_page
@require_GET
def what_if(request: HttpRequest, public_id: str) -> HttpResponse:
    """The scenario of the given settings for one launch, as JSON; 400 with a sentence for what is no setting."""
    _, report = stored.report_of(request, public_id)
    body, status = panel_answer(_launch_of(request, report.document), request.GET)
    return JsonResponse(body, status=status)


@gzip_page
@require_GET
def log_find(request: HttpRequest, public_id: str) -> HttpResponse:
    """Line numbers that match ?q= (text or /pattern/), ?rank=, ?level=, within ?from= and ?to= of ?file=."""
    return find_answer(request, upload_of(request, public_id))


def find_answer(request: HttpRequest, upload: Upload) -> HttpResponse:
    """The matches asked for, of an upload that the reader may see the log of."""
    files = stored.log_files(upload)
    numbers = {}
    for name, default in (("file", 0), ("from", 1), ("to", 0)):
        value = request.GET.get(name, "")
        if value and not (value.isdecimal() and len(value) < 10):
            return JsonResponse({"error": f"{name} is a whole number."}, status=400)
        numbers[name] = int(value) if value else default
    if numbers["file"] >= len(files):
        return JsonResponse({"error": "The log of this report is not kept."}, status=410 if not files else 404)
    try:
        found = search(
            files[numbers["file"]].path,
            text=request.GET.get("q", ""),
            rank=request.GET.get("rank", "")[:80],
            level=request.GET.get("level", ""),
            first=numbers["from"],
            last=numbers["to"] or None,
        )
    except BadPattern as problem:
        return JsonResponse({"error": str(problem)}, status=400)
    return JsonResponse({"file": numbers["file"], "count": len(found.lines), "lines": found.lines, "cut": found.cut})


@require_GET
def log_some(request: HttpRequest, public_id: str) -> HttpResponse:
    """Single lines by their numbers, ?file=0&n=12,90: what a filtered view shows. At most 200 at once."""
    return some_answer(request, upload_of(request, public_id))


def some_answer(request: HttpRequest, upload: Upload) -> HttpResponse:
    """The lines asked for, of an upload that the reader may see the log of."""
    files = stored.log_files(upload)
    asked = request.GET.get("n", "").split(",")[:200]
    place = request.GET.get("file", "0")
    numbers = [int(number) for number in asked if number.isdecimal() and len(number) < 10]
    if not place.isdecimal() or int(place) >= len(files):
        return JsonResponse({"error": "The log of this report is not kept."}, status=410 if not files else 404)
    texts = stored.line_texts(files, [LineRef(int(place), number) for number in numbers])
    return JsonResponse({"lines": sorted((ref.line, text) for ref, text in texts.items())})


@require_GET
def log_text(request: HttpRequest, public_id: str) -> HttpResponse | FileResponse | StreamingHttpResponse:
    """The masked log as a text file to keep; never shown in the browser."""
    upload = upload_of(request, public_id)
    files = stored.log_files(upload)
    if not files:
        return HttpResponse(
            "The log of this report is not kept; its figures are.\n", status=410, content_type="text/plain"
        )
    name = slugify(upload.title) or "log"
    if len(files) == 1:
        return FileResponse(
            files[0].path.open("rb"), as_attachment=True, filename=f"{name}.txt", content_type="text/plain"
        )

    def parts() -> Any:
        for file in files:
            yield f"==> {file.name} <==\n".encode()
            with file.path.open("rb") as stream:
                yield from iter(lambda: stream.read(1 << 16), b"")
            yield b"\n"

    response = StreamingHttpResponse(parts(), content_type="text/plain")
    response["Content-Disposition"] = f'attachment; filename="{name}.txt"'
    return response


@require_GET
def ranks_csv(request: HttpRequest, public_id: str) -> HttpResponse:
    """Every rank's memory as a table for a spreadsheet, GiB."""
    upload, report = stored.report_of(request, public_id)
    launch = _launch_of(request, report.document)
    response = HttpResponse("\ufeff", content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{slugify(upload.title) or "report"}-ranks.csv"'
    table = csv.writer(response, lineterminator="\r\n")
    pools = list(POOLS)[:-1]
    table.writerow(["rank", "first_reading_gib", *(f"{pool}_gib" for pool in pools), "free_gib", "kv_tokens"])
    for rank in listed(launch, "ranks"):
        card = card_of(rank, ended="")
        shares = {share.pool: share.gib for share in card.shares} if card else {}
        row = [guarded(rank.get("id") or "GPU"), dig(rank, "opening_gib"), *(shares.get(pool) for pool in pools)]
        table.writerow([*row, rank.get("free_gib"), rank.get("kv_tokens")])
    return response


def guarded(text: Any) -> str:
    """A cell that a spreadsheet does not run: a formula's first letter gets a quote before it."""
    value = str(text)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


@require_GET
def report_markdown(request: HttpRequest, public_id: str) -> HttpResponse:
    """The report for an issue thread: verdict, budget, findings; log lines fenced."""
    from kvdiag.diagnosis.markdown import to_markdown

    upload, report = stored.report_of(request, public_id)
    link = request.build_absolute_uri(f"/r/{public_id}/")
    response = HttpResponse(to_markdown(report.document, link=link), content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="{slugify(upload.title) or "report"}.md"'
    return response


@require_GET
def report_offline(request: HttpRequest, public_id: str) -> HttpResponse:
    """The report as one HTML file that opens without a network."""
    from reports.offline import offline_page

    upload, report = stored.report_of(request, public_id)
    response = HttpResponse(offline_page(report.document, name=upload.name), content_type="text/html; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{slugify(upload.title) or "report"}.html"'
    return response


# --- Pages beside the report ------------------------------------------------------------------------------------------


@gzip_page
@require_GET
def compare_page(request: HttpRequest) -> HttpResponse:
    """Two to ten launches side by side: ?r=<id>&r=<id>.2, where .2 is a launch of that upload."""
    from reports.comparing import comparison_context

    return render(request, "reports/compare.html", comparison_context(request) | {"section": "compare"})


@gzip_page
@require_GET
def rules_page(request: HttpRequest, rule_id: str = "") -> HttpResponse:
    """Every rule, and one of them in full."""
    from reports.rule_pages import rules_context

    context = rules_context(rule_id)
    if context is None:
        raise Http404("There is no such rule.")
    return render(request, "reports/rules.html", context | {"section": "rules"})


@require_GET
def design_page(request: HttpRequest) -> HttpResponse:
    """The design system, drawn from the same styles and parts as every page."""
    from reports.design import design_context

    return render(request, "reports/design.html", design_context())
