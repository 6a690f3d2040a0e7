"""The handler of InvokeTool: outcomes, trust, limits, cutting - most of it through the door."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from agentorchestra.core.budget import Bound
from agentorchestra.core.content import MediaBlock, Source, TextBlock, Trust, text_of
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import (
    BudgetExhaustedError,
    ModelUnavailableError,
    SuspendedError,
    ToolError,
    UnknownComponentError,
)
from agentorchestra.core.protocols import Handler, RunContext
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.handler import ToolHandler, effect_for
from agentorchestra.tea.calling.threads import Threads
from agentorchestra.tea.calling.tool import Tool, tool, tool_from_schema
from tests.support.patience import LONGEST_S
from tests.tea.support import AnyTool, ToolBench, seen


@tool(effect="pure")
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


# -- the effect of a call ----------------------------------------------------------------------------------------------


def test_the_effect_carries_what_the_tool_says() -> None:
    @tool(effect=("read", "network"), version="1.2.0", timeout_s=5)
    def page(url: str, part: int = 1) -> str:
        """Read."""
        return url

    effect = effect_for(page, {"url": "u"}, role="researcher", provenance=seen(Trust.USER), timeout=3)
    assert (effect.kind, effect.component, effect.content_hash) == (
        EffectKind.INVOKE_TOOL, "page@1.2.0", page.content_hash,
    )  # fmt: skip
    assert effect.arguments == {"url": "u"}, "a default that is filled in would change the fingerprints of old logs"
    assert (effect.mode, effect.tags, effect.role) == (Mode.REPEATABLE, page.tags, "researcher")
    assert (effect.provenance, effect.timeout_s, effect.invalid) == (seen(Trust.USER), 3, None)
    assert effect.instance is None
    # It is put together without a check, so it has to have every field that there is.
    assert Effect.model_fields.keys() - effect.__dict__.keys() == set()
    assert effect == Effect.model_validate({name: getattr(effect, name) for name in Effect.model_fields})


async def test_what_was_checked_is_used_once() -> None:
    """A tool may change what it was given: the same effect performed again has its arguments as they were."""

    @tool(effect="pure")
    async def drain(items: list[int]) -> int:
        """Take everything out."""
        count = len(items)
        items.clear()
        return count

    handler = ToolHandler({"drain": drain}.get)
    effect = effect_for(drain, {"items": [1, 2]}, role="worker")
    assert [(await handler.execute(effect.model_copy(), None)).value for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "kept", "said"),
    [
        ({"a": "x"}, {"a": "x"}, "add: a: Input should be a valid integer"),
        ('{"a": 1', {"raw": '{"a": 1'}, "add: the arguments of add are not a JSON object"),
        ({"a": float("inf")}, {"raw": "{'a': inf}"}, "are not JSON"),
    ],
)
async def test_a_wrong_call_is_a_mistake_with_a_fingerprint(
    arguments: Any, kept: Any, said: str, tmp_path: Path
) -> None:
    effect = effect_for(add, arguments, role="r")
    assert effect.arguments == kept
    assert said in str(effect.invalid) and len(effect.fingerprint) == 64
    (outcome,) = await ToolBench([add], tmp_path).call((add, arguments))
    assert (outcome.status, outcome.error) == ("mistake", effect.invalid)


def test_it_is_a_handler() -> None:
    @tool(effect=("read", "spend"), max_cost_usd=0.25)
    def ask(question: str) -> str:
        """Ask a paid service."""
        return question

    handler = ToolHandler({"ask": ask}.get)
    effect = effect_for(ask, {"question": "?"}, role="r")
    assert isinstance(handler, Handler)
    assert handler.mode(effect) is Mode.ONCE
    assert handler.bound(effect) == Bound(cost_usd=0.25)
    gone = effect.model_copy(update={"component": "gone@1.0.0", "mode": Mode.PURE})
    assert (handler.mode(gone), handler.bound(gone)) == (Mode.PURE, Bound())


async def test_a_tool_that_is_gone(tmp_path: Path) -> None:
    outcome = await ToolHandler(lambda _: None).execute(effect_for(add, {"a": 1}, role="r"), None)
    assert outcome.error == "no tool 'add' is registered in this workspace"


async def test_a_tool_that_changed_since_the_call_was_checked() -> None:
    @tool(name="add")
    def other(x: str) -> str:
        """Another signature."""
        return x

    outcome = await ToolHandler({"add": other}.get).execute(effect_for(add, {"a": 1}, role="r"), None)
    assert outcome.status == "mistake" and "x: Field required; a: Extra inputs" in str(outcome.error)


async def test_an_agents_own_tool_comes_first() -> None:
    own = tool_from_schema(lambda a: "own", add.schema, effect="pure")
    call = SimpleNamespace(parent=SimpleNamespace(agent=SimpleNamespace(own_tools={"add": own})))
    handler = ToolHandler({"add": add}.get)
    assert (await handler.execute(effect_for(add, {"a": 1}, role="r"), call)).value == "own"


# -- values ------------------------------------------------------------------------------------------------------------


class Model(BaseModel):
    """A model."""

    n: int = 1
    at: datetime = datetime(2026, 1, 2, tzinfo=UTC)


@dataclasses.dataclass
class Data:
    """A dataclass."""

    path: Path = Path("a/b")


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (None, None),
        ("text", "text"),
        ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
        (Model(), {"n": 1, "at": "2026-01-02T00:00:00Z"}),
        (Data(), {"path": "a/b"}),
        ((1, {"x"}), [1, ["x"]]),
        ({1: b"bytes"}, {"1": "bytes"}),
        (float("nan"), "NaN"),
        ({"a": [float("-inf"), 1]}, {"a": ["-Infinity", 1]}),
        ([], []),
        (ToolResult(content={"a": 1}), {"a": 1}),
    ],
)
async def test_values_become_json(value: Any, recorded: Any, tmp_path: Path) -> None:
    @tool(effect="pure")
    def give() -> Any:
        """Give."""
        return value

    outcome = await ToolBench([give], tmp_path).one(give)
    assert (outcome.status, outcome.value) == ("ok", recorded)


@pytest.mark.parametrize("value", [object(), b"\xff\xfe", {"a": threading.Lock()}])
async def test_a_value_that_is_not_json(value: Any, tmp_path: Path) -> None:
    @tool(effect="write")
    def give() -> Any:
        """Give."""
        return value

    outcome = await ToolBench([give], tmp_path).one(give)
    assert outcome.status == "error"
    assert f"tool give ran, but its result of type {type(value).__name__} is not JSON" in str(outcome.error)


async def test_blocks_sources_and_artifacts(tmp_path: Path) -> None:
    picture = MediaBlock(media_type="image/png", sha256="0" * 64, size=3, name="a.png")

    @tool(effect="pure")
    async def give(ctx: RunContext[Any], how: str) -> ToolResult:
        """Give."""
        if how == "blocks":
            return ToolResult(content=[TextBlock(text="a", trust=Trust.SYSTEM), picture], trust=Trust.USER)
        if how == "block":
            return ToolResult(content=TextBlock(text="a"), artifacts=(await ctx.artifact("a.txt", b"a", "text/plain"),))
        sources = (Source(kind="web", ref="http://x", place="p. 1"), Source(kind="web", ref="http://y"))
        return ToolResult(content="both", sources=sources)

    bench = ToolBench([give], tmp_path)
    blocks, block, cited = await bench.call(*((give, {"how": how}) for how in ("blocks", "block", "cited")))
    first, second = blocks.blocks()
    assert (first.trust, second) == (Trust.USER, picture), "nothing in a result is trusted further than the result"
    assert first.source is None, "a note of the tool's own is no content from outside"
    (only,) = block.blocks()
    assert only == TextBlock(text="a", source=Source(kind="tool", ref="give")), "what is not said to be one is"
    assert [(one.name, one.size, one.media_type) for one in block.artifacts] == [("a.txt", 1, "text/plain")]
    assert [one.source.ref for one in cited.blocks() if one.source] == ["http://x", "http://y"]
    assert text_of(cited.blocks()) == "both\nSource: http://y"


# -- trust -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "view", "trust"),
    [
        ("pure", Trust.SYSTEM, Trust.AGENT),
        ("pure", Trust.USER, Trust.AGENT),
        ("pure", Trust.UNTRUSTED, Trust.UNTRUSTED),
        ("execute", Trust.USER, Trust.UNTRUSTED),  # what it ran may have read anything
        (("pure", "execute"), Trust.USER, Trust.AGENT),
        ("send", Trust.USER, Trust.UNTRUSTED),  # a server's answer, its errors
        ("write", Trust.UNTRUSTED, Trust.UNTRUSTED),
        ("read", Trust.USER, Trust.UNTRUSTED),
        (("read", "network"), Trust.USER, Trust.UNTRUSTED),
        ("network", Trust.USER, Trust.UNTRUSTED),
        ("composite", Trust.USER, Trust.UNTRUSTED),
        (None, Trust.USER, Trust.AGENT),  # the developer's own, who was only warned
        (None, Trust.UNTRUSTED, Trust.UNTRUSTED),
    ],
)
async def test_trust_comes_from_what_a_tool_touches_and_what_was_in_view(
    effect: Any, view: Trust, trust: Trust, tmp_path: Path
) -> None:
    @tool(effect=effect)
    def say(fail: bool = False, given: Trust | None = None) -> Any:
        """Say."""
        if fail:
            raise ToolError("no")
        return ToolResult(content="yes", trust=given)

    bench = ToolBench([say], tmp_path)
    outcomes = await bench.call(
        (say, {}), (say, {"fail": True}), (say, {"given": "user"}), (say, {"given": "system"}), provenance=seen(view)
    )
    assert [one.trust for one in outcomes] == [trust, trust, Trust.USER, Trust.USER]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (ToolError("give a city"), "ToolError", "give a city"),
        (UnknownComponentError("the run has no file 'x'"), "UnknownComponentError", "the run has no file 'x'"),
        (ValueError("bad\nsecond line"), "ValueError", "tool fail failed: ValueError: bad"),
        (KeyError(), "KeyError", "tool fail failed: KeyError"),
        (TimeoutError("slow server"), "TimeoutError", "tool fail failed: TimeoutError: slow server"),
        (ValueError("x" * 900), "ValueError", f"tool fail failed: ValueError: {'x' * 487}…"),
        (ExceptionGroup("many", [ValueError(1)]), "ExceptionGroup", "tool fail failed: ExceptionGroup: many (1 sub-"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_tool_raises_becomes_a_sentence(
    error: Exception, kind: str, sentence: str, is_async: bool, tmp_path: Path
) -> None:
    fail = _raising(error, is_async=is_async)
    outcome = await ToolBench([fail], tmp_path).one(fail)
    assert (outcome.status, outcome.error_type) == ("error", kind)
    assert str(outcome.error).startswith(sentence) and "second" not in str(outcome.error)


async def test_a_long_sentence_is_cut(tmp_path: Path) -> None:
    fail = _raising(ToolError("x" * 90), is_async=True)
    outcome = await ToolBench([fail], tmp_path, max_result_chars=50).one(fail)
    assert outcome.error == "x" * 50 + "\n[cut: 40 characters left out]"


def _raising(error: BaseException, *, is_async: bool, effect: Any = "write") -> AnyTool:
    def plain() -> None:
        raise error

    async def later() -> None:
        raise error

    return tool(name="fail", effect=effect)(later if is_async else plain)


@pytest.mark.parametrize(
    "error",
    [
        SuspendedError("waits"),
        BudgetExhaustedError("no money"),
        ModelUnavailableError("down"),
        ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [SuspendedError("waits")])]),
    ],
)
async def test_what_concerns_the_run_goes_up(error: Exception) -> None:
    fail = _raising(error, is_async=True, effect="composite")
    with pytest.raises(SuspendedError if isinstance(error, ExceptionGroup) else type(error)):
        await ToolHandler({"fail": fail}.get).execute(effect_for(fail, {}, role="r"), None)


async def test_sys_exit_does_not_end_the_process(tmp_path: Path) -> None:
    for is_async in (True, False):
        fail = _raising(SystemExit(3), is_async=is_async)
        outcome = await ToolHandler({"fail": fail}.get).execute(effect_for(fail, {}, role="r"), None)
        assert "SystemExit: 3" in str(outcome.error)


async def test_a_task_cancelled_inside_the_tool_is_the_tools_failure() -> None:
    @tool(effect="write")
    async def waits() -> None:
        """Wait for something that is cancelled."""
        task = asyncio.create_task(asyncio.sleep(10))
        task.cancel()
        await task

    outcome = await ToolHandler({"waits": waits}.get).execute(effect_for(waits, {}, role="r"), None)
    assert outcome.error == "tool waits failed: a task it waited for was cancelled"


async def test_cancelling_the_call_goes_through() -> None:
    started = asyncio.Event()

    @tool(effect="write")
    async def waits() -> None:
        """Wait."""
        started.set()
        await asyncio.sleep(10)

    call = asyncio.create_task(ToolHandler({"waits": waits}.get).execute(effect_for(waits, {}, role="r"), None))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# -- time limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "workspace", "effect", "said"),
    [(0.05, 60.0, None, "0.05 s"), (None, 0.06, None, "0.06 s"), (60.0, 60.0, 0.07, "0.07 s")],
)
async def test_a_coroutine_is_stopped_at_its_limit(
    own: float | None, workspace: float, effect: float | None, said: str
) -> None:
    stopped = asyncio.Event()

    @tool(effect="write", timeout_s=own)
    async def slow() -> None:
        """Wait."""
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    handler = ToolHandler({"slow": slow}.get, timeout_s=workspace)
    outcome = await handler.execute(effect_for(slow, {}, role="r", timeout=effect), None)
    assert (outcome.status, outcome.error) == ("timeout", f"slow was stopped after its time limit of {said}")
    assert stopped.is_set()


async def test_a_plain_function_over_its_limit_is_not_said_to_have_stopped() -> None:
    go = threading.Event()
    ended = threading.Event()

    @tool(effect="write", timeout_s=0.05)
    def slow() -> None:
        """Wait."""
        assert go.wait(LONGEST_S)
        ended.set()

    handler = ToolHandler({"slow": slow}.get)
    outcome = await handler.execute(effect_for(slow, {}, role="r"), None)
    assert outcome.status == "timeout"
    assert "slow has not returned within its time limit of 0.05 s" in str(outcome.error)
    assert "it may still do its work. Check before calling it again" in str(outcome.error)
    go.set()
    await handler.aclose()
    assert ended.is_set()


async def test_composites_have_no_limit_but_their_own() -> None:
    @tool(effect="composite")
    async def team() -> str:
        """Takes its time."""
        await asyncio.sleep(0.05)
        return "done"

    assert (await ToolHandler({"team": team}.get, timeout_s=0.01).execute(effect_for(team, {}, role="r"), None)).ok


async def test_too_many_plain_functions_wait_and_then_say_so() -> None:
    started, go = threading.Event(), threading.Event()

    @tool(effect="write", timeout_s=LONGEST_S)
    def first() -> None:
        """Wait."""
        started.set()
        assert go.wait(LONGEST_S)

    @tool(effect="write", timeout_s=0.1)
    def second() -> None:
        """Do nothing."""

    handler = ToolHandler({"first": first, "second": second}.get, threads=Threads(1))
    running = asyncio.create_task(handler.execute(effect_for(first, {}, role="r"), None))
    await asyncio.to_thread(started.wait, LONGEST_S)
    waited = await handler.execute(effect_for(second, {}, role="r"), None)
    assert waited.error == "second was not started within 0.1 s: 1 functions are running already"
    go.set()
    await running
    await handler.aclose()


async def test_plain_functions_do_not_block_each_other(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=LONGEST_S)

    @tool(effect="write")
    def meet() -> int:
        """Wait for the other one."""
        return both.wait()

    outcomes = await ToolBench([meet], tmp_path).call((meet, {}), (meet, {}), together=True)
    assert sorted(one.value for one in outcomes if isinstance(one.value, int)) == [0, 1]


async def test_a_function_may_ask_for_the_loops_thread(tmp_path: Path) -> None:
    @tool(effect="pure", thread=False)
    def where() -> bool:
        """Tell."""
        return threading.current_thread() is threading.main_thread()

    assert (await ToolBench([where], tmp_path).one(where)).value is True


# -- long results ------------------------------------------------------------------------------------------------------


async def _cut(value: Any, tmp_path: Path, **options: Any) -> tuple[Outcome, bytes]:
    @tool(effect="pure", **options)
    def long() -> Any:
        """Give much."""
        return value

    bench = ToolBench([long], tmp_path, max_result_chars=100)
    outcome = await bench.one(long)
    whole = await bench.store.get_blob(outcome.artifacts[0].sha256) if outcome.artifacts else b""
    return outcome, whole


async def test_a_long_text_is_cut_and_kept(tmp_path: Path) -> None:
    outcome, whole = await _cut("é" * 5000, tmp_path)
    assert whole.decode() == "é" * 5000
    ref = outcome.artifacts[0]
    assert (ref.name, ref.media_type) == ("1-long.txt", "text/plain; charset=utf-8")
    note = (
        "\n[cut: 4,900 of 5,000 characters left out here, from start=75 on; the whole result is kept as the artifact "
        "1-long.txt, which read_artifact reads in parts]\n"
    )
    assert outcome.value == "é" * 75 + note + "é" * 25


async def test_a_long_value_becomes_cut_json(tmp_path: Path) -> None:
    outcome, whole = await _cut({"b": list(range(100)), "a": 1}, tmp_path)
    assert whole.startswith(b'{"a":1,"b":[0,1,2')
    assert outcome.artifacts[0].media_type == "application/json"
    assert str(outcome.value).startswith('{"a":1,"b":[0,1,2') and str(outcome.value).endswith("97,98,99]}")


async def test_blocks_are_cut_where_their_text_is_longer_than_it_may_be(tmp_path: Path) -> None:
    for last, cut in ((38, False), (39, True)):  # with what stands between the two texts
        blocks = [TextBlock(text="a" * 60), MediaBlock(media_type="image/png", sha256="0" * 64, size=3)]
        outcome, whole = await _cut([*blocks, TextBlock(text="b" * last)], tmp_path / str(last))
        assert bool(outcome.artifacts) is cut and bool(whole) is cut


async def test_blocks_keep_their_sources_when_they_are_cut(tmp_path: Path) -> None:
    blocks = [
        TextBlock(text="a" * 60, source=Source(kind="file", ref="a")),
        MediaBlock(media_type="image/png", sha256="0" * 64, size=3),
        TextBlock(text="b" * 60, source=Source(kind="file", ref="b")),
        TextBlock(text="c" * 60, source=Source(kind="file", ref="c")),
    ]
    outcome, whole = await _cut(blocks, tmp_path)
    first, picture, second, note, third = outcome.blocks()
    assert (first, picture) == (blocks[0], blocks[1])
    assert isinstance(second, TextBlock) and (second.text, second.source) == ("b" * 13, Source(kind="file", ref="b"))
    assert isinstance(third, TextBlock) and (third.text, third.source) == ("c" * 25, Source(kind="file", ref="c"))
    assert "[cut: 84 of 184 characters left out here, from start=75 on" in text_of([note])
    assert whole.decode() == "\n\n".join(("a" * 60, "b" * 60, "c" * 60))
    assert whole.decode()[75:][:3] == "bbb" and whole.decode()[75 + 84 :] == "c" * 25


@pytest.mark.parametrize(("value", "options"), [("x" * 100, {}), ("x" * 101, {"cut": False})])
async def test_what_is_not_cut(value: str, options: dict[str, Any], tmp_path: Path) -> None:
    outcome, _ = await _cut(value, tmp_path, **options)
    assert (outcome.value, outcome.artifacts) == (value, ())


# -- money, state ------------------------------------------------------------------------------------------------------


async def test_what_a_call_cost(tmp_path: Path) -> None:
    @tool(effect=("read", "spend"), max_cost_usd=0.5)
    def ask(says: bool) -> Any:
        """Ask a paid service."""
        return ToolResult(content="a", cost_usd=0.125) if says else "a"

    said, unsaid = await ToolBench([ask], tmp_path).call((ask, {"says": True}), (ask, {"says": False}))
    assert (said.usage.cost_usd, unsaid.usage.cost_usd) == (0.125, 0.5)


async def test_calls_of_a_sequential_tool_see_each_others_state(tmp_path: Path) -> None:
    def count(ctx: RunContext[Any]) -> int:
        """Count the calls."""
        known = ctx.vars.get("count", 0)
        assert isinstance(known, int)
        ctx.vars["count"] = known + 1
        return known + 1

    for sequential, expected in ((True, [1, 2, 3]), (False, [1, 1, 1])):
        counter = tool(effect="pure", thread=False, sequential=sequential)(count)
        bench = ToolBench([counter], tmp_path)
        outcomes = await bench.call(*[(counter, {})] * 3, together=True)
        assert [one.value for one in outcomes] == expected


async def test_a_composite_tool_performs_effects_and_a_replay_enters_it(tmp_path: Path) -> None:
    @tool(effect="composite")
    async def twice(ctx: RunContext[Any], a: int) -> int:
        """Add twice."""
        once = await ctx.perform(effect_for(add, {"a": a}, role="twice"))
        (again,) = await ctx.perform_all([effect_for(add, {"a": once.value}, role="twice")])
        assert isinstance(again.value, int)
        return again.value

    bench = ToolBench([add, twice], tmp_path)

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(effect_for(twice, {"a": 1}, role="agent"))).value)

    assert (await bench.drive(main)).answer == "3"
    replayed = await bench.bench.replay(main)
    assert replayed is not None and replayed.answer == "3"


def test_a_tool_prints_as_what_it_is() -> None:
    one: Tool = add
    assert repr(one) == "<Tool add@1.0.0 pure>"
