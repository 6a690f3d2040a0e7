"""A2T, T2A, A2E, E2A: memory by instance, what a caller may not do itself, moves against the rules, humans."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra import ActionEnvironment, Agent, Condition, RunContext, a2e, a2t, action, compose, e2a, t2a, tool
from agentorchestra.agents import identity as remembering
from agentorchestra.agents.transformations.a2e import human
from agentorchestra.agents.transformations.e2a import _move
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import AgentSpec, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.testing import ScriptedModel, call, decide
from tests.support.examples import examples
from tests.support.runs import whole_runs
from tests.tea.transformations.support import probed, workspace

SCRIBE = Agent(name="scribe", description="Writes down what it is told.", prompt="worker")


def remembers(request: ModelRequest) -> ModelResponse:
    """Says what its prompt says it was asked before."""
    text = "\n".join(one.text for one in request.messages)
    asked = re.findall(r"<asked>\s*(.*?)\s*</asked>", text, re.DOTALL)
    return decide(calls=[call("done", answer=" ".join(asked) or "-")])


async def test_an_instance_remembers_and_a_resume_asks_nothing_again(tmp_path: Path) -> None:
    crash = True
    asked = [("anna", "one"), ("bert", "two"), ("anna", "three"), ("", "four"), ("", "five"), ("anna", "six")]

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        said = []
        for index, (instance, task) in enumerate(asked):
            if crash and index == 3:
                raise RuntimeError("the process ends here")
            outcome = await ctx.call_tool("scribe", task=task, **({"instance": instance} if instance else {}))
            said.append(outcome.value)
        return said

    store = MemoryStore()
    async with workspace(tmp_path, probe, tools=a2t(SCRIBE), store=store) as ws:
        model = ScriptedModel(remembers)
        result = await ws.run("probe", system="probe", model=model)
        assert result.status is RunStatus.FAILED and len(model.requests) == 3
        crash = False
        model = ScriptedModel(remembers)
        result = await ws.resume(result.run_id, model=model)
        assert result.answer == "['-', '-', 'one', '-', '-', 'one three']"
        assert len(model.requests) == 3
        await ws.replay(result.run_id, model=ScriptedModel(remembers))
        actors = {event.actor for event in await ws.log.events(result.run_id)}
        assert {"scribe.anna", "scribe.bert", "scribe"} <= actors


async def test_a_tool_may_be_one_individual_and_a_bad_name_is_an_answer(tmp_path: Path) -> None:
    (anna,) = a2t(SCRIBE, name="anna", instance="anna")
    (anyone,) = a2t(SCRIBE)
    assert "instance" not in anna.schema.parameters["properties"]

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        told = [await ctx.call_tool("anna", task=task) for task in ("one", "two")]
        bad = await ctx.call_tool("scribe", task="x", instance="a/b")
        return [*(one.value for one in told), bad.error]

    async with workspace(tmp_path, probe, tools=[anna, anyone]) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(remembers))
    assert result.answer.startswith("['-', 'one', \"'a/b' cannot be an instance's name")


async def test_an_agent_that_remembers_does_so_without_an_instance(tmp_path: Path) -> None:
    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        return [
            (await ctx.call_agent(AgentSpec(system="diarist", name="diarist", instruction=one))).answer
            for one in ("one", "two")
        ]

    diarist = Agent(name="diarist", description="Keeps a diary.", prompt="worker", remembers=True)
    async with workspace(tmp_path, probe, agents=[diarist]) as ws:
        for expected in ("['-', 'one']", "['one two', 'one two one']"):
            result = await ws.run("probe", system="probe", model=ScriptedModel(remembers), session="s")
            assert result.answer == expected
            await ws.replay(result.run_id, model=ScriptedModel(remembers))
        other = await ws.run("probe", system="probe", model=ScriptedModel(remembers), session="other")
        assert other.answer == "['-', 'one']"


SENT: list[str] = []


@tool(effect="write")
def write_down(text: str) -> str:
    """Write something down."""
    SENT.append(text)
    return "written"


async def test_an_agent_has_its_parts_and_whoever_calls_it_has_not(tmp_path: Path) -> None:
    SENT.clear()
    hand = t2a([write_down], name="hand", objectives=("a full book",))
    assert (hand.description, hand.tools, hand.prompt) == ("Write something down.", ("write_down",), "actuator")

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        around = await ctx.call_tool("write_down", text="around")
        spec = AgentSpec(system="hand", name="hand", instruction="Write: hello", tools=hand.reach())
        through = await ctx.call_agent(spec)
        more = await ctx.call_agent(spec.model_copy(update={"tools": ("write_down", "bash")}))
        return [around.error, through.answer, more.report]

    def writes(request: ModelRequest) -> ModelResponse:
        replies = [one.text for one in request.messages if one.role == "tool"]
        return decide(calls=[call("done", answer=replies[0]) if replies else call("write_down", text="hello")])

    async with workspace(tmp_path, probe, agents=[hand]) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(writes))
        manifest = (await whole_runs(ws))[0].manifest
    assert "'write_down' is not among the tools this agent may use" in result.answer
    assert "'written'" in result.answer and SENT[0] == "hello"
    assert "write_down" in manifest.tools


class Stack(ActionEnvironment):
    """A stack of plates; at most three."""

    name = "stack"

    def __init__(self) -> None:
        self.plates: list[str] = []

    @action(before=[Condition("there is room for one more", lambda self, given: len(self.plates) < 3)])
    def put(self, plate: str) -> int:
        """Put one on top."""
        self.plates.append(plate)
        return len(self.plates)

    @action
    def smash(self) -> None:
        """Smash all."""
        self.plates = []


def waiter(request: ModelRequest) -> ModelResponse:
    """Puts a plate of its own on top when it is its turn."""
    replies = [one.text for one in request.messages if one.role == "tool"]
    return decide(calls=[call("done", answer=f"I: {replies[0]}") if replies else call("stack_put", plate="mine")])


async def test_moves_against_the_rules_are_refused_before_any_model_is_asked(tmp_path: Path) -> None:
    keeper = e2a(Stack, name="keeper", accepts=("put",))
    moves: list[Any] = [
        {"action": "smash"},
        {"action": "fly", "arguments": {}},
        {"action": "put", "arguments": {"plate": 5}},
        {"action": "put", "arguments": {"plate": "yours"}},
        {"action": "put", "arguments": {"plate": "again"}},
        {"action": "put", "arguments": {"plate": "too many"}},
    ]

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        said = []
        for move in moves:
            spec = AgentSpec(system="keeper", name="keeper", instruction=json.dumps(move), tools=keeper.reach())
            result = await ctx.call_agent(spec)
            said.append((result.status.value, result.answer or result.report))
        return said

    model = ScriptedModel(waiter)
    async with workspace(tmp_path, probe, agents=[keeper]) as ws:
        result = await ws.run("probe", system="probe", model=model)
        await ws.replay(result.run_id, model=ScriptedModel(waiter))
    for said in (
        "('blocked', \"'smash' is no move that stack accepts; it accepts: put\")",
        "('blocked', \"'fly' is no move that stack accepts; it accepts: put\")",
        "('blocked', \"put does not fit: plate: 5 is not of type 'string'\")",
        "('completed', 'I: 2')",  # after the other's plate it puts one of its own
        "('completed', 'I: stack does not allow put now: not true that there is room for one more')",
        "('blocked', 'stack does not allow put now: not true that there is room for one more')",
    ):
        assert said in result.answer
    assert len(model.requests) == 4  # two for each turn of its own


@settings(max_examples=examples(40))
@given(st.one_of(st.text(), st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["action", "arguments", "x"]), inner)).map(json.dumps)))  # fmt: skip
def test_any_message_is_a_move_or_words(text: str) -> None:
    found = _move(text)
    assert found is None or json.loads(text)["action"] == found[0]


async def test_others_act_in_an_agent_and_its_state_survives(tmp_path: Path) -> None:
    crash = True
    desk = a2e(SCRIBE, name="desk", rules="Say one thing at a time.")
    assert desk().rules() == "Say one thing at a time." and [one.name for one in desk().actions()] == ["tell"]

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        said: list[Any] = []
        for text in ("one", "two", "three"):
            if crash and text == "three":
                raise RuntimeError("the process ends here")
            outcome = await ctx.perform(action_effect(desk(), "tell", {"message": text}))
            said.append(outcome.value)
        shown = await ctx.perform(action_effect(desk(), "state", {}))
        return [*said, [getattr(one, "text", "") for one in shown.blocks()], [*ctx.vars]]

    async with workspace(tmp_path, probe, environments={"desk": desk}) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(remembers))
        crash = False
        result = await ws.resume(result.run_id, model=ScriptedModel(remembers))
        assert result.answer.startswith("['-', 'one', 'one two', ['one two']")
        assert "kept:" not in result.answer  # what it remembers is the environment's, not that of who acts
        await ws.replay(result.run_id, model=ScriptedModel(remembers))


async def test_an_environment_that_acts_by_itself_keeps_its_actions_as_an_environment(tmp_path: Path) -> None:
    table = compose(e2a.using(name="keeper", accepts=("put",)), a2e.using(name="table"))(Stack)
    assert [one.model_dump() for one in table().actions()] == [Stack().actions()[0].model_dump()]

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        outcomes = [await ctx.perform(action_effect(table(), "put", {"plate": "yours"})) for _ in range(3)]
        return [one.value or one.error for one in outcomes]

    async with workspace(tmp_path, probe, environments={"table": table}) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(waiter))
        await ws.replay(result.run_id, model=ScriptedModel(waiter))
    assert result.answer.startswith("['I: 2', 'I: stack does not allow put now")
    assert "it ended as blocked: stack does not allow put now" in result.answer


async def test_a_human_is_asked_and_may_refuse_to_answer(tmp_path: Path) -> None:
    reader = a2e(human("reader"), name="reader")

    async def probe(ctx: BranchContext[Any]) -> Any:
        return (await ctx.perform(action_effect(reader(), "tell", {"message": "Is it clear?"}))).value

    async with workspace(tmp_path, probe, environments={"reader": reader}) as ws:
        result = await ws.run("probe", system="probe", model="offline")
        assert result.status is RunStatus.WAITING
        (question,) = result.questions
        assert question.question == "Is it clear?"
        await ws.answer(result.run_id, "Not yet.", question=question.key)
        result = await ws.resume(result.run_id)
        assert result.answer == "Not yet."
        await ws.replay(result.run_id)


async def test_an_agent_without_an_answer_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async def give_up(spec: Any, ctx: Any, kit: Any) -> Any:
        from agentorchestra.core.spec import AgentResult

        return AgentResult(status=RunStatus.BLOCKED, report="no paper left")

    @tool(effect="composite")
    async def ask(ctx: RunContext[Any]) -> str:
        """Ask."""
        return str((await ctx.call_tool("lazy", task="write")).error)

    async def probe(ctx: BranchContext[Any]) -> Any:
        return (await ctx.call_tool("ask")).value

    lazy = Agent(name="lazy", description="Gives up.", drive=give_up)
    result = await probed(tmp_path, probe, tools=[ask, *a2t(lazy)])
    assert result.answer == "it ended as blocked: no paper left"


def test_what_an_agent_says_is_in_its_tool() -> None:
    from agentorchestra.agents.agent import Relationship

    rival = Agent(name="rival", description="Plays.", relationships=(Relationship("competitive", "worker"),))
    (one,) = a2t(rival)
    assert one.description == "Plays.\nRelationships: competes with worker."
    assert one.content_hash != a2t(SCRIBE)[0].content_hash
    with pytest.raises(ValueError):
        one.arguments_model.model_validate({"task": "x", "instance": "a" * 65})


async def test_an_agent_that_holds_what_its_caller_holds_does_so_behind_a_tool(tmp_path: Path) -> None:
    """Not the tool itself: it would ask itself for ever. Nor what every agent has of its own."""
    seen: list[set[str]] = []

    def looks(request: ModelRequest) -> ModelResponse:
        seen.append({one.name for one in request.tools})
        return decide(calls=[call("done", answer="seen")])

    async def probe(ctx: BranchContext[Any]) -> Any:
        return (await ctx.call_tool("anything", task="look")).value

    anything = Agent(name="anything", description="Does what you can.", prompt="worker", tools=None)
    async with workspace(tmp_path, probe, tools=[write_down, *a2t(anything)]) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(looks))
    assert result.answer == "seen"
    assert {"write_down", "done"} <= seen[0] and "anything" not in seen[0]


async def test_names_are_not_made_up_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "MOST_INSTANCES", 2)
    monkeypatch.setattr(remembering, "MOST_EXCHANGES", 2)

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        asked = [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("a", "5"), ("a", "6" * 5000), ("a", "7")]
        return [
            one.value or one.error
            for one in [await ctx.call_tool("scribe", task=task, instance=name) for name, task in asked]
        ]

    async with workspace(tmp_path, probe, tools=a2t(SCRIBE)) as ws:
        result = await ws.run("probe", system="probe", model=ScriptedModel(remembers))
    assert result.answer == str(
        ["-", "-", "scribe works under 2 names already; ask one of those, e.g. 'a'", "1", "1 4", "4 5",
         f"5 {'6' * remembering.LONGEST_TEXT}"]
    )  # fmt: skip
