"""A run of five hundred events is replayed without a handler; what changed since is found where it first matters."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Any, cast

import pytest

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.agents.agent import agent_effect
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import DivergedError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import Handler
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.support import effect_keys

EVENTS = 500
STEPS = 100
DELEGATED = (10, 40)
"""The steps in which the top agent lets a sub-agent work; the first of them is `/1.react#33`."""


@tool(effect="write", idempotent=True)
def weigh(number: int) -> str:
    """Weigh a number.

    Args:
        number: which one.
    """
    return f"{number} weighs {number * 3}"


@tool(effect="composite")
async def helper(number: int, ctx: RunContext[None]) -> str:
    """Let an agent weigh a number.

    Args:
        number: which one.
    """
    return await _helped(f"weigh the number {number}", ctx)


async def _helped(instruction: str, ctx: RunContext[None]) -> str:
    spec = AgentSpec(name="weigher", instruction=instruction, tools=("weigh",))
    (outcome,) = await ctx.perform_all([agent_effect(spec, cast("Any", ctx))])
    return AgentResult.model_validate(outcome.value).answer


def _model(request: ModelRequest) -> ModelResponse:
    step = sum(1 for message in request.messages if message.role == "assistant")
    if any("weigh the number" in message.text for message in request.messages):
        return decide(calls=[call("weigh", number=7) if step < 3 else call("done", answer=f"weighed in {step} steps")])
    if step == STEPS:
        return decide(calls=[call("done", answer=f"did {step} steps")])
    if step in DELEGATED:
        return decide(calls=[call("helper", number=step)])
    return decide(calls=[call("weigh", number=step)])


class Forbidden:
    """A handler whose execution fails the test; composites are entered, that is what a replay is."""

    def __init__(self, inner: Handler, executed: list[str]) -> None:
        self._inner = inner
        self._executed = executed
        self.mode, self.bound = inner.mode, inner.bound

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Only composites."""
        if self.mode(effect) is not Mode.COMPOSITE:
            self._executed.append(f"{effect.kind} {ctx.key}")
            raise AssertionError(f"{effect.kind} {effect.name} was executed in a replay")
        return await self._inner.execute(effect, ctx)


def _workspace(folder: Path, executed: list[str] | None = None, *tools: Any) -> Workspace[None]:
    """The workspace; with `executed` nothing may be executed, nor the model be asked."""

    def forbid(handlers: dict[EffectKind, Handler]) -> dict[EffectKind, Handler]:
        assert executed is not None
        return {kind: Forbidden(handler, executed) for kind, handler in handlers.items()}

    return Workspace(
        folder,
        tools=tools or (weigh, helper),
        models={"scripted": ScriptedModel(_model if executed is None else [])},
        handlers=None if executed is None else forbid,
    )


async def _record(folder: Path) -> tuple[str, list[Event]]:
    ws = _workspace(folder)
    async with ws:
        result = await ws.run("Weigh many numbers.", model="scripted", max_steps=STEPS + 10, system="react")
        assert (result.status, result.answer) == ("completed", f"did {STEPS} steps")
        return result.run_id, await ws.log.events(result.run_id)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Event]]:
    """One recorded run for all tests here; each takes a copy."""
    import asyncio

    folder = tmp_path_factory.mktemp("recorded") / "ws"
    run, events = asyncio.run(_record(folder))
    return folder, run, events


@pytest.fixture
def folder(recorded: tuple[Path, str, list[Event]], tmp_path: Path) -> Path:
    shutil.copytree(recorded[0], tmp_path / "ws")
    return tmp_path / "ws"


async def test_a_replay_calls_no_handler(folder: Path, recorded: tuple[Path, str, list[Event]]) -> None:
    _, run, events = recorded
    print(f"{len(events)} events, {len(effect_keys(events))} effects")
    assert len(events) >= EVENTS
    executed: list[str] = []
    ws = _workspace(folder, executed)
    async with ws:
        report = await ws.replay(run)
        assert (report.status, report.answer) == ("completed", f"did {STEPS} steps")
        assert report.keys == len(effect_keys(events))  # a replay that asks for less is an error, for more too
        assert await ws.log.events(run) == events
    assert executed == []


async def _diverged(folder: Path, run: str, *tools: Any) -> DivergedError:
    executed: list[str] = []
    ws = _workspace(folder, executed, *tools)
    async with ws:
        with pytest.raises(DivergedError) as caught:
            await ws.replay(run)
    assert executed == []
    return caught.value


def _change_prompt(folder: Path, old: str, new: str) -> None:
    text = (resources.files("agentorchestra.systems") / "prompts" / "react.md").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (folder / "prompts").mkdir()
    (folder / "prompts" / "react.md").write_text(text.replace(old, new), encoding="utf-8")


async def test_a_changed_prompt_is_found(folder: Path, recorded: tuple[Path, str, list[Event]]) -> None:
    _change_prompt(folder, "You work on one task in steps", "You work on one task, step by step")
    error = await _diverged(folder, recorded[1])
    assert (error.branch, error.n) == ("/1.react", 2)
    assert "diverged at /1.react#2" in str(error) and "message 0 (system) changed" in str(error)


@pytest.mark.long
async def test_a_changed_tool_schema_is_found(folder: Path, recorded: tuple[Path, str, list[Event]]) -> None:
    def weigh_more(number: int) -> str:
        """Weigh a number well.

        Args:
            number: which one.
        """
        raise AssertionError("called in a replay")

    changed = tool(idempotent=True, name="weigh")(weigh_more)
    error = await _diverged(folder, recorded[1], changed, helper)
    assert (error.branch, error.n) == ("/1.react", 2)
    assert "diverged at /1.react#2" in str(error) and "tool schemas changed: weigh" in str(error)


async def test_a_changed_sub_agent_prompt_is_found(folder: Path, recorded: tuple[Path, str, list[Event]]) -> None:
    # Only an agent with few tools sees the change: the top agent has many, the sub-agent has not.
    _change_prompt(folder, "</rules>", "{% if tools | length < 4 %}\n- Be careful.\n{% endif %}\n</rules>")
    error = await _diverged(folder, recorded[1])
    first = f"/1.react/{DELEGATED[0] * 3 + 3}.helper/1.weigher"
    assert (error.branch, error.n) == (first, 1)
    assert f"diverged at {first}#1" in str(error) and "message 0 (system) changed" in str(error)


async def test_a_changed_instruction_is_found(folder: Path, recorded: tuple[Path, str, list[Event]]) -> None:
    async def helped_otherwise(number: int, ctx: RunContext[None]) -> str:
        """Let an agent weigh a number.

        Args:
            number: which one.
        """
        return await _helped(f"weigh the number {number} twice", ctx)

    changed = tool(effect="composite", name="helper")(helped_otherwise)
    error = await _diverged(folder, recorded[1], weigh, changed)
    first = f"/1.react/{DELEGATED[0] * 3 + 3}.helper"
    assert (error.branch, error.n) == (first, 1)
    assert "InvokeAgent react is asked with other arguments" in str(error)
