"""Agents with very many tools: what they are shown, how they find the others, the same in every drive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace
from agentorchestra.agents.agent import Agent
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.errors import ScriptError
from agentorchestra.core.events import EffectStarted
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolSchema
from agentorchestra.core.query import LogQuery
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, say

THINGS = ("ferry", "invoice", "meadow", "lantern", "compass", "harbour", "quarry", "violin", "glacier", "orchard")
ACTS = ("book", "cancel", "count", "describe", "measure")
GROUPS = ("east", "lakes", "islands", "north", "south", "west", "centre", "coast", "hills", "plains")


def _tool(name: str, description: str, *, trust: Trust = Trust.SYSTEM, origin: str = "") -> Tool[..., Any]:
    parameters = {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "Where it is."}},
        "required": ["place"],
    }

    def act(place: str) -> str:
        return f"{name} at {place}: 4711"

    return tool_from_schema(
        act,
        ToolSchema(name=name, description=description, parameters=parameters),
        effect="pure",
        source=name,
        trust=trust,
        traits=ToolTraits(origin=origin, thread=False),
    )


def many(count: int = 150, **further: Any) -> list[Tool[..., Any]]:
    """So many tools, of which each does something else."""
    made = [
        _tool(
            f"{act}_{thing}_{group}", f"{act.capitalize()} the {thing} of the {group}. It takes the place.", **further
        )
        for group in GROUPS
        for thing in THINGS
        for act in ACTS
    ]
    return made[:count]


def _names(request: ModelRequest) -> list[str]:
    return [one.name for one in request.tools]


def _told(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def _settings(**further: Any) -> Settings:
    return Settings(model="scripted", system="react", **further)


TASK = "Somebody should measure the glacier of the lakes at Thun."


def finding(
    seen: list[ModelRequest], *, query: str = "count violin islands", wanted: str = "count_violin_islands"
) -> Any:
    """A model that finds a tool by words, uses it when it is offered, and answers with what it gave."""

    def reply(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        results = [one.text for one in request.messages if one.role == "tool" and one.name == wanted]
        if results:
            return decide(calls=[call("done", answer=results[-1])])
        if wanted in _names(request):
            return decide(calls=[call(wanted, place="Thun")])
        return decide(calls=[call("find_tools", query=query)])

    return reply


async def test_of_500_tools_the_right_one_is_found_used_and_found_again(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []
    async with Workspace(
        tmp_path, tools=many(500), settings=_settings(), models={"scripted": ScriptedModel(finding(seen))}
    ) as ws:
        result = await ws.run(TASK)
        assert result.answer == "count_violin_islands at Thun: 4711"
        report = await ws.replay(result.run_id)
        assert (report.answer, report.status) == (result.answer_text, result.status)
    first, second, third = seen
    # What fits the task is open at once, what was searched for comes at the end, and nothing in front of it moves.
    assert "measure_glacier_lakes" in _names(first)
    assert "count_violin_islands" not in _names(first)
    assert "count_violin_islands" in _names(second)
    assert _names(second)[: len(_names(first))] == _names(first)
    assert third.tools == second.tools
    assert second.messages[: len(first.messages) - 1] == first.messages[:-1]
    assert {"done", "find_tools", "open_tools", "fetch"} <= set(_names(first))
    assert len(first.tools) < 20
    assert "further tools; `find_tools` finds them" in _told(first)


@pytest.mark.long
async def test_a_prompt_is_as_long_with_500_tools_as_with_50(tmp_path: Path) -> None:
    sizes = []
    for count in (50, 500):
        seen: list[ModelRequest] = []
        model = ScriptedModel(finding(seen, wanted="done"))
        settings = _settings(prompt_tool_chars=8_000)
        folder = tmp_path / str(count)
        async with Workspace(folder, tools=many(count), settings=settings, models={"scripted": model}) as ws:
            await ws.run(TASK)
        sizes.append(len(_told(seen[0])) + sum(one.chars for one in seen[0].tools))
    assert sizes[1] < sizes[0] * 1.1


async def test_few_tools_are_shown_as_ever(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []
    model = ScriptedModel(finding(seen, wanted="done"))
    async with Workspace(tmp_path, tools=many(5), settings=_settings(), models={"scripted": model}) as ws:
        await ws.run(TASK)
    assert "find_tools" not in _names(seen[0])
    assert set(_names(seen[0])) >= {one.name for one in many(5)}
    assert "further tools" not in _told(seen[0])


@pytest.mark.long
async def test_a_run_that_was_interrupted_goes_on_with_what_was_open(tmp_path: Path) -> None:
    """The second process has one tool more, which would be found: what was recorded is what is shown."""
    seen: list[ModelRequest] = []
    answer = finding(seen)

    def breaking(request: ModelRequest) -> ModelResponse:
        if len(seen) == 2:
            raise RuntimeError("the process ends here")
        return answer(request)  # type: ignore[no-any-return]

    async with Workspace(
        tmp_path, tools=many(), settings=_settings(), models={"scripted": ScriptedModel(breaking)}
    ) as ws:
        run_id = await ws.create(TASK)
        with pytest.raises(ScriptError, match="the process ends here"):
            await ws.resume(run_id)
    before = [*seen]
    more = _tool("measure_glacier_lakes_thun", "Measure the glacier of the lakes at Thun.")
    async with Workspace(
        tmp_path, tools=[more, *many()], settings=_settings(), models={"scripted": ScriptedModel(answer)}
    ) as ws:
        result = await ws.resume(run_id)
    assert result.answer == "count_violin_islands at Thun: 4711"
    assert _names(seen[2]) == _names(before[1])
    assert "measure_glacier_lakes_thun" not in _told(seen[2])


@pytest.mark.long
async def test_a_call_of_what_is_not_open_opens_it(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        results = [one.text for one in request.messages if one.role == "tool"]
        if len(results) < 2:
            return decide(calls=[call("book_meadow_east", place="Thun")])
        return decide(calls=[call("done", answer=results[-1])])

    async with Workspace(tmp_path, tools=many(), settings=_settings(), models={"scripted": ScriptedModel(reply)}) as ws:
        result = await ws.run(TASK)
    assert '"opened":["book_meadow_east"]' in seen[1].messages[-2].text
    assert _names(seen[1])[-1] == "book_meadow_east"
    assert result.answer == "book_meadow_east at Thun: 4711"


async def test_names_that_are_not_there(tmp_path: Path) -> None:
    said: list[str] = []
    calls = [
        call("count_violin_island", place="Thun"),
        call("open_tools", names=["count_violin_island"]),
        call("open_tools", names=["quite_else", "count_violin_islands"]),
        call("find_tools", query="zzz qqq"),
        call("done", answer="x"),
    ]

    def reply(request: ModelRequest) -> ModelResponse:
        said.append(request.messages[-2].text)
        return decide(calls=[calls[len(said) - 1]])

    async with Workspace(tmp_path, tools=many(), settings=_settings(), models={"scripted": ScriptedModel(reply)}) as ws:
        await ws.run(TASK)
    assert "there is no tool 'count_violin_island'; did you mean count_violin_islands or " in said[1]
    assert "there is no tool 'count_violin_island'; did you mean count_violin_islands or " in said[2]
    assert '"not_opened":["quite_else"]' in said[3]
    assert '"opened":["count_violin_islands"]' in said[3]
    assert '"found":[],"opened":[]' in said[4]
    assert max(map(len, said[1:])) < 2_000


async def test_words_from_elsewhere_stay_untrusted(tmp_path: Path) -> None:
    """A description that nobody here wrote is material, wherever it stands: it lowers what follows from it."""
    seen: list[ModelRequest] = []
    model = ScriptedModel(finding(seen))
    tools = many(trust=Trust.UNTRUSTED, origin="mcp:harbour")
    async with Workspace(
        tmp_path, tools=tools, settings=_settings(), models={"scripted": model}, policy=_Allow()
    ) as ws:
        result = await ws.run(TASK)
        events = [one async for one in ws.log.select()]
    lines = [one for one in seen[0].messages[1].content if isinstance(one, TextBlock) and '"found"' in one.text]
    assert [(one.trust, one.source and one.source.ref) for one in lines] == [(Trust.UNTRUSTED, "find_tools")]
    assert result.answer.endswith("4711")
    called = [str(e.data) for e in events if "'count_violin_islands@1.0.0'" in str(e.data)]
    assert called
    assert all("measure_glacier_lakes (its description)" in one and "find_tools" in one for one in called)


class _Allow:
    def decide(self, effect: Any, view: Any) -> Any:
        from agentorchestra.core.policy import Verdict

        return Verdict(action="allow", reason="")


async def test_groups_are_browsed_and_scoped(tmp_path: Path) -> None:
    said: list[str] = []
    calls = [
        call("find_tools"),
        call("find_tools", under="mcp/harbour", limit=3),
        call("find_tools", query="measure glacier lakes", under="mcp/harbour", limit=3),
        call("done", answer="x"),
    ]

    def reply(request: ModelRequest) -> ModelResponse:
        said.append(request.messages[-2].text)
        return decide(calls=[calls[len(said) - 1]])

    tools = [*many(140), *(_tool(f"swim_{n}", "Swim a length.", origin="mcp:harbour") for n in range(9))]
    async with Workspace(tmp_path, tools=tools, settings=_settings(), models={"scripted": ScriptedModel(reply)}) as ws:
        await ws.run(TASK)
    assert '"groups":{"mcp":9}' in said[1]
    assert '"found":["swim_0: Swim a length.","swim_1: Swim a length.","swim_2: Swim a length."]' in said[2]
    assert "glacier" not in said[3]


@pytest.mark.long
async def test_a_model_without_native_calls_reads_the_schemas_of_what_is_open(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        shown = request.messages[-1].text
        if "4711" in _told(request):
            return decide(calls=[call("done", answer="4711")])
        if '<tool name="count_violin_islands">' in shown:
            return decide(calls=[call("count_violin_islands", place="Thun")])
        return decide(calls=[call("find_tools", query="count violin islands")])

    model = ScriptedModel(reply, native_tools=False)
    async with Workspace(tmp_path, tools=many(), settings=_settings(), models={"scripted": model}) as ws:
        result = await ws.run(TASK)
    assert result.answer == "4711"
    assert seen[0].tools == ()
    assert "count_violin_islands" not in _told(seen[0])
    assert seen[1].messages[0] == seen[0].messages[0]
    assert '"place": {"description": "Where it is."' in seen[1].messages[-1].text


@pytest.mark.long
async def test_programs_call_what_they_find(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        if len(seen) == 1:
            return ModelResponse(text='```python\nprint(find_tools(query="count violin islands"))\n```')
        return ModelResponse(text='```python\ndone(answer=count_violin_islands(place="Thun"))\n```')

    async with Workspace(
        tmp_path, tools=many(), settings=_settings(action="code"), models={"scripted": ScriptedModel(reply)}
    ) as ws:
        result = await ws.run(TASK)
        report = await ws.replay(result.run_id)
    assert result.answer_text == report.answer == "count_violin_islands at Thun: 4711"
    assert "def count_violin_islands(place: str)" in _told(seen[1])
    assert "def count_violin_islands" not in _told(seen[0])
    assert "def measure_glacier_lakes(place: str)" in _told(seen[0])


async def test_nothing_is_found_that_the_agent_may_not_use(tmp_path: Path) -> None:
    """A sub-agent has fewer tools than the workspace; a schema that is longer than a prompt is never opened."""
    huge = _tool("huge_thing", "Describe the huge thing. " + "word " * 10_000)
    said: list[str] = []
    calls = [call("find_tools", query="huge thing"), call("open_tools", names=["huge_thing"]), call("done", answer="x")]

    def reply(request: ModelRequest) -> ModelResponse:
        said.append(request.messages[-2].text)
        return decide(calls=[calls[len(said) - 1]])

    async with Workspace(
        tmp_path, tools=[huge, *many(30)], settings=_settings(), models={"scripted": ScriptedModel(reply)}
    ) as ws:
        await ws.run("Describe the huge thing.")
    assert '"found":["huge_thing: Describe the huge thing. word' in said[1]
    assert '"huge_thing"' not in said[1].partition("opened")[2]
    assert "the schema of 'huge_thing' is longer than a prompt has room for (32,000)" in said[2]


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt_tool_chars"):
        Settings(prompt_tool_chars=-1)


async def test_a_planner_finds_agents_and_the_worker_its_tools(tmp_path: Path) -> None:
    """60 agents and 150 tools: the planner's prompt names a few of both, and both are found."""
    agents = [
        Agent(f"{act}_{thing}_expert", f"Knows how to {act} a {thing}. " + "Say which one and where. " * 20)
        for thing in THINGS
        for act in (*ACTS, "repair")
    ]
    planner: list[ModelRequest] = []
    done = decide(calls=[call("done", answer="4711")])

    def reply(request: ModelRequest) -> ModelResponse:
        if "You lead a team" not in request.messages[0].text:
            return done
        planner.append(request)
        steps = [call("find_agents", query="repair the violin"), call("repair_violin_expert", task="Repair it.")]
        return decide(calls=[steps[len(planner) - 1]]) if len(planner) <= len(steps) else done

    settings = Settings(model="scripted", system="agentorchestra", prompt_tool_chars=24_000)
    models = {"scripted": ScriptedModel(reply)}
    async with Workspace(tmp_path, tools=many(), agents=agents, settings=settings, models=models) as ws:
        result = await ws.run(TASK)
        report = await ws.replay(result.run_id)
    assert result.answer_text == report.answer == "4711"
    first, second = planner[:2]
    assert "measure_glacier_expert" in _names(first)
    assert {"deep_analyzer", "worker", "reporter", "find_agents"} <= set(_names(first))
    assert "repair_violin_expert" not in _names(first)
    assert "repair_violin_expert" in _names(second)
    assert "find_tools" not in _names(first)
    worker = next(one for one in first.tools if one.name == "worker")
    assert "further things, for which it finds the tool itself" in worker.description
    assert len(worker.description) < 7_000
    assert sum(one.chars for one in first.tools) < 24_000


