"""A window that is smaller than the work: steps are summarised, calls and results stay in pairs."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolSchema, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, http_error, say
from agentorchestra.workspace import Workspace

WINDOW = 9_500
REPLY = 600
STEPS = 300
PROFILE = ModelProfile(model="scripted", context_window=WINDOW, max_tokens=REPLY)


@tool(effect="pure")
def page(number: int) -> str:
    """Read a page of the ledger.

    Args:
        number: which.
    """
    return f"page {number} holds the sum {number * 7}.\n" + f"nothing else on page {number}. " * 90


class Clerk:
    """Adds up the pages it sees. It knows only what stands in the prompt: sums that a summary loses are lost."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        text = "\n".join(message.text for message in request.messages)
        seen = {int(n): int(s) for n, s in re.findall(r"page (\d+) holds the sum (\d+)", text)}
        counted = [(int(n), int(s)) for n, s in re.findall(r"pages up to (\d+) hold (\d+)", text)]
        upto, total = max(counted, default=(0, 0))
        while upto + 1 in seen:
            upto, total = upto + 1, total + seen[upto + 1]
        if not request.tools:  # asked for a summary
            return say(f"pages up to {upto} hold {total}; the colour is {_colour(text)}")
        if upto >= self.steps:
            return decide(calls=[call("done", answer=f"{total} {_colour(text)}")])
        return decide(calls=[call("page", number=upto + 1)])


def _colour(text: str) -> str:
    found = re.search(r"[Tt]he colour is (\w+)", text)
    return found.group(1) if found else "unknown"


def assert_pairs(request: ModelRequest) -> None:
    """Every call has its result right behind it, every result its call."""
    open_: list[str] = []
    for message in request.messages:
        if message.role == "tool":
            assert message.tool_call_id in open_
            open_.remove(message.tool_call_id or "")
        else:
            assert open_ == []
            open_ = [one.id for one in message.tool_calls]
    assert open_ == []


@pytest.mark.long
async def test_three_hundred_steps_in_a_small_window(tmp_path: Path) -> None:
    clerk = Clerk(STEPS)
    model = ScriptedModel(clerk, profile=PROFILE)
    async with Workspace(tmp_path / "ws", tools=[page]) as ws:
        result = await ws.run(
            "Add up the pages. The colour is green.", model=model, system="react", max_steps=STEPS + 10
        )
        assert result.status is RunStatus.COMPLETED
        assert result.answer == f"{sum(7 * n for n in range(1, STEPS + 1))} green"
        assert result.steps == STEPS + 1
        assert max(estimate_input_tokens(one) for one in clerk.requests) + REPLY <= WINDOW
        for request in clerk.requests:
            assert_pairs(request)
        # A step that took nothing out begins with the prompt before it: the cache of the provider serves it.
        decisions = [one for one in clerk.requests if one.tools]
        grown = sum(
            after.messages[: len(before.messages) - 1] == before.messages[:-1] for before, after in pairwise(decisions)
        )
        summaries = len(clerk.requests) - len(decisions)
        assert 0 < summaries < STEPS / 3
        assert grown >= STEPS - summaries
        assert (await ws.replay(result.run_id)).answer == result.answer


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("share", "fewest", "most"), [(2.0, 3, 20), (0.5, 0, 0), (0.01, 1, 3)])
async def test_the_window_is_filled_as_the_model_counts(tmp_path: Path, share: float, fewest: int, most: int) -> None:
    """Of code a model counts more tokens than are estimated, of Chinese fewer; what counts a part only is no count."""
    clerk = Clerk(12)

    def counting(request: ModelRequest) -> ModelResponse:
        usage = Usage(requests=1, input_tokens=int(estimate_input_tokens(request) * share))
        return clerk(request).model_copy(update={"usage": usage})

    async with Workspace(tmp_path / "ws", tools=[page]) as ws:
        model = ScriptedModel(counting, profile=PROFILE)
        result = await ws.run("Add up the pages. The colour is green.", model=model, system="react", max_steps=20)
        assert result.answer == f"{sum(7 * n for n in range(1, 13))} green"
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert fewest <= sum(not one.tools for one in clerk.requests) <= most
    assert max(estimate_input_tokens(one) * share for one in clerk.requests) + REPLY <= WINDOW


async def test_without_room_for_compaction_the_facts_would_be_lost(tmp_path: Path) -> None:
    """The same work in a large window needs no summary."""
    clerk = Clerk(12)
    async with Workspace(tmp_path / "ws", tools=[page]) as ws:
        result = await ws.run("Add up the pages.", model=ScriptedModel(clerk), system="react")
        assert result.answer == f"{sum(7 * n for n in range(1, 13))} unknown"
        assert all(one.tools for one in clerk.requests)


