"""Many runs at once in one browser: each with its own logins, and each comes to its own answer."""

from __future__ import annotations

import asyncio
import hashlib
import html
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web
from tests.browser import find_chromium

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings
from agentorchestra.environments.browser.session.chromium import shared_browser
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.trust.policy import AllowAll

pytestmark = [pytest.mark.long, pytest.mark.real]
RUNS = 20


def word(name: str) -> str:
    """What the site tells this user only."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


async def serve(request: web.Request) -> web.Response:
    """A login and an account, in a page with many elements."""
    rest = "".join(f"<li><a href=/{n}>Entry {n}</a></li>" for n in range(200))
    if request.path == "/enter":
        answer = web.Response(status=302, headers={"Location": "/account"})
        answer.set_cookie("who", str((await request.post())["name"]))
        return answer
    if request.path == "/account":
        who = request.cookies.get("who", "nobody")
        body = (
            f"<title>Account</title><h1>Account of {html.escape(who)}</h1><p>The word is {word(who)}</p><ul>{rest}</ul>"
        )
    else:
        body = (
            "<title>Enter</title><form method=post action=/enter><label>Name <input name=name></label>"
            f"<button>Enter</button></form><ul>{rest}</ul>"
        )
    return web.Response(text=f"<!doctype html>{body}", content_type="text/html")


def decide(request: ModelRequest) -> ToolCall:
    """Log in under the name in the task, and say which word the account shows."""
    shown = "\n".join(one.text for one in request.messages)
    (address, name), *_ = re.findall(r"log in at (\S+) as (\w+)", shown)
    found = re.findall(rf'Account of {name}"?(?:.|\n)*?The word is (\w+)', shown)
    field = re.findall(r'\[(\w+)\] textbox "Name"(.*)', shown)
    button = re.findall(r'\[(\w+)\] button "Enter"', shown)
    if found:
        return call("done", answer=f"the word is {found[-1]}")
    if not field:
        return call("browser_go_to_url", url=address)
    ref, value = field[-1]
    if name not in value:
        return call("browser_input_text", ref=ref, text=name, site=address.removeprefix("http://"))
    return call("browser_click", ref=button[-1])


@asynccontextmanager
async def site() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Its host, and what is set when somebody logs in."""
    entered = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/enter":
            entered.set()
        return await serve(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}", entered
    finally:
        await runner.cleanup()


async def answers(ws: Workspace, host: str, runs: int) -> list[str | None]:
    """What so many runs at once say."""
    tasks = [f"log in at http://{host} as user{n}" for n in range(runs)]
    given: dict[str, Any] = {"system": "react", "environments": ["browser"]}
    results = await asyncio.gather(*(ws.run(task, model=ScriptedModel(decide), **given) for task in tasks))
    return [one.answer for one in results]


def workspace(folder: Path, host: str) -> Workspace:
    web_settings, browser = WebSettings(private=(host,)), BrowserSettings()
    return Workspace(
        folder, settings=Settings(prompt_tool_chars=0, web=web_settings, browser=browser), policy=AllowAll()
    )


def expected(runs: int) -> list[str]:
    return [f"the word is {word(f'user{n}')}" for n in range(runs)]


async def test_twenty_runs_at_once(tmp_path: Path) -> None:
    find_chromium()
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    async with site() as (host, _), workspace(tmp_path, host) as ws:
        assert await answers(ws, host, RUNS) == expected(RUNS)
        # It ended with the last run.
        assert {one.pid for one in psutil.Process().children(recursive=True)} <= before


async def test_the_browser_is_killed_under_several_runs(tmp_path: Path) -> None:
    find_chromium()
    async with site() as (host, entered), workspace(tmp_path, host) as ws:
        working = asyncio.ensure_future(answers(ws, host, 4))
        await entered.wait()
        shared = shared_browser(BrowserSettings())
        pid = shared.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert await working == expected(4)
        assert shared.generation >= 2