@pytest.mark.long
async def test_the_offline_model_opens_what_the_task_spells_out(tmp_path: Path) -> None:
    task = 'Measure glaciers. Then call count_violin_islands(place="Thun") and book_meadow_east(place="Bern").'
    async with Workspace(tmp_path, tools=many(), settings=Settings(system="react")) as ws:
        result = await ws.run(task)
    assert "count_violin_islands at Thun: 4711\nbook_meadow_east at Bern: 4711" in result.answer


@pytest.mark.long
async def test_with_an_embedder_the_run_embeds_its_questions_alone(tmp_path: Path) -> None:
    """What descriptions mean is known to the workspace; a run asks for what it looks for, and never again."""
    seen: list[ModelRequest] = []
    async with LoopbackModelServer(lambda body: say("")) as server:
        profile = ModelProfile(model="letters", base_url=server.base_url, api_key_env="")
        settings = _settings(models={"vectors": profile}, embedding_model="vectors")
        models = {"scripted": ScriptedModel(finding(seen))}
        async with Workspace(tmp_path, tools=many(), settings=settings, models=models) as ws:
            result = await ws.run(TASK)
            asked = len(server.requests)
            report = await ws.replay(result.run_id)
            kinds = [
                e.data.effect["arguments"]
                async for e in ws.log.select(LogQuery(runs=(result.run_id,)))
                if isinstance(e.data, EffectStarted) and e.data.effect["kind"] == "Embed"
            ]
        assert result.answer_text == report.answer == "count_violin_islands at Thun: 4711"
        questions = [TASK, "count violin islands"]
        assert kinds == [{"texts": [one], "model": "vectors"} for one in questions]
        assert len(server.requests) == asked


@pytest.mark.long
async def test_a_fork_goes_on_with_what_was_open(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []
    models = {"scripted": ScriptedModel(finding(seen)), "other": ScriptedModel(finding(seen), name="other")}
    async with Workspace(tmp_path, tools=many(), settings=_settings(), models=models) as ws:
        result = await ws.run(TASK)
        found = [
            e.seq async for e in ws.log.select() if e.type == "completed" and "'opened': ['count_violin" in str(e.data)
        ]
        fork = await ws.fork(result.run_id, at=found[0], model="other")
        forked = await ws.resume(fork)
    assert forked.answer_text == result.answer_text
    assert seen[3].model == "other"
    assert _names(seen[3]) == _names(seen[1])
