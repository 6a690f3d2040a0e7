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

MADE = "generated:"
"""Names of the run's state that hold the tools which were registered in it: version and hash of the source."""

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
        return self._made(source, symbol or name, version=version).renamed(name, version)

    def trial(self, source: str, name: str, seconds: float) -> Tool[..., Any]:
        """Make the same under another name, with less time."""
        return self._made(source, name, trial_s=seconds).renamed(f"{TRIAL}{name}"[:64], "0.0.0")

    def _made(self, source: str, symbol: str, **given: Any) -> Tool[..., Any]:
        limits = self.limits
        return foreign_tool(source, symbol, self.programs, may_call=limits.tools, may_import=limits.libraries, **given)

    async def made(self, ctx: Any) -> list[Tool[..., Any]]:
        found = []
        for key, value in sorted(ctx.vars.items()):
            if key.startswith(MADE) and isinstance(value, dict):
                source = (await ctx.blob(str(value["source"]))).decode()
                found.append(self.tool(source, key.removeprefix(MADE), str(value["version"])))
        return found


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
        found = await server.retrieve(query, limit=limit + _FURTHER) if limit else ()
        named = ctx.manifest.components
        tried = [_as_named(one.config, server, named) for one in found if not one.config.builtin]
        fitting = [one for one in tried if _may_be_tried(one, server, actor)][:limit]
        kept = await server.list()
        own: list[JsonValue] = [one for one in await _made_here(ctx, shop) if one["name"] not in kept] if limit else []
        listed = [*own, *[await _candidate(one, server) for one in fitting]][:limit]
        free = _free(name, server, {key.removeprefix(MADE) for key in ctx.vars if key.startswith(MADE)})
        return ToolResult(content={"candidates": listed, "free_name": free}, trust=Trust.UNTRUSTED)

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
        version = await _registered(ctx, name, source, reason, manifest) if keep else _FIRST
        ctx.vars[MADE + name] = {"version": version, "source": sha256_text(source)}
        script = await ctx.artifact(f"{name}.py", source.encode(), "text/x-python", made_for="run")
        return ToolResult(content={"name": name, "version": version}, artifacts=(script,))

    async def _registered(
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
        said = f"{phase} {tool}".strip() + (f", attempt {attempt}" if attempt else "") + f": {outcome}"
        return f"{said}: {'; '.join(reasons)}" if reasons else said

    return {one.name: one for one in (retrieve_tools, register_tool, tool_phase)}


def may_try(one: Tool[..., Any]) -> bool:
    """Return True if calling a tool of this process is no more than a trial: it computes or reads."""
    return one.mode is Mode.PURE and one.tags <= {Tag.READ}


def _may_be_tried(config: ComponentConfig, server: TCPServer, actor: str) -> bool:
    version = _version(config, server)
    if version.invokers is not None and actor not in version.invokers:
        return False
    tags = config.metadata.get("tags")
    named = {str(one) for one in tags} if isinstance(tags, list) else set()
    pure = config.metadata.get("mode") == "pure" and named <= {"read"}
    return pure or (version.foreign and named <= {"execute"})


def _as_named(config: ComponentConfig, server: TCPServer, components: Mapping[str, str]) -> ComponentConfig:
    """Return what is known of a tool in the version that the run names, where it names one."""
    version = components.get(f"tool:{config.name}")
    return server.config(config.name, version) if version is not None else config


def _version(config: ComponentConfig, server: TCPServer) -> Version:
    return server.history(config.name, hidden=True).version(config.version)


async def _candidate(config: ComponentConfig, server: TCPServer) -> JsonValue:
    """Return what is known of a tool; with its code where that runs in the sandbox: it is tried as it was found."""
    (called,) = config.operations
    version = _version(config, server)
    found: dict[str, JsonValue] = {
        "name": config.name,
        "version": config.version,
        "description": config.description[:600],
        "parameters": called.parameters,
    }
    found["for_all"] = version.invokers is None
    if version.foreign:
        found["source"] = await server.source(config.name, config.version)
        found["symbol"] = version.maker.symbol if version.maker is not None else ""
    return found


async def _made_here(ctx: Any, shop: Workshop) -> list[dict[str, JsonValue]]:
    return [
        {
            "name": one.name,
            "version": one.version,
            "description": one.description[:600],
            "parameters": one.schema.parameters,
            "for_all": True,
            "source": (await ctx.blob(str(ctx.vars[MADE + one.name]["source"]))).decode(),
            "symbol": one.name,
        }
        for one in await shop.made(ctx)
    ]


def _free(name: str, server: TCPServer, made: Collection[str] = ()) -> str:
    """Return the name, with a number where a tool of the workspace or of the run has or had it."""

    def taken(one: str) -> bool:
        if one in made:
            return True
        try:
            server.history(one, hidden=True)
        except UnknownComponentError:
            return False
        return True

    found, number = name, 1
    while taken(found):
        number += 1
        found = f"{name}_{number}"
    return found


def performance(seconds: Sequence[float], attempts: int) -> JsonValue:
    longest = round(max(seconds, default=0.0), 3)
    return {"trials": len(seconds), "succeeded": len(seconds), "longest_s": longest, "attempts": attempts}
