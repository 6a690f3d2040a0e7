"""Rival candidates of a beam: each has logins and tabs of its own, the winner's are the run's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.browser import find_chromium
from tests.environments.browser.troubles import settings, troubles
from tests.runtime.support import Bench, best_by

from agentorchestra.core.content import TextBlock, text_of
from agentorchestra.core.messages import Message, ToolCall
from agentorchestra.core.spec import AgentResult
from agentorchestra.environments.browser.environment import Browser
from agentorchestra.log.store import MemoryStore
from agentorchestra.loop import Decision, Parts, Seen, State, beam
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect

pytestmark = [pytest.mark.long, pytest.mark.real]


async def test_the_candidates_of_a_beam_each_have_their_own_logins(tmp_path: Path) -> None:
    find_chromium()
    store = MemoryStore()
    await store.open()
    async with troubles() as site:
        given = settings(site.host)
        made: list[Browser] = []

        def make() -> Browser:
            made.append(Browser(given.browser, given.web))
            return made[-1]

        one = Bench(store, {}, environments={"browser": make}, folder=tmp_path)
        await one.create()
        seen: list[str] = []

        def go(path: str) -> Any:
            return action_effect(made[0] if made else make(), "go_to_url", {"url": f"{site.address}{path}"})

        async def page(ctx: BranchContext[Any]) -> str:
            outcome = await ctx.perform(action_effect(made[0], "state", {}))
            return ", ".join(re.findall(r"cookie: [\w=]*", text_of(outcome.blocks())))

        async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
            mine = state.candidate.partition("/")[0]
            seen.append(f"{state.step}.{mine}: {await page(ctx) if state.step else ''}")
            effect = go(f"/login?who={mine}{state.step}")
            message = Message(role="assistant", content=(TextBlock(text=f"log in {mine}"),))
            call = ToolCall(id=f"c{state.step}", name="browser_go_to_url", arguments={})
            return Decision(message=message, tool_calls=(call,), calls=(effect,), memory="")

        async def stop(state: State, ctx: BranchContext[Any]) -> State:
            return state if state.step < 2 else state.model_copy(update={"result": AgentResult(answer="done")})

        async def score(state: State, ctx: BranchContext[Any]) -> float:
            return 1.0 if state.candidate.startswith("2") else 0.0

        async def main(root: BranchContext[Any]) -> str:
            parts = Parts(decide=decide, observe=(stop,), environments=("browser",))
            await beam(State(messages=()), root, parts, choose=best_by(score), candidates=2)
            return await page(root)

        assert (await one.drive(main)).answer == "cookie: who=21"
        # Both went on from where the winner of the first step stood.
        assert sorted(seen) == ["0.1: ", "0.2: ", "1.1: cookie: who=20", "1.2: cookie: who=20"]
        asked = len(site.asked)
        assert (await one.replay(main)) is not None
        assert len(site.asked) == asked  # a replay opens no page
    await store.close()
