"""Clients that are slow on purpose, and many at once: real sockets against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import SettingsError
from agentorchestra.core.settings import ServeSettings
from agentorchestra.web import server as web_server
from agentorchestra.workspace import load_settings
from tests.support.patience import LONGEST_S
from tests.web.support import TOKEN, Served, served

HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
LIST = f"GET /runs HTTP/1.1\r\n{HEAD}\r\n"
PENDING = f"POST /runs HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


class Client:
    """A connection that sends what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, Any]:
        """Status and body of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), json.loads(await self.reader.readexactly(length))

    async def ended(self) -> bool:
        """Wait until the server ends the connection; True if it said nothing more."""
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def drip(self, text: str) -> None:
        """Send one byte after the other, as long as somebody is there."""
        try:
            for one in text.encode():
                self.writer.write(bytes([one]))
                await self.writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            return


@asynccontextmanager
async def connected(server: Served) -> AsyncIterator[Client]:
    """A connection that is closed at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("sent", ["", "GET /runs HTTP/1.1\r\nHost: local"])
async def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 0.5)
    async with served(tmp_path) as server, asyncio.timeout(LONGEST_S), connected(server) as client:
        client.writer.write(sent.encode())
        status, said = await client.answer()
        assert status == 408
        assert said["error"].startswith("the head of the request was not there after 0.5 s; send it faster")
        assert await client.ended()


async def test_a_head_that_comes_byte_by_byte_gets_no_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 0.5)
    async with served(tmp_path) as server, asyncio.timeout(LONGEST_S), connected(server) as client:
        client.writer.write(LIST.encode())  # the second one on a connection is no exception
        assert (await client.answer())[0] == 200
        dripping = asyncio.create_task(client.drip("GET /runs HTTP/1.1\r\nX-Long: " + "x" * 100_000))
        assert (await client.answer())[0] == 408
        assert await client.ended()
        dripping.cancel()


async def test_the_body_of_a_refused_request_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 0.5)
    async with served(tmp_path) as server, asyncio.timeout(LONGEST_S), connected(server) as client:
        client.writer.write(PENDING.replace(TOKEN, "another-token-0123456").encode())
        assert (await client.answer())[0] == 401
        dripping = asyncio.create_task(client.drip("x" * 1000))
        await client.ended()
        dripping.cancel()


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with (
        served(tmp_path, serve=ServeSettings(body_timeout_s=0.5)) as server,
        asyncio.timeout(LONGEST_S),
        connected(server) as client,
    ):
        client.writer.write(PENDING.encode() + b"{")
        dripping = asyncio.create_task(client.drip(" " * 990))
        status, said = await client.answer()
        assert (status, said["error_type"]) == (408, "HttpRequestError")
        assert said["error"].startswith("the body was not there after 0.5 s; send it faster")
        await client.ended()
        dripping.cancel()
        assert await server.get("/runs") == {"runs": []}


async def test_a_run_takes_longer_than_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 2)
    limits = ServeSettings(body_timeout_s=2)
    async with served(tmp_path, serve=limits) as server, asyncio.timeout(LONGEST_S):
        run = await server.submit("PLAN gate")
        async with server.events(run) as events:
            await server.gate.reached()
            await asyncio.sleep(2.2)
            server.gate.open.set()
            kinds = [one.kind async for one in events]
        assert kinds[-1] == "end"


async def test_more_connections_than_allowed_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_connections=2)) as server, asyncio.timeout(LONGEST_S):
        run = await server.submit("PLAN gate")
        await server.gate.reached()
        async with AsyncExitStack() as stack:
            for _ in range(2):
                client = await stack.enter_async_context(connected(server))
                client.writer.write(f"GET /runs/{run}/events HTTP/1.1\r\n{HEAD}\r\n".encode())
                assert b" 200 " in await client.reader.readuntil(b"\r\n\r\n")
            async with connected(server) as third:
                status, body = await third.answer()
                assert status == 503
                assert body["error"].startswith("2 connections are open, which is the most; send the request at once")
                assert await third.ended()
            server.gate.open.set()
            assert b"event: end" in await client.reader.readuntil(b"event: end")
        async with connected(server) as third:
            third.writer.write(LIST.encode())
            assert (await third.answer())[0] == 200


async def test_connections_that_send_nothing_do_not_keep_the_owner_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "HEADER_S", 600)
    limits = ServeSettings(max_connections=20)
    async with served(tmp_path, serve=limits) as server, AsyncExitStack() as stack, asyncio.timeout(LONGEST_S):
        strangers = [await stack.enter_async_context(connected(server)) for _ in range(60)]
        assert await server.get("/runs") == {"runs": []}
        status, body = await strangers[0].answer()
        assert status == 503
        assert body["error"].startswith("20 connections are open, which is the most; send the request at once")


@pytest.mark.parametrize("line", ["max_connections = 0", "body_timeout_s = inf"])
def test_limits_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "agentorchestra.toml").write_text(f"[serve]\n{line}\n")
    with pytest.raises(SettingsError, match=f"serve.{line.split()[0]}"):
        load_settings(tmp_path / "ws")
