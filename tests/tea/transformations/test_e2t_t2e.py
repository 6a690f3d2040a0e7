"""E2T and T2E: schemas and results are kept, state is shared, conditions and rules are checked, runs resume."""

from __future__ import annotations

import ast
import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentorchestra import ActionEnvironment, Condition, RunContext, ToolError, action, compose, e2t, t2e, tool
from agentorchestra.core.effects import Effect, Outcome, Tag
from agentorchestra.core.errors import ToolDefinitionError, TransformationError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect, action_tags
from agentorchestra.tea.transformations.base import instance
from agentorchestra.tea.transformations.t2e import Rule
from agentorchestra.workspace import Workspace
from tests.runtime.counter import Counter
from tests.support.patience import LONGEST_S
from tests.tea.transformations.support import probed, workspace

TYPES: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "string", "maxLength": 5},
    {"type": "array", "items": {"type": "boolean"}},
    {"enum": ["a", "b"]},
]
VALUES: list[Any] = [7, "four", [True], "b"]


class Echo(ActionEnvironment):
    """Gives back what it is given, and how often it was asked."""

    name = "echo"
    schemas: tuple[ToolSchema, ...] = ()

    def __init__(self) -> None:
        self.asked = 0

    def actions(self) -> tuple[ToolSchema, ...]:
        """Those of the example."""
        return self.schemas

    def mutates(self, action: str) -> bool:
        """Always."""
        return True

    def tags(self, action: str) -> frozenset[Tag]:
        """Nothing else."""
        return frozenset()

    async def act(self, action: str, arguments: dict[str, Any], ctx: Any) -> Any:
        """What was asked."""
        self.asked += 1
        return [self.asked, action, arguments]


@st.composite
def environments(draw: Any) -> tuple[type[Echo], list[tuple[str, dict[str, Any]]]]:
    """An environment with any actions, and calls of them."""
    names = draw(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=4, unique=True))
    names = [one for one in names if one != "state"] or ["act"]
    schemas, calls = [], []
    for name in names:
        chosen = draw(st.lists(st.sampled_from(range(len(TYPES))), max_size=3, unique=True))
        needed = [f"p{one}" for one in chosen if draw(st.booleans())]
        properties = {f"p{one}": TYPES[one] for one in chosen}
        parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": needed}
        parameters["additionalProperties"] = False
        schemas.append(ToolSchema(name=name, description=draw(st.text(max_size=20)).strip(), parameters=parameters))
        calls.append((name, {f"p{one}": VALUES[one] for one in chosen}))
    kind = type("Echo", (Echo,), {"schemas": tuple(schemas)})
    return kind, draw(st.lists(st.sampled_from(calls), min_size=1, max_size=4))


def acts(environment: Environment, calls: list[tuple[str, dict[str, Any]]]) -> list[Effect]:
    return [action_effect(environment, name, arguments) for name, arguments in calls]


def said(outcome: Outcome) -> Any:
    return outcome.value if outcome.ok else outcome.error


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(environments())
async def test_e2t_then_t2e_keeps_schemas_and_results(tmp_path: Path, example: Any) -> None:
    kind, calls = example
    again = compose(e2t.using(state=False), t2e.using(name="again"))(kind)
    assert [one.model_dump() for one in again().actions()] == [one.model_dump() for one in kind().actions()]

    async def both(ctx: BranchContext[Any]) -> bool:
        first = await ctx.perform_all(acts(instance(kind), calls))
        second = await ctx.perform_all(acts(instance(again), calls))
        plain = [[index + 1, *call] for index, call in enumerate(calls)]
        # The second time it is the same instance, which has been asked before.
        later = [[len(calls) + index, *rest] for index, *rest in plain]
        return [said(one) for one in first] == [[a, b, c] for a, b, c in plain] and [said(one) for one in second] == [
            [a, b, c] for a, b, c in later
        ]

    result = await probed(tmp_path, both, environments={"echo": kind, "again": again})
    assert result.answer == "True"


class Door(ActionEnvironment):
    """A door."""

    name = "door"

    def __init__(self) -> None:
        self.is_open = False

    @action(after=[Condition("the door is open", lambda self, given, result: self.is_open)])
    def push(self, strength: int) -> str:
        """Push it.

        Args:
            strength: how hard.
        """
        self.is_open = strength > 5
        return "pushed"

    @action(before=[Condition("the door is open", lambda self, given: self.is_open)])
    async def enter(self, ctx: RunContext[Any]) -> str:
        """Go in."""
        return f"in, run {bool(ctx.run_id)}"


