"""The tools of the tool generator itself: they look for tools, try and register them.

Each is an effect like any other, so what was found and registered stands in the log: a resume looks nothing up and
registers nothing again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode, Tag
from agentorchestra.core.errors import ToolError, UnknownComponentError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GeneratorSettings
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.programs.foreign import Programs, foreign_tool
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.history import Version
from agentorchestra.tea.registry.servers import TCPServer

TOOL_PREFIX = "generated:"
"""Names of the run's state that hold the tools which were registered in it: version and hash of the source."""

TRIAL_S = 10.0  # seconds that one trial may take
TRIAL = "trial_"  # a tool is tried under another name than its own: trials are no uses of it

_FIRST = "1.0.0"

_FURTHER = 10  # of what fits, so many more are looked at than are tried: most tools cannot be


@dataclass(frozen=True)
class Workshop:
    """The tool generator's place in a workspace; `problem` says why no code can run here, "" where it can."""

    programs: Programs
    tcp: Callable[[], TCPServer]
    problem: Callable[[], Awaitable[str]]
    limits: GeneratorSettings

    def tool(self, source: str, name: str, version: str, *, symbol: str = "") -> Tool[..., Any]:
        """Make a registered tool from its text; `symbol` is the function's name, where it is another."""
        return self._foreign_tool(source, symbol or name, version=version).with_name(name, version)

    def trial(self, source: str, name: str) -> Tool[..., Any]:
        """Make the same under another name, with less time."""
        return self._foreign_tool(source, name, trial_s=TRIAL_S).with_name(f"{TRIAL}{name}"[:64], "0.0.0")

    def _foreign_tool(self, source: str, symbol: str, **options: Any) -> Tool[..., Any]:
        limits = self.limits
        return foreign_tool(
            source, symbol, self.programs, may_call=limits.tools, may_import=limits.libraries, **options
        )

    async def generated_tools(self, ctx: Any) -> list[Tool[..., Any]]:
        tools = []
        for key, value in sorted(ctx.vars.items()):
            if key.startswith(TOOL_PREFIX) and isinstance(value, dict):
                source = (await ctx.blob(str(value["source"]))).decode()
                tools.append(self.tool(source, key.removeprefix(TOOL_PREFIX), str(value["version"])))
        return tools


def workshop_tools(shop: Workshop, actor: str) -> dict[str, Tool[..., Any]]:
    """Return the tools of a tool generator that goes by this name, by their own names."""

    @tool(effect="read", thread=False, cut=False)
    async def retrieve_tools(ctx: RunContext[Any], query: str, name: str, limit: int) -> ToolResult:
        """Find the tools that may do what is wanted, and can be tried: what computes, and what runs in the sandbox.

        Args:
            query: What is wanted.
            name: That a new tool is to have.
            limit: At most so many.
        """
        server = shop.tcp()
        hits = await server.retrieve(query, limit=limit + _FURTHER) if limit else ()
        versions = ctx.manifest.components
        configs = [_as_named(hit.config, server, versions) for hit in hits if not hit.config.builtin]
        fitting = [config for config in configs if _may_be_tried(config, server, actor)][:limit]
        tool_names = await server.list()
        own: list[JsonValue] = (
            [row for row in await _made_here(ctx, shop) if row["name"] not in tool_names] if limit else []
        )
        candidates = [*own, *[await _candidate(config, server) for config in fitting]][:limit]
        free = _free(name, server, {key.removeprefix(TOOL_PREFIX) for key in ctx.vars if key.startswith(TOOL_PREFIX)})
        return ToolResult(content={"candidates": candidates, "free_name": free}, trust=Trust.UNTRUSTED)

    @tool(effect="execute", idempotent=True, thread=False)
    async def register_tool(
        ctx: RunContext[Any], name: str, source: str, reason: str, manifest: dict[str, JsonValue], keep: bool = True
    ) -> ToolResult:
        """Register a tool that has passed its trials. It runs in the sandbox only, whoever calls it.

        Args:
            name: Of the tool.
            source: Its code.
            reason: What it was made for.
            manifest: What else is known of it.
            keep: Whether the workspace keeps it for later runs; else only this run has it.
        """
        version = await _register(ctx, name, source, reason, manifest) if keep else _FIRST
        ctx.vars[TOOL_PREFIX + name] = {"version": version, "source": sha256_text(source)}
        script = await ctx.artifact(f"{name}.py", source.encode(), "text/x-python", made_for="run")
        return ToolResult(content={"name": name, "version": version}, artifacts=(script,))

    async def _register(
        ctx: RunContext[Any], name: str, source: str, reason: str, manifest: dict[str, JsonValue]
    ) -> str:
        server = shop.tcp()
        if name in await server.list() and await server.source(name) != source:
            raise ToolError(f"there is another tool {name!r} by now")
        (config,) = await server.register(
            source=source,
            name=name,
            version=_FIRST,  # of two that register one name at once, one is refused
            trusted=False,
            author="tool_generator",
            reason=reason[:300],
            run=ctx.run_id,
            metadata=manifest,
        )
        return config.version

    @tool(effect="pure", thread=False)
    def tool_phase(phase: str, outcome: str, reasons: Sequence[str] = (), tool: str = "", attempt: int = 0) -> str:
        """Say in the log how far the making of a tool has come.

        Args:
            phase: analysed, retrieved, created, evaluated, registered, executed, discarded.
            outcome: How it went.
            reasons: Why it failed or was refused.
            tool: Its name.
            attempt: At its code, 0 before the first.
        """
        line = f"{phase} {tool}".strip() + (f", attempt {attempt}" if attempt else "") + f": {outcome}"
        return f"{line}: {'; '.join(reasons)}" if reasons else line

    return {generator_tool.name: generator_tool for generator_tool in (retrieve_tools, register_tool, tool_phase)}


