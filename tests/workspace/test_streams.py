"""What a stream tells of the answer: when a run ends, the deltas since the last `retracted` are its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.runtime.bus import Notice
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.models.support import KEY


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return f"nothing at {place}"


def deltas(notices: list[Notice]) -> list[str]:
    """The pieces of the answer, as somebody has them who takes away what is retracted."""
    kept: list[str] = []
    for notice in notices:
        if notice.kind == "retracted":
            kept.clear()
        elif notice.kind == "delta":
            kept.append(notice.text)
    return kept


def thoughts(notices: list[Notice]) -> str:
    return "".join(one.text for one in notices if one.kind == "thinking")


async def over_http(folder: Path, *replies: Any, **options: Any) -> list[Notice]:
    """The notices of a run whose model streams over HTTP."""
    async with LoopbackModelServer(list(replies)) as server:
        profile = ModelProfile(model="local", base_url=server.base_url, api_key_env="LOCAL_KEY", stream=True)
        settings = Settings(models={"local": profile})
        async with Workspace(folder, tools=[look], settings=settings, environ={"LOCAL_KEY": KEY}) as ws:
            return [one async for one in ws.stream("Look.", system="react", model="local", **options)]


async def test_words_beside_a_call_are_retracted(tmp_path: Path) -> None:
    beside = ModelResponse(text="I will look there first.", tool_calls=(call("look", place="home"),))
    notices = await over_http(tmp_path / "ws", beside, say("There is nothing at home, in four rooms."))
    kinds = [one.kind for one in notices if one.kind in ("delta", "retracted")]
    first = kinds.index("retracted")
    assert kinds[:first] and set(kinds[:first]) == {"delta"} and kinds.count("retracted") == 1
    started = [i for i, one in enumerate(notices) if one.event is not None and "look" in str(one.event.body)]
    assert notices.index(next(one for one in notices if one.kind == "retracted")) < started[-1]
    pieces = deltas(notices)
    assert len(pieces) > 2 and "".join(pieces) == notices[-1].result.answer


async def test_the_argument_of_the_finishing_call_streams(tmp_path: Path) -> None:
    answer = 'It is "four":\nfirst two, then two more, \u00e9 and nothing else.'
    done = ModelResponse(text="I am done.", thinking="two and two", tool_calls=(call("done", answer=answer),))
    notices = await over_http(tmp_path / "ws", done, finish="done")
    pieces = deltas(notices)
    assert len(pieces) > 1 and "".join(pieces) == answer == notices[-1].result.answer
    assert "retracted" not in [one.kind for one in notices]  # words are no answer where a call is asked for
    assert thoughts(notices) == "two and twoI am done."


@pytest.mark.sampled(2)
@pytest.mark.parametrize("opening", ["<think>two and two\nis four</think>\n", ""])
async def test_thoughts_in_the_text_are_no_answer(tmp_path: Path, opening: str) -> None:
    notices = await over_http(tmp_path / "ws", say(f"{opening}It is four, as everybody knows."))
    assert "".join(deltas(notices)) == notices[-1].result.answer == "It is four, as everybody knows."
    assert ("two and two" in thoughts(notices)) is bool(opening)


async def test_a_refused_answer_is_retracted_and_a_question_leaves_none(tmp_path: Path) -> None:
    @tool(effect="composite")
    async def consult(ctx: Any) -> str:
        """Ask."""
        return str(await ctx.ask("Which?"))

    unread = call("done", answer="a first answer", status="nonsense")
    model = ScriptedModel([unread, call("done", answer="a second one"), decide("hm", calls=[call("consult")])])
    async with Workspace(tmp_path / "ws", tools=[consult]) as ws:
        notices = [one async for one in ws.stream("x", system="react", model=model)]
        assert "".join(one.text for one in notices if one.kind == "delta") == "a first answera second one"
        assert "".join(deltas(notices)) == notices[-1].result.answer == "a second one"
        waiting = [one async for one in ws.stream("x", system="react", model=model)]
        assert deltas(waiting) == [] and "hm" in thoughts(waiting) and waiting[-1].result.status == "waiting"


@pytest.mark.parametrize("system", ["agentorchestra", "direct"])
async def test_of_every_system_the_deltas_are_the_answer(tmp_path: Path, system: str) -> None:
    """Texts of other agents and a plan are none of it; what did not stream comes as a whole."""
    async with Workspace(tmp_path / "ws") as ws:
        notices = [one async for one in ws.stream("What is 2 + 3?", system=system, model="offline")]
    assert "".join(deltas(notices)) == notices[-1].result.answer != ""
