"""The HTML page of a run, opened in a real browser: it says everything, and runs nothing."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from playwright.async_api import Page

from agentorchestra.cli import group
from agentorchestra.cli.output import UnwritableError
from agentorchestra.core.content import Source, TextBlock
from agentorchestra.core.messages import ModelRequest
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.browser import chromium, find_chromium
from tests.cli.team import ANSWER, STEPS, TASK, team

HOSTILE = [
    "<script>document.title = 'owned'; alert(1)</script>",
    '"><img src="http://127.0.0.1:9/leak.png" onerror="alert(2)">',
    "' onmouseover='alert(3)' x='",
    "</pre></details></body><iframe src='http://127.0.0.1:9/frame'></iframe>",
    "<style>body { background: url(http://127.0.0.1:9/css) }</style><link rel=stylesheet href=http://127.0.0.1:9/l>",
    "<meta http-equiv='refresh' content='0;url=http://127.0.0.1:9/away'><base href='http://127.0.0.1:9/'>",
    "{{ 7 * 7 }} {% include '/etc/passwd' %}",
    "\x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 \x00 \x9b31m",
    "javascript:alert(4)",
    "]]> --> <!-- <svg onload=alert(5)>",
]
ALL = "\n".join(HOSTILE)
PAGE = "https://example.org/a?b=1&c='\""


@tool(effect="read", name="fetch")
async def fetch(address: str) -> ToolResult:
    """Fetch something hostile.

    Args:
        address: where from.
    """
    page = TextBlock(text=f"{ALL}\n{PAGE}", source=Source(kind="web", ref=PAGE))
    return ToolResult(content=[page])


@tool(effect="read")
async def explode(text: str) -> str:
    """Fail in hostile words.

    Args:
        text: said again.
    """
    raise ValueError(ALL)


def _attacked(request: ModelRequest) -> Any:
    results = [message for message in request.messages if message.role == "tool"]
    if not results:
        plan = call("todo", action="create", plan_id="p", title=ALL, steps=[*HOSTILE])
        return decide(thinking=ALL, calls=[plan, call("fetch", address=ALL), call("explode", text=ALL)])
    sources: list[Any] = [{"source": one, "place": one, "quote": one} for one in (*HOSTILE, PAGE)]
    return decide(memory=ALL, calls=[call("done", answer=ALL, sources=sources)])


def hostile_run(folder: Path) -> str:
    """A run in which everything that others write is hostile."""

    async def work() -> str:
        model = ScriptedModel(_attacked)
        async with Workspace(folder, tools=[fetch, explode], models={"scripted": model}) as ws:
            run_id = await ws.create(ALL, model="scripted", system="react", labels={ALL: ALL})
            await ws.tell(run_id, ALL, by=ALL)
            result = await ws.resume(run_id)
            assert result.answer
            return run_id

    return asyncio.run(work())


def team_run(folder: Path) -> str:
    """A run of the team, with a failed attempt."""

    async def work() -> str:
        async with team(folder, in_memory=False, fail_first=True) as ws:
            return (await ws.run(TASK, model="scripted", system="react", labels={"who": "me"})).run_id

    return asyncio.run(work())


def invoke(*words: str) -> Result:
    return CliRunner().invoke(group.cli, list(words), prog_name="agentorchestra", catch_exceptions=False)


class Watched:
    """What a page tried to do."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.alarms: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.alarms.append(dialog.message))
        page.on("pageerror", lambda error: self.alarms.append(str(error)))
        page.on("popup", lambda popup: self.alarms.append(popup.url))
        page.on("framenavigated", lambda frame: self.requests.append(frame.url))


@pytest.mark.long
@pytest.mark.real
def test_everything_is_on_the_page(tmp_path: Path) -> None:
    run_id = team_run(tmp_path / "ws")
    target = tmp_path / "page.html"
    done = invoke("show", run_id, "--html", str(target), "--workspace", str(tmp_path / "ws"))
    assert (done.exit_code, done.stdout.strip()) == (0, str(target))

    async def look() -> None:
        async with chromium() as browser:
            page = await browser.new_page()
            watched = Watched(page)
            await page.goto(target.as_uri())
            assert await page.title() == run_id
            head = await page.locator("header").inner_text()
            for words in (TASK, run_id, "completed", "react", "scripted", "who=me", "8", "$0.0"):
                assert words in head, words
            assert ANSWER in await page.locator("pre.answer").inner_text()
            plan = page.locator("ol.plan").first
            assert (await plan.inner_text()).splitlines() == ["Compare", f"[x] {STEPS[0]}", f"[ ] {STEPS[1]}"]
            reader = page.locator("details.effect", has_text="agent reader-A: Read offer A.").last
            assert "ok 2 steps 1," in " ".join((await reader.locator("> summary").text_content() or "").split())
            request = reader.locator("details.effect", has_text="model scripted (decision)").first
            assert not await request.locator("h3").first.is_visible()
            # Opened one in the other, from the top agent to the request.
            for summary in ("agent react:", "study(", "agent reader-A:"):
                closed = page.locator("details.effect:not([open])", has=page.locator("> summary", has_text=summary))
                await closed.filter(visible=True).first.locator("> summary").click()
            await request.locator("> summary").click()
            await request.locator("h3", has_text="Request to scripted").wait_for(state="visible")
            said = await request.inner_text()
            for words in ("Read offer A.", "may call: ", "the server is overloaded", "Answer of scripted", "price_of"):
                assert words in said, words
            assert watched.requests == [target.as_uri()] * 2, "the page itself, and nothing else"
            assert watched.alarms == []

    asyncio.run(look())


