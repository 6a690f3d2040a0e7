"""`todo`: the plans of a run, with the actions of the planning tool (001, sec. 3.2) and of todo (000, app. D.1).

Plans live in the run's state (`ctx.vars`) and nowhere else, so two runs never share one. The tool is pure in the
door's sense: what it changes is recorded with its outcome and applied on every hit, so executing it again after a
crash starts from the same state and gives the same result. Several calls of one decision run in listed order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import tool

StepStatus = Literal["not_started", "in_progress", "completed", "blocked"]
Action = Literal["create", "update", "list", "get", "set_active", "mark_step", "delete", "add", "clear", "complete"]

_MARKS: dict[StepStatus, str] = {"not_started": "[ ]", "in_progress": "[→]", "completed": "[✓]", "blocked": "[!]"}
_VAR = "agent:todo"
_FIRST = "plan"
"""What a plan without a name is called."""


class PlanStep(BaseModel):
    """A step of a plan."""

    text: str
    status: StepStatus = "not_started"
    notes: str = ""


class Plan(BaseModel):
    """A plan: a name, what it is for, and its steps in order."""

    name: str
    title: str
    steps: list[PlanStep] = []

    def revise(self, texts: list[str]) -> None:
        """Other steps; those that stay keep their status and notes."""
        left = list(self.steps)
        revised = []
        for text in texts:
            kept = next((step for step in left if step.text == text), None)
            if kept is not None:
                left.remove(kept)
            revised.append(kept or PlanStep(text=text))
        self.steps = revised

    def step(self, index: int | None) -> PlanStep:
        """The step with this number."""
        if not self.steps:
            raise ToolError(f"plan {self.name!r} has no steps; add some first")
        if index is None or not 0 <= index < len(self.steps):
            given = "missing" if index is None else index
            raise ToolError(f"step_index is {given}; plan {self.name!r} has the steps 0 to {len(self.steps) - 1}")
        return self.steps[index]

    @property
    def progress(self) -> str:
        """How far it is: `Title - 1/3 (33%), 2 not_started, ...`."""
        counts = Counter(step.status for step in self.steps)
        done, total = counts["completed"], len(self.steps)
        percent = round(100 * done / total) if total else 0
        return f"{self.title} - {done}/{total} ({percent}%), " + ", ".join(f"{counts[s]} {s}" for s in _MARKS)

    def render(self) -> str:
        """The progress, and a line for each step."""
        lines = [f"Plan {self.name!r}: {self.progress}"]
        for index, step in enumerate(self.steps):
            notes = f" ({step.notes})" if step.notes else ""
            lines.append(f"{index}. {_MARKS[step.status]} {step.text}{notes}")
        return "\n".join(lines)


class Plans(BaseModel):
    """All plans of a run, and which one is active."""

    plans: dict[str, Plan] = {}
    active: str | None = None

    @classmethod
    def of(cls, state: Mapping[str, JsonValue]) -> Self:
        """The plans in a run's state."""
        return cls.model_validate(state.get(_VAR) or {})

    def find(self, name: str | None, action: str, *, fall_back: bool = True) -> Plan:
        """The named plan; without a name the active one, where the action may fall back to it."""
        wanted = name or (self.active if fall_back else None)
        known = ", ".join(self.plans) or "none yet; create one"
        if wanted is None:
            raise ToolError(f"{action} needs a plan_id; the plans: {known}")
        if wanted not in self.plans:
            raise ToolError(f"there is no plan {wanted!r}; the plans: {known}")
        return self.plans[wanted]

    def create(self, name: str, title: str | None, steps: list[str]) -> Plan:
        """A new plan, active from now on."""
        if name in self.plans:
            raise ToolError(f"there is a plan {name!r} already; update it, delete it first, or choose another plan_id")
        self.plans[name] = Plan(name=name, title=title or name, steps=[PlanStep(text=text) for text in steps])
        self.active = name
        return self.plans[name]

    def delete(self, plan: Plan) -> str:
        """Forget a plan; no other one becomes active by itself."""
        del self.plans[plan.name]
        if self.active != plan.name:
            return f"Plan {plan.name!r} is deleted."
        self.active = None
        left = f"; set_active one of: {', '.join(self.plans)}" if self.plans else ""
        return f"Plan {plan.name!r} is deleted. No plan is active{left}."

    def overview(self) -> str:
        """A line for each plan."""
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
    steps: list[str] | None = None,
    step_index: int | None = None,
    step_status: StepStatus | None = None,
    step_notes: str | None = None,
) -> str:
    """Keep the plan of the task: create it, mark its steps, look at it.

    Args:
        action: create (plan_id, title, steps), update (title, steps; steps that stay keep their status), list, get,
            set_active (plan_id), mark_step (step_index, step_status, step_notes), delete (plan_id); and on the active
            plan: add (steps), complete (step_index), clear.
        plan_id: Name of the plan; get, update, mark_step, add, complete and clear take the active one without it.
        title: What the plan is for.
        steps: The steps, in order.
        step_index: Which step, from 0.
        step_status: not_started, in_progress, completed or blocked.
        step_notes: What is worth knowing about the step.
    """
    plans = Plans.of(ctx.vars)
    if action == "list":
        return plans.overview()
    if action == "get":
        return plans.find(plan_id, action).render()
    if action == "create" or (action == "add" and not plans.plans):
        said = plans.create(plan_id or _FIRST, title, _texts(steps)).render()
    elif action == "delete":
        said = plans.delete(plans.find(plan_id, action, fall_back=False))
    else:
        plan = plans.find(plan_id, action, fall_back=action != "set_active")
        if action == "set_active":
            plans.active = plan.name
        elif action == "update":
            if title is None and steps is None:
                raise ToolError("update needs a title or steps")
            plan.title = title or plan.title
            if steps is not None:
                plan.revise(_texts(steps))
        elif action == "add":
            plan.steps += [PlanStep(text=text) for text in _texts(steps)]
        elif action == "clear":
            plan.steps = []
        else:
            _mark(plan.step(step_index), "completed" if action == "complete" else step_status, step_notes)
        said = plan.render()
    ctx.vars[_VAR] = plans.model_dump(mode="json")
    return said


def _mark(step: PlanStep, status: StepStatus | None, notes: str | None) -> None:
    if status is None and notes is None:
        raise ToolError(f"mark_step needs step_status ({', '.join(_MARKS)}) or step_notes")
    step.status = status or step.status
    step.notes = step.notes if notes is None else notes


def _texts(steps: list[str] | None) -> list[str]:
    texts = [text.strip() for text in steps or ()]
    if not texts or not all(texts):
        raise ToolError(f"steps is {steps!r}; give a list of steps, none of them empty")
    return texts


def render_todo(state: Mapping[str, JsonValue]) -> str:
    """The active plan for the prompt, "" where there is none."""
    plans = Plans.of(state)
    return plans.plans[plans.active].render() if plans.active is not None else ""


__all__ = ["Plan", "PlanStep", "Plans", "render_todo", "todo"]
