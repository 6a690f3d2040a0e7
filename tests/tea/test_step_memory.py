"""Memory beside each decision: what is asked, shown and written, and what happens where a reply is of no use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import ModelRequestError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, PartSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tea.memory.base import LONGEST_ENTRY, Entry, Happening, Memory
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, http_error, say
from agentorchestra.workspace import Workspace
from tests.support.memory import of_kind, records, written
from tests.systems.support import seen

LONG = "The tide tables say nothing of it. " * 40


@tool(effect=("read", "network"))
def sound(place: str) -> str:
    """Sound the depth of a place.

    Args:
        place: Its name.
    """
    return f"{place}: {LONG}{len(place)} fathoms"


class Sailor:
    """Sounds the places of its task one by one, then answers; fills forms of memory as it is told to.

    Attributes:
        said: makes the points of a form's reply, or the reply's text, of what is shown.
        decisions, asked: the requests for decisions, and those of the memory.
    """

    def __init__(self, said: Callable[[str], Any] = lambda text: [f"{text.count(LONG)} soundings"]) -> None:
        self.said = said
        self.decisions: list[str] = []
        self.asked: list[str] = []

    def model(self, **profile: Any) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self, profile=ModelProfile(model="scripted", **profile) if profile else None)

    def __call__(self, request: ModelRequest) -> ModelResponse:
        text = seen(request)
        form = request.settings.output_schema
        if form is not None:
            self.asked.append(text)
            said = self.said(text)
            first, after = form["properties"]
            return say(said if isinstance(said, str) else json.dumps({first: said, after: ["Go on."]}))
        if not request.tools:
            return say("They sounded the harbour.")
        self.decisions.append(text)
        last = max(place for place, m in enumerate(request.messages) if "<task>" in m.text)
        turn = request.messages[last:]
        task = re.findall(r"<task>\s*Sound ([a-z ]+)", text)[-1].split()
        done = [one.arguments["place"] for m in turn for one in m.tool_calls if one.name == "sound"]  # type: ignore[index]
        left = [one for one in task if one not in done and f"sounded {one}" not in text]
        goes_on = left and "<last_step>" not in text
        return decide(calls=[call("sound", place=left[0])] if goes_on else [call("done", answer="sounded")])


def workspace(folder: Path, sailor: Any, **options: Any) -> Workspace[Any]:
    """A workspace whose agents have these parts."""
    model = options.pop("model", None) or sailor.model()
    more = options.pop("settings", {})
    parts = {name: options.pop(name) for name in [*options] if name in PartSettings.model_fields}
    settings = Settings(model="scripted", system="react", parts=PartSettings(**parts), **more)
    given = {"tools": [sound], "environ": {}, "settings": settings, "models": {"scripted": model}}
    return Workspace(folder / "ws", **{**given, **options})


async def entries(ws: Workspace[Any], run: str, kind: str = "") -> list[Entry]:
    """What a run wrote."""
    return [one for one in written(await records(ws, run)) if kind in ("", one.kind)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "system",
    ["agentorchestra", "aorchestra", *(pytest.param(one, marks=pytest.mark.long) for one in ("oagents", "coral"))],
)
async def test_a_setting_puts_it_into_any_system(tmp_path: Path, system: str) -> None:
    shown: list[str] = []

    def answers(request: ModelRequest) -> ModelResponse:
        if request.settings.output_schema is not None:
            return say("{}")
        shown.append(seen(request))
        end = next(one.name for one in request.tools if one.name in ("done", "complete", "submit_answer"))
        return decide(calls=[call(end, answer="5 fathoms")])

    for long_term in (True, False):
        shown.clear()
        async with workspace(tmp_path / str(long_term), None, model=ScriptedModel(answers), long_term=long_term) as ws:
            for task in ("Sound the pier.", "Sound the buoy."):
                assert (await ws.run(task, system=system, session="s")).answer == "5 fathoms"
        told = [one.partition("<earlier_steps>")[2] for one in shown]
        assert ["Answer (completed): 5 fathoms" in one for one in (told[0], told[-1])] == [False, long_term]


# -- a system of one's own ---------------------------------------------------------------------------------------------


class Watch:
    """Says before each decision how long the last step was."""

    name, version, description = "watch", "1.0.0", "Says how long the last step was."

    def __init__(self) -> None:
        self.steps: list[Happening] = []

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """Nothing is told."""
        return ()

    async def step(self, memory: Memory, event: Happening) -> None:
        """It is kept."""
        self.steps.append(event)

    async def end(self, memory: Memory, event: Happening) -> None:
        """Nothing is kept."""

    async def recall(self, memory: Memory) -> Sequence[Entry]:
        """How long the last step was, and how many are in view."""
        if not self.steps:
            return ()
        text = f"{len(self.steps[-1].text)} characters, {memory.in_view} of {len(self.steps)} in view"
        return [await memory.write("summary", text, of=self.steps[-1:])]


async def test_a_system_may_be_asked_before_each_decision(tmp_path: Path) -> None:
    sailor = Sailor()
    async with workspace(tmp_path, sailor, memories={"watch": Watch}) as ws:
        result = await ws.run("Sound pier buoy", memory="watch")
        texts = [one.text for one in await entries(ws, result.run_id)]
        assert (await ws.replay(result.run_id)).answer == "sounded"
    assert [text.partition(", ")[2] for text in texts] == ["1 of 1 in view", "2 of 2 in view"]
    assert int(texts[0].partition(" ")[0]) > len(LONG)  # a whole result
    # What it says stands in the next request and in no later one.
    assert texts[0] in sailor.decisions[1] and texts[0] not in sailor.decisions[2] and texts[1] in sailor.decisions[2]
    assert "what you remember that may help" in sailor.decisions[2]


# -- summary -----------------------------------------------------------------------------------------------------------


async def test_each_step_is_summed_up_whole_and_only_the_last_suggestion_is_shown(tmp_path: Path) -> None:
    sailor = Sailor(lambda text: [f"{len(re.findall('fathoms', text))} depth"])
    async with workspace(tmp_path, sailor, summary=True) as ws:
        result = await ws.run("Sound pier buoy")
        found = await entries(ws, result.run_id, "step")
        events = await entries(ws, result.run_id, "event")
        assert (await ws.replay(result.run_id)).answer == "sounded"
    # The end of a long result is summed up too.
    assert [one.text for one in found] == ["- 1 depth\nNext:\n- Go on."] * 2
    assert [one.covers for one in found] == [(one.ref,) for one in events[1:3]]
    # A page was read: what is said of it is trusted no further.
    assert {one.trust for one in found} == {Trust.UNTRUSTED}
    # A step that is still in view is not told a second time, but for the last one.
    assert [one.count("- 1 depth") for one in sailor.decisions] == [0, 1, 1]
    assert [one.count("Go on.") for one in sailor.decisions] == [0, 1, 1]
    assert result.usage.requests == len(sailor.decisions) + 2


async def test_a_suggestion_stands_there_for_one_step_also_where_the_next_has_none(tmp_path: Path) -> None:
    sailor = Sailor(lambda text: ["a depth"] if "pier" in text.partition("Step")[2] else "Hm.")
    async with workspace(tmp_path, sailor, summary=True) as ws:
        result = await ws.run("Sound pier buoy")
        assert len(await entries(ws, result.run_id, "step")) == 1
    assert [one.count("- a depth") for one in sailor.decisions] == [0, 1, 0]
    assert [one.count("Go on.") for one in sailor.decisions] == [0, 1, 0]


async def test_a_summary_stands_in_for_a_step_that_is_no_longer_in_view(tmp_path: Path) -> None:
    places = ["pier", "buoy", "reef", "cape", "bank", "shoal", "quay"]

    @tool(effect="pure")
    def sound(place: str) -> str:
        """Sound the depth of a place.

        Args:
            place: Its name.
        """
        return f"The depth of {place}. {'Nothing else. ' * 150}"

    shown: list[str] = []

    def sailor(request: ModelRequest) -> ModelResponse:
        if request.settings.output_schema is not None:
            (place,) = re.findall(r"The depth of (\w+)", seen(request))
            return say(json.dumps({"points": [f"{place} noted"], "suggestions": []}))
        if not request.tools:
            return say("They sounded the harbour.")
        done = len(shown)
        shown.append(seen(request))
        return decide(
            calls=[call("sound", place=places[done]) if done < len(places) else call("done", answer="sounded")]
        )

    model = ScriptedModel(sailor, profile=ModelProfile(model="scripted", context_window=7_000, max_tokens=400))
    async with workspace(tmp_path, None, model=model, tools=[sound], summary=True) as ws:
        assert (await ws.run("Sound the harbour.", max_steps=9)).answer == "sounded"
    assert ["pier noted" in one for one in shown][:3] == [False, True, False]
    assert "The depth of pier" in shown[2] and "The depth of pier" not in shown[-1] and "pier noted" in shown[-1]


BAD: dict[str, Any] = {
    "longer than the step": lambda text: ["long " * 1_000],
    "longer than an entry": lambda text: ["longer " * LONGEST_ENTRY],
    "empty": lambda text: "",
    "empty lists": lambda text: [],
    "no JSON": lambda text: "I would rather not.",
    "another form": lambda text: '{"points": "one", "known": 3}',
    "not texts": lambda text: [1, None, {}],
    "a list": lambda text: "[]",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reply", BAD)
async def test_a_reply_of_no_use_leaves_the_step_as_it_was(tmp_path: Path, reply: str) -> None:
    sailor = Sailor(BAD[reply])
    async with workspace(tmp_path, sailor, summary=True, long_term=True) as ws:
        result = await ws.run("Sound pier buoy")
        found = await entries(ws, result.run_id)
        assert (await ws.replay(result.run_id)).answer == "sounded"
    assert (result.status, result.answer, len(sailor.decisions)) == (RunStatus.COMPLETED, "sounded", 3)
    events = [one.text for one in found if one.kind == "event"]
    steps = [one.text.partition("\nNext:")[0] for one in found if one.kind == "step"]
    fused = [one.text.partition("\nNext:")[0] for one in found if one.kind == "long_term"]
    if "longer" in reply:  # the original stands there
        assert steps == events[1:3]
        assert fused == [
            f"Objective: Sound pier buoy\n{events[1]}",
            f"Objective: Sound pier buoy\n{events[1]}\n{events[2]}",
        ]
    else:
        assert set(steps) <= set(events) and fused == []


async def test_a_model_that_fails_ends_nothing(tmp_path: Path) -> None:
    def failing(text: str) -> Any:
        raise ModelRequestError("no such model today")

    sailor = Sailor(failing)
    async with workspace(tmp_path, sailor, summary=True, long_term=True, retrieval=True) as ws:
        result = await ws.run("Sound pier buoy")
        kinds = [one.kind for one in await entries(ws, result.run_id)]
        assert (await ws.replay(result.run_id)).answer == "sounded"
    assert (result.answer, kinds) == ("sounded", ["event"] * 4)


@pytest.mark.long
async def test_what_the_budget_refuses_leaves_room_for_the_answer(tmp_path: Path) -> None:
    ended = set()
    for tokens in (4_500, 7_000, 18_000):
        sailor = Sailor()
        model = sailor.model(max_tokens=400)
        async with workspace(tmp_path / str(tokens), sailor, model=model, summary=True, long_term=True) as ws:
            result = await ws.run("Sound pier buoy", budget=Budget(tokens=tokens))
            assert result.answer and result.usage.input_tokens + result.usage.output_tokens <= tokens, tokens
        ended.add(result.status)
    assert ended == {RunStatus.BUDGET_EXHAUSTED, RunStatus.COMPLETED}


# -- long term ---------------------------------------------------------------------------------------------------------


async def test_a_fusion_is_a_new_entry_that_covers_the_old_one(tmp_path: Path) -> None:
    def fused(text: str) -> list[str]:
        so_far = sum(int(one) for one in re.findall(r"Long-term memory so far\. Objective: .*\n- sounded (\d+)", text))
        return [f"sounded {so_far + text.count(LONG)}"]

    sailor = Sailor(fused)
    async with workspace(tmp_path, sailor, long_term=True) as ws:
        first = await ws.run("Sound pier buoy", session="s")
        one, two = await entries(ws, first.run_id, "long_term")
        second = await ws.run("Sound reef", session="s")
        (three,) = await entries(ws, second.run_id, "long_term")
        assert one.text == "Objective: Sound pier buoy\n- sounded 1\nNext:\n- Go on."
        assert "- sounded 2" in two.text and one.ref in two.covers
        # Another task goes on with it; what happened after the last fusion is taken in with its first step.
        assert three.text.startswith("Objective: Sound reef\n- sounded 3")
        assert f"{first.run_id}{two.ref}" in three.covers
        ended = next(one for one in await entries(ws, first.run_id, "event") if one.text.startswith("Answer"))
        assert f"{first.run_id}{ended.ref}" in three.covers
        told = sailor.decisions[3]
        assert "- sounded 2" in told and "Answer (completed): sounded" in told and "- sounded 1" not in told
        assert (await ws.replay(second.run_id)).answer == "sounded"
        # What is forgotten is not fused again from what it covered.
        await ws.memory.forget([f"{second.run_id}{three.ref}"])
        await ws.run("Sound cape", session="s")
    assert "sounded 3" not in sailor.decisions[-2] and "sounded 2" not in sailor.decisions[-2]


async def test_another_memory_of_the_run_writes_the_same_events_once(tmp_path: Path) -> None:
    sailor = Sailor()
    async with workspace(tmp_path, sailor, summary=True, retrieval=True, long_term=True) as ws:
        result = await ws.run("Sound pier buoy", memory="workflow", session="s")
        kinds = [one.kind for one in await entries(ws, result.run_id)]
        assert (await ws.replay(result.run_id)).answer == "sounded"
    assert kinds == ["event", "event", "long_term", "step", "event", "long_term", "step", "event", "summary"]


# -- retrieval ---------------------------------------------------------------------------------------------------------


async def test_a_step_that_is_no_longer_in_view_comes_back_where_it_is_like_the_last_one(tmp_path: Path) -> None:
    places = ["pier", "buoy", "reef", "cape", "bank", "shoal", "pier again"]

    @tool(effect="pure")
    def sound(place: str) -> str:
        """Sound the depth of a place.

        Args:
            place: Its name.
        """
        return f"{place} lies at the {place} mark, {len(place)} fathoms. {'Nothing else. ' * 150}"

    shown: list[str] = []

    def sailor(request: ModelRequest) -> ModelResponse:
        if not request.tools:
            return say("They sounded the harbour.")
        done = len(shown)
        shown.append(seen(request))
        if done < len(places):
            return decide(calls=[call("sound", place=places[done])])
        return decide(calls=[call("done", answer="sounded")])

    model = ScriptedModel(sailor, profile=ModelProfile(model="scripted", context_window=7_000, max_tokens=400))
    async with workspace(tmp_path, None, model=model, tools=[sound], retrieval=True) as ws:
        result = await ws.run("Sound the harbour.", max_steps=9)
        assert result.answer == "sounded"
        assert (await ws.replay(result.run_id)).answer == "sounded"
    recalled = [re.findall(r"no longer see.*?- Step (\d)", one, re.DOTALL) for one in shown]
    assert recalled[:3] == [[], [], []]  # while all is in view nothing is shown twice
    assert recalled[7] == ["1"] and shown[7].count("pier lies at the pier mark") == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("embeds", "like"), [(True, "reef"), (False, "buoy")])
async def test_with_an_embedding_model_its_likeness_counts(tmp_path: Path, embeds: bool, like: str) -> None:
    """The loopback server's vector of a text is how often each letter stands in it; by words both steps are alike."""
    sailor = Sailor()
    async with LoopbackModelServer("unused") as server:
        small = ModelProfile(model="openai:small", base_url=server.base_url, max_attempts=1, backoff_s=0.01)
        settings = {"embedding_model": "small" if embeds else "", "models": {"small": small}}
        async with workspace(tmp_path, sailor, retrieval=True, settings=settings) as ws:
            await ws.run("Sound buoy reef", session="s")
            result = await ws.run("Sound feer", session="s")
            found = of_kind(await records(ws, result.run_id), EffectKind.EMBED)
            # The task with what was there, at once; then each step: no text is embedded twice.
            assert [len(one.effect["arguments"]["texts"]) for one in found] == ([3, 1] if embeds else [])
            count = server.count
            assert (await ws.replay(result.run_id)).answer == "sounded"
            assert server.count == count
    assert f'"place": "{like}"' in sailor.decisions[3].partition("no longer see")[2]


