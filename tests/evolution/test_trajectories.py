"""Training data from recorded runs: what the model was shown and did, in the formats that trainers document."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvolutionError, UnknownRunError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.core.spec import RunStatus
from agentorchestra.evolution.trajectories import (
    SOURCES,
    TRAIN,
    Choice,
    Decided,
    command,
    courses,
    preferences,
    trajectories,
    write,
)
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.render import render_message
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace


@tool(effect="read")
def weigh(thing: str) -> str:
    """Weigh a thing.

    Args:
        thing: Its name.
    """
    return f"{thing} weighs {len(thing)} kg " + "and is made of bronze, tin and a little lead; " * 20


@tool(effect="read")
def paint(thing: str, coats: int | None = None) -> str:
    """Say which colour a thing has.

    Args:
        thing: Its name.
        coats: How many coats it has.
    """
    return f"{thing} is red"


def shown(request: ModelRequest) -> str:
    return "\n".join(render_message(one) for one in request.messages)


def orchestra(request: ModelRequest) -> ModelResponse:
    """An orchestrator that has a sub-agent weigh what its task names, and the sub-agent, which weighs it."""
    names = {one.name for one in request.tools}
    said = [one.text for one in request.messages if one.role == "tool"]
    if "delegate_task" in names:
        if not said:
            thing = re.findall(r"[Hh]ow heavy is the (\w+)", shown(request))[0]
            return decide(
                calls=[call("delegate_task", task_instruction=f"Weigh the {thing}.", tools=["weigh"], context="None.")]
            )
        return decide(calls=[call("complete", answer=json.loads(said[-1])["result"])])
    if "weigh" not in names:
        return say('{"points": ["It was weighed."], "issues": []}')
    if not said:
        return decide(calls=[call("weigh", thing=re.findall(r"Weigh the (\w+)", shown(request))[0])])
    return decide(calls=[call("done", answer=said[-1].split(" kg")[0])])


def diligent(request: ModelRequest) -> ModelResponse:
    """Weighs each thing that the task lists, one in a step, and says how many they were."""
    things = re.findall(r"thing\d+", request.messages[1].text)
    weighed = [one for one in request.messages if one.role == "tool"]
    if len(weighed) < len(things):
        return decide(calls=[call("weigh", thing=things[len(weighed)])])
    return decide(calls=[call("done", answer=str(len(weighed)))])


def workspace(folder: Path, *models: ScriptedModel, **options: Any) -> Workspace[Any]:
    named = {one.name: one for one in models}
    return Workspace(folder / "ws", models=named, tools=[weigh, paint], **options)


def called(messages: list[dict[str, Any]]) -> list[str]:
    return [one["function"]["name"] for each in messages for one in each.get("tool_calls", ())]


# -- records -----------------------------------------------------------------------------------------------------------


async def test_a_record_is_what_the_orchestrator_was_shown_and_did(tmp_path: Path) -> None:
    model = ScriptedModel(orchestra)
    async with workspace(tmp_path, model) as ws:
        ran = await ws.run("How heavy is the bell?", system="aorchestra", model=model.name)
        main = await trajectories(ws, [ran.run_id], Choice())
        every = await trajectories(ws, [ran.run_id], Choice(agents="all"))
        steps = await trajectories(ws, [ran.run_id], Choice(per="step"))
    ((record, origin),) = main.records
    assert record.kind == "language modeling"
    body = json.loads(record.line())
    assert [one["role"] for one in body["messages"]][:2] == ["system", "user"]
    assert called(body["messages"]) == ["delegate_task", "complete"]
    assert {one["function"]["name"] for one in body["tools"]} == {"delegate_task", "complete"}
    assert (origin.runs, origin.agent, len(origin.keys)) == ((ran.run_id,), "aorchestra", 2)
    assert [one.agent for _, one in every.records] == ["aorchestra", "sub_agent"]
    # A state is, word for word, what the model was shown before it did what is recorded.
    asked = [one for one in model.requests if any(each.name == "delegate_task" for each in one.tools)]
    for (step, _), request in zip(steps.records, asked, strict=True):
        assert step.kind == "prompt-completion"
        prompt = json.loads(step.line())["prompt"]
        assert [one["content"] for one in prompt] == [render_message(one) for one in request.messages]
    (done,) = json.loads(steps.records[1][0].line())["completion"]
    assert done["tool_calls"][0]["function"]["arguments"] == {"answer": "bell weighs 4"}


async def test_in_the_hermes_form_calls_and_tools_stand_in_the_text(tmp_path: Path) -> None:
    model = ScriptedModel(orchestra)
    async with workspace(tmp_path, model) as ws:
        ran = await ws.run("How heavy is the bell?", system="aorchestra", model=model.name)
        ((plain, _),) = (await trajectories(ws, [ran.run_id], Choice())).records
        ((record, _),) = (await trajectories(ws, [ran.run_id], Choice(wire="hermes"))).records
    body, other = json.loads(record.line()), json.loads(plain.line())
    assert {*body} == {"messages"} and all({*one} == {"role", "content"} for one in body["messages"])
    texts = [one["content"] for one in body["messages"] if one["role"] == "assistant"]
    calls = [json.loads(one) for text in texts for one in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text)]
    native = [one["function"] for each in other["messages"] for one in each.get("tool_calls", ())]
    assert calls == [{"name": one["name"], "arguments": one["arguments"]} for one in native]
    (listed,) = re.findall(r"^<tools>\n(.*?)\n</tools>$", body["messages"][0]["content"], re.DOTALL | re.MULTILINE)
    assert [json.loads(line) for line in listed.splitlines()] == other["tools"]
    (result,) = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    said = json.loads(result.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>"))
    assert said["name"] == "delegate_task" and "bell weighs 4" in said["content"]


async def test_a_long_course_is_parted_at_whole_steps(tmp_path: Path) -> None:
    model = ScriptedModel(diligent)
    things = " ".join(f"thing{n}" for n in range(12))
    async with workspace(tmp_path, model) as ws:
        ran = await ws.run(f"Weigh {things}.", system="react", model=model.name, max_steps=20)
        ((whole, _),) = (await trajectories(ws, [ran.run_id], Choice())).records
        window = _size(whole) // 3 + 2_500
        slid = await trajectories(ws, [ran.run_id], Choice(window=window))
        cut = await trajectories(ws, [ran.run_id], Choice(window=window, long="cut"))
        steps = await trajectories(ws, [ran.run_id], Choice(window=window, per="step"))
        none = await trajectories(ws, [ran.run_id], Choice(window=50))
    assert len(slid.records) > 1 and all(_size(one) <= window for one, _ in slid.records)
    head = json.loads(whole.line())["messages"][:2]
    found: list[str] = []
    for number, (record, _) in enumerate(slid.records):
        messages = json.loads(record.line())["messages"]
        assert messages[:2] == head
        weighed = [
            one["function"]["arguments"].get("thing", "done") for each in messages for one in each.get("tool_calls", ())
        ]
        assert not number or weighed[0] == found[-1], "it begins with the last step of the one before"
        found += weighed[1:] if number else weighed
    assert found == [*things.split(), "done"]
    assert [one.line() for one, _ in cut.records] == [slid.records[0][0].line()]
    assert cut.left_out == {"the rest of a course that was cut": 1}
    # A state that is too long loses its oldest steps, and keeps the task and the newest.
    assert len(steps.records) == 13 and all(_size(one) <= window for one, _ in steps.records)
    last = json.loads(steps.records[-1][0].line())["prompt"]
    assert last[:2] == head and "thing11" in last[-2]["content"] and "thing0" not in str(called(last[2:]))
    assert not none.records and none.left_out == {"longer than the window": 13}


def _size(record: Any) -> int:
    """Tokens by the rule of the estimate, from the line alone: never fewer than a third of the characters of texts."""
    body = json.loads(record.line())
    messages = [*body.get("messages", ()), *body.get("prompt", ()), *body.get("completion", ())]
    return sum(len(one["content"]) for one in messages) // 3


# -- what is taken -----------------------------------------------------------------------------------------------------


async def test_outcome_cost_and_sameness_decide_what_is_taken(tmp_path: Path) -> None:
    def refuses(request: ModelRequest) -> ModelResponse:
        if any(one.name == "complete" for one in request.tools):
            return decide(calls=[call("complete", answer="unknown", status="blocked")])
        return orchestra(request)

    model = ScriptedModel(orchestra, profile=ModelProfile(model="scripted", price=Price(input=1, output=1)))
    other = ScriptedModel(refuses, name="other")
    async with workspace(tmp_path, model, other) as ws:
        bell, again, horn = [
            (await ws.run(f"How heavy is the {one}?", system="aorchestra", model=model.name)).run_id
            for one in ("bell", "bell", "horn")
        ]
        bad = await ws.run("How heavy is the gong?", system="aorchestra", model=other.name)
        runs, scores = [bell, again, horn, bad.run_id], {bell: 0.5, again: 1.0, horn: 0.0}
        data = await trajectories(ws, runs, Choice(), scores)
        scored = await trajectories(ws, runs, Choice(min_score=0.6), scores)
        cheap = await trajectories(ws, runs, Choice(max_usd=0), scores)
        blocked = await trajectories(ws, runs, Choice(statuses=(RunStatus.BLOCKED,)))
    assert [(one.runs, one.scores) for _, one in data.records] == [((again,), (1.0,)), ((horn,), (0.0,))]
    assert data.left_out == {"the run is blocked": 1, "the same task and actions as another one": 1}
    assert [one.runs for _, one in scored.records] == [(again,)]
    assert scored.left_out == {"a lower score": 2, "the run is blocked": 1}
    assert not cheap.records and cheap.left_out["a higher cost"] == 3
    assert [one.runs for _, one in blocked.records] == [(bad.run_id,)]


async def test_runs_with_rival_steps_are_left_out(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: decide(calls=[call("done", answer="4")]))
    (tmp_path / "agentorchestra.toml").write_text("[parts]\ncandidates = 2\nchoose = 'vote'\n", encoding="utf-8")
    async with workspace(tmp_path, model) as ws:
        ran = await ws.run("How heavy is the bell?", system="react", model=model.name)
        data = await trajectories(ws, [ran.run_id], Choice())
    assert not data.records and data.left_out == {"rival steps (parts.candidates, parts.rollouts)": 1}


async def test_secrets_are_in_no_record_and_files_only_where_they_are_wanted(tmp_path: Path) -> None:
    secret, words = "correct-horse-battery", "The bell hangs in the old tower."
    (tmp_path / "notes.txt").write_text(words, encoding="utf-8")
    answers = ScriptedModel(lambda request: decide(calls=[call("done", answer="In the tower.")]))
    async with workspace(tmp_path, answers) as ws:
        task = f"Where is the bell? The gate's word is {secret}."
        ran = await ws.run(task, system="react", model=answers.name, files=[tmp_path / "notes.txt"])
    async with workspace(tmp_path, environ={"GATE_PASSWORD": secret}) as ws:
        ((record, _),) = (await trajectories(ws, [ran.run_id], Choice())).records
        ((without, _),) = (await trajectories(ws, [ran.run_id], Choice(files=False))).records
    assert secret not in record.line() and "secret:GATE_PASSWORD" in record.line()
    assert words in record.line()
    assert words not in without.line() and "[the content of notes.txt is left out]" in without.line()


# -- preference pairs --------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_run_and_its_fork_are_a_pair_where_they_part(tmp_path: Path) -> None:
    def careless(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("done", answer="heavy")])

    careful, other = ScriptedModel(diligent), ScriptedModel(careless, name="careless")
    async with workspace(tmp_path, careful, other) as ws:
        ran = await ws.run("Weigh thing1 and thing2.", system="react", model=careful.name)
        keys = [one.key for one in _decisions(await ws.log.events(ran.run_id))]
        fork = await ws.fork(ran.run_id, at=_started(await ws.log.events(ran.run_id), keys[1]) - 1, model=other.name)
        assert (await ws.resume(fork)).answer == "heavy"
        data = await preferences(ws, [ran.run_id, fork], Choice(), {ran.run_id: 1.0, fork: 0.0})
        turned = await preferences(ws, [ran.run_id, fork], Choice(), {ran.run_id: 0.2, fork: 0.9})
        equal = await preferences(ws, [ran.run_id, fork], Choice())
    ((pair, origin),) = data.records
    assert pair.kind == "preference"
    body = json.loads(pair.line())
    assert called(body["prompt"]) == ["weigh"] and "thing1 weighs 6 kg" in body["prompt"][-2]["content"]
    assert [(called(body[one])) for one in ("chosen", "rejected")] == [["weigh"], ["done"]]
    assert (origin.runs, origin.keys) == ((ran.run_id, fork), (str(keys[1]), str(keys[1])))
    ((pair, _),) = turned.records
    assert called(json.loads(pair.line())["chosen"]) == ["done"]
    assert not equal.records and equal.left_out == {"both ends are worth the same": 1}


def _decisions(events: Sequence[Event]) -> Sequence[Decided]:
    return courses(Ledger.of(events))[0].decisions


def _started(events: Sequence[Event], key: EffectKey) -> int:
    return next(one.seq for one in events if (one.branch, one.n, one.type) == (key.branch, key.n, "started"))


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_the_loader_of_trainers_reads_the_folder_as_it_was_written(tmp_path: Path, monkeypatch: Any) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = ScriptedModel(orchestra)

    def painter(request: ModelRequest) -> ModelResponse:
        if not any(one.role == "tool" for one in request.messages):
            return decide(calls=[call("paint", thing="bell", coats=2), call("weigh", thing="bell")])
        return decide(calls=[call("done", answer="red")])

    other = ScriptedModel(painter, name="painter")
    async with workspace(tmp_path, model, other) as ws:
        runs = [(await ws.run("How heavy is the bell?", system="aorchestra", model=model.name)).run_id]
        runs.append((await ws.run("Which colour has the bell?", system="react", model=other.name)).run_id)
        for number, wanted in enumerate((Choice(agents="all"), Choice(per="step"), Choice(wire="hermes"))):
            data = await trajectories(ws, runs, wanted)
            folder = tmp_path / f"data{number}"
            write(data, folder)
            loaded = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
            lines = [json.loads(line) for line in (folder / TRAIN).read_text(encoding="utf-8").splitlines()]
            assert [_bare(one) for one in loaded] == [_bare(one) for one in lines]
            sources = [json.loads(line) for line in (folder / SOURCES).read_text(encoding="utf-8").splitlines()]
            assert [one["line"] for one in sources] == [*range(1, len(lines) + 1)]
            assert {run for one in sources for run in one["runs"]} == {*runs}


def _bare(value: Any) -> Any:
    """A row without nulls, which trainers take out: tables have them where another row has more keys."""
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if one is not None}
    return [_bare(one) for one in value] if isinstance(value, list) else value


async def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    model = ScriptedModel(orchestra)
    async with workspace(tmp_path, model) as ws:
        with pytest.raises(UnknownRunError):
            await trajectories(ws, ["run_nothing"], Choice())
        ran = await ws.run("How heavy is the bell?", system="aorchestra", model=model.name)
        data = await trajectories(ws, [ran.run_id], Choice())
        empty = await trajectories(ws, [ran.run_id], Choice(min_score=0.5))
    with pytest.raises(EvolutionError, match=r"no record can be made: no score; choose other runs"):
        write(empty, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    write(data, tmp_path / "data")
    with pytest.raises(EvolutionError, match="is there already and is not empty; name a new folder"):
        write(data, tmp_path / "data")
    words = command(data, tmp_path / "data")
    assert words.startswith("trl sft --model_name_or_path Qwen/Qwen3-8B --dataset_name ")
    assert "--max_length 16384" in words and "--assistant_only_loss true" in words
