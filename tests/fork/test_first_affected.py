"""The first effect of a recorded run that another version of a component can change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Agent, Workspace
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import UsageError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import ScriptedModel, call, decide
from tests.registry.support import PRICE, imported
from tests.runtime.counter import Counter

OTHER = PRICE.replace("price_of", "colour_of").replace("return 12.5", 'return "green"').replace("float", "str")


def shopper(request: ModelRequest) -> ModelResponse:
    """Count once and ask for the price, or ask the guide, then answer; whatever its tools allow."""
    said = [message.text for message in request.messages if message.role == "tool"]
    steps = [call("counter_add", by=1), call("price_of", item="pear"), call("guide", task="Which city?")]
    offered = [one for one in steps if one.name in {tool.name for tool in request.tools}]
    return decide(calls=[offered[len(said)] if len(said) < len(offered) else call("done", answer="bought")])


def opened(folder: Path) -> Workspace:
    tools = [imported(folder, PRICE).price_of, imported(folder, OTHER, "colours").colour_of]
    return Workspace(
        folder / "ws",
        tools=tools,
        environments={"counter": Counter},
        agents=[Agent("guide", "Knows cities.", prompt="worker", role="worker")],
        models={"scripted": ScriptedModel(shopper, name="scripted")},
    )


async def _affected(ws: Workspace, run: str, key: str, server: Any, values: dict[str, str]) -> str | None:
    """Return the first effect of a run that a candidate with these values can change."""
    config = await server.setvars(key.partition(":")[2], values, candidate=True)
    found = await ws.runs.first_affected(run, {key: config.version})
    if found is None:
        return None
    begun = next(e for e in await ws.log.events(run) if str(EffectKey(e.branch, e.n or 0)) == found.key)
    assert begun.seq == found.at + 1  # nothing of it stands in what a fork copies
    return found.key


async def _first(ws: Workspace, run: str, kind: EffectKind, name: str = "") -> str:
    """Return the first effect of this kind on a component."""
    records = Ledger.of(await ws.log.events(run)).records
    fitting = {key: one for key, one in records.items() if one.kind is kind and name in one.effect["component"]}
    return str(min(fitting, key=lambda key: fitting[key].began))


async def test_each_change_acts_from_its_first_effect_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        run = (await ws.run("Buy.", model="scripted", system="react")).run_id
        price = (await ws.tcp.vars("price_of"))[0].value.replace("12.5", "10.0")
        colour = (await ws.tcp.vars("colour_of"))[0].value.replace("green", "red")
        asked = await _first(ws, run, EffectKind.REQUEST_MODEL)
        bought = await _first(ws, run, EffectKind.INVOKE_TOOL, "price_of")
        assert asked < bought
        assert await _affected(ws, run, "tool:price_of", ws.tcp, {"code": price}) == bought
        assert await _affected(ws, run, "tool:colour_of", ws.tcp, {"code": colour}) is None  # it was never called
        assert await _affected(ws, run, "tool:colour_of", ws.tcp, {"description": "Its colour."}) == asked
        assert await _affected(ws, run, "environment:counter", ws.ecp, {"rules": "Count slowly."}) == asked
        assert await _affected(ws, run, "prompt:worker", ws.components.prompts, await _brief(ws, "worker")) is None
        assert await _affected(ws, run, "prompt:react", ws.components.prompts, await _brief(ws, "react")) == asked
        assert await ws.runs.first_affected(run, {"tool:price_of": "1.0.0"}) is None  # the version that it had
        earliest = await ws.runs.first_affected(run, {"tool:price_of": "1.0.1", "environment:counter": "1.0.1"})
        assert earliest is not None and earliest.key == asked


async def _brief(ws: Workspace, name: str) -> dict[str, str]:
    one, *_ = await ws.components.prompts.vars(name)
    return {one.name: one.value + "- Be brief.\n"}


@pytest.mark.long
async def test_a_change_of_an_agent_acts_when_it_is_invoked(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        run = (await ws.run("Buy.", model="scripted", system="agentorchestra")).run_id
        invoked = await _first(ws, run, EffectKind.INVOKE_AGENT, "guide@")
        shown = await _first(ws, run, EffectKind.REQUEST_MODEL)
        assert await _affected(ws, run, "agent:guide", ws.acp, {"role": "agent"}) == invoked
        assert await _affected(ws, run, "agent:guide", ws.acp, {"description": "Knows rivers."}) == shown
        found = await _affected(ws, run, "prompt:worker", ws.components.prompts, await _brief(ws, "worker"))
        key = EffectKey.parse(invoked)
        assert found is not None and EffectKey.parse(found).branch == f"{key.branch}/{key.n}.guide"


@pytest.mark.long
async def test_a_fork_at_that_effect_asks_for_less_than_a_whole_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        whole = await ws.run("Buy.", model="scripted", system="react")
        code = (await ws.tcp.vars("price_of"))[0].value.replace("12.5", "10.0")
        version = (await ws.tcp.setvars("price_of", {"code": code}, candidate=True)).version
        named = {"tool:price_of": version}
        place = await ws.runs.first_affected(whole.run_id, named)
        assert place is not None
        fork = await ws.resume(await ws.fork(whole.run_id, at=place.at, components=named))
        assert 0 < fork.usage.requests < whole.usage.requests
        called = [
            e
            for e in await ws.log.events(fork.run_id)
            if e.body.get("effect", {}).get("component") == f"price_of@{version}"
        ]
        assert len(called) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("components", [{"tool:nothing": "1.0.0"}, {"tool:price_of": "9.0.0"}, {"price_of": "1.0.0"}])
async def test_versions_that_are_not_there(tmp_path: Path, components: dict[str, str]) -> None:
    async with opened(tmp_path) as ws:
        run = await ws.create("Buy.", model="scripted", system="react")
        with pytest.raises(UsageError, match=r"no tool 'nothing'|its versions: 1\.0\.0|write KIND:NAME"):
            await ws.runs.first_affected(run, components)
