"""The plan of a run: every action, its refusals, and where its state lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import ToolError
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tools.todo import Plans, StepArgument, render_todo, todo
from tests.tea.support import ToolBench, refused


class Context:
    """The part of a run that the plan needs."""

    def __init__(self) -> None:
        self.vars: dict[str, Any] = {}

    def do(self, action: str, **arguments: Any) -> str:
        """One action, as the plain function."""
        said: str = todo(self, action, **arguments)  # type: ignore[arg-type]
        return said

    def refused(self, action: str, **arguments: Any) -> str:
        """The sentence of an action that is refused; it leaves the state alone."""
        before = repr(self.vars)
        with pytest.raises(ToolError) as caught:
            self.do(action, **arguments)
        assert repr(self.vars) == before
        return str(caught.value)


@pytest.fixture
def ctx() -> Context:
    return Context()


def test_create_shows_the_plan_and_makes_it_active(ctx: Context) -> None:
    assert ctx.do("create", plan_id="p", title="Trip", steps=["book", " pack "]) == (
        "Plan 'p': Trip - 0/2 (0%), 2 not_started, 0 in_progress, 0 completed, 0 blocked\n0. [ ] book\n1. [ ] pack"
    )
    assert ctx.do("get") == ctx.do("get", plan_id="p") == render_todo(ctx.vars)


def test_the_four_marks_counts_and_notes(ctx: Context) -> None:
    ctx.do("create", plan_id="p", steps=["a", "b", "c", "d"])
    ctx.do("mark_step", step_index=1, step_status="in_progress")
    ctx.do("mark_step", step_index=2, step_status="completed", step_notes="see line 3")
    ctx.do("mark_step", plan_id="p", step_index=3, step_status="blocked")
    assert render_todo(ctx.vars) == (
        "Plan 'p': p - 1/4 (25%), 1 not_started, 1 in_progress, 1 completed, 1 blocked\n"
        "0. [ ] a\n1. [→] b\n2. [✓] c (see line 3)\n3. [!] d"
    )


def test_notes_and_status_are_changed_one_without_the_other(ctx: Context) -> None:
    ctx.do("create", steps=["a"])
    ctx.do("mark_step", step_index=0, step_notes="first")
    assert "0. [ ] a (first)" in ctx.do("get")
    assert "0. [✓] a (first)" in ctx.do("mark_step", step_index=0, step_status="completed")
    assert "0. [✓] a\n" in ctx.do("mark_step", step_index=0, step_notes="") + "\n"


def test_several_plans(ctx: Context) -> None:
    assert ctx.do("list") == "There are no plans yet; create one."
    ctx.do("create", plan_id="one", steps=["a"])
    ctx.do("create", plan_id="two", steps=["b"])
    assert [line.split(":")[0] for line in ctx.do("list").splitlines()] == ["- one", "- two (active)"]
    ctx.do("mark_step", plan_id="one", step_index=0, step_status="completed")
    assert "0. [ ] b" in ctx.do("get")
    assert ctx.do("set_active", plan_id="one").startswith("Plan 'one'")
    assert "0. [✓] a" in render_todo(ctx.vars)


def test_update_keeps_what_stays(ctx: Context) -> None:
    ctx.do("create", title="Old", steps=["a", "b", "b"])
    ctx.do("complete", step_index=1)
    said = ctx.do("update", title="New", steps=["b", "c", "b"])
    assert said.startswith("Plan 'plan': New - 1/3 (33%)")
    assert said.splitlines()[1:] == ["0. [✓] b", "1. [ ] c", "2. [ ] b"]
    ctx.do("mark_step", step_index=2, step_status="blocked")
    assert ctx.do("get").splitlines()[1:] == ["0. [✓] b", "1. [ ] c", "2. [!] b"]
    assert ctx.do("update", title="Newer").splitlines()[1:] == ["0. [✓] b", "1. [ ] c", "2. [!] b"]


def test_the_actions_of_the_later_paper(ctx: Context) -> None:
    assert ctx.do("add", steps=["a"]).startswith("Plan 'plan'")  # there was none yet
    assert ctx.do("add", steps=["b", "c"]).splitlines()[1:] == ["0. [ ] a", "1. [ ] b", "2. [ ] c"]
    assert "1. [✓] b" in ctx.do("complete", step_index=1)
    assert ctx.do("clear") == ("Plan 'plan': plan - 0/0 (0%), 0 not_started, 0 in_progress, 0 completed, 0 blocked")


def test_delete(ctx: Context) -> None:
    ctx.do("create", plan_id="one", steps=["a"])
    ctx.do("create", plan_id="two", steps=["b"])
    ctx.do("create", plan_id="three", steps=["c"])
    assert ctx.do("delete", plan_id="one") == "Plan 'one' is deleted."
    assert ctx.do("delete", plan_id="three") == "Plan 'three' is deleted. No plan is active; set_active one of: two."
    assert render_todo(ctx.vars) == ""
    assert ctx.refused("get") == "get needs a plan_id; the plans: two"
    assert ctx.do("delete", plan_id="two") == "Plan 'two' is deleted."
    assert ctx.do("create", plan_id="one", steps=["again"]).startswith("Plan 'one'")


@pytest.mark.parametrize(
    ("action", "arguments", "sentence"),
    [
        ("create", {"plan_id": "p", "steps": ["x"]}, "there is a plan 'p' already; update it, delete it first"),
        ("create", {"plan_id": "q"}, "steps is None; give a list of steps, none of them empty"),
        ("create", {"plan_id": "q", "steps": ["a", " "]}, "steps is ['a', ' ']; give a list of steps"),
        ("add", {"steps": []}, "steps is []; give a list of steps"),
        ("update", {}, "update needs a title or steps"),
        ("update", {"steps": []}, "steps is []; give a list of steps"),
        ("get", {"plan_id": "z"}, "there is no plan 'z'; the plans: p"),
        ("set_active", {}, "set_active needs a plan_id; the plans: p"),
        ("delete", {}, "delete needs a plan_id; the plans: p"),
        ("delete", {"plan_id": "z"}, "there is no plan 'z'; the plans: p"),
        ("mark_step", {"step_index": 2, "step_status": "completed"}, "step_index is 2; plan 'p' has the steps 0 to 1"),
        ("mark_step", {"step_index": -1, "step_status": "completed"}, "step_index is -1; plan 'p' has the steps 0"),
        ("mark_step", {"step_status": "completed"}, "step_index is missing; plan 'p' has the steps 0 to 1"),
        ("complete", {}, "step_index is missing; plan 'p' has the steps 0 to 1"),
        ("mark_step", {"step_index": 0}, "mark_step needs step_status (not_started, in_progress, completed, blocked)"),
    ],
)
def test_refusals_say_what_is_allowed(ctx: Context, action: str, arguments: dict[str, Any], sentence: str) -> None:
    ctx.do("create", plan_id="p", steps=["a", "b"])
    assert ctx.refused(action, **arguments).startswith(sentence)


def test_without_a_plan(ctx: Context) -> None:
    for action in ("get", "clear", "complete", "mark_step", "update"):
        assert ctx.refused(action) == f"{action} needs a plan_id; the plans: none yet; create one"
    ctx.do("add", steps=["a"])
    ctx.do("clear")
    assert ctx.refused("complete", step_index=0) == "plan 'plan' has no steps; add some first"
    assert render_todo({}) == ""


def test_an_unknown_action_is_a_mistake_that_lists_the_actions() -> None:
    sentence = refused(todo, {"action": "finish"})
    assert "'finish'" in sentence or '"finish"' in sentence
    for action in ("create", "mark_step", "complete"):
        assert action in sentence


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), st.lists(st.sampled_from(["a", "b", "c"]), min_size=1))
def test_revising_never_invents_or_shares_progress(before: list[str], after: list[str]) -> None:
    ctx = Context()
    ctx.do("create", steps=before)
    for index in range(len(before)):
        ctx.do("complete", step_index=index)
    ctx.do("update", steps=after)
    steps = Plans.of(ctx.vars).plans["plan"].steps
    assert [step.text for step in steps] == after
    for text in "abc":
        done = sum(step.status == "completed" for step in steps if step.text == text)
        assert done == min(before.count(text), after.count(text))


def test_it_is_pure() -> None:
    """It touches its arguments and `ctx.vars` only, which is what docs/door.md calls pure."""
    assert todo.mode is Mode.PURE
    assert todo.tags == frozenset()


async def test_calls_of_one_decision_see_each_other(tmp_path: Path) -> None:
    bench = ToolBench([todo], tmp_path)
    outcomes = await bench.call(
        (todo, {"action": "create", "steps": ["a", "b"]}),
        (todo, {"action": "complete", "step_index": 0}),
        (todo, {"action": "complete", "step_index": 1}),
        together=True,
    )
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3
    assert "2/2 (100%)" in str(outcomes[-1].value)


async def test_two_runs_never_share_a_plan(tmp_path: Path) -> None:
    bench = ToolBench([todo], tmp_path)
    create = (todo, {"action": "create", "plan_id": "p", "steps": ["a"]})
    (first,) = await bench.call(create, run_id="run_a")
    (second,) = await bench.call(create, run_id="run_b")
    assert first.status == second.status == "ok"
    (listed,) = await bench.call((todo, {"action": "list"}), run_id="run_c")
    assert listed.value == "There are no plans yet; create one."


async def test_a_resumed_run_has_its_plan_again(tmp_path: Path) -> None:
    bench = ToolBench([todo], tmp_path)
    shown: list[str] = []

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(effect_for(todo, {"action": "create", "steps": ["a", "b"]}, role="agent"))
        await root.perform(effect_for(todo, {"action": "complete", "step_index": 0}, role="agent"))
        shown.append(render_todo(root.vars))
        return "done"

    await bench.drive(main)
    await bench.bench.replay(main)  # no handler is called: the plan comes from the recorded writes
    assert shown[0] == shown[1]
    assert "1/2 (50%)" in shown[0]


def test_steps_name_their_agents_and_what_they_wait_for(ctx: Context) -> None:
    read = [{"text": f"read {name}", "agent": "deep_analyzer"} for name in "ab"]
    steps: list[Any] = [StepArgument(**one) for one in read]  # type: ignore[arg-type]
    ctx.do("create", steps=[*steps, StepArgument(text="write", agent="reporter", needs=[0, 1])])
    assert ctx.do("get").splitlines()[1:] == [
        "0. [ ] read a @deep_analyzer",
        "1. [ ] read b @deep_analyzer",
        "2. [ ] write @reporter [after 0, 1]",
        "Can start now: 0, 1",
    ]
    ctx.do("complete", step_index=0)
    assert ctx.refused("mark_step", step_index=2, step_status="in_progress").startswith(
        "the step 'write' needs step 1, which is not completed"
    )
    ctx.do("mark_step", step_index=1, step_status="blocked", step_notes="unreadable")
    ctx.do("mark_step", step_index=1, step_agent="worker")
    assert "1. [!] read b @worker (unreadable)" in ctx.do("get")
    # Replanned: what stays keeps its status, its agent too unless another is named.
    said = ctx.do("update", steps=["read a", StepArgument(text="write", agent="worker", needs=[0])])
    assert said.splitlines()[1:] == [
        "0. [✓] read a @deep_analyzer",
        "1. [ ] write @worker [after 0]",
        "Can start now: 1",
    ]


def test_needs_that_can_never_be_met_are_refused(ctx: Context) -> None:
    said = ctx.refused("create", steps=[StepArgument(text="a", needs=[3])])
    assert said == "step 0 (a) needs step 3, which is not another step of the plan; the steps are 0 to 0"
    circle = [StepArgument(text="a", needs=[1]), StepArgument(text="b", needs=[0])]
    assert "the steps 0, 1 wait for each other" in ctx.refused("create", steps=circle)


def test_plans_recorded_before_steps_had_agents_are_read() -> None:
    old: dict[str, Any] = {
        "plans": {"p": {"name": "p", "title": "T", "steps": [{"text": "a", "status": "completed", "notes": ""}]}}
    }
    assert render_todo({"agent:todo": {**old, "active": "p"}}).endswith("0. [✓] a")