async def test_conditions_are_shown_and_checked(tmp_path: Path) -> None:
    tools = {one.name: one for one in e2t(Door)}
    assert tools["door_enter"].description == "Go in.\n\nBefore: the door is open."
    assert tools["door_push"].schema.parameters["properties"]["strength"]["description"] == "how hard."
    assert [one.name for one in e2t(Door, only=["push"], state=False)] == ["door_push"]
    assert Door().rules() == "A door.\n- enter: only when the door is open"

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        calls = [("door_enter", {}), ("door_push", {"strength": 1}), ("door_push", {"strength": 9}), ("door_enter", {})]
        told = [said(await ctx.call_tool(name, **arguments)) for name, arguments in calls]
        return [*told, said(await ctx.call_tool("door_push", strength="much"))]

    result = await probed(tmp_path, probe, tools=list(tools.values()))
    assert "door does not allow enter now: not true that the door is open" in result.answer
    assert "push was done on door, but then it was not true that the door is open" in result.answer
    assert "'pushed', 'in, run True'" in result.answer
    assert "'much' is not of type 'integer'" in result.answer


async def test_all_calls_of_one_decision_act_on_one_instance_in_listed_order(tmp_path: Path) -> None:
    tools = {one.name: one for one in e2t(Counter)}

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        build = ctx.run.services.tool_effect
        assert build is not None
        asked = [("counter_add", {"by": 1}), ("counter_look", {}), ("counter_add", {"by": 10}), ("counter_look", {})]
        return [one.value for one in await ctx.perform_all([build(n, a, ctx) for n, a in asked])]

    result = await probed(tmp_path, probe, tools=list(tools.values()))
    assert result.answer == "[1, 1, 11, 11]"


async def test_what_stands_behind_a_tool_is_reached_through_it_only(tmp_path: Path) -> None:
    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        through = await ctx.call_tool("counter_add", by=2)
        around = await ctx.perform(action_effect(Counter(), "add", {"by": 5}))
        return [through.value, around.status, around.error]

    result = await probed(tmp_path, probe, tools=e2t(Counter))
    assert result.answer.startswith("[2, 'denied', \"'counter' is not among the tools this agent may use")


async def test_the_state_survives_a_crash_and_acts_are_not_repeated(tmp_path: Path) -> None:
    crash = True
    built: list[str] = []

    @tool(effect="pure")
    def add(ctx: RunContext[Any], by: int) -> int:
        """Add."""
        built.append("add")
        ctx.vars["sum"] = int(str(ctx.vars["sum"])) + by
        return int(str(ctx.vars["sum"]))

    adder = t2e(
        [add], name="adder", state={"sum": 0}, rules={"add": Rule("below ten", lambda state: state["sum"] < 10)}
    )

    async def probe(ctx: BranchContext[Any]) -> Any:
        environment = adder()
        for by in (3, 4):
            await ctx.perform(action_effect(environment, "add", {"by": by}))
        if crash:
            raise RuntimeError("the process ends here")
        last = [await ctx.perform(action_effect(environment, "add", {"by": 5})) for _ in range(2)]
        shown = await ctx.perform(action_effect(environment, "state", {}))
        return [said(one) for one in last], shown.blocks()[0], "sum" in ctx.vars

    async with workspace(tmp_path, probe, environments={"adder": adder}) as ws:
        result = await ws.run("probe", system="probe", model="offline")
        assert result.status is RunStatus.FAILED and built == ["add"] * 2
        crash = False
        result = await ws.resume(result.run_id)
        assert "([12, 'adder does not allow add now: not true that below ten']" in result.answer
        assert "sum: 12\\nallowed now: nothing" in result.answer
        assert result.answer.endswith("False)")  # the tools' shared state is the environment's alone
        assert built == ["add"] * 3
        await ws.replay(result.run_id)
    assert adder().branching == "snapshot"


