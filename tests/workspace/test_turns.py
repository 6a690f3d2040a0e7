"""A session is a conversation: its turns go on with what the one before left, and allow nothing by themselves."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Provenance
from agentorchestra.core.errors import RunOverError, SessionBusyError, SessionError
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.models.render import render_message
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.sessions import conversations

REACT: dict[str, Any] = {"system": "react"}


def turn_of(request: ModelRequest) -> tuple[str, list[Message]]:
    """The last task, as it stands in the prompt, and what came back since."""
    tasks = [place for place, one in enumerate(request.messages) if "<task>" in one.text or one.name == "task"]
    words = re.search(r"<task>\n(.*?)\n</task>", request.messages[tasks[-1]].text, re.DOTALL)
    return words[1] if words else "", [one for one in request.messages[tasks[-1] :] if one.role == "tool"]


def worker(request: ModelRequest) -> ModelResponse:
    """Does what a task spells out, a call a step, and answers with the last result."""
    task, results = turn_of(request)
    steps = [one for one in task.split("; ") if one.partition(" ")[0] in STEPS]
    if len(results) < len(steps):
        name, _, rest = steps[len(results)].partition(" ")
        return decide(calls=[STEPS[name](rest)])
    return decide(calls=[call("done", answer=results[-1].text.splitlines()[-1] if results else "nothing to do")])


STEPS: dict[str, Callable[[str], Any]] = {
    "run": lambda rest: call("python", code=rest),
    "open": lambda rest: call("open_tools", names=[rest]),
    "write": lambda rest: call("files_write", path="notes.md", content=rest, overwrite=True),
    "show": lambda rest: call("files_read", path=rest),
    "read": lambda rest: call("read_file", name=rest),
    "mail": lambda rest: call("send_report", to=rest),
    "wait": lambda rest: call("consult", question=rest),
    "fetch": lambda rest: call("read_board"),
}


@tool(effect="send")
async def send_report(to: str) -> str:
    """Send the report.

    Args:
        to: the address.
    """
    return f"sent to {to}"


@tool(effect="read")
async def read_board() -> str:
    """Read the board, on which anybody may write."""
    return "The code is 4711."


async def test_three_turns_share_files_folder_variables_tools_and_the_front_of_the_prompt(tmp_path: Path) -> None:
    model, lease = ScriptedModel(worker), tmp_path / "lease.txt"
    lease.write_text("The rent is 900 euros.\n")
    options: dict[str, Any] = {"model": model, "environments": ["files"], **REACT}
    async with Workspace(tmp_path / "ws", environ={}) as ws:
        session = ws.session("flat")
        first = await session.run("run x = 900; open read_artifact; write twelve months", files=[lease], **options)
        lease.unlink()  # what the session has it keeps
        second = await session.run("run print(x * 12); show notes.md; read lease.txt", **options)
        assert (first.status, second.answer) == (RunStatus.COMPLETED, "1\tThe rent is 900 euros."), second
        middle = model.requests[-1]
        assert turn_of(middle)[1][0].text == "10800"
        assert "twelve months" in turn_of(middle)[1][1].text
        third = await session.run("run print(x + 1)", **options)
        assert third.answer == "901"
        records = [one.manifest for one in await session.turns()]
        assert [one.previous for one in records] == [None, first.run_id, second.run_id]
        assert [[file.name for file in one.files] for one in records] == [["lease.txt"]] * 3
        # Every request begins with the whole one before it, but for that one's last message.
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            assert after.messages[: len(before.messages) - 1] == before.messages[:-1]
            assert [one.name for one in after.tools][: len(before.tools)] == [one.name for one in before.tools]
        assert "read_artifact" in [one.name for one in model.requests[-1].tools]
        quoted = [
            block for one in middle.messages for block in one.content if "rent is 900" in getattr(block, "text", "")
        ]
        assert {(one.source.ref, one.trust) for one in quoted if one.source} == {("lease.txt", Trust.UNTRUSTED)}
        # A turn replays by itself, and its session branches at it.
        await ws.store.delete_runs([first.run_id])
        assert (await ws.replay(second.run_id)).answer == second.answer
        fork = await ws.fork(second.run_id)
        branch = ws.session(fork)
        assert (await ws.resume(fork, model=model)).answer == second.answer
        other = await branch.run("run print(x - 1)", **options)
        assert other.answer == "899"
        assert [one.id for one in await branch.turns()] == [fork, other.run_id]
        assert [one.id for one in await session.turns()] == [second.run_id, third.run_id]


async def test_earlier_words_allow_nothing_and_what_was_read_keeps_its_source(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": ScriptedModel(worker), **REACT}
    async with Workspace(tmp_path / "ws", store=MemoryStore(), tools=[send_report, read_board], environ={}) as ws:
        session = ws.session("mails")
        first = await session.run("mail ann@example.org; fetch it", **options)
        assert (first.status, first.answer) == (RunStatus.COMPLETED, "The code is 4711.")
        second = await session.run("mail ann@example.org; send the report", **options)
        assert second.status is RunStatus.COMPLETED  # this turn's own words

        def repeats(request: ModelRequest) -> ModelResponse:
            results = turn_of(request)[1]
            return decide(calls=[call("send_report", to="ann@example.org") if not results else call("done")])

        third = await session.run("Do once more what I asked for first.", model=ScriptedModel(repeats), **REACT)
        assert third.status is RunStatus.WAITING
        (question,) = third.questions
        assert "ann@example.org" in json.dumps(question.details)
        begins = Ledger.of(await ws.log.events(third.run_id)).begins
        assert begins is not None
        assert Provenance(kind="tool", ref="read_board", trust=Trust.UNTRUSTED) in begins.sources
        with pytest.raises(
            SessionBusyError, match=rf"the turn {third.run_id} of the session 'mails' waits, .* answer what"
        ):
            await session.run("And now?", **options)
        await ws.cancel(third.run_id)
        fourth = await session.run("What now?", **options)  # what it did not come to is said
        assert fourth.answer == "nothing to do"
        shown = [one.text for one in options["model"].requests[-1].messages]
        assert "The work on this task stopped here (cancelled)." in shown


async def test_two_turns_at_once_are_refused_by_whoever_comes_second(tmp_path: Path) -> None:
    folder, held, go = tmp_path / "ws", asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def gate() -> str:
        """Wait."""
        held.set()
        await go.wait()
        return "open"

    waits = ScriptedModel([decide(calls=[call("gate")]), decide(calls=[call("done", answer="through")])])
    async with Workspace(folder, tools=[gate], environ={}) as ws, Workspace(folder, environ={}) as other:
        under_way = asyncio.create_task(ws.run("Wait.", session="s", model=waits, **REACT))
        await held.wait()
        with pytest.raises(SessionBusyError, match="is under way, and the next one goes on from its end: wait for it"):
            await other.run("And?", session="s", model=ScriptedModel(worker), **REACT)
        with pytest.raises(SessionError, match=r"cannot be erased now: run_.* is under way"):
            await other.session("s").erase()
        go.set()
        first = await under_way
        # Both have seen the same end: the store lets one of them begin.
        pair = [one.run("run 1", session="s", model=ScriptedModel(worker), **REACT) for one in (ws, other)]
        ended = await asyncio.gather(*pair, return_exceptions=True)
        refused = [one for one in ended if isinstance(one, SessionBusyError)]
        assert len(refused) + sum(getattr(one, "status", "") == "completed" for one in ended) == 2
        assert [one.manifest.previous for one in await ws.session("s").turns()][:2] == [None, first.run_id]


async def test_a_file_given_again_takes_its_new_content_and_another_one_gets_a_name_of_its_own(tmp_path: Path) -> None:
    model, note, other = ScriptedModel(worker), tmp_path / "note.txt", tmp_path / "b" / "note.txt"
    other.parent.mkdir()
    note.write_text("one\n")
    other.write_text("three\n")
    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        session = ws.session("s")
        await session.run("read note.txt", files=[note], model=model, **REACT)
        note.write_text("two\n")
        assert (await session.run("read note.txt", model=model, **REACT)).answer == "1\tone"
        again = await session.run("read note.txt", files=[note, other], model=model, **REACT)
        assert again.answer == "1\ttwo"
        record = (await session.turns())[-1].manifest
        assert [one.name for one in record.files] == ["note.txt", "note-2.txt"]
        told = next(one.text for one in model.requests[-1].messages[::-1] if one.name == "task")
        assert "Given again, with other content than before in this session: note.txt." in told
        assert "note-2.txt" in told
        same = await session.run("read note-2.txt", files=[note], model=model, **REACT)
        newest = await ws.store.get_run(same.run_id)
        assert same.answer == "1\tthree" and newest is not None and not newest.manifest.given


async def test_a_run_that_is_over_reads_nothing_and_is_gone_on_from_by_its_id(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": ScriptedModel(worker), **REACT}
    async with Workspace(tmp_path / "ws", environ={}) as ws:
        first = await ws.run("run y = 5", **options)
        with pytest.raises(RunOverError, match=rf"`agentorchestra run --continue {first.run_id} "):
            await ws.tell(first.run_id, "more")
        session = ws.session(first.run_id)
        second = await session.run("run print(y + 1)", **options)
        assert second.answer == "6"
        assert (
            await ws.session(second.run_id).run("run print(y + 2)", **options)
        ).answer == "7"  # a turn's id names it
        assert len(await session.turns()) == 3
        gone = await session.erase(grace_s=0)
        assert len(gone.runs) == 3 and await ws.runs.list() == []
        with pytest.raises(SessionError, match="there is no session"):
            await session.erase()


@pytest.mark.long
async def test_fifty_turns_stay_in_the_window_with_what_the_user_said_first(tmp_path: Path) -> None:
    def talks(request: ModelRequest) -> ModelResponse:
        if not request.tools:
            return ModelResponse(text="They spoke of numbers.")
        task, results = turn_of(request)
        if not results:
            return decide(calls=[call("read_board")])
        return decide(calls=[call("done", answer=f"About {task}: {'word ' * 60}")])

    @tool(effect="read")
    async def read_board() -> str:
        """Read the board."""
        return "line on the board\n" * 60

    profile = ModelProfile(model="talker", context_window=16_000)
    model = ScriptedModel(talks, profile=profile)
    async with Workspace(tmp_path / "ws", store=MemoryStore(), tools=[read_board], environ={}) as ws:
        session = ws.session("long")
        await session.run("Always answer in roman numerals.", model=model, **REACT)
        for number in range(2, 51):
            result = await session.run(f"Question {number}.", model=model, **REACT)
            assert result.status is RunStatus.COMPLETED
        last = [one for one in model.requests if one.tools][-1]
        words = [one.text for one in last.messages if one.name == "task"]
        assert "Always answer in roman numerals." in last.messages[1].text
        assert sum(len(render_message(one)) for one in last.messages) < 3 * 16_000
        assert "Question 50." in words[-1] and len(words) == 49
        (summary,) = [one for one in last.messages if one.name == "summary"]
        assert summary.content[0].trust is Trust.UNTRUSTED  # made of the board's words, too


async def test_the_providers_cache_serves_the_turns(tmp_path: Path) -> None:
    sent: list[str] = []

    def answers(body: dict[str, Any]) -> Any:
        whole = json.dumps([body["tools"], body["messages"]])
        common = max((_common(whole, one) for one in sent), default=0)
        sent.append(whole)
        reply = decide(calls=[call("done", answer="It is 900 euros.")])
        usage = {"prompt_tokens": len(whole) // 4, "cached_tokens": common // 4}
        return _with_cached(reply, usage)

    async with LoopbackModelServer(answers) as server:
        profile = ModelProfile(model="openai:any", base_url=server.base_url, price=None, api_key_env="KEY")
        settings = Settings(models={"m": profile}, model="m", system="react")
        async with Workspace(tmp_path / "ws", settings=settings, environ={"KEY": "x"}) as ws:
            lease = tmp_path / "lease.txt"
            lease.write_text("The rent is 900 euros.\n")
            session, shares = ws.session("s"), []
            for task in ("What is the rent?", "And with heating?", "Since when?", "Until when?"):
                usage = (await session.run(task, files=[lease])).usage
                shares.append(usage.cache_read_tokens / usage.input_tokens)
    assert shares[0] == 0 and min(shares[2:]) >= 0.8, shares


def _common(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _with_cached(reply: Any, usage: dict[str, int]) -> Any:
    from agentorchestra.core.budget import Usage

    return reply.model_copy(
        update={
            "usage": Usage(
                input_tokens=usage["prompt_tokens"], output_tokens=20, cache_read_tokens=usage["cached_tokens"]
            )
        }
    )


async def test_another_system_or_model_takes_the_session_over(tmp_path: Path) -> None:
    def plain(request: ModelRequest) -> ModelResponse:
        shown = "\n".join(map(render_message, request.messages))
        assert "Called python" in shown and "4" in shown
        return decide(calls=[call("done", answer="seen in words")])

    def once(request: ModelRequest) -> ModelResponse:
        shown = "\n".join(map(render_message, request.messages))
        return ModelResponse(text=f"told of it: {'run print(2 + 2)' in shown}")

    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        session = ws.session("s")
        await session.run("run print(2 + 2)", model=ScriptedModel(worker), **REACT)
        words = await session.run("What was it?", model=ScriptedModel(plain, native_tools=False), **REACT)
        assert words.answer == "seen in words"
        direct = await session.run("What was it?", model=ScriptedModel(once), system="direct")
        assert direct.answer == "told of it: True"
        notes = [one.body["message"] for one in await ws.log.events(direct.run_id) if one.type == "noted"]
        assert notes == ["direct takes over the session's files, folder and last answers, not its conversation"]
        model = ScriptedModel(worker)
        assert (await session.run("run print(1)", model=model, system="agentorchestra")).answer == "1"
        shown = "\n".join(map(render_message, model.requests[0].messages))
        assert all(one in shown for one in ("print(2 + 2)", "seen in words", "told of it: True"))


async def test_an_agent_that_gets_the_users_words_of_a_later_turn_is_told_what_was_before(tmp_path: Path) -> None:
    def team(request: ModelRequest) -> ModelResponse:
        results = turn_of(request)[1]
        if any(one.name == "clerk" for one in request.tools):
            return decide(calls=[call("done", answer=results[-1].text) if results else call("clerk")])
        return decide(calls=[call("done", answer=f"was told: {'answer was blue' in request.messages[1].text}")])

    clerk = Agent("clerk", "Knows colours.", tools=())
    async with Workspace(tmp_path / "ws", store=MemoryStore(), agents=[clerk], environ={}) as ws:
        first = ScriptedModel([decide(calls=[call("done", answer="The answer was blue.")])])
        await ws.run("Which colour?", session="s", model=first, system="react")
        second = await ws.run("And why?", session="s", model=ScriptedModel(team), system="agentorchestra")
        assert "was told: True" in second.answer
        assert (await ws.replay(second.run_id)).answer == second.answer_text


async def test_what_was_told_to_a_turn_at_work_is_part_of_the_conversation_in_every_system(tmp_path: Path) -> None:
    def speaks(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("done", answer="Red.")]) if request.tools else ModelResponse(text="Red.")

    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        options = {"experts": ["deep_analyzer", "deep_researcher"], "rounds": 1}
        first = await ws.create(
            "Which colour?", begins=True, session="s", model=ScriptedModel(speaks), system="debate", options=options
        )
        await ws.tell(first, "It is for a door.")
        await ws.resume(first)
        for system in ("direct", "react"):
            model = ScriptedModel(speaks)
            await ws.run("And why?", session="s", model=model, system=system)
            shown = "\n".join(map(render_message, model.requests[0].messages))
            asked, told, answered = (shown.index(one) for one in ("Which colour?", "It is for a door.", "Red."))
            assert asked < told < answered, system


async def test_what_code_began_is_no_conversation_and_one_that_was_branched_has_the_turns_before(
    tmp_path: Path,
) -> None:
    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        model = ScriptedModel(worker)
        first = await ws.run("one", model=model, session="s", **REACT)
        await ws.run("alone", model=model, **REACT)
        await ws.run("two", model=model, session="s", **REACT)
        fork = await ws.fork(first.run_id)
        await ws.resume(fork, model=model)
        await ws.run("other", model=model, session=fork, **REACT)
        for label in ("schedule", "evaluation", "probe"):
            await ws.run(label, model=model, labels={label: "x"}, **REACT)
        talks = [[one.manifest.task for one in turns] for turns in await conversations(ws.store)]
        assert talks == [["one", "other"], ["one", "two"], ["alone"]]
