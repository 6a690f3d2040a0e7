"""The handler of InvokeTool: validate, call, and turn what came back into an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError

from agentorchestra.core.budget import NO_COST, NO_USAGE, Bound, Usage
from agentorchestra.core.content import MediaBlock, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import DELEGATION, FINISH, Effect, EffectKind, Mode, Outcome, Provenance, Tag, failed
from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.frozen import construct
from agentorchestra.core.ids import is_plain
from agentorchestra.runtime.parallel import CONTROL
from agentorchestra.runtime.results import ToolResult, cut_result, is_short, result_value
from agentorchestra.tea.calling.signatures import mistake, parse_arguments
from agentorchestra.tea.calling.threads import NotStartedError, StillRunningError, Threads
from agentorchestra.tea.calling.tool import Tool

_LONGEST_MESSAGE = 500
_BLOCKS = (TextBlock, MediaBlock)


def effect_for(
    tool: Tool,
    arguments: dict[str, Any] | str,
    *,
    role: str,
    provenance: tuple[Provenance, ...] = (),
    timeout: float | None = None,
) -> Effect:
    """Return a call's effect, `invalid` if it does not fit; defaults stay out: logs still match when there are more."""
    values, problem = parse_arguments(arguments, tool.name)
    if problem is not None:
        # What cannot be an argument object is kept as text, so that the log shows what was asked.
        values = {"raw": arguments if isinstance(arguments, str) else repr(arguments)}
        problem = mistake(tool.name, [problem], tool.schema.parameters)
    else:
        _, problem = tool.check(values)
    return construct(
        Effect,
        {
            "kind": EffectKind.INVOKE_TOOL,
            "component": tool.component,
            "content_hash": tool.content_hash,
            "arguments": values,
            "request": None,
            "mode": tool.mode,
            "tags": tool.tags,
            "role": role,
            "purpose": FINISH if tool.traits.finishes else DELEGATION if tool.traits.delegates else "",
            "begin_by": None,
            "provenance": provenance,
            "instance": f"tool:{tool.traits.group or tool.name}" if tool.traits.sequential else None,
            "world": "main",
            "invalid": problem,
            "timeout_s": timeout,
            "declared": tool.schema,
            "confined": False,
            "approval": tool.traits.approval,
            "repaired": "",
        },
    )


