"""What stands in an agent's first prompt: tools that fit, short files whole; what is opened, handed over, forced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.first_view import waiting_tools
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import FileRef, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.systems.agentorchestra import same_task
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.systems.planning import by_prompt, done, results, shown

LEASE = "The rent is 900 euros.\nThe deposit is 1284 euros.\nThe garage costs 75 euros.\n"
QUESTION = "How much is the deposit?"
CITED: dict[str, Any] = {"source": "lease.txt", "place": "line 2", "quote": "The deposit is 1284 euros."}


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    (tmp_path / "lease.txt").write_text(LEASE)
    return tmp_path / "lease.txt"


def settled(**values: Any) -> Settings:
    return Settings.model_validate({"system": "react", **values})


def looking(request: ModelRequest) -> ModelResponse:
    """Answers with the deposit as it stands in the prompt; reads the file where it does not."""
    line = next((one for one in shown(request).splitlines() if "deposit is" in one), "")
    if not line:
        return decide(calls=[call("read_file", name="lease.txt")])
    return done(line.partition("\t")[2] or line, CITED)


def calls_of(events: list[Event]) -> list[str]:
    """The components of the calls of tools, in order."""
    effects = [event.body.get("effect") for event in events if event.type in ("started", "completed")]
    called = [one["component"].partition("@")[0] for one in effects if one and one["kind"] == "InvokeTool"]
    return [*dict.fromkeys(called)]


# -- short files -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["react", "agentorchestra", "deep_analyzer"])
async def test_a_short_file_is_in_view_and_one_request_answers(lease: Path, system: str) -> None:
    model = ScriptedModel(looking)
    async with Workspace(store=MemoryStore()) as ws:
        result = await ws.run(QUESTION, files=[lease], model=model, system=system)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "The deposit is 1284 euros."), result.report
        assert [one.model_dump() for one in result.sources] == [CITED]
        assert len(model.requests) == 1
        task = model.requests[0].messages[1]
        assert "lease.txt (text/plain, 77 bytes), whole below" in task.text
        (block,) = [one for one in task.content if one.source is not None and one.source.place]
        assert (block.source.ref, block.trust) == ("lease.txt", "untrusted")  # type: ignore[union-attr]
        assert "files_in_view" in calls_of(await ws.log.events(result.run_id))
        assert (await ws.replay(result.run_id)).answer == result.answer


async def test_it_is_read_when_nothing_is_to_be_in_view(lease: Path) -> None:
    model = ScriptedModel(looking)
    async with Workspace(store=MemoryStore(), settings=settled(in_view_chars=0)) as ws:
        result = await ws.run(QUESTION, files=[lease], model=model)
        assert result.answer == "The deposit is 1284 euros."
        assert [len(model.requests), *calls_of(await ws.log.events(result.run_id))] == [
            2,
            "read_file",
            "done",
            "check_quotes",
        ]


async def test_the_length_of_what_was_converted_decides(tmp_path: Path) -> None:
    """A long file of few words is shown, a longer one is not, and the list says which stands below."""
    (tmp_path / "long.txt").write_text("The deposit is 1284 euros.\n" * 2_000)
    rows = "".join(f'<item n="{n}"><!-- {"x" * 2_000} --></item>' for n in range(20))
    (tmp_path / "wide.html").write_text(f"<html><body><p>The deposit is 1284 euros.</p>{rows}</body></html>")
    model = ScriptedModel([decide(calls=[call("done", answer="1284")])])
    async with Workspace(store=MemoryStore(), settings=settled(in_view_chars=9_000)) as ws:
        await ws.run(QUESTION, files=[tmp_path / "long.txt", tmp_path / "wide.html"], model=model)
    told = model.requests[0].messages[1].text
    assert "long.txt (text/plain, 54000 bytes)\n" in told
    names = [one.name for one in model.requests[0].tools]
    assert "read_file" in names and "search_files" in names


async def test_a_planner_may_compute_over_what_it_sees(lease: Path) -> None:
    """Its own look and its own program stand behind the answer: nobody has to be asked."""

    def lead(request: ModelRequest) -> ModelResponse:
        if not results(request):
            assert "1284" in shown(request) and "900" in shown(request)
            return decide(calls=[call("python", code="900 + 1284")])
        return done(results(request)[-1].split()[0], CITED)

    async with Workspace(store=MemoryStore()) as ws:
        result = await ws.run("How much are rent and deposit together?", files=[lease], model=by_prompt(planner=lead))
        assert (result.status, result.answer, result.usage.requests) == (RunStatus.COMPLETED, "2184", 2)


# -- tools that fit ----------------------------------------------------------------------------------------------------


def ref(name: str, media_type: str, size: int = 10) -> FileRef:
    return FileRef(name=name, sha256="0" * 64, size=size, media_type=media_type)


@pytest.mark.parametrize(
    ("files", "waits"),
    [
        ([], {"read_file", "search_files", "ask_media", "transcribe_file", "analyze_file"}),
        ([ref("a.csv", "text/csv")], {"ask_media", "transcribe_file", "analyze_file"}),
        ([ref("a.csv", "text/csv", 1_000_000)], {"ask_media", "transcribe_file"}),
        ([ref("a.pdf", "application/pdf")], {"transcribe_file"}),
        ([ref("a.mp3", "audio/mpeg")], set()),
        ([ref("a.zip", "application/zip")], {"ask_media", "transcribe_file"}),
    ],
)
def test_what_waits_depends_on_the_files(files: list[FileRef], waits: set[str]) -> None:
    names = ("read_file", "search_files", "ask_media", "transcribe_file", "analyze_file", "python", "fetch", "todo")
    assert {*waiting_tools(names, files, frozenset())} == {*waits, "todo"}


async def test_a_tool_is_opened_at_the_end_of_the_list(lease: Path) -> None:
    def steps(request: ModelRequest) -> ModelResponse:
        said = results(request)
        if not said:
            return decide(calls=[call("open_tools", names=["todo", "nothing"])])
        if len(said) == 1:
            return decide(calls=[call("todo", action="create", steps=["look"])])
        return done("1284")

    model = ScriptedModel(steps)
    async with Workspace(store=MemoryStore(), settings=settled()) as ws:
        result = await ws.run(QUESTION, files=[lease], model=model)
        assert result.answer == "1284"
        assert (await ws.replay(result.run_id)).answer == "1284"
    first, second, third = ([one.name for one in request.tools] for request in model.requests)
    assert "todo" not in first and second == third == [*first, "todo"]
    opening = next(one for one in model.requests[0].tools if one.name == "open_tools")
    assert opening.description.splitlines()[1:] == [
        "analyze_file, archived_page, ask_media, bash, read_artifact, read_file, search_files, todo, wait_until"
    ]


async def test_a_tool_that_waits_is_executed_when_it_is_called(lease: Path) -> None:
    steps = [decide(calls=[call("search_files", query="deposit")]), decide(calls=[call("done", answer="1284")])]
    model = ScriptedModel(steps)
    async with Workspace(store=MemoryStore(), settings=settled()) as ws:
        await ws.run(QUESTION, files=[lease], model=model)
    assert "search_files" not in [one.name for one in model.requests[0].tools]
    assert "The deposit is 1284 euros." in results(model.requests[1])[0]
    assert model.requests[0].tools == model.requests[1].tools


async def test_opening_what_is_not_there_says_what_is(lease: Path) -> None:
    steps = [decide(calls=[call("open_tools", names=["magic"])]), decide(calls=[call("done", answer="1284")])]
    model = ScriptedModel(steps)
    async with Workspace(store=MemoryStore(), settings=settled()) as ws:
        await ws.run(QUESTION, files=[lease], model=model)
    assert "open_tools opens none of ['magic']; it opens: analyze_file, " in results(model.requests[1])[0]


async def test_all_tools_are_shown_where_the_settings_say_so(lease: Path) -> None:
    model = ScriptedModel([decide(calls=[call("done", answer="1284")])])
    async with Workspace(store=MemoryStore(), settings=settled(first_tools="all")) as ws:
        await ws.run(QUESTION, files=[lease], model=model)
    names = {one.name for one in model.requests[0].tools}
    assert {"todo", "bash", "ask_media", "read_file"} <= names and "open_tools" not in names


# -- reasoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [True, False])
async def test_a_model_thinks_in_its_own_way(native: bool) -> None:
    reply = ModelResponse(text="I add them.", tool_calls=(ToolCall(id="a", name="done", arguments={"answer": "5"}),))
    text = '{"thought": "I add them.", "tool": {"name": "done", "args": {"answer": "5"}}}'
    model = ScriptedModel([reply if native else text], native_tools=native)
    async with Workspace(store=MemoryStore(), settings=settled()) as ws:
        result = await ws.run("What is 2 + 3?", model=model)
        assert result.answer == "5"
    assert "evaluation_previous_goal" not in shown(model.requests[0])
    assert ('"thought"' in shown(model.requests[0])) is not native


async def test_the_fields_of_the_paper_are_asked_for_and_remembered() -> None:
    steps = [
        decide(memory="The sum is wanted.", calls=[call("python", code="2 + 3")]),
        decide(calls=[call("done", answer="5")]),
    ]
    for reasoning in ("fields", "native"):
        model = ScriptedModel([*steps])
        async with Workspace(store=MemoryStore(), settings=settled(reasoning=reasoning)) as ws:
            await ws.run("What is 2 + 3?", model=model)
        fields = reasoning == "fields"
        assert ('"evaluation_previous_goal"' in model.requests[0].messages[0].text) is fields
        assert ("<memory>\nThe sum is wanted.\n</memory>" in model.requests[1].messages[-1].text) is fields


@pytest.mark.parametrize("preset", ["paper-000", "paper-001"])
async def test_the_papers_presets_reason_in_fields_and_show_no_files(preset: str, lease: Path) -> None:
    model = ScriptedModel([decide(calls=[call("done", answer="1284")])])
    async with Workspace(store=MemoryStore(), preset=preset) as ws:
        await ws.run(QUESTION, files=[lease], model=model, system="react")
    assert '"evaluation_previous_goal"' in model.requests[0].messages[0].text
    assert "1284" not in shown(model.requests[0])


# -- the last step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forces", [True, False])
async def test_the_last_step_forces_the_answer_where_it_may(forces: bool) -> None:
    profile = ModelProfile(model="scripted", forces_tools=forces)
    steps = [decide(calls=[call("python", code="2 + 3")]), decide(calls=[call("done", answer="5")])]
    model = ScriptedModel(steps, profile=profile)
    async with Workspace(store=MemoryStore(), settings=settled()) as ws:
        result = await ws.run("What is 2 + 3?", model=model, max_steps=2)
        assert (await ws.replay(result.run_id)).answer == "5"
    first, last = model.requests
    assert last.tools == first.tools and "Call `done` now" in last.messages[-1].text
    assert [one.settings.tool_choice for one in model.requests] == ["auto", "done" if forces else "auto"]


def test_only_the_makers_own_service_forces_unless_a_profile_says_so() -> None:
    assert ModelProfile(model="openai:gpt-5").may_force
    assert not ModelProfile(model="openai:qwen3", base_url="http://127.0.0.1:1/v1").may_force
    assert ModelProfile(model="openai:qwen3", base_url="http://127.0.0.1:1/v1", forces_tools=True).may_force
    assert not ModelProfile(model="openai:gpt-5", tools=False, forces_tools=True).may_force


# -- handing over ------------------------------------------------------------------------------------------------------


async def test_a_delegation_without_a_task_hands_over_the_users_and_ends_the_work(lease: Path) -> None:
    told: list[str] = []

    def lead(request: ModelRequest) -> ModelResponse:
        assert not results(request), "the planner was asked again although the work was done"
        return decide(calls=[call("deep_analyzer", context="It is a lease.")])

    def analyzer(request: ModelRequest) -> ModelResponse:
        told.append(request.messages[1].text)
        return looking(request)

    async with Workspace(store=MemoryStore()) as ws:
        result = await ws.run(QUESTION, files=[lease], model=by_prompt(planner=lead, agent=analyzer))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "The deposit is 1284 euros.")
        assert [one.model_dump() for one in result.sources] == [CITED] and result.usage.requests == 2
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert f"<task>\n{QUESTION}\n</task>" in told[0] and "<original_task>" not in told[0]


@pytest.mark.parametrize(
    ("told", "same"),
    [
        ("How much is the deposit?", True),
        ("how much is THE deposit", True),
        ("lease.txt: How much is the deposit?", True),
        ("How much is the deposit of the garage?", False),
        ("How much is it?", False),
        ("How much is the deposit in Europe?", False),
    ],
)
def test_the_same_words_are_the_same_task(told: str, same: bool) -> None:
    assert same_task(told, QUESTION, ["lease.txt"]) is same


async def test_an_older_run_keeps_what_it_was_made_with(lease: Path) -> None:
    """A manifest without the new fields means: fields, all tools, nothing in view, `done` alone at the end."""
    from agentorchestra.core.spec import RunManifest

    old = json.loads('{"task": "x", "seed": "s", "created": "2026-01-01T00:00:00Z"}')
    manifest = RunManifest.model_validate(old)
    assert (manifest.reasoning, manifest.first_tools, manifest.in_view_chars, manifest.forced) == ("fields", "", 0, ())
