"""The conversation of a society, read from its log: of a run that has ended, of one under way, of one that is none."""

from __future__ import annotations

from pathlib import Path

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.log.conversation import Conversation, conversation
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.systems.planning import results
from tests.systems.test_coral import answers, last_decision, opens, plays, script, society, waits, writes


async def test_a_run_gives_its_exchanges_in_the_order_of_the_log(tmp_path: Path) -> None:
    turns = [
        [opens("coding_agent")],
        [writes("How many?", "coding_agent"), writes("And you?", "web_agent"), waits()],
        [call("send_message", thread="work")],
        [call("add_participant", thread="work", participant="web_agent")],
        [call("remove_participant", thread="work", participant="web_agent")],
        [call("close_thread", thread="work", summary="There are 7.")],
    ]
    model = script(plays(*turns, last="7"), coding_agent=answers("There are 7."))
    result, events = await society(tmp_path, model)
    found = conversation(events)
    assert found is not None
    assert (found.task, found.leader, found.origin) == ("How many are there?", "coral", result.run_id)
    assert found.members["coding_agent"] == "Reasons, and writes and runs programs, on the files of the task too."
    rows = [(one.kind, one.sender, one.to, one.thread, one.content) for one in found.exchanges]
    assert rows == [
        ("create", "coral", ("coding_agent",), "work", ""),
        ("message", "coral", ("coding_agent",), "work", "How many?"),
        ("message", "coral", ("web_agent",), "work", "And you?"),
        ("message", "coding_agent", ("coral",), "work", "There are 7."),
        ("message", "coral", (), "", ""),
        ("add", "coral", ("web_agent",), "work", ""),
        ("remove", "coral", ("web_agent",), "work", ""),
        ("close", "coral", (), "work", "There are 7."),
        ("submit", "coral", (), "", "7"),
    ]
    assert [one.n for one in found.exchanges] == [*range(1, 10)]
    refused = {one.n: one.refused for one in found.exchanges if one.refused}
    assert [*refused] == [3, 5]
    assert "web_agent does not take part in 'work'" in refused[3] and "'content' is a required" in refused[5]
    seconds = [one.seconds for one in found.exchanges]
    assert seconds == sorted(seconds) and seconds[0] >= 0
    assert Conversation.of_lines(found.lines()) == found
    # Of a run under way, or one that was cut off, there is what was recorded: the beginning of the same.
    for length in range(1, len(events), 7):
        part = conversation(events[:length])
        assert part is None or found.exchanges[: len(part.exchanges)] == part.exchanges


async def test_an_agent_whose_model_is_away_is_lost(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> ModelResponse:
        raise ModelAuthError("the model is switched off")

    turns = [[opens("coding_agent")], [writes("How many?", "coding_agent")], [waits()]]
    models = {"broken": ScriptedModel(broken, name="broken")}
    _, events = await society(tmp_path, script(plays(*turns)), models=models, roles={"worker": "broken"})
    found = conversation(events)
    assert found is not None
    lost = [(one.sender, one.content) for one in found.exchanges if one.kind == "lost"]
    assert lost == [("coding_agent", "the model is switched off")]


async def test_an_agent_for_whom_the_budget_is_short_is_lost(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("read_file", path=f"none-{len(results(request))}.txt")])

    def main(request: ModelRequest) -> ModelResponse:
        back = len(results(request))
        if last_decision(request) or back == 3:
            return decide(calls=[call("submit_answer", answer="7")])
        return decide(calls=[[opens("coding_agent")], [writes("How many?", "coding_agent")], [waits()]][back])

    _, events = await society(tmp_path, script(main, coding_agent=worker), budget=Budget(steps=7))
    found = conversation(events)
    assert found is not None
    lost = [one for one in found.exchanges if one.kind == "lost"]
    assert [one.sender for one in lost] == ["coding_agent"] and "budget of 7 steps" in lost[0].content


async def test_a_run_without_a_society_has_none(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: say("7"))
    async with Workspace(tmp_path / "ws", models={model.name: model}) as ws:
        result = await ws.run("How many?", system="react", model=model.name, finish="text")
        assert conversation(await ws.log.events(result.run_id)) is None