class ToolHandler:
    """Executes InvokeTool; `by_component`: tools by `name@version`; results over `max_result_chars` are artifacts."""

    def __init__(
        self,
        tools: Callable[[str], Tool | None],
        *,
        by_component: Mapping[str, Tool] | None = None,
        max_result_chars: int = 20_000,
        timeout_s: float | None = 120.0,
        threads: Threads | None = None,
    ) -> None:
        self._by_name = tools
        self._called = by_component or {}
        self._max_chars = max_result_chars
        self._timeout_s = timeout_s
        self._threads = threads or Threads(32)

    def _tool(self, effect: Effect) -> Tool | None:
        return self._called.get(effect.component) or self._by_name(effect.name)

    def mode(self, effect: Effect) -> Mode:
        """Return the tool's mode; the effect's for a tool that is gone."""
        tool = self._tool(effect)
        return effect.mode if tool is None else tool.mode

    def bound(self, effect: Effect) -> Bound:
        tool = self._tool(effect)
        return NO_COST if tool is None else tool.bound

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Call the tool; raise only DoorError, ModelError and StoreError, which concern the run."""
        parent = getattr(ctx, "parent", None)
        agent = getattr(parent, "agent", None)  # its own tools (`done` with its answer's schema) come first
        tool = (agent.own_tools.get(effect.name) if agent is not None else None) or self._tool(effect)
        if tool is None:
            return failed("mistake", f"no tool {effect.name!r} is registered in this workspace")
        if tool.traits.invokers is not None and parent is not None and parent.actor not in tool.traits.invokers:
            callers = ", ".join(tool.traits.invokers) or "nobody"
            return failed("denied", f"{parent.actor} may not call {tool.name}; these may: {callers}")
        # Again, though effect_for did: the tool may have changed since, or arguments were redacted.
        arguments, sentence = tool.validate(effect.arguments)
        if arguments is None:
            return failed("mistake", sentence or "", trust=_trust(tool, effect))
        limit = self._limit(tool, effect)
        try:
            result = await self._call(tool, arguments, ctx, limit)
            return await self._outcome(tool, effect, result, ctx)
        except CONTROL:
            raise
        except NotStartedError as exc:
            return failed("timeout", f"{tool.name} was not started within {limit:g} s: {exc}")
        except StillRunningError:
            return failed(
                "timeout",
                f"{tool.name} has not returned within its time limit of {limit:g} s. It is a plain function, which "
                "cannot be stopped: it may still do its work. Check before calling it again",
            )
        except _Stopped:
            elsewhere = (
                f". It runs on a server ({tool.traits.origin}), which was told to stop: it may have done its work all "
                "the same. Check before calling it again"
                if tool.traits.origin and tool.mode is Mode.ONCE
                else ""
            )
            return failed("timeout", f"{tool.name} was stopped after its time limit of {limit:g} s{elsewhere}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this call: something the tool itself had cancelled came up through it.
            return self._failure(tool, effect, "failed: a task it waited for was cancelled", "CancelledError")
        except AgentOrchestraError as exc:
            return self._failure(tool, effect, None, type(exc).__name__, str(exc))
        except (Exception, SystemExit) as exc:
            if isinstance(exc, BaseExceptionGroup):
                concerns_run = exc.subgroup(CONTROL)
                if concerns_run is not None:
                    raise _first(concerns_run) from exc
            return self._failure(tool, effect, f"failed: {_message(exc)}", type(exc).__name__)

    async def aclose(self) -> None:
        """Wait for functions that were still running after their time limit."""
        await self._threads.aclose()

    # -- call ----------------------------------------------------------------------------------------------------------

    def _limit(self, tool: Tool, effect: Effect) -> float | None:
        default = None if tool.mode is Mode.COMPOSITE else self._timeout_s  # it may wait for people and agents
        own = tool.timeout_s or default
        if own is None or effect.timeout_s is None:
            return effect.timeout_s if own is None else own
        return min(own, effect.timeout_s)

    async def _call(self, tool: Tool, arguments: dict[str, Any], ctx: Any, limit: float | None) -> ToolResult:
        if tool.threaded:
            return await tool.call(arguments, ctx, threads=self._threads, timeout_s=limit)
        try:
            async with asyncio.timeout(limit) as timer:
                return await tool.call(arguments, ctx)
        except TimeoutError:
            if timer.expired():
                raise _Stopped from None
            raise

    def _failure(self, tool: Tool, effect: Effect, ending: str | None, kind: str, sentence: str = "") -> Outcome:
        text = sentence if ending is None else f"tool {tool.name} {ending}"
        if len(text) > self._max_chars:
            text = f"{text[: self._max_chars]}\n[cut: {len(text) - self._max_chars:,} characters left out]"
        return failed("error", text or f"tool {tool.name} failed: {kind}", error_type=kind, trust=_trust(tool, effect))

    # -- result --------------------------------------------------------------------------------------------------------

    async def _outcome(self, tool: Tool, effect: Effect, result: ToolResult, ctx: Any) -> Outcome:
        trust = lowest(result.trust, Trust.USER) if result.trust is not None else _trust(tool, effect)
        cost = result.cost_usd if result.cost_usd is not None else tool.traits.max_cost_usd
        usage = Usage(cost_usd=cost) if cost else NO_USAGE
        try:
            origin = Source(kind="tool", ref=tool.name)
            value = result_value(result.content, trust, result.sources, origin=origin)
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as exc:
            return failed(
                "error",
                f"tool {tool.name} ran, but its result of type {type(result.content).__name__} is not JSON: "
                f"{_message(exc)}. It should return text, JSON values, pydantic models, dataclasses or content blocks",
                error_type=type(exc).__name__,
                usage=usage,
                artifacts=result.artifacts,
                trust=trust,
            )
        artifacts, whole_value = result.artifacts, value
        if tool.traits.cut and not is_short(value):
            value, whole = await cut_result(value, tool.name, ctx, max_chars=self._max_chars)
            artifacts = artifacts + whole
        if not is_plain(result.content):
            trust = lowest(trust, *_trusts(result.content))
        paths = tool.traits.trusted if value == whole_value else ()  # not of what was cut to a text
        links = result.links if value == whole_value else ()
        if not artifacts and not paths and not links and is_plain(value):
            return Outcome.of(value, usage=usage, trust=trust)
        return Outcome(value=value, usage=usage, artifacts=artifacts, trust=trust, trusted=paths, links=links)


class _Stopped(Exception):
    """A call that could be stopped passed its limit."""


def _trust(tool: Tool, effect: Effect) -> Trust:
    """Return a result's trust: others may bring in anything, but of two kinds of tools it is that of their causes.

    They are pure ones that read nothing, and functions of the application that do not say what they touch: most compute
    something, and what they send, once anything from outside was read, is asked about.
    """
    own = tool.is_undeclared and tool.schema.trust is not Trust.UNTRUSTED
    if not own and (tool.mode is not Mode.PURE or Tag.READ in tool.tags):
        return Trust.UNTRUSTED
    return lowest(effect.lowest_trust, Trust.AGENT) if effect.provenance else Trust.AGENT


def _trusts(content: Any) -> Iterator[Trust]:
    """Yield the trust of the blocks of a result: the whole is trusted no further than any part of it."""
    for block in content if isinstance(content, list | tuple) else [content]:
        if isinstance(block, _BLOCKS):
            yield block.trust


def _message(exc: BaseException) -> str:
    """Return the type and first line of an error: a model needs no traceback."""
    lines = str(exc).strip().splitlines()
    text = f"{type(exc).__name__}: {lines[0]}" if lines else type(exc).__name__
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
