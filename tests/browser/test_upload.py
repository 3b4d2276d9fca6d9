"""The way in, as people go it: by file, by paste, by drop and by curl, to the progress page and the report."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.live import LiveStack

LOG = Path(__file__).resolve().parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt"
NOT_SGLANG = "+-----+\n| NVIDIA-SMI 580.10    Driver Version: 580.10 |\n+-----+\n"
REPORT = re.compile(r"/r/[\w-]{20,}/$")
READY = "159,277"
expect.set_options(timeout=30_000)  # the machine that tests may be busy


@pytest.fixture
def upload_page(page: Page, live_stack: LiveStack) -> Page:
    """The upload page, in a browser that fails the test on any error or request to elsewhere."""
    page.problems = []  # type: ignore[attr-defined]
    page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.problems.append(str(error)))  # type: ignore[attr-defined]
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((live_stack.url, "data:", "blob:")) else page.problems.append(request.url)  # type: ignore[attr-defined]
        ),
    )
    page.goto(live_stack.url + "/")
    return page


def shows_the_report(page: Page) -> None:
    page.wait_for_url(REPORT)
    expect(page.locator("body")).to_contain_text(READY, timeout=30_000)


def violations(page: Page) -> list[str]:
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in Axe().run(page).response["violations"]]


def post(live_stack: LiveStack, path: str, body: bytes, method: str = "POST", **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urlopen(Request(live_stack.url + path, body, named, method=method)) as answer:
        return json.loads(answer.read() or b"null")


def test_a_chosen_file_becomes_a_report(upload_page: Page) -> None:
    upload_page.set_input_files("#pick", LOG)
    expect(upload_page.locator("#chosen-files")).to_contain_text("SGLang log")
    expect(upload_page.locator("#preview")).to_be_visible()
    upload_page.get_by_role("button", name="Diagnose 1 file").click()
    shows_the_report(upload_page)
    assert upload_page.problems == []


def test_pasted_text_becomes_a_report_by_key(upload_page: Page) -> None:
    upload_page.get_by_label("Log text").fill(LOG.read_text())
    upload_page.keyboard.press("Control+Enter")
    shows_the_report(upload_page)
    assert upload_page.problems == []


def curl(*arguments: str) -> list[str]:
    """The lines curl prints. On a busy machine the verdict may come later than the link: then the log is sent again."""
    for _ in range(10):
        ran = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, check=True)
        if "Not ready yet" not in ran.stdout:
            break
    return ran.stdout.splitlines()


def test_curl_answers_with_the_link_and_the_verdict(live_stack: LiveStack, page: Page) -> None:
    said = curl("--data-binary", f"@{LOG}", live_stack.url + "/")
    assert said[0].startswith(live_stack.url + "/r/") and "Ready" in said[1]
    page.goto(said[0])
    shows_the_report(page)


def test_curl_upload_file_does_the_same(live_stack: LiveStack) -> None:
    said = curl("-T", str(LOG), live_stack.url + "/")
    assert said[0].startswith(live_stack.url + "/r/") and "Ready" in said[1]


def test_curl_over_the_limit_reads_the_sentence(live_stack: LiveStack, tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    with big.open("wb") as file:
        file.truncate((64 << 20) + 1)
    for way in (["--data-binary", f"@{big}"], ["-T", str(big)]):
        said = subprocess.run(["curl", "-sS", *way, live_stack.url + "/"], capture_output=True, text=True, check=False)
        assert "the limit is 64 MiB" in said.stdout, said
    piped = subprocess.run(
        ["curl", "-sS", "-T", "-", live_stack.url + "/"], input="report\n", capture_output=True, text=True, check=False
    )
    assert "no Content-Length" in piped.stdout


def test_a_drop_anywhere_on_the_window_chooses_the_files(upload_page: Page) -> None:
    data = upload_page.evaluate_handle(
        """(text) => { const data = new DataTransfer();
            for (const name of ["node0.log", "node1.log"]) data.items.add(new File([text], name));
            return data; }""",
        LOG.read_text(),
    )
    upload_page.dispatch_event("footer", "dragenter", {"dataTransfer": data})
    expect(upload_page.locator("#upload")).to_have_class(re.compile("drop--over"))
    upload_page.dispatch_event("footer", "drop", {"dataTransfer": data})
    expect(upload_page.locator("#upload")).not_to_have_class(re.compile("drop--over"))
    expect(upload_page.locator("#chosen-files li")).to_have_count(2)
    expect(upload_page.get_by_role("button", name="Diagnose 2 files")).to_be_visible()


def test_an_empty_file_is_left_out_and_named(upload_page: Page) -> None:
    files = [
        {"name": name, "mimeType": "text/plain", "buffer": data} for name, data in (("a.log", b"x"), ("b.log", b""))
    ]
    upload_page.locator("#pick").set_input_files(files)
    expect(upload_page.locator("#upload-problem")).to_contain_text("b.log is empty and left out.")
    expect(upload_page.locator("#chosen-files li")).to_have_count(1)


def test_secrets_are_shown_and_hidden_before_anything_is_sent(upload_page: Page) -> None:
    sent: list[str] = []
    upload_page.expose_function("remember", lambda body: sent.append(body))
    upload_page.evaluate(
        """() => { const fetching = window.fetch; window.fetch = async (address, more) => {
            if (more && more.body) await window.remember(await new Response(more.body).text());
            return fetching(address, more); }; }"""
    )
    secret = "sk-proj-0123456789abcdefghij"
    text = LOG.read_text() + f"\n--api-key {secret} from 10.20.30.40 and 10.20.30.40\n"
    upload_page.get_by_label("Log text").fill(text)
    preview = upload_page.locator("#preview")
    expect(preview).to_contain_text("API key")
    expect(preview).to_contain_text("addr-1")
    expect(preview).not_to_contain_text(secret)
    upload_page.keyboard.press("Control+Enter")
    shows_the_report(upload_page)
    body = "".join(sent)
    assert "server_args" in body and secret not in body and "10.20.30.40" not in body
    document = upload_page.evaluate("fetch(location.pathname.replace(/\\/$/, '.json')).then((answer) => answer.json())")
    assert document["upload"]["masked"]["api_key"] >= 1 and document["upload"]["masked"]["ip_address"] >= 2


def test_the_text_stays_when_it_is_refused(upload_page: Page) -> None:
    upload_page.route(
        "**/api/uploads/",
        lambda route: route.fulfill(
            status=429, json={"error": {"code": "too_many", "message": "Too many requests. Come back in 7 s."}}
        ),
    )
    upload_page.get_by_label("Log text").fill("some text\n")
    upload_page.get_by_role("button", name="Diagnose the text").click()
    expect(upload_page.get_by_role("alert")).to_contain_text("Come back in 7 s.")
    expect(upload_page.get_by_label("Log text")).to_have_value("some text\n")


def test_a_cut_connection_costs_one_part(upload_page: Page) -> None:
    failures = []

    def cut_once(route) -> None:
        if route.request.method == "PATCH" and len(failures) < 1:
            failures.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    upload_page.route("**/api/uploads/**", cut_once)
    upload_page.set_input_files("#pick", LOG)
    upload_page.get_by_role("button", name="Diagnose 1 file").click()
    shows_the_report(upload_page)
    assert len(failures) == 1


def test_the_preview_hides_what_the_server_hides(upload_page: Page) -> None:
    secrets = "--api-key sk-proj-0123456789abcdefghij from 10.20.30.40, again 10.20.30.40, HF_TOKEN=hf_" + "aB3" * 11
    text = LOG.read_text() + f"\n{secrets}\n"
    upload_page.get_by_label("Log text").fill(text)
    preview = upload_page.locator("#preview-list")
    expect(preview).to_contain_text("API key")
    counts = upload_page.locator("#preview-title").inner_text()
    upload_page.locator("#hide-here input").uncheck()
    upload_page.get_by_role("button", name="Diagnose the text").click()
    shows_the_report(upload_page)
    document = upload_page.evaluate("fetch(location.pathname.replace(/\\/$/, '.json')).then((answer) => answer.json())")
    masked = sum(document["upload"]["masked"].values())
    assert re.search(r"\d+", counts)[0] == str(masked)  # type: ignore[index]


def test_a_long_file_comes_in_parts(upload_page: Page, tmp_path: Path) -> None:
    long = tmp_path / "server.log"
    long.write_bytes(LOG.read_bytes() + b'INFO:     127.0.0.1:4711 - "GET /health HTTP/1.1" 200 OK\n' * 180_000)
    parts = []
    upload_page.on("request", lambda request: parts.append(request) if request.method == "PATCH" else None)
    upload_page.set_input_files("#pick", long)
    upload_page.get_by_role("button", name="Diagnose 1 file").click()
    shows_the_report(upload_page)
    assert len(parts) == -(-long.stat().st_size // (8 << 20)) > 1
    offsets = [int(part.headers["upload-offset"]) for part in parts]
    assert offsets == sorted(set(offsets))


def test_a_sample_is_one_click_away(upload_page: Page) -> None:
    upload_page.get_by_role("button", name="try a sample").click()
    shows_the_report(upload_page)
    assert upload_page.problems == []


def test_every_script_has_a_name_that_changes_with_it(upload_page: Page) -> None:
    asked: list[str] = []
    upload_page.on("request", lambda request: asked.append(request.url) if request.resource_type == "script" else None)
    upload_page.get_by_role("button", name="try a sample").click()
    shows_the_report(upload_page)
    upload_page.wait_for_load_state("networkidle")  # the viewer's modules come one after another
    upload_page.locator("[data-log-fold]").click()
    expect(upload_page.locator("#L1")).to_be_attached()
    assert len([address for address in asked if "/js/log/" in address]) >= 8
    assert [address for address in asked if not re.search(r"\.[0-9a-f]{12}\.js$", address)] == []


def test_the_form_works_without_scripts(browser, live_stack: LiveStack) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_stack.url + "/")
    page.set_input_files("#pick", LOG)
    page.get_by_role("button", name="Diagnose", exact=True).click()
    page.wait_for_url(REPORT)
    expect(page.locator("body")).to_contain_text(READY, timeout=30_000)
    context.close()


def test_a_packed_file_is_cleaned_on_the_server(upload_page: Page, tmp_path: Path) -> None:
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(LOG.read_bytes()))
    upload_page.set_input_files("#pick", packed)
    expect(upload_page.locator("#chosen-files")).to_contain_text("compressed: hidden on the server")
    upload_page.get_by_role("button", name="Diagnose 1 file").click()
    shows_the_report(upload_page)


def test_the_same_log_again_is_offered_before_it_is_sent(upload_page: Page, live_stack: LiveStack) -> None:
    upload_page.set_input_files("#pick", LOG)
    upload_page.get_by_role("button", name="Diagnose 1 file").click()
    shows_the_report(upload_page)
    upload_page.goto(live_stack.url + "/")
    upload_page.set_input_files("#pick", LOG)
    expect(upload_page.locator("#known-content")).to_contain_text("You sent this log before")


def begun(live_stack: LiveStack, log: bytes) -> dict:
    """An upload that is still on its way: its page shows the progress."""
    description = json.dumps({"files": [{"name": "server.log", "bytes": len(log)}]}).encode()
    return post(live_stack, "/api/uploads/", description, Content_Type="application/json")


def test_progress_turns_into_the_report_at_the_same_address(page: Page, live_stack: LiveStack) -> None:
    log = LOG.read_bytes()
    made = begun(live_stack, log)
    page.goto(made["url"])
    expect(page.locator("[data-phase=received]")).to_have_class("now")
    expect(page.get_by_text("must stay open until all of it has come")).to_be_visible()
    page.reload()
    expect(page.locator("[data-phase=received]")).to_have_class("now")
    token = {"Upload_Token": made["delete_token"]}
    post(live_stack, made["files"][0], log, "PATCH", Upload_Offset="0", **token)
    post(live_stack, made["finish"], b"{}", Content_Type="application/json", **token)
    shows_the_report(page)
    assert page.url == made["url"]


def test_progress_goes_on_after_the_server_was_away(page: Page, live_stack: LiveStack) -> None:
    log = LOG.read_bytes()
    made = begun(live_stack, log)
    page.goto(made["url"])
    away = True
    page.route("**/status.json", lambda route: route.abort() if away else route.continue_())
    page.wait_for_event("requestfailed")
    away = False
    token = {"Upload_Token": made["delete_token"]}
    post(live_stack, made["files"][0], log, "PATCH", Upload_Offset="0", **token)
    post(live_stack, made["finish"], b"{}", Content_Type="application/json", **token)
    shows_the_report(page)


def test_what_is_no_sglang_log_is_said_plainly(upload_page: Page) -> None:
    upload_page.get_by_label("Log text").fill(NOT_SGLANG)
    upload_page.keyboard.press("Control+Enter")
    upload_page.wait_for_url(REPORT)
    alert = upload_page.get_by_role("alert")
    expect(alert).to_contain_text("This is not an SGLang log.", timeout=30_000)
    expect(alert).to_contain_text("It looks like nvidia-smi output.")
    expect(alert).to_contain_text("Reference")
    assert violations(upload_page) == []
    upload_page.get_by_role("button", name="Delete").click()
    expect(upload_page).to_have_url(re.compile("/$"))
    expect(upload_page.locator("body")).to_contain_text("are deleted")


def test_an_upload_on_its_way_can_be_cancelled_and_read_after_all(browser, live_stack: LiveStack) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(live_stack.url + "/")
    size = len(LOG.read_bytes())
    made = page.evaluate(
        """(size) => fetch("/api/uploads/", {
            method: "POST", headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ files: [{ name: "server.log", bytes: size }] }),
        }).then((answer) => answer.json())""",
        size,
    )
    page.goto(made["url"])
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert violations(page) == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_upload_page_has_no_barrier(upload_page: Page, scheme: str, width: int) -> None:
    upload_page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    upload_page.set_viewport_size({"width": width, "height": 900})
    assert violations(upload_page) == []
    upload_page.get_by_label("Log text").fill("--api-key sk-proj-0123456789abcdefghij\n" + LOG.read_text())
    expect(upload_page.locator("#preview-list")).to_contain_text("API key")
    upload_page.get_by_text("Name, deployment, tags, expiry").click()
    assert violations(upload_page) == []
    assert upload_page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_progress_page_has_no_barrier(page: Page, live_stack: LiveStack, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(begun(live_stack, b"x" * 100)["url"])
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
