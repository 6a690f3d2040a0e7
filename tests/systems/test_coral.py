"""CORAL: agents that write to each other, and how their work ends, whoever falls silent (003)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import RunContext, tool
from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import CoralSettings, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.systems import coral
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.support.patience import growing
from tests.systems.planning import results, shown

Script = Callable[[ModelRequest], ModelResponse | Awaitable[ModelResponse]]
WORKERS = ("planner", "web_agent", "document_agent", "coding_agent")


def is_main(request: ModelRequest) -> bool:
    """Whether the orchestrator is asked: who can submit."""
    return any(one.name == "submit_answer" for one in request.tools)


def who(request: ModelRequest) -> str:
    """Which of the others is asked."""
    return next(name for name in WORKERS if f"You are {name}." in request.messages[1].text)


def script(main: Script, **workers: Script) -> ScriptedModel:
    """One model for all; an agent without a script waits."""

    def reply(request: ModelRequest) -> Any:
        return main(request) if is_main(request) else workers.get(who(request), rests)(request)

    return ScriptedModel(reply)


def rests(request: ModelRequest) -> ModelResponse:
    """Has nothing to say."""
    return decide(calls=[call("wait_for_mention")])


def opens(*names: str, thread: str = "work") -> Any:
    """A call that opens a thread."""
    return call("create_thread", thread=thread, participants=list(names))


def writes(content: str, *names: str, thread: str = "work") -> Any:
    """A call that sends a message."""
    return call("send_message", thread=thread, content=content, mentions=list(names))


def waits(**timeout: float) -> Any:
    """A call that waits."""
    return call("wait_for_mention", **timeout)


def plays(*turns: list[Any], last: str = "done") -> Script:
    """An orchestrator that does this, decision by decision, and then submits."""
    taken = [0]

    def main(request: ModelRequest) -> ModelResponse:
        taken[0] += 1
        done = taken[0] > len(turns)
        return decide(calls=[call("submit_answer", answer=last)] if done else turns[taken[0] - 1])

    return main


def answers(content: str) -> Callable[[ModelRequest], ModelResponse]:
    """Sends this to the orchestrator for each message, then waits."""

    def worker(request: ModelRequest) -> ModelResponse:
        asked = [one for one in request.messages if one.role == "user" and one.text.startswith("coral in thread")]
        sent = sum(1 for one in results(request) if '"sent"' in one)
        return rests(request) if sent >= len(asked) else decide(calls=[writes(content, "coral")])

    return worker


async def society(tmp_path: Path, model: ScriptedModel, **rest: Any) -> tuple[RunResult, list[Event]]:
    """The run of one task and its log; its replay gives the same, and no task is left."""
    settings = Settings(coral=CoralSettings(**rest.pop("own", {})))
    models = {model.name: model, **rest.pop("models", {})}
    made = {name: rest.pop(name) for name in ("tools", "systems", "clock") if name in rest}
    before = asyncio.all_tasks()
    async with Workspace(tmp_path / "ws", models=models, settings=settings, **made) as ws:
        result = await ws.run("How many are there?", system="coral", model=model.name, **rest)
        if result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.BUDGET_EXHAUSTED):
            replayed = await ws.replay(result.run_id)
            assert (replayed.answer, replayed.status) == (result.answer_text, result.status)
        events = await ws.log.events(result.run_id)
    assert asyncio.all_tasks() <= before
    return result, events


def sent(events: list[Event]) -> list[dict[str, Any]]:
    """The messages that went out, in order."""
    started = {event.span: event.body["effect"] for event in events if event.body.get("effect")}
    ended = [
        event for event in events if event.type == "completed" and event.body["outcome"].get("status", "ok") == "ok"
    ]
    found = [started[event.span] for event in ended if event.span in started]
    mail = [one["arguments"] for one in found if one["kind"] == "SendMessage"]
    return [one for one in mail if "op" not in one]


class Seen:
    """What the orchestrator saw, decision by decision."""

    def __init__(self, main: Script) -> None:
        self.requests: list[ModelRequest] = []
        self._main = main

    def __call__(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        return self._main(request)

    @property
    def results(self) -> list[str]:
        """All that came back to it."""
        return results(self.requests[-1])


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_only_who_is_mentioned_wakes(tmp_path: Path) -> None:
    asked: list[str] = []

    def worker(request: ModelRequest) -> Any:
        asked.append(who(request))
        return answers("There are 7.")(request)

    main = Seen(plays([opens("coding_agent", "web_agent")], [writes("How many?", "coding_agent")], [waits()]))
    result, events = await society(tmp_path, script(main, **dict.fromkeys(WORKERS, worker)))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "done")
    assert set(asked) == {"coding_agent"}
    assert main.results[-1] == "coding_agent in thread 'work':\nThere are 7."
    assert [(one["sender"], one["to"]) for one in sent(events)] == [
        ("coral", ["coding_agent"]),
        ("coding_agent", ["coral"]),
    ]


async def test_messages_that_were_not_read_come_at_once_and_once(tmp_path: Path) -> None:
    main = Seen(
        plays(
            [opens("coding_agent", "web_agent")],
            [writes("How many?", "coding_agent", "web_agent")],
            [waits()],
            [waits()],
            [waits()],
        )
    )
    model = script(main, coding_agent=answers("7 of mine"), web_agent=answers("8 of mine"))
    await society(tmp_path, model)
    text = "\n".join(main.results)
    assert text.count("7 of mine") == 1 and text.count("8 of mine") == 1
    assert "Nobody is at work: all agents wait" in main.results[-1]


async def test_the_star_is_kept_by_the_mail_room(tmp_path: Path) -> None:
    said: list[str] = []

    def worker(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[writes("Look it up for me.", "web_agent")])
        said.extend(results(request))
        return answers("I cannot.")(request)

    turns = [[opens("coding_agent", "web_agent")], [writes("How many?", "coding_agent")], [waits()]]
    _, events = await society(tmp_path, script(plays(*turns), coding_agent=worker))
    assert "coding_agent writes to coral alone, which passes on what others need; mention coral" in said[0]
    assert [one["sender"] for one in sent(events)] == ["coral", "coding_agent"]


@pytest.mark.long
async def test_a_mesh_opens_it(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[writes("Look it up for me.", "web_agent")])
        return decide(calls=[writes("It is looked up.", "coral")]) if len(results(request)) == 1 else rests(request)

    turns = [[opens("coding_agent", "web_agent")], [writes("How many?", "coding_agent")], [waits()], [waits()]]
    model = script(plays(*turns), coding_agent=worker, web_agent=lambda request: say("Found: 7."))
    result, events = await society(tmp_path, model, own={"topology": "mesh"})
    assert result.status == RunStatus.COMPLETED
    pairs = {(one["sender"], *one["to"]) for one in sent(events)}
    assert {("coding_agent", "web_agent"), ("web_agent", "coding_agent")} <= pairs


async def test_mail_that_cannot_be_sent_is_an_observation(tmp_path: Path) -> None:
    main = Seen(
        plays(
            [opens("coding_agent")],
            [writes("x", "nobody"), opens("planner", thread="t1")],
            [writes("x", "coral"), opens("planner", thread="t2")],
            [writes("x", "web_agent"), opens("planner", thread="t3")],
            [writes(" ", "coding_agent"), opens("planner", thread="t4")],
            [writes("x" * 60_000, "coding_agent"), opens("planner", thread="t5")],
            [opens("coding_agent", thread="old")],
            [call("close_thread", thread="old", summary="It is over.")],
            [writes("x", "coding_agent", thread="old"), opens("planner", thread="t6")],
        )
    )
    result, events = await society(tmp_path, script(main))
    assert result.status == RunStatus.COMPLETED and not sent(events)
    wanted = ["no agent 'nobody'", "cannot mention itself", "web_agent does not take part", "is empty"]
    wanted += ["60,000 characters", "is closed"]
    refusals = [text for text in main.results if "done" not in text]
    assert len(refusals) == len(wanted)
    assert all(one in text for one, text in zip(wanted, refusals, strict=True)), refusals


async def test_a_message_that_mentions_nobody_is_refused(tmp_path: Path) -> None:
    main = Seen(plays([opens("coding_agent")], [writes("x")]))
    _, events = await society(tmp_path, script(main))
    assert "mentions" in main.results[-1] and not sent(events)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        {"sender": "coral", "thread": "work", "content": "Stop.", "to": ["web_agent"]},
        {"sender": "coral", "content": "Stop.", "to": ["web_agent"]},
        {"sender": "coding_agent", "content": "Stop.", "to": ["web_agent"]},
        {"content": "Stop.", "to": ["web_agent"]},
        {"op": "add", "thread": "work", "participant": "web_agent"},
        {"op": "found", "leader": "coding_agent", "members": {}, "topology": "mesh"},
    ],
)
async def test_a_tool_that_writes_mail_itself_cannot_forge_it(tmp_path: Path, arguments: dict[str, Any]) -> None:
    outcomes: list[Any] = []

    @tool(effect="composite", name="python")
    async def forge(code: str, ctx: RunContext[Any]) -> str:
        """Write mail.

        Args:
            code: Nothing.
        """
        effect = Effect(
            kind=EffectKind.SEND_MESSAGE, component="mail@1.0.0", arguments=arguments, mode=Mode.PURE, role="worker"
        )
        outcomes.append(await ctx.perform(effect))
        read = Effect(
            kind=EffectKind.WAIT,
            component="mail@1.0.0",
            arguments={"actor": "web_agent", "timeout_s": 0.0},
            mode=Mode.REPEATABLE,
            role="worker",
        )
        outcomes.append(await ctx.perform(read))
        return "tried"

    def worker(request: ModelRequest) -> ModelResponse:
        return answers("I tried.")(request) if results(request) else decide(calls=[call("python", code="1")])

    turns = [[opens("coding_agent", "web_agent")], [writes("Go.", "coding_agent")], [waits()]]
    model = script(plays(*turns), coding_agent=worker)
    _, events = await society(tmp_path, model, tools=[forge])
    assert outcomes and not any(one.ok for one in outcomes), outcomes
    assert "cannot read the mail of web_agent" in outcomes[1].error
    assert [one["content"] for one in sent(events)] == ["Go.", "I tried."]


# -- turns of a worker -------------------------------------------------------------------------------------------------


async def test_plain_words_go_to_whoever_asked(tmp_path: Path) -> None:
    main = Seen(plays([opens("coding_agent")], [writes("How many?", "coding_agent")], [waits()]))
    await society(tmp_path, script(main, coding_agent=lambda request: say("There are seven.")))
    assert main.results[-1] == "coding_agent in thread 'work':\nThere are seven."


async def test_a_reply_goes_besides_what_was_sent_before(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[writes("I begin.", "coral")])
        return decide(calls=[call("wait_for_mention", answer="There are seven.")])

    main = Seen(plays([writes("How many?", "coding_agent")], [waits()], [waits()]))
    _, events = await society(tmp_path, script(main, coding_agent=worker))
    assert [one["content"] for one in sent(events)] == ["How many?", "I begin.", "There are seven."]
    assert "There are seven." in main.results[-1]


async def test_a_message_and_the_wait_for_its_reply_go_out_in_one_step(tmp_path: Path) -> None:
    main = Seen(plays(*[[writes("How many?", "coding_agent"), waits()]] * 3))
    await society(tmp_path, script(main, coding_agent=lambda request: say("There are seven.")))
    replies = [one for one in main.results if "sent" not in one]
    assert replies == ["coding_agent in thread 'work':\nThere are seven."] * 3


async def test_who_has_the_terminal_has_no_other_shell(tmp_path: Path) -> None:
    offered: dict[bool, set[str]] = {}

    def worker(request: ModelRequest) -> ModelResponse:
        names = {one.name for one in request.tools}
        offered["terminal_run" in names] = names
        return say("There are seven.")

    for environments in ([], ["terminal"]):
        main = plays([writes("How many?", "coding_agent"), waits()])
        model = script(main, coding_agent=worker)
        await society(tmp_path / str(len(environments)), model, environments=environments)
    assert "bash" in offered[False] and "bash" not in offered[True]


@pytest.mark.long
async def test_words_that_are_too_long_are_cut_and_sent(tmp_path: Path) -> None:
    main = Seen(plays([opens("coding_agent")], [writes("How many?", "coding_agent")], [waits()]))
    await society(tmp_path, script(main, coding_agent=lambda request: say("many " * 20_000)))
    assert main.results[-1].startswith("coding_agent in thread 'work':\nmany many")
    assert main.results[-1].endswith("(The rest is cut.)")


async def test_the_step_limit_counts_per_message_and_what_there_is_is_sent(tmp_path: Path) -> None:
    steps: list[str] = []

    def worker(request: ModelRequest) -> ModelResponse:
        steps.append(request.messages[-1].text)
        if "Call `wait_for_mention` now" in request.messages[-1].text:
            return decide(calls=[call("wait_for_mention", answer=f"So far {len(steps)}.")])
        return decide(calls=[call("read_file", path=f"none-{len(steps)}.txt")])

    turns = [[opens("coding_agent")], [writes("Count.", "coding_agent"), waits()]]
    main = Seen(plays(*turns, [writes("Count again.", "coding_agent"), waits()]))
    await society(tmp_path, script(main, coding_agent=worker), own={"turn_steps": 3})
    assert len(steps) == 6
    heard = [text for text in main.results if text.startswith("coding_agent")]
    assert heard == ["coding_agent in thread 'work':\nSo far 3.", "coding_agent in thread 'work':\nSo far 6."]


async def test_a_worker_with_nothing_to_say_does_not_repeat_what_it_said_before(tmp_path: Path) -> None:
    said: list[str] = []

    def worker(request: ModelRequest) -> ModelResponse:
        said.append("")
        return say("There are seven.") if len(said) == 1 else rests(request)

    turns = [[opens("coding_agent")], [writes("How many?", "coding_agent"), waits()]]
    main = Seen(plays(*turns, [writes("Are you sure?", "coding_agent"), waits()]))
    await society(tmp_path, script(main, coding_agent=worker))
    assert main.results[-1] == "coding_agent in thread 'work':\nI have come to no result."


# -- agents that fall silent -------------------------------------------------------------------------------------------


async def never(request: ModelRequest) -> ModelResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("woken")


async def test_submitting_ends_agents_that_are_at_work(tmp_path: Path) -> None:
    turns = [[opens("coding_agent")], [writes("How many?", "coding_agent")], [waits(timeout_s=0.2)]]
    main = Seen(plays(*turns, last="7"))
    result, _ = await society(tmp_path, script(main, coding_agent=never))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "7")
    assert "Nobody has mentioned you within 0.2 seconds; at work: coding_agent. " in main.results[-1]


async def test_a_second_answer_cannot_be_submitted(tmp_path: Path) -> None:
    asked: list[int] = []

    def main(request: ModelRequest) -> ModelResponse:
        asked.append(1)
        return decide(calls=[call("submit_answer", answer="7"), call("submit_answer", answer="8")])

    result, _ = await society(tmp_path, script(main))
    assert result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL)
    assert result.answer in ("7", "8") and len(asked) == 1


async def test_who_waits_alone_is_woken_and_told(tmp_path: Path) -> None:
    main = Seen(plays([waits()]))
    await society(tmp_path, script(main))
    assert main.results == [
        "Nobody is at work: all agents wait, and nobody has written to you. Decide what comes next."
    ]


@pytest.mark.long
async def test_agents_that_thank_each_other_for_ever_end_with_the_time(tmp_path: Path) -> None:
    def thanks(request: ModelRequest) -> ModelResponse:
        return say("Thank you!")

    def first(request: ModelRequest) -> ModelResponse:
        if any("web_agent in thread" in one.text for one in request.messages):
            return thanks(request)
        return answers("I thank it.")(request) if results(request) else decide(calls=[writes("Thanks!", "web_agent")])

    def main(request: ModelRequest) -> ModelResponse:
        if last_decision(request):
            return decide(calls=[call("submit_answer", answer="They are polite.", status="partial")])
        back = len(results(request))
        if back == 0:
            return decide(calls=[opens("coding_agent", "web_agent")])
        return decide(calls=[writes("Go.", "coding_agent")] if back == 1 else [waits()])

    for seconds in growing(1.8):
        model, own = script(main, coding_agent=first, web_agent=thanks), {"topology": "mesh", "minutes": seconds / 60}
        result, events = await society(tmp_path / f"{seconds:g}", model, own=own)
        if len(sent(events)) > 4:
            break
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "They are polite.")
    assert len(sent(events)) > 4


async def test_an_agent_whose_model_is_out_of_service_is_named(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> ModelResponse:
        raise ModelAuthError("the model is switched off")

    turns = [[opens("coding_agent")], [writes("How many?", "coding_agent")], [waits()], [call("list_agents")]]
    main = Seen(plays(*turns, [writes("Are you there?", "coding_agent")]))
    models = {"broken": ScriptedModel(broken, name="broken")}
    result, _ = await society(tmp_path, script(main), models=models, roles={"worker": "broken"})
    assert result.status == RunStatus.COMPLETED
    waited, listed, refused = main.results[-3:]
    assert "an agent is lost" in waited and "coding_agent works no more" in waited and "switched off" in waited
    assert "coding_agent works no more" in listed and "planner: Thinks" in listed
    assert "coding_agent works no more" in refused and "ask another agent" in refused


async def test_an_agent_for_whom_the_budget_is_short_is_named_and_the_answer_comes(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("read_file", path=f"none-{len(results(request))}.txt")])

    def submits(request: ModelRequest) -> ModelResponse:
        back = len(results(request))
        if last_decision(request) or back == 3:
            return decide(calls=[call("submit_answer", answer="7")])
        if back == 0:
            return decide(calls=[opens("coding_agent")])
        return decide(calls=[writes("How many?", "coding_agent") if back == 1 else waits()])

    main = Seen(submits)
    result, _ = await society(tmp_path, script(main, coding_agent=worker), budget=Budget(steps=7))
    assert (result.status, result.answer) == (RunStatus.BUDGET_EXHAUSTED, "7")
    assert "coding_agent works no more: the run's budget of 7 steps" in main.results[-1]


# -- the end -----------------------------------------------------------------------------------------------------------


def last_decision(request: ModelRequest) -> bool:
    """Whether nothing can be done any more but submit."""
    return "Call `submit_answer` now" in request.messages[-1].text


def asks_and_waits(request: ModelRequest) -> ModelResponse:
    """Asks the web agent and the coding agent, and waits."""
    back = len(results(request))
    if back == 0:
        return decide(calls=[opens("coding_agent", "web_agent")])
    return decide(calls=[writes("How many?", "coding_agent", "web_agent")] if back == 1 else [waits()])


async def test_when_the_time_is_up_a_wait_ends_and_the_answer_is_asked_for(tmp_path: Path) -> None:
    def submits(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("submit_answer", answer="7")]) if last_decision(request) else asks_and_waits(request)

    for seconds in growing(1.2):
        main, own = Seen(submits), {"minutes": seconds / 60}
        model = script(main, coding_agent=never, web_agent=never)
        result, _ = await society(tmp_path / f"{seconds:g}", model, own=own)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "7")
        if len(main.results) == 3:  # it came to wait
            break
    assert "your time is up" in main.results[-1]
    assert "Your time is up: submit the best answer" in shown(main.requests[-1])


async def test_little_time_is_said_before_it_is_up(tmp_path: Path) -> None:
    warned = "Then the best answer that there is has to be submitted."
    for seconds in growing(2.0):
        turns = [[opens("coding_agent")], [writes("How many?", "coding_agent")], [waits(timeout_s=0.85 * seconds)]]
        main = Seen(plays(*turns))
        await society(tmp_path / f"{seconds:g}", script(main, coding_agent=never), own={"minutes": seconds / 60})
        if "Your time is up" not in shown(main.requests[0]) and warned not in shown(main.requests[0]):
            break
    assert warned not in shown(main.requests[0])
    assert warned in shown(main.requests[-1]) or "Your time is up" in shown(main.requests[-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", ["", "  "])
async def test_the_last_reply_is_the_answer_where_the_orchestrator_gives_none(tmp_path: Path, words: str) -> None:
    def silent(request: ModelRequest) -> ModelResponse:
        return say(words) if last_decision(request) else asks_and_waits(request)

    for seconds in growing(1.8):
        model = script(silent, coding_agent=answers("There are 7 of them."), web_agent=never)
        result, _ = await society(tmp_path / f"{seconds:g}", model, own={"minutes": seconds / 60})
        if result.answer_text:
            break
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "There are 7 of them.")
    assert "no answer was submitted" in result.report


async def test_an_orchestrator_that_never_submits_ends_with_its_best_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coral, "LEAST_STEPS", 5)

    def main(request: ModelRequest) -> ModelResponse:
        if last_decision(request):
            return say("Seven, I think.")
        return decide(calls=[call("create_thread", thread=f"t{len(results(request))}", participants=["planner"])])

    result, _ = await society(tmp_path, script(main), max_steps=5)
    assert (result.status, result.answer, result.steps) == (RunStatus.PARTIAL, "Seven, I think.", 5)
