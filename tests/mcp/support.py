"""Files of MCP servers, and the servers behind them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tools.mcp import McpToolkit
from agentorchestra.tools.mcp.connection import CLOSE_S

_LAUNCHED: set[int] = set()
SERVER = Path(__file__).with_name("server.py")


def stdio(folder: Path, kind: str = "plain", **fields: Any) -> dict[str, Any]:
    """The entry of a server that is a program."""
    env = {"MCP_TEST_LOG": str(folder / "calls.log"), **fields.pop("env", {})}
    return {"command": sys.executable, "args": [str(SERVER), kind], "env": env, **fields}


def written(folder: Path, **servers: Any) -> Path:
    """A file with these servers."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def calls(folder: Path) -> list[str]:
    """What the servers did."""
    path = folder / "calls.log"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@asynccontextmanager
async def opened(path: Path, **environ: str) -> AsyncIterator[McpToolkit]:
    """A toolkit; no program of it is left afterwards."""
    before = set(children())
    toolkit = McpToolkit(path, environ)
    await toolkit.open(lambda: None)
    try:
        yield toolkit
    finally:
        async with asyncio.timeout(CLOSE_S - 1):  # after which it would end the owner's task by force
            await toolkit.close()
    assert not set(children()) - before


def children() -> list[psutil.Process]:
    """The programs a toolkit started, and theirs, as long as they live."""
    found = [one for one in psutil.Process().children(recursive=True) if one.pid not in _LAUNCHED]
    return [one for one in found if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


class Context:
    """As much of a RunContext as a result needs: a place for bytes."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    class key:
        path = "/7"

    async def artifact(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> Any:
        self.kept[name] = data
        return ArtifactRef(name=name, sha256=sha256(data).hexdigest(), size=len(data), media_type=media_type)


def named(tools: Sequence[Tool[..., Any]]) -> dict[str, Tool[..., Any]]:
    return {one.name: one for one in tools}


async def called(toolkit: McpToolkit, name: str, **arguments: Any) -> ToolResult:
    """Call a tool as its handler does."""
    one = named(toolkit.tools())[name]
    found, problem = one.validate(arguments)
    assert found is not None, problem
    return await one.call(found, Context())


def words(result: ToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


class HttpServer:
    """A server over HTTP that can be killed and started again at the same address."""

    def __init__(self, folder: Path, kind: str = "plain") -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port: int = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._env = {**os.environ, "MCP_TEST_LOG": str(folder / "calls.log")}
        self._kind = kind
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it, again if it is there; it does not answer yet."""
        if self._process is not None:
            self.kill()
        self._process = subprocess.Popen([sys.executable, str(SERVER), self._kind, str(self.port)], env=self._env)
        _LAUNCHED.add(self._process.pid)

    async def start(self) -> None:
        """Start it; it answers."""
        self.launch()
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                assert self._process is not None and self._process.poll() is None
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def __aenter__(self) -> HttpServer:
        await self.start()
        return self

    async def __aexit__(self, *args: object) -> None:
        self.kill()
