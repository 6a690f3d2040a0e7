"""What a workspace keeps of the runs that it has driven: nothing that grows with their number."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.errors import ScriptError, UnknownComponentError
from agentorchestra.core.spec import RunStatus
from agentorchestra.tea.registry import stock
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import equipment

KEPT = 3


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equipment, "ENDED_MOST", KEPT)
    monkeypatch.setattr(stock, "FOR_ONE_RUN", KEPT)


def objects() -> tuple[Any, ScriptedModel]:
    """A tool and a scripted model of one run."""

    @tool(effect="read")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return add, ScriptedModel([call("add", a=1, b=2), call("done", answer="3")])


async def driven(ws: Workspace[Any]) -> tuple[str, weakref.ref[ScriptedModel]]:
    add, model = objects()
    result = await ws.run("What is 1 + 2?", system="react", model=model, tools=[add])
    assert result.status is RunStatus.COMPLETED
    return result.run_id, weakref.ref(model)


@pytest.mark.long
async def test_what_ended_runs_were_given_is_let_go(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as ws:
        made = [await driven(ws) for _ in range(3 * KEPT)]
        gc.collect()
        assert [ref() is not None for _, ref in made] == [False] * (2 * KEPT) + [True] * KEPT
        # What ended last is at hand; what ended long ago is given again.
        assert (await ws.replay(made[-1][0])).status is RunStatus.COMPLETED
        with pytest.raises(UnknownComponentError, match="does not have add, which the run was started with"):
            await ws.replay(made[0][0])
        add, model = objects()
        assert (await ws.replay(made[0][0], tools=[add], model=model)).status is RunStatus.COMPLETED
        ws._clients.remove(model)  # a replay asks no model, so the script has steps left


@pytest.mark.long
async def test_nothing_of_the_package_grows_with_the_number_of_runs(tmp_path: Path) -> None:
    def counted() -> Counter[str]:
        gc.collect()
        kinds = [type(one) for one in gc.get_objects()]
        return Counter(str(one) for one in kinds if "agentorchestra." in str(one))

    async with Workspace(tmp_path) as ws:
        await ws.run("What is 6 * 7?", model="offline")
        for _ in range(len(ws.catalog.tools) + 2 * KEPT):
            await driven(ws)
        before = counted()
        for _ in range(10):
            await driven(ws)
            await ws.run("What is 6 * 7?", model="offline")
        assert {kind: more for kind, more in (counted() - before).items() if more >= 10} == {}


async def test_a_run_that_waits_keeps_what_it_was_given(tmp_path: Path) -> None:
    @tool(effect="composite")
    async def ask_user(question: str, ctx: RunContext[None]) -> str:
        """Ask the user."""
        return await ctx.ask(question)

    model = ScriptedModel([call("ask_user", question="Which?"), call("done", answer="blue")])
    async with Workspace(tmp_path) as ws:
        waiting = await ws.run("Ask.", system="react", model=model, tools=[ask_user])
        assert waiting.status is RunStatus.WAITING
        for _ in range(2 * KEPT):
            await driven(ws)
        await ws.answer(waiting.run_id, "blue")
        assert (await ws.resume(waiting.run_id)).answer == "blue"


async def test_steps_that_were_not_used_are_complained_of_after_many_runs(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="1 step was not used"):
        async with Workspace(tmp_path) as ws:
            model = ScriptedModel([call("done", answer="3"), call("done", answer="4")])
            await ws.run("What is 1 + 2?", system="react", model=model)
            for _ in range(2 * KEPT):
                await driven(ws)
