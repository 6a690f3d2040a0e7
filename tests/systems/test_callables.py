"""Python callables as systems: by their parameters, in the loop or in a thread; others are refused."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import SystemDefinitionError
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.testing import ScriptedModel, say
from agentorchestra.workspace import Workspace
from tests.systems.support import workspace


class Shouting:
    """A callable object."""

    async def __call__(self, task: str) -> str:
        return task.upper()


async def _asks(task: str, ctx: Any) -> str:
    result = await ctx.call_agent(AgentSpec(name="kid", instruction=task, system="react", finish="text"))
    return f"it said {result.answer}"


async def _whole(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    return AgentResult(answer=spec.instruction, status=RunStatus.PARTIAL)


def _greets(greeting: str, task: str) -> str:
    return f"{greeting} {task}"


CALLABLES: list[tuple[Any, str]] = [
    (lambda task: f"{task}!", "Go!"),
    (lambda task, ctx: f"{task} {ctx.manifest.system}", "Go mine"),
    (lambda task: AgentResult(answer="whole"), "whole"),
    (lambda task, ctx=None, more=1: f"{task} {ctx} {more}", "Go None 1"),
    (lambda spec, session, kit=None: _whole(spec, session, kit), "Go"),
    (partial(_greets, "Hi"), "Hi Go"),
    (Shouting(), "GO"),
    (_asks, "it said four"),
    (_whole, "Go"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("given", "answer"), CALLABLES, ids=[str(n) for n in range(len(CALLABLES))])
async def test_a_callable_is_adapted_by_its_parameters(tmp_path: Path, given: Any, answer: str) -> None:
    model = ScriptedModel(lambda request: say("four"))
    async with workspace(tmp_path, model, systems={"mine": given}) as ws:
        result = await ws.run("Go", model="scripted", system="mine")
        assert result.answer == answer, result
        assert (await ws.replay(result.run_id)).answer == answer


async def test_a_plain_function_runs_in_a_thread_and_a_coroutine_in_the_loop(tmp_path: Path) -> None:
    async def here(task: str) -> str:
        return threading.current_thread().name

    plain: Any = lambda task: threading.current_thread().name  # noqa: E731
    async with workspace(tmp_path, ScriptedModel([]), systems={"plain": plain, "here": here}) as ws:
        assert (await ws.run("Go", model="scripted", system="plain")).answer == "tool-plain"
        assert (await ws.run("Go", model="scripted", system="here")).answer == threading.current_thread().name


async def test_what_it_raises_and_what_is_no_answer_fails_the_run(tmp_path: Path) -> None:
    def fails(task: str) -> str:
        raise ValueError("no such thing")

    async with workspace(tmp_path, ScriptedModel([]), systems={"fails": fails, "number": lambda task: 4}) as ws:
        result = await ws.run("Go", model="scripted", system="fails")
        assert result.status is RunStatus.FAILED and "no such thing" in str(result.error)
        result = await ws.run("Go", model="scripted", system="number")
        assert result.error == "the system 'number' gave 4; return a str or an AgentResult"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: "x", r"the system 'mine' takes \(\); write it as f\(task\), f\(task, ctx\) or f\(spec, ctx, kit\)"),
        (lambda a, b, c, d: "x", r"takes \(a, b, c, d\)"),
        (lambda task, *, key: "x", r"takes \(task, \*, key\)"),
        ("react", "is 'react', which cannot be called"),
    ],
)
async def test_other_signatures_are_refused_when_the_workspace_opens(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(SystemDefinitionError, match=said):
        await Workspace(tmp_path / "ws", systems={"mine": given}).open()