@pytest.mark.parametrize("effect", ["pure", "read"])
async def test_rivals_have_worlds_of_their_own_and_the_winner_goes_on(tmp_path: Path, effect: Any) -> None:
    @tool(effect=effect)
    def add(ctx: RunContext[Any], by: int) -> int:
        """Add."""
        ctx.vars["sum"] = int(str(ctx.vars["sum"])) + by
        return int(str(ctx.vars["sum"]))

    adder = t2e([add], name="adder", state={"sum": 0})

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        async def go(one: BranchContext[Any], by: int) -> Any:
            return (await one.perform(action_effect(adder(), "add", {"by": by}))).value

        first = await go(ctx, 3)
        rivals = ctx.candidates(2)
        tried = await ctx.rivals([partial(go, rivals[0], 10), partial(go, rivals[1], 100)])
        await ctx.adopt(rivals[1])
        return [first, *tried, await go(ctx, 1)]

    assert (await probed(tmp_path, probe, environments={"adder": adder})).answer == "[3, 13, 103, 104]"


async def test_what_a_tool_shows_is_looked_at_after_each_action_in_each_world(tmp_path: Path) -> None:
    @tool(effect="pure")
    def draw(ctx: RunContext[Any], text: str) -> str:
        """Draw on the board."""
        ctx.vars["board"] = text
        if text == "smudge":
            raise ToolError("the pen broke")
        return "drawn"

    @tool(effect="pure")
    def look(ctx: RunContext[Any]) -> str:
        """Look at the board."""
        if ctx.vars["board"] == "dark":
            raise ToolError("the light is out")
        return f"the board says {ctx.vars['board']}"

    board = t2e([draw, look], name="board", state={"board": ""}, shows="look")

    async def shown(ctx: BranchContext[Any]) -> str:
        outcome = await ctx.perform(action_effect(board(), "state", {}))
        return str(outcome.blocks()[-1].text)  # type: ignore[union-attr]

    async def probe(ctx: BranchContext[Any]) -> list[str]:
        async def go(one: BranchContext[Any], text: str) -> str:
            await one.perform(action_effect(board(), "draw", {"text": text}))
            return await shown(one)

        first = [await shown(ctx), await go(ctx, "one"), await go(ctx, "smudge"), await go(ctx, "dark")]
        rivals = ctx.candidates(2)
        tried = await ctx.rivals([partial(go, rivals[0], "left"), partial(go, rivals[1], "right")])
        await ctx.adopt(rivals[1])
        return [*first, *tried, await shown(ctx)]

    result = await probed(tmp_path, probe, environments={"board": board})
    assert ast.literal_eval(result.answer) == [
        'board: ""\nnothing was seen yet; board_look shows it',
        "the board says one",
        "the board says smudge",
        "board could not be looked at: the light is out",
        "the board says left",
        "the board says right",
        "the board says right",
    ]
    with pytest.raises(TransformationError, match=r"shows='see' is no action of 'board'; its actions: draw, look"):
        t2e([draw, look], name="board", shows="see")
    with pytest.raises(TransformationError, match=r"shows='draw' needs text in each call; name an action that needs"):
        t2e([draw, look], name="board", shows="draw")


async def test_an_environment_cannot_act_on_itself(tmp_path: Path) -> None:
    """Through its own tools: it would wait for itself for ever."""
    outer: Any = None

    @tool(effect="composite")
    async def again(ctx: RunContext[Any]) -> str:
        """Act on the environment that this is an action of."""
        outcome = await ctx.perform(action_effect(outer(), "again", {}))
        return str(outcome.error)

    outer = t2e([again], name="outer")

    async def probe(ctx: BranchContext[Any]) -> Any:
        return said(await ctx.perform(action_effect(outer(), "again", {})))

    result = await probed(tmp_path, probe, environments={"outer": outer})
    assert "outer is in the middle of an action of its own" in result.answer


async def test_two_that_act_on_each_other_do_not_wait_for_ever(tmp_path: Path) -> None:
    inside = asyncio.Barrier(2)

    def made_of(name: str, other: str) -> Any:
        @tool(effect="composite", name=f"go_{name}")
        async def go(ctx: RunContext[Any], first: bool = True) -> str:
            """Act on the other one."""
            if not first:
                return f"{name} was reached"
            await inside.wait()  # both are in the middle of their actions now
            outcome = await ctx.perform(action_effect(places[other](), f"go_{other}", {"first": False}))
            return str(outcome.value or outcome.error)

        return t2e([go], name=name)

    places = {"left": made_of("left", "right"), "right": made_of("right", "left")}

    async def probe(ctx: BranchContext[Any]) -> Any:
        asked = [action_effect(places[name](), f"go_{name}", {"first": True}) for name in places]
        return sorted(str(said(one)) for one in await ctx.perform_all(asked))

    async with workspace(tmp_path, probe, environments=places) as ws:
        async with asyncio.timeout(LONGEST_S):
            result = await ws.run("probe", system="probe", model="offline")
    one, other = sorted(ast.literal_eval(result.answer), key=lambda text: "was reached" in text)
    assert "out of whose action this one came: each would wait for the other; try again later" in one
    assert other.endswith("was reached")


