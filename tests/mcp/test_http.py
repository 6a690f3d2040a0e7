"""Servers over HTTP: one of the official SDK that is killed and started again, and some that mean no good."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agentorchestra.core.errors import McpError, ToolError
from agentorchestra.tools.mcp import McpToolkit, transports
from tests.mcp.support import HttpServer, called, calls, opened, words, written


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "plain-json"])
async def test_a_server_that_is_started_again(tmp_path: Path, kind: str) -> None:
    async with HttpServer(tmp_path, kind) as server:
        async with opened(written(tmp_path, srv={"type": "http", "url": server.url, "trust": True})) as toolkit:
            await called(toolkit, "srv_count", n=1)

            # Another process at the address does not know the session: it did nothing, so the call is made again.
            server.kill()
            await server.start()
            await called(toolkit, "srv_count", n=2)

            # Nobody there: the call was not sent, and waits until somebody is.
            server.kill()
            server.launch()
            await called(toolkit, "srv_count", n=3)

            # It went away with the call.
            with pytest.raises(ToolError, match=r"went away while die was under way .*: the call may have happened"):
                await called(toolkit, "srv_die", n=4)
            server.launch()
            assert words(await called(toolkit, "srv_die", n=4)) == "survived 4"

            waiting = asyncio.create_task(called(toolkit, "srv_die_repeatable", n=5))
            while "die_repeatable 5" not in calls(tmp_path):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
            server.kill()
            server.launch()
            assert words(await waiting) == "survived 5"
        assert calls(tmp_path) == [
            "count 1", "count 2", "count 3", "die 4", "die 4", "die_repeatable 5", "die_repeatable 5"
        ]  # fmt: skip


async def test_nobody_there(tmp_path: Path) -> None:
    server = HttpServer(tmp_path)
    with pytest.raises(McpError, match=r"'srv' .* cannot be used: .*onnect.* See whether it runs by itself$"):
        await McpToolkit(written(tmp_path, srv={"url": server.url, "required": True}), {}).open(lambda: None)


# -- servers of which the SDK's client sees only what they send --------------------------------------------------------

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[str]:
    """A server that answers each POST as it likes; its address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        return await answer(request, await request.json())

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/mcp"
    finally:
        await runner.cleanup()


ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
LISTED = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


async def polite(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
    """As a server should."""
    results = {"initialize": ABOUT, "tools/list": LISTED, "tools/call": {"content": [{"type": "text", "text": "done"}]}}
    if "id" not in message:
        return web.Response(status=202)
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})


async def refused(folder: Path, answer: Answer, **fields: Any) -> str:
    async with served(answer) as url:
        with pytest.raises(McpError) as caught:
            srv = {"url": url, "startup_timeout_s": 5, "required": True, **fields}
            await McpToolkit(written(folder, srv=srv), {}).open(lambda: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_headers_are_sent_and_a_refusal_says_what_to_check(tmp_path: Path) -> None:
    async def guarded(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer right":
            return web.Response(status=401)
        return await polite(request, message)

    sentence = await refused(tmp_path, guarded, headers={"Authorization": "Bearer wrong"})
    assert "lets nobody in (HTTP 401); check the headers it is to be sent" in sentence
    async with served(guarded) as url:
        path = written(tmp_path, srv={"url": url, "headers": {"Authorization": "Bearer right"}})
        async with opened(path) as toolkit:
            assert words(await called(toolkit, "srv_t")) == "done"


async def test_a_redirect_elsewhere_is_not_followed(tmp_path: Path) -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return await polite(request, message)

    async with served(elsewhere) as there:

        async def moved(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(there)

        sentence = await refused(tmp_path, moved, headers={"Authorization": "Bearer right"})
    assert f"Redirect to {there} not followed" in sentence
    assert seen == []


async def test_answers_that_are_compressed_or_too_large_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bomb(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=gzip.compress(b" " * 1_000_000), headers=headers)

    assert "its answer is compressed, which was not asked for" in await refused(tmp_path, bomb)

    async def flood(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        if message["method"] != "tools/call":
            return await polite(request, message)
        body = {"content": [{"type": "text", "text": "x" * 50_000}]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": body})

    monkeypatch.setattr(transports, "MAX_RESPONSE_BYTES", 20_000)
    async with served(flood) as url, opened(written(tmp_path, srv={"url": url})) as toolkit:
        with pytest.raises(ToolError, match="the answer has more than 20,000 bytes"):
            await called(toolkit, "srv_t")


@pytest.mark.parametrize(
    "body", ["<html>", "{}", '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "1"}}', ""]
)
async def test_answers_that_are_none(tmp_path: Path, body: str) -> None:
    async def babble(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text=body, content_type="application/json")

    assert "cannot be used: " in await refused(tmp_path, babble)


async def test_a_stream_that_breaks_off(tmp_path: Path) -> None:
    tries: list[str] = []

    async def broken(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        if message["method"] != "tools/call":
            return await polite(request, message)
        tries.append(json.dumps(message["params"]))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": soon\n\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(broken) as url:
        async with opened(written(tmp_path, srv={"url": url})) as toolkit:
            with pytest.raises(ToolError, match=r"the call may have happened\. It was not repeated"):
                await called(toolkit, "srv_t")
        assert len(tries) == 1
        listed = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        LISTED["tools"].append({**listed, "name": "r"})
        try:
            async with opened(written(tmp_path, srv={"url": url, "trust": True})) as toolkit:
                with pytest.raises(ToolError, match="r on the MCP server 'srv' failed 5 times"):
                    await called(toolkit, "srv_r")
        finally:
            LISTED["tools"].pop()
        assert len(tries) == 6