@pytest.mark.real
def test_hostile_words_stay_words(tmp_path: Path) -> None:
    run_id = hostile_run(tmp_path / "ws")
    target = tmp_path / "page.html"
    done = invoke("show", run_id, "--html", str(target), "--workspace", str(tmp_path / "ws"))
    assert done.exit_code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert_inert(target.read_text(encoding="utf-8"))

    async def look() -> None:
        async with chromium() as browser:
            page = await browser.new_page()
            watched = Watched(page)
            await page.goto(target.as_uri())
            await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert await page.title() == run_id
            for selector in (
                "script",
                "iframe",
                "img",
                "svg",
                "link",
                "base",
                "object",
                "form",
                "[onmouseover]",
                "[onload]",
            ):
                assert await page.locator(selector).count() == 0, selector
            links = await page.locator("a").evaluate_all("list => list.map(one => one.getAttribute('href'))")
            assert links == [PAGE]
            shown = await page.locator("body").inner_text()
            for words in (
                "<script>document.title = 'owned'; alert(1)</script>",
                "javascript:alert(4)",
                "{{ 7 * 7 }}",
                "\\u001b[2J",
                "\\u202egnp.exe",
            ):
                assert words in shown, words
            for one in await page.locator("summary").all():
                await one.hover()
            await page.wait_for_timeout(200)
            assert watched.requests == [target.as_uri()] * 2
            assert watched.alarms == []

    asyncio.run(look())


@pytest.mark.long
@pytest.mark.real
def test_what_slipped_through_would_still_not_run(tmp_path: Path) -> None:
    """The second wall: elements that the template never writes are stopped by the page's content security policy."""
    run_id = team_run(tmp_path / "ws")
    target = tmp_path / "page.html"
    invoke("show", run_id, "--html", str(target), "--workspace", str(tmp_path / "ws"))
    page_text = target.read_text(encoding="utf-8")
    arrived: list[str] = []

    class Leak(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            arrived.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    async def look(address: str) -> None:
        attack = "<svg onload=alert(5)>".join([HOSTILE[0], *HOSTILE[1:5]]).replace("http://127.0.0.1:9", address)
        target.write_text(page_text.replace("</header>", f"</header>{attack}"), encoding="utf-8")
        async with chromium() as browser:
            page = await browser.new_page()
            watched = Watched(page)
            await page.goto(target.as_uri())
            assert await page.locator("script").count() == 1
            assert await page.locator("img").count() == 1
            await page.wait_for_timeout(200)
            assert await page.title() == run_id
            assert watched.alarms == []
            # The server can be reached from here: that nothing arrived was the page's doing.
            await page.goto(address)

    with ThreadingHTTPServer(("127.0.0.1", 0), Leak) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            asyncio.run(look(f"http://127.0.0.1:{server.server_port}"))
        finally:
            server.shutdown()
            thread.join()
    assert set(arrived) <= {"/", "/favicon.ico"}
    assert "/" in arrived


def assert_inert(page: str) -> None:
    """No element and no attribute that the template does not have, and no character that steers."""

    class Elements(HTMLParser):
        found: set[str] = set()  # noqa: RUF012
        attributes: set[str] = set()  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.add(tag)
            self.attributes |= {name for name, _ in attrs}

    elements = Elements()
    elements.feed(page)
    assert "details" in elements.found
    assert not elements.found & {"script", "iframe", "img", "svg", "link", "base", "object", "embed", "form", "input"}
    assert elements.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "open", "href", "rel"}
    assert not {c for c in page if c in "\x00\x07\x1b\x9b\u202e\u2066"}


def test_the_terminal_shows_them_as_words_too(tmp_path: Path) -> None:
    run_id = hostile_run(tmp_path / "ws")
    done = invoke("show", run_id, "--workspace", str(tmp_path / "ws"))
    assert done.exit_code == 0
    assert "gnp.exe" in done.stdout
    data = invoke("show", run_id, "--json", "--workspace", str(tmp_path / "ws"))
    assert json.loads(data.stdout)["run"]["manifest"]["task"] == ALL
    for shown in (done.output, data.output):
        assert not {c for c in shown if c in "\x00\x07\x1b\x9b\u202e\u2066"}


@pytest.mark.long
def test_where_the_page_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTORCHESTRA_WORKSPACE", raising=False)
    run_id = team_run(Path(".agentorchestra"))
    named = invoke("show", "last", "--html")
    assert named.stdout.strip() == f"{run_id}.html"
    page = Path(f"{run_id}.html").read_text(encoding="utf-8")
    assert invoke("show", "last", "--html", "-").stdout == page + "\n"
    Path("pages").mkdir()
    assert invoke("show", "last", "--html", "pages").stdout.strip() == f"pages/{run_id}.html"
    with pytest.raises(UnwritableError, match=r"none/x.html cannot be written: No such file.*; name another file"):
        invoke("show", "last", "--html", "none/x.html")
    refused = invoke("show", "last", "--html", "--json")
    assert refused.exit_code == 2
    assert "--html and --json exclude each other" in refused.output


def test_a_missing_browser_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    expected = pytest.fail.Exception if os.geteuid() == 0 else pytest.skip.Exception
    with pytest.raises(expected, match="no Chromium was found"):
        find_chromium("/nowhere/chrome")