def may_try(candidate: Tool[..., Any]) -> bool:
    """Return True if calling a tool of this process is no more than a trial: it computes or reads."""
    return candidate.mode is Mode.PURE and candidate.tags <= {Tag.READ}


def _may_be_tried(config: ComponentConfig, server: TCPServer, actor: str) -> bool:
    version = _version(config, server)
    if version.invokers is not None and actor not in version.invokers:
        return False
    tags = config.metadata.get("tags")
    tag_names = {str(tag) for tag in tags} if isinstance(tags, list) else set()
    pure = config.metadata.get("mode") == "pure" and tag_names <= {"read"}
    return pure or (version.foreign and tag_names <= {"execute"})


def _as_named(config: ComponentConfig, server: TCPServer, components: Mapping[str, str]) -> ComponentConfig:
    """Return what is known of a tool in the version that the run names, where it names one."""
    version = components.get(f"tool:{config.name}")
    return server.stock.config(config.name, version) if version is not None else config


def _version(config: ComponentConfig, server: TCPServer) -> Version:
    return server.stock.history(config.name, hidden=True).version(config.version)


async def _candidate(config: ComponentConfig, server: TCPServer) -> JsonValue:
    """Return what is known of a tool; with its code where that runs in the sandbox: it is tried as it was found."""
    (operation,) = config.operations
    version = _version(config, server)
    row: dict[str, JsonValue] = {
        "name": config.name,
        "version": config.version,
        "description": config.description[:600],
        "parameters": operation.parameters,
    }
    row["for_all"] = version.invokers is None
    if version.foreign:
        row["source"] = await server.source(config.name, config.version)
        row["symbol"] = version.maker.symbol if version.maker is not None else ""
    return row


async def _made_here(ctx: Any, shop: Workshop) -> list[dict[str, JsonValue]]:
    return [
        {
            "name": tool.name,
            "version": tool.version,
            "description": tool.description[:600],
            "parameters": tool.schema.parameters,
            "for_all": True,
            "source": (await ctx.blob(str(ctx.vars[TOOL_PREFIX + tool.name]["source"]))).decode(),
            "symbol": tool.name,
        }
        for tool in await shop.generated_tools(ctx)
    ]


def _free(name: str, server: TCPServer, names_in_run: Collection[str] = ()) -> str:
    """Return the name, with a number where a tool of the workspace or of the run has or had it."""

    def is_used(candidate: str) -> bool:
        if candidate in names_in_run:
            return True
        try:
            server.stock.history(candidate, hidden=True)
        except UnknownComponentError:
            return False
        return True

    candidate, number = name, 1
    while is_used(candidate):
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def performance(seconds: Sequence[float], attempts: int) -> JsonValue:
    longest = round(max(seconds, default=0.0), 3)
    return {"trials": len(seconds), "succeeded": len(seconds), "longest_s": longest, "attempts": attempts}