@pytest.mark.long
async def test_what_the_user_says_in_between_stays_word_for_word(tmp_path: Path) -> None:
    clerk = Clerk(60)
    ws: Workspace[Any] = Workspace(tmp_path / "ws", tools=[page])

    async def model(request: ModelRequest) -> ModelResponse:
        if len(clerk.requests) == 3:
            (record,) = await ws.runs.list()
            await ws.tell(record.id, "By the way: the colour is amber now.")
        answer = clerk(request)
        if not request.tools:
            return say(answer.text.partition(";")[0])  # this summariser forgets the colour
        return answer

    async with ws:
        result = await ws.run(
            "Add up the pages.", model=ScriptedModel(model, profile=PROFILE), system="react", max_steps=80
        )
        assert result.answer == f"{sum(7 * n for n in range(1, 61))} amber"


async def test_a_summary_of_untrusted_content_is_untrusted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"Note {n} says alpha. {'word ' * 200}\n" for n in range(60)))

    def model(request: ModelRequest) -> ModelResponse:
        if not request.tools:
            return say("the notes were read")
        if "the notes were read" in request.messages[2].text:
            return decide(calls=[call("done", answer="read")])
        return decide(calls=[call("read_file", name="notes.txt", part=f"line {1 + len(request.messages)}")])

    scripted = ScriptedModel(model, profile=PROFILE.model_copy(update={"context_window": 5_000}))
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("Read.", files=[tmp_path / "notes.txt"], model=scripted, system="react", max_steps=40)
        assert result.answer == "read"
    summary = scripted.requests[-1].messages[2]
    assert summary.name == "summary"
    assert {block.trust.value for block in summary.content} == {"untrusted"}


@pytest.mark.long
async def test_a_summariser_of_its_own_role(tmp_path: Path) -> None:
    clerk = Clerk(40)
    helper = ScriptedModel(clerk, name="cheap", profile=PROFILE)
    main = ScriptedModel(clerk, name="dear", profile=PROFILE)
    async with Workspace(tmp_path / "ws", tools=[page], models={"cheap": helper}) as ws:
        result = await ws.run("Add up.", model=main, system="react", max_steps=60, roles={"summariser": "cheap"})
        assert result.status is RunStatus.COMPLETED
    assert helper.requests and all(not one.tools for one in helper.requests)
    assert all(one.tools for one in main.requests)


async def test_one_result_larger_than_the_window_is_cut_and_read_in_parts(tmp_path: Path) -> None:
    @tool(effect="pure")
    def dump() -> str:
        """Give everything."""
        return "x" * 60_000 + " the code is 4711 " + "y" * 60_000

    def model(request: ModelRequest) -> ModelResponse:
        text = request.messages[-2].text
        if "the code is" in text:
            return decide(calls=[call("done", answer=re.findall(r"the code is (\d+)", text)[0])])
        named = re.search(r"the artifact (\S+?),", text)
        if named:
            return decide(calls=[call("read_artifact", name=named.group(1), search="the code is")])
        return decide(calls=[call("dump")])

    scripted = ScriptedModel(model, profile=PROFILE)
    async with Workspace(tmp_path / "ws", tools=[dump]) as ws:
        result = await ws.run("Which code?", model=scripted, system="react")
        assert result.answer == "4711"
    assert max(estimate_input_tokens(one) for one in scripted.requests) + REPLY <= WINDOW


async def test_a_prompt_the_provider_finds_too_long_is_shortened(tmp_path: Path) -> None:
    """The server counts more tokens than the estimate: an observation, not the end."""
    clerk = Clerk(30)
    longest = 9_000
    refused: list[int] = []

    def script(body: dict[str, Any]) -> Any:
        chars = sum(len(str(message.get("content"))) for message in body["messages"])
        if chars > longest:
            refused.append(chars)
            return http_error(400, "The maximum context length is 3000 tokens.", code="context_length_exceeded")
        return clerk(_request_of(body))

    async with LoopbackModelServer(script) as server:
        profile = ModelProfile(model="local", base_url=server.base_url, context_window=16_000, max_tokens=REPLY)
        settings = Settings(models={"local": profile}, model="local")
        async with Workspace(tmp_path / "ws", tools=[page], settings=settings) as ws:
            result = await ws.run("Add up.", system="react", max_steps=60)
    assert result.answer == f"{sum(7 * n for n in range(1, 31))} unknown"
    assert 0 < len(refused) < 6


def _request_of(body: dict[str, Any]) -> ModelRequest:
    """As much of a request as the clerk looks at."""
    schemas = tuple(ToolSchema(name="any", description="", parameters={}) for _ in body.get("tools", ()))
    texts = [user(_text(message.get("content"))) for message in body["messages"]]
    return ModelRequest(model="local", messages=tuple(texts), tools=schemas)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content or ())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", [1_500, 3_000])
async def test_a_tiny_window_ends_with_an_answer_or_a_sentence(tmp_path: Path, window: int) -> None:
    clerk = Clerk(10)
    profile = ModelProfile(model="scripted", context_window=window, max_tokens=200)
    async with Workspace(tmp_path / "ws", tools=[page]) as ws:
        result = await ws.run("Add up.", model=ScriptedModel(clerk, profile=profile), system="react", max_steps=30)
        assert result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL)
