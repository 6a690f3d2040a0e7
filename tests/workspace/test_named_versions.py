"""Runs that name versions of components: they hold in the whole run, on resume, replay and fork, in another process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentorchestra import Agent, Workspace
from agentorchestra.core.errors import (
    CandidateError,
    ForkError,
    LifecycleError,
    SettingsError,
    UnknownComponentError,
    VersionError,
)
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunSpec
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.web.bodies import Submission
from tests.registry.support import PRICE, shop
from tests.support.runs import whole_runs
from tests.tea.test_memory_components import DIARY

TASK = "What does a pear cost?"


def buyer() -> ScriptedModel:
    """A model that asks for the price and answers with what the tool said; its rules stand behind that."""

    def answer(request: ModelRequest) -> ModelResponse:
        said = [message.text for message in request.messages if message.role == "tool"]
        if not said and "guide" in {one.name for one in request.tools}:
            return decide(calls=[call("guide", task=TASK)])
        if not said:
            return decide(calls=[call("price_of", item="pear")])
        loud = "IN CAPITALS" in request.messages[0].text
        return decide(calls=[call("done", answer=f"{said[-1]} {'EUROS' if loud else 'euros'}")])

    return ScriptedModel(answer, name="scripted")


def opened(folder: Path, text: str = PRICE) -> Workspace:
    return shop(folder, text, models={"scripted": buyer()})


async def cheaper(ws: Workspace) -> str:
    """Register a candidate of the tool that says another price; return its version."""
    code, *_ = await ws.tcp.vars("price_of")
    config = await ws.tcp.setvars(
        "price_of", {"code": code.value.replace("12.5", "10.0")}, candidate=True, author="reflection", reason="dear"
    )
    assert config.state == "candidate"
    return config.version


async def priced(ws: Workspace, **options: object) -> str:
    return (await ws.run(TASK, model="scripted", system="react", seed="s", **options)).answer  # type: ignore[arg-type]


async def test_a_run_uses_the_version_that_it_names_and_no_other_run_does(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        version = await cheaper(ws)
        assert (await ws.tcp.info("price_of")).version == "1.0.0"
        assert await priced(ws) == "12.5 euros"
        assert await priced(ws, components={"tool:price_of": version}) == "10.0 euros"
        assert await priced(ws) == "12.5 euros"
        spec = RunSpec(task=TASK, model="scripted", system="react", components={"tool:price_of": version})
        result = await ws.run(spec)
        manifest = next(one.manifest for one in await whole_runs(ws) if one.id == result.run_id)
        assert manifest.components == {"tool:price_of": version}
        assert manifest.tools["price_of"].version == version
        called = [e.body["effect"]["component"] for e in await ws.log.events(result.run_id) if "effect" in e.body]
        assert f"price_of@{version}" in called


async def test_a_named_version_holds_in_the_whole_tree_of_a_run(tmp_path: Path) -> None:
    guide = Agent("guide", "Knows prices.", tools=("price_of",))
    async with shop(tmp_path, models={"scripted": buyer()}, agents=[guide]) as ws:
        named = {"tool:price_of": await cheaper(ws)}
        result = await ws.run(TASK, model="scripted", system="agentorchestra", components=named)
        called = [e for e in await ws.log.events(result.run_id) if e.body.get("effect", {}).get("kind") == "InvokeTool"]
        prices = [e.body["outcome"]["value"] for e in called if e.body["effect"]["component"] == "price_of@1.0.1"]
        assert prices == [10.0] and "guide" in called[0].branch


def test_the_body_of_a_request_names_versions() -> None:
    sent = Submission.model_validate({"task": TASK, "components": {"tool:price_of": "1.0.1"}})
    assert sent.spec([]).components == {"tool:price_of": "1.0.1"}


@pytest.mark.long
async def test_a_named_version_holds_in_another_process_whose_code_is_loaded_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        version = await cheaper(ws)
        named = {"tool:price_of": version}
        started = await ws.create(TASK, model="scripted", system="react", components=named)
        ended = (await ws.run(TASK, model="scripted", system="react", components=named)).run_id
    async with opened(tmp_path) as ws:
        assert (await ws.tcp.info("price_of")).version == "1.0.0"  # loaded again, the name means what it meant
        assert (await ws.resume(started)).answer == "10.0 euros"
        assert (await ws.replay(ended)).answer == "10.0 euros"
        fork = await ws.fork(ended, at=3)
        assert (await ws.resume(fork)).answer == "10.0 euros"
        assert await priced(ws) == "12.5 euros"


@pytest.mark.long
async def test_a_fork_names_another_version_and_compare_says_where_the_arms_differ(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        version = await cheaper(ws)
        parent = (await ws.run(TASK, model="scripted", system="react")).run_id
        log = await ws.log.events(parent)
        at = next(e.seq for e in log if e.body.get("effect", {}).get("component") == "price_of@1.0.0") - 1
        old = await ws.fork(parent, at=at)
        new = await ws.fork(parent, at=at, components={"tool:price_of": version})
    async with opened(tmp_path) as ws:
        assert [(await ws.resume(one)).answer for one in (old, new)] == ["12.5 euros", "10.0 euros"]
        found = await ws.log.compare(old, new)
        assert found.relation == (
            f"both were forked from {parent} ({old} changed: nothing; {new} changed: component:tool:price_of {version})"
        )
        assert found.difference is not None and found.difference.what.startswith(
            "InvokeTool price_of was asked the same"
        )
        again = await ws.fork(new, at=at)  # a fork of a fork keeps the version
        assert (await ws.resume(again)).answer == "10.0 euros"
        back = await ws.fork(new, at=at, components={"tool:price_of": "1.0.0"})
        assert (await ws.resume(back)).answer == "12.5 euros"
        assert (await ws.replay(back)).answer == "12.5 euros"
        with pytest.raises(UnknownComponentError, match="does not have the environment 'browser'"):
            await ws.fork(parent, at=at, components={"environment:browser": "1.0.0"})
        prompt = tmp_path / "react.md"
        prompt.write_text(await ws.components.prompts.source("react"))
        with pytest.raises(ForkError, match="'react' is given as a file and as a version"):
            await ws.fork(parent, at=at, components={"prompt:react": "1.0.0"}, prompts={"react": prompt})


async def test_a_prompt_that_a_run_names(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        parts = {one.name: one.value for one in await ws.components.prompts.vars("react")}
        rules = parts["reasoning_rules"] + "- Write the currency IN CAPITALS.\n"
        config = await ws.components.prompts.setvars("react", {"reasoning_rules": rules}, candidate=True)
        named = {"prompt:react": config.version}
        assert await priced(ws) == "12.5 euros"
        result = await ws.run(TASK, model="scripted", system="react", components=named)
        assert result.answer == "12.5 EUROS"
        assert (await ws.replay(result.run_id)).answer == "12.5 EUROS"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("components", "error", "sentence"),
    [
        ({"price_of": "1.0.0"}, SettingsError, "write KIND:NAME and a version"),
        ({"model:x": "1.0.0"}, SettingsError, "the kinds: tool, environment, agent, prompt, memory"),
        ({"tool:prise_of": "1.0.0"}, UnknownComponentError, "did you mean 'price_of'"),
        ({"tool:price_of": "7.0.0"}, VersionError, "its versions: 1.0.0, 1.0.1"),
        ({"tool:price_of": "1.0.1"}, LifecycleError, "price_of@1.0.1 is archived"),
        ({"environment:browser": "1.0.0"}, UnknownComponentError, "does not have the environment 'browser'"),
        ({"memory:window": "1.0.0"}, UnknownComponentError, "does not have the memory 'window'"),
    ],
)
async def test_versions_that_are_refused_before_anything_is_spent(
    tmp_path: Path, components: dict[str, str], error: type[Exception], sentence: str
) -> None:
    async with opened(tmp_path) as ws:
        await ws.tcp.archive("price_of", await cheaper(ws))
        with pytest.raises(error, match=sentence):
            await priced(ws, components=components)
        assert [one for one in await ws.runs.list() if one.manifest.task == TASK] == []


async def test_a_candidate_with_more_rights_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        code, *_ = await ws.tcp.vars("price_of")
        for effect, sentence in (
            ('effect=("read", "network")', "what it touches network, read too"),
            ('effect="pure", max_cost_usd=1.0', "US dollars 1; now it has 0"),
            ("idempotent=True", "mode repeatable; now it has pure"),
        ):
            more = code.value.replace('effect="pure"', effect)
            with pytest.raises(CandidateError, match=sentence):
                await ws.tcp.setvars("price_of", {"code": more}, candidate=True)
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.0.0"]


async def test_a_registered_candidate_has_no_more_rights_either(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        await ws.tcp.register(source=PRICE, invokers=["worker", "user"])
        await ws.tcp.register(source=PRICE.replace("12.5", "1.0"), state="candidate")
        assert (await ws.tcp.versions("price_of"))[-1].invokers == ("worker", "user")
        with pytest.raises(CandidateError, match="who may invoke it: anybody too; now it has user, worker"):
            await ws.tcp.register(source=PRICE.replace("12.5", "2.0"), state="candidate", invokers=["anybody"])
        lead = Agent("lead", "Leads.", tools=("price_of",), environments=("files",), max_steps=5)
        await ws.acp.register(lead)
        for change, sentence in (
            ({"tools": None}, r"tools \* too; now it has price_of"),
            ({"environments": ("files", "terminal")}, "environments terminal too"),
            ({"max_steps": 50}, "steps 50; now it has 5"),
        ):
            with pytest.raises(CandidateError, match=sentence):
                await ws.acp.register(replace(lead, **change), state="candidate")


async def test_an_agent_and_a_memory_that_a_run_names(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        await ws.components.memories.register(source=DIARY)
        code, *_ = await ws.components.memories.vars("diary")
        config = await ws.components.memories.setvars(
            "diary", {"code": code.value.replace("LINE ", "LINE TWO ")}, candidate=True
        )
        seen: list[str] = []

        def noting(request: ModelRequest) -> ModelResponse:
            seen.append("\n".join(message.text for message in request.messages))
            return decide(calls=[call("done", answer="yes")])

        options = {"model": ScriptedModel(noting), "system": "react", "session": "s", "memory": "diary"}
        named = {"memory:diary": config.version}
        await ws.run("Is it?", **options, components=named)  # type: ignore[arg-type]
        result = await ws.run("Is it?", **options)  # type: ignore[arg-type]
        assert "LINE TWO" in seen[-1]  # written by the run that named it
        assert (await ws.replay(result.run_id)).answer == "yes"
        await ws.run("Is it?", **options)  # type: ignore[arg-type]
        assert "LINE TWO" not in seen[-1]
