"""Functions of the application that are told of each step, call and request of a run, as the log records them."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.effects import EffectKind, Outcome, called_as
from agentorchestra.core.errors import HookWarning
from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.runtime.bus import Notice


@dataclass(frozen=True, kw_only=True)
class Happened:
    """What a hook is told: of which run (`run_id`), of which agent, and the effect's key in the log."""

    run_id: str
    agent: str
    key: str


@dataclass(frozen=True, kw_only=True)
class ModelAsked(Happened):
    """A model answered a request: for `purpose` `decision` and `final` that of an agent's step."""

    model: str
    purpose: str
    response: ModelResponse | None  # None where it failed
    error: str | None
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class StepTaken(Happened):
    """An agent decided: what it wrote, and the calls that it makes now."""

    number: int  # of its decisions in this process, from 1
    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, kw_only=True)
class ToolCalled(Happened):
    """A tool, or an environment's action, was called: `result` is what the agent sees, `error` why there is none."""

    name: str
    arguments: dict[str, JsonValue]
    result: JsonValue
    error: str | None


OnStep = Callable[[StepTaken], Awaitable[None] | None]
OnTool = Callable[[ToolCalled], Awaitable[None] | None]
OnModel = Callable[[ModelAsked], Awaitable[None] | None]


@dataclass
class Hooks:
    """The hooks of a run; one that raises does not touch the run, and a HookWarning says so once."""

    on_step: tuple[OnStep, ...] = ()
    on_tool: tuple[OnTool, ...] = ()
    on_model: tuple[OnModel, ...] = ()
    _open: dict[str, dict[str, Any]] = field(default_factory=dict)  # effects under way, by their keys
    _steps: dict[str, int] = field(default_factory=dict)  # decisions by branch
    _failed: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.on_step or self.on_tool or self.on_model)

    async def follow(self, queue: asyncio.Queue[Notice]) -> None:
        """Call them for what comes, up to a notice of no run."""
        while (notice := await queue.get()).run:
            event = notice.event
            if event is None or event.type not in ("started", "completed"):
                continue
            if event.type == "started":
                self._open[notice.key] = event.body["effect"]
                continue
            effect = event.body.get("effect") or self._open.pop(notice.key, None)
            if effect is not None:
                await self._tell(notice, effect, Outcome.model_validate(event.body["outcome"]))

    async def _tell(self, notice: Notice, effect: dict[str, Any], outcome: Outcome) -> None:
        origin: dict[str, Any] = {"run_id": notice.run, "agent": notice.actor, "key": notice.key}
        kind, name = EffectKind(effect["kind"]), effect["component"].rpartition("@")[0]
        if kind is EffectKind.REQUEST_MODEL:
            response, purpose = outcome.response if outcome.ok else None, effect.get("purpose", "")
            reply: dict[str, Any] = {"model": name, "purpose": purpose, "response": response, "error": outcome.error}
            await self._call(self.on_model, ModelAsked(**origin, **reply, usage=outcome.usage))
            if response is not None and purpose in ("decision", "final"):
                branch = notice.key.rpartition("#")[0]
                number = self._steps[branch] = self._steps.get(branch, 0) + 1
                step = StepTaken(**origin, number=number, text=response.text, calls=response.tool_calls)
                await self._call(self.on_step, step)
        elif kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION):
            arguments = effect.get("arguments", {})
            tool = called_as(kind, name, arguments)
            if kind is EffectKind.INVOKE_ACTION:
                if arguments.get("action") == "state":  # the agent's look, nobody's call
                    return
                arguments = arguments.get("arguments", {})
            call = ToolCalled(**origin, name=tool, arguments=arguments, result=outcome.value, error=outcome.error)
            await self._call(self.on_tool, call)

    async def _call(self, hooks: tuple[Callable[[Any], Any], ...], notice: Happened) -> None:
        for hook in hooks:
            try:
                if inspect.isawaitable(awaitable := hook(notice)):
                    await awaitable
            except Exception as exc:
                if id(hook) not in self._failed:
                    self._failed.add(id(hook))
                    name = getattr(hook, "__name__", repr(hook))
                    warning = f"the hook {name} raised {type(exc).__name__}: {exc}; run {notice.run_id} goes on"
                    warnings.warn(warning, HookWarning, stacklevel=2)