async def test_what_a_workspace_cannot_take_in_is_refused(tmp_path: Path) -> None:
    async def probe(ctx: BranchContext[Any]) -> None: ...

    other = type("Other", (Door,), {"name": "counter"})
    with pytest.raises(TransformationError, match="two different environments are called 'counter'"):
        await probed(tmp_path, probe, tools=e2t(Counter), environments={"counter": other})
    async with workspace(tmp_path, probe) as ws:
        with pytest.raises(TransformationError, match="tool 'counter_add' needs counter, which only a workspace"):
            await ws.run("probe", system="probe", model="offline", tools=e2t(Counter))


def test_actions_that_cannot_be_say_what_to_change() -> None:
    with pytest.raises(ToolDefinitionError, match="an action cannot be named 'state'"):

        @action
        def state(self: Any) -> None: ...

    # It would stand in place of what says what an action touches, or of what puts the environment back.
    with pytest.raises(ToolDefinitionError, match="an action cannot be named 'tags': environments have that"):

        @action
        def tags(self: Any) -> None: ...

    allowed = "the effects: read, write, network, execute, spend, send, composite "
    for wrong in ("fly", "pure"):
        with pytest.raises(ToolDefinitionError, match=f"action 'go' has the unknown effect '{wrong}'; {allowed}"):
            action(effect=["write", wrong])(go)  # type: ignore[list-item]
    with pytest.raises(ToolDefinitionError, match="'go' cannot be composite and read, send: a comp"):
        action(effect=("composite", "send", "read"))(go)


def go(self: Any) -> None: ...


@pytest.mark.parametrize(
    ("effect", "mutates", "tags", "composes"),
    [
        (None, True, {"write"}, False),
        ((), True, {"write"}, False),
        ("write", True, {"write"}, False),
        ("read", False, {"read"}, False),
        (("read", "network"), False, {"read", "network"}, False),
        ("network", True, {"write", "network"}, False),
        (("write", "read", "network"), True, {"write", "read", "network"}, False),
        (("read", "send"), True, {"write", "read", "send"}, False),
        ({"execute"}, True, {"write", "execute"}, False),
        ("composite", False, {"read"}, True),
    ],
)
def test_what_an_action_touches_says_whether_it_changes_the_environment(
    effect: Any, mutates: bool, tags: set[str], composes: bool
) -> None:
    class Place(ActionEnvironment):
        move = action(effect=effect)(go)

    place = Place()
    assert (place.mutates("go"), action_tags(place, "go"), place.composes("go")) == (mutates, frozenset(tags), composes)


async def test_agents_at_the_same_time_share_an_environment_and_a_replay_finds_it_as_it_was(tmp_path: Path) -> None:
    turn = asyncio.Event()

    @tool(effect="pure")
    async def add(ctx: RunContext[Any], by: int) -> int:
        """Add."""
        ctx.vars["sum"] = int(str(ctx.vars["sum"])) + by
        return int(str(ctx.vars["sum"]))

    rules = {"add": Rule("below nine", lambda state: state["sum"] < 9)}
    adder = t2e([add], name="adder", state={"sum": 0}, rules=rules)

    async def member(spec: AgentSpec, ctx: BranchContext[Any], kit: Any) -> AgentResult:
        late = spec.instruction == "late"
        if late:
            await turn.wait()
        numbers = [10] if late else [2, 2, 2]
        done = [said(await ctx.perform(action_effect(adder(), "add", {"by": by}))) for by in numbers]
        turn.set()
        return AgentResult(answer=str(done))

    async def probe(spec: AgentSpec, ctx: BranchContext[Any], kit: Any) -> AgentResult:
        specs = [
            AgentSpec(name=name, instruction=name, tools=("adder",), system="member") for name in ("late", "first")
        ]
        return AgentResult(answer=" ".join(one.answer for one in await ctx.call_agents(specs)))

    systems: dict[str, Any] = {"probe": probe, "member": member}
    async with Workspace(tmp_path, store=MemoryStore(), systems=systems, environments={"adder": adder}) as ws:
        result = await ws.run("probe", system="probe", model="offline")
        assert result.answer == "[16] [2, 4, 6]", result.error  # a replay asks for the late one's first
        await ws.replay(result.run_id)