@pytest.mark.long
async def test_an_embedding_model_that_fails_leaves_it_to_words(tmp_path: Path) -> None:
    sailor = Sailor()
    async with LoopbackModelServer([http_error(500)] * 8) as server:
        small = ModelProfile(model="openai:small", base_url=server.base_url, max_attempts=1, backoff_s=0.01)
        settings = {"embedding_model": "small", "models": {"small": small}}
        async with workspace(tmp_path, sailor, retrieval=True, settings=settings) as ws:
            await ws.run("Sound buoy reef", session="s")
            result = await ws.run("Sound reef again", session="s")
    assert result.answer == "sounded"
    assert '"place": "reef"' in sailor.decisions[3].partition("no longer see")[2]


# -- rivals, forks -----------------------------------------------------------------------------------------------------

RIVALS: list[Any] = [
    pytest.param({"candidates": 2}, marks=pytest.mark.long),
    {"candidates": 2, "width": 2},
    pytest.param({"rollouts": 2, "choose": "outcome"}, marks=pytest.mark.long),
    {"rollouts": 2, "candidates": 2, "choose": "outcome"},
]


@pytest.mark.parametrize("rivals", RIVALS, ids=str)
async def test_what_the_loser_of_rivals_remembered_is_not_written(tmp_path: Path, rivals: dict[str, Any]) -> None:
    shown: list[str] = []

    @tool(effect="pure")
    def sound(place: str) -> str:
        """Sound the depth of a place.

        Args:
            place: Its name.
        """
        return f"{place}: {LONG}"

    def sailor(request: ModelRequest) -> ModelResponse:
        text = seen(request)
        form = request.settings.output_schema
        if form is not None and "points" in form["properties"]:
            points = [*dict.fromkeys(re.findall(r"Step \d: sound .*?(\w+-\d)", text))]
            return say(json.dumps({"points": points, "suggestions": []}))
        if form is not None and "known" in form["properties"]:
            marks = dict.fromkeys(re.findall(r"\w+-\d", text))
            return say(json.dumps({"known": [" ".join(marks)], "next": []}))
        if form is not None:
            last = re.findall(r"(good|bad)-\d", text)[-1]
            return say(json.dumps({"score": 9 if last == "good" else 1, "analysis": ""}))
        shown.append(text)
        number = re.search(r"This is proposal (\d+)/", text)
        step = len([m for m in request.messages if m.role == "tool"]) + 1
        if step > 3:
            return decide(calls=[call("done", answer=" ".join(sorted({*re.findall(r"good-\d", text)})))])
        good = "good" if number is None or number[1] == "2" else "bad"
        return decide(calls=[call("sound", place=f"{good}-{step}")])

    model = ScriptedModel(sailor)
    async with workspace(tmp_path, None, model=model, tools=[sound], summary=True, long_term=True, **rivals) as ws:
        result = await ws.run("Sound the harbour.", session="s")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "good-1 good-2 good-3")
        found = await entries(ws, result.run_id)
        count = len(model.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        assert len(model.requests) == count
    assert not any("bad" in one.text for one in found)
    assert [one.text.partition("\n")[0] for one in found if one.kind == "step"] == ["- good-1", "- good-2", "- good-3"]
    assert [one.text.rpartition("\n")[2] for one in found if one.kind == "long_term"] == [
        "- good-1",
        "- good-1 good-2",
        "- good-1 good-2 good-3",
    ]
    assert len({one.id for one in found}) == len(found)
    assert any("- good-1 good-2 good-3" in one for one in shown)


async def test_a_fork_goes_on_with_what_was_remembered_up_to_there(tmp_path: Path) -> None:
    sailor = Sailor()
    async with workspace(tmp_path, sailor, summary=True, retrieval=True, long_term=True) as ws:
        result = await ws.run("Sound pier buoy", session="s")
        fused = [
            e.seq for e in await ws.log.events(result.run_id) if e.type == "completed" and "long_term" in str(e.body)
        ]
        fork = await ws.fork(result.run_id, at=fused[-1])
        again = await ws.resume(fork)
        assert again.answer == "sounded"
        assert [one.text for one in await entries(ws, fork)] == [one.text for one in await entries(ws, result.run_id)]
        assert (await ws.replay(fork)).answer == "sounded"
