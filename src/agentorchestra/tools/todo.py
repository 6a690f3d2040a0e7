"""`todo`: the plans of a run, with the actions of the planning tool (001, sec. 3.2) and of todo (000, app. D.1).

Plans live in the run's state (`ctx.vars`) and nowhere else: executing a call again after a crash gives the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.tool import tool

StepStatus = Literal["not_started", "in_progress", "completed", "blocked"]
Action = Literal["create", "update", "list", "get", "set_active", "mark_step", "delete", "add", "clear", "complete"]

_MARKS: dict[StepStatus, str] = {"not_started": "[ ]", "in_progress": "[→]", "completed": "[✓]", "blocked": "[!]"}
_VAR = "agent:todo"
_FIRST = "plan"  # what a plan without a name is called


class StepArgument(BaseModel):
    """A step."""

    text: str = Field(description="What is done.")
    agent: str = Field(default="", description="Who does it.")
    needs: list[int] = Field(default=[], description="Steps, from 0, that must be completed before it.")


class PlanStep(BaseModel):
    """A step of a plan."""

    text: str
    status: StepStatus = "not_started"
    notes: str = ""
    agent: str = ""  # who it is assigned to
    needs: list[int] = []  # numbers of the steps that must be completed before it
    doubtful: bool = False  # made for a task that has changed since, and not looked at again


class TodoPlan(BaseModel):
    """A plan: a name, what it is for, and its steps in order."""

    name: str
    title: str
    steps: list[PlanStep] = []

    def revise(self, steps: list[PlanStep]) -> None:
        """Return other steps; those that stay keep their status and notes."""
        left = list(self.steps)
        new_steps = []
        for new in steps:
            old = next((step for step in left if step.text == new.text), None)
            if old is not None:
                left.remove(old)
                new = new.model_copy(update={"status": old.status, "notes": old.notes, "agent": new.agent or old.agent})
            new_steps.append(new)
        self.steps = new_steps
        self._check()

    def add(self, steps: list[PlanStep]) -> None:
        self.steps = [*self.steps, *steps]
        self._check()

    def _check(self) -> None:
        """Refuse steps that wait for what is not there, or for each other."""
        for index, step in enumerate(self.steps):
            for need in step.needs:
                if not 0 <= need < len(self.steps) or need == index:
                    raise ToolError(
                        f"step {index} ({step.text}) needs step {need}, which is not another step of the plan; "
                        f"the steps are 0 to {len(self.steps) - 1}"
                    )
        free: set[int] = set()
        while more := {i for i, step in enumerate(self.steps) if i not in free and set(step.needs) <= free}:
            free |= more
        if ring := [str(i) for i in range(len(self.steps)) if i not in free]:
            raise ToolError(f"the steps {', '.join(ring)} wait for each other and none could ever start; change needs")

    def waits_for(self, step: PlanStep) -> list[int]:
        """Return the steps that must be completed before this one and are not."""
        return [need for need in step.needs if self.steps[need].status != "completed"]

    @property
    def ready(self) -> list[int]:
        return [i for i, step in enumerate(self.steps) if step.status == "not_started" and not self.waits_for(step)]

    @property
    def open(self) -> list[int]:
        return [i for i, step in enumerate(self.steps) if step.status != "completed"]

    def step(self, index: int | None) -> PlanStep:
        if not self.steps:
            raise ToolError(f"plan {self.name!r} has no steps; add some first")
        if index is None or not 0 <= index < len(self.steps):
            value = "missing" if index is None else index
            raise ToolError(f"step_index is {value}; plan {self.name!r} has the steps 0 to {len(self.steps) - 1}")
        return self.steps[index]

    @property
    def progress(self) -> str:
        """The progress: `Title - 1/3 (33%), 2 not_started, ...`."""
        counts = Counter(step.status for step in self.steps)
        done, total = counts["completed"], len(self.steps)
        percent = round(100 * done / total) if total else 0
        return f"{self.title} - {done}/{total} ({percent}%), " + ", ".join(f"{counts[s]} {s}" for s in _MARKS)

    def render(self) -> str:
        """Return the progress, and a line for each step."""
        lines = [f"Plan {self.name!r}: {self.progress}"]
        for index, step in enumerate(self.steps):
            agent = f" @{step.agent}" if step.agent else ""
            needs = f" [after {', '.join(map(str, step.needs))}]" if step.needs else ""
            notes = f" ({step.notes})" if step.notes else ""
            doubt = " - reconsider: the task has changed" if step.doubtful else ""
            lines.append(f"{index}. {_MARKS[step.status]} {step.text}{agent}{needs}{notes}{doubt}")
        if self.ready and any(step.needs for step in self.steps):
            lines.append(f"Can start now: {', '.join(map(str, self.ready))}")
        return "\n".join(lines)


class Plans(BaseModel):
    """All plans of a run, and which one is active."""

    plans: dict[str, TodoPlan] = {}
    active: str | None = None

    @classmethod
    def of(cls, state: Mapping[str, JsonValue]) -> Self:
        return cls.model_validate(state.get(_VAR) or {})

    def find(self, name: str | None, action: str, *, fall_back: bool = True) -> TodoPlan:
        """Return the named plan; without a name the active one, where the action may fall back to it."""
        plan_name = name or (self.active if fall_back else None)
        names = ", ".join(self.plans) or "none yet; create one"
        if plan_name is None:
            raise ToolError(f"{action} needs a plan_id; the plans: {names}")
        if plan_name not in self.plans:
            raise ToolError(f"there is no plan {plan_name!r}; the plans: {names}")
        return self.plans[plan_name]

    def create(self, name: str, title: str | None, steps: list[PlanStep]) -> TodoPlan:
        if name in self.plans:
            raise ToolError(f"there is a plan {name!r} already; update it, delete it first, or choose another plan_id")
        plan = TodoPlan(name=name, title=title or name)
        plan.add(steps)
        self.plans[name] = plan
        self.active = name
        return self.plans[name]

    def delete(self, plan: TodoPlan) -> str:
        """Forget a plan; no other one becomes active by itself."""
        del self.plans[plan.name]
        if self.active != plan.name:
            return f"Plan {plan.name!r} is deleted."
        self.active = None
        left = f"; set_active one of: {', '.join(self.plans)}" if self.plans else ""
        return f"Plan {plan.name!r} is deleted. No plan is active{left}."

    def overview(self) -> str:
        lines = [
            f"- {plan.name}{' (active)' if plan.name == self.active else ''}: {plan.progress}"
            for plan in self.plans.values()
        ]
        return "\n".join(lines) or "There are no plans yet; create one."


@tool(effect="pure", thread=False, sequential=True)
def todo(
    ctx: RunContext[Any],
    action: Action,
    plan_id: str | None = None,
    title: str | None = None,
    steps: list[str | StepArgument] | None = None,
    step_index: int | None = None,
    step_status: StepStatus | None = None,
    step_notes: str | None = None,
    step_agent: str | None = None,
) -> str:
    """Keep a plan for a task of several parts: create it with `steps`, then mark its steps.

    Args:
        action: create, update or add take `steps`; mark_step and complete take `step_index`; set_active and delete take
            `plan_id`.
        plan_id: The plan's name; the active one without it.
        title: What it is for.
        steps: In order: texts, or objects with the agent and the steps they need.
        step_index: From 0.
        step_status: Its state.
        step_notes: What is worth knowing.
        step_agent: Who does it.
    """
    plans = Plans.of(ctx.vars)
    if action == "list":
        return plans.overview()
    if action == "get":
        return plans.find(plan_id, action).render()
    if action == "create" or (action == "add" and not plans.plans):
        text = plans.create(plan_id or _FIRST, title, _steps(steps)).render()
    elif action == "delete":
        text = plans.delete(plans.find(plan_id, action, fall_back=False))
    else:
        plan = plans.find(plan_id, action, fall_back=action != "set_active")
        if action == "set_active":
            plans.active = plan.name
        elif action == "update":
            if title is None and steps is None:
                raise ToolError("update needs a title or steps")
            plan.title = title or plan.title
            if steps is not None:
                plan.revise(_steps(steps))
        elif action == "add":
            plan.add(_steps(steps))
        elif action == "clear":
            plan.steps = []
        else:
            status: StepStatus | None = "completed" if action == "complete" else step_status
            _mark(plan, plan.step(step_index), status, step_notes, step_agent)
        text = plan.render()
    ctx.vars[_VAR] = plans.model_dump(mode="json")
    return text


@tool(effect="pure", thread=False, sequential=True)
def reconsider_plan(ctx: RunContext[Any]) -> str:
    """Mark the open steps of the active plan: the task has changed, so each is to be looked at again."""
    plans = Plans.of(ctx.vars)
    if plans.active is not None:
        for step in plans.plans[plans.active].steps:
            step.doubtful = step.doubtful or step.status != "completed"
    ctx.vars[_VAR] = plans.model_dump(mode="json")
    return render_todo(ctx.vars)


def _mark(plan: TodoPlan, step: PlanStep, status: StepStatus | None, notes: str | None, agent: str | None) -> None:
    if status is None and notes is None and agent is None:
        raise ToolError(f"mark_step needs step_status ({', '.join(_MARKS)}), step_notes or step_agent")
    if status in ("in_progress", "completed") and (waits := plan.waits_for(step)):
        numbers = ", ".join(map(str, waits))
        raise ToolError(
            f"the step {step.text!r} needs step {numbers}, which is not completed; "
            "complete that first, or update the plan"
        )
    step.doubtful = False
    step.status = status or step.status
    step.notes = step.notes if notes is None else notes
    step.agent = step.agent if agent is None else agent


def _steps(entries: list[str | StepArgument] | None) -> list[PlanStep]:
    steps = [
        PlanStep(text=entry.strip())
        if isinstance(entry, str)
        else PlanStep(text=entry.text.strip(), agent=entry.agent.strip(), needs=entry.needs)
        for entry in entries or ()
    ]
    if not steps or not all(step.text for step in steps):
        raise ToolError(f"steps is {entries!r}; give a list of steps, none of them empty")
    return steps


def render_todo(state: Mapping[str, JsonValue]) -> str:
    """Return the active plan for the prompt, "" where there is none."""
    plans = Plans.of(state)
    return plans.plans[plans.active].render() if plans.active is not None else ""
