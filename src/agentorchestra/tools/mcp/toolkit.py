from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import McpError, MissingExtraError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.tools.mcp.config import read_mcp_file
from agentorchestra.tools.mcp.definitions import MAX_TOOLS, Definition, definitions_of, own_tools, unique
from agentorchestra.trust.redact import Redactor

if TYPE_CHECKING:
    from agentorchestra.tools.mcp.connection import Connection


class McpToolkit:
    """The tools of the MCP servers that a file names; `agentorchestra.mcp` makes one.

    Args:
        environ: where its `${VAR}` come from; the process's environment by default.

    Attributes:
        notes: what was passed over or left out, a sentence each; what it says may come from the servers.
    """

    def __init__(self, path: str | Path, environ: Mapping[str, str] | None = None) -> None:
        self.path = Path(path)
        self.notes: tuple[str, ...] = ()
        self._environ = os.environ if environ is None else environ
        self._secrets: dict[str, str] | None = None
        self._file_notes: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ()
        self._connections: tuple[Connection, ...] = ()
        self._tools: tuple[Tool[..., Any], ...] = ()
        self._open = False

    def __repr__(self) -> str:
        return f"<McpToolkit {self.path}>"

    @property
    def name(self) -> str:
        """The file's, as it was given."""
        return str(self.path)

    def secrets(self) -> dict[str, str]:
        """Return the secrets in the file by name; none of a file that cannot be used."""
        if self._secrets is None:
            try:
                self._secrets = dict(read_mcp_file(self.path, self._environ).secrets)
            except McpError:  # whoever opens it is told
                self._secrets = {}
        return dict(self._secrets)

    async def open(self, changed: Callable[[], None]) -> Sequence[Tool[..., Any]]:
        """Read the file and reach its servers at the same time; a server that cannot be used is left out with a note.

        Raises:
            McpError: the file, or a server that is required, cannot be used; nothing is open then.
            MissingExtraError: the same, without the packages for it.
        """
        if self._open:
            return self.tools()
        file = read_mcp_file(self.path, self._environ)
        make = _connection_class()
        self._secrets = dict(file.secrets)
        self._file_notes, self._names = file.notes, file.names
        hide = Redactor(self._secrets).text
        is_open = False

        def again() -> None:
            if is_open:
                self._take_over()
                changed()

        self._connections = tuple(
            make(server, f"the MCP server {server.name!r} ({self.path})", hide=hide, changed=again)
            for server in file.servers
        )
        outcomes = await _all(connection.open() for connection in self._connections)
        for connection, failure in zip(self._connections, outcomes, strict=True):
            if failure is None:
                continue
            if connection.server.required or not isinstance(failure, McpError):
                await self.close()
                raise failure
            self._file_notes += (f"the tools of the MCP server {connection.server.name!r} are left out: {failure}",)
        pairs = zip(self._connections, outcomes, strict=True)
        self._connections = tuple(connection for connection, failure in pairs if failure is None)
        self._take_over()
        is_open = self._open = True
        return self.tools()

    def tools(self) -> Sequence[Tool[..., Any]]:
        if not self._open:
            raise McpError(f"the MCP servers of {self.path} are not open; the workspace opens them with its first run")
        return self._tools

    async def close(self) -> None:
        """End all connections and the programs behind them; idempotent."""
        self._open = False
        await asyncio.gather(*(connection.close() for connection in self._connections))
        self._connections = ()

    def _take_over(self) -> None:
        notes = list(self._file_notes)
        redactor = Redactor(self.secrets())
        pairs: list[tuple[Connection, list[Definition]]] = []
        for peer in self._connections:
            # A server may say in its descriptions what it was given to keep.
            tools = redactor.json(peer.listed)
            definitions, left_out = definitions_of(peer.server.name, tools, trust=peer.server.trust)
            pairs.append((peer, definitions))
            notes += left_out
            if peer.cut:
                name = peer.server.name
                notes.append(f"the MCP server {name!r} has more tools than the {MAX_TOOLS:,} that are taken")
        connections = {peer.server.name: peer for peer, _ in pairs}
        definitions, left_out = own_tools([definition for _, group in pairs for definition in group], self._names)
        notes += left_out
        definitions = unique(definitions)
        self.notes = tuple(redactor.text(note) for note in notes)
        self._tools = tuple(_tool(connections[definition.server], definition) for definition in definitions)


async def _all(opening: Iterable[Coroutine[Any, Any, None]]) -> list[BaseException | None]:
    """Open all, or, when this is cancelled, let each end what it began."""
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(coroutine) for coroutine in opening]
    try:
        outcomes: list[BaseException | None] = await asyncio.gather(*tasks, return_exceptions=True)
        return outcomes
    except asyncio.CancelledError:
        await asyncio.wait(tasks)
        raise


def _connection_class() -> type[Connection]:
    try:
        from agentorchestra.tools.mcp.connection import Connection
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("agentorchestra"):
            raise
        raise MissingExtraError(
            f"MCP servers need the package {(exc.name or 'mcp').partition('.')[0]}, which is not installed; "
            'run: pip install "agentorchestra[mcp]"'
        ) from None
    return Connection


def _tool(connection: Connection, definition: Definition) -> Tool[..., Any]:
    server, about = connection.server, connection.about
    repeat = False

    async def call(ctx: RunContext[Any], /, **arguments: Any) -> ToolResult:
        from agentorchestra.tools.mcp.results import tool_result

        result = await connection.call(definition.remote, arguments, repeat=repeat)
        return await tool_result(result, ctx, server.name, definition.remote)

    tool = tool_from_schema(
        call,
        ToolSchema(name=definition.name, description=definition.description, parameters=definition.parameters),
        effect=definition.effect,
        idempotent=definition.idempotent,
        check=definition.problems,
        takes_context=True,
        # Another version of the server is another component, though it describes its tool in the same words.
        source=json.dumps([about.name, about.version, definition.remote, definition.effect, definition.idempotent]),
        traits=ToolTraits(
            timeout_s=server.timeout_s,
            origin=f"mcp:{server.name}",
            distribution=" ".join(part for part in (about.name, about.version, f"(protocol {about.protocol})") if part),
        ),
    )
    repeat = tool.mode is not Mode.ONCE
    return tool
