"""`todo`: the plan of a run, with the planning tool's actions and fields (001, sec. 3.2) and todo's (000, app. D.1).

Plans live in the run's state (`ctx.vars`) and nowhere else: two runs never share one. The tool is pure in the door's
sense: what it changes is recorded with its outcome and applied on every hit, so executing it again after a crash
starts from the same state and gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import tool

StepStatus = Literal["not_started", "in_progress", "completed", "blocked"]
Action = Literal["create", "update", "list", "get", "set_active", "mark_step", "delete", "add", "clear", "complete"]

_MARKS = {"not_started": "[ ]", "in_progress": "[→]", "completed": "[✓]", "blocked": "[!]"}
_VAR = "todo"


class PlanStep(BaseModel):
    """A step of a plan."""

    text: str
    status: StepStatus = "not_started"
    notes: str = ""


class Plan(BaseModel):
    """A plan."""

    title: str = ""
    steps: list[PlanStep] = []


class Plans(BaseModel):
    """All plans of a run, and which one is active."""

    plans: dict[str, Plan] = {}
    active: str | None = None


def _load(vars_: Mapping[str, JsonValue]) -> Plans:
    return Plans.model_validate(vars_.get(_VAR) or {})


@tool(effect="read")
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
    state = _load(ctx.vars)
    said = _act(state, action, plan_id, title, steps, step_index, step_status, step_notes)
    if action not in ("list", "get"):
        ctx.vars[_VAR] = state.model_dump(mode="json")
    return said


def _act(
    state: Plans,
    action: Action,
    plan_id: str | None,
    title: str | None,
    steps: list[str] | None,
    step_index: int | None,
    step_status: StepStatus | None,
    step_notes: str | None,
) -> str:
    if action == "list":
        lines = [
            f"- {name}{' (active)' if name == state.active else ''}: {_progress(p)}" for name, p in state.plans.items()
        ]
        return "\n".join(lines) or "There are no plans yet; create one."
    if action == "create":
        return _create(state, plan_id or "plan", title, steps)
    if action == "add" and not state.plans:
        return _create(state, plan_id or "plan", title, steps)
    name, plan = _find(state, plan_id, action)
    if action == "set_active":
        state.active = name
    elif action == "delete":
        del state.plans[name]
        state.active = next(iter(state.plans), None) if state.active == name else state.active
        return f"Plan {name!r} is deleted."
    elif action == "update":
        if title is None and steps is None:
            raise ToolError("update needs a title or steps")
        plan.title = plan.title if title is None else title
        if steps is not None:
            kept = {step.text: step for step in plan.steps}
            plan.steps = [kept.get(text, PlanStep(text=text)) for text in _texts(steps)]
    elif action == "add":
        plan.steps += [PlanStep(text=text) for text in _texts(steps)]
    elif action == "clear":
        plan.steps = []
    elif action in ("mark_step", "complete"):
        step = _step(plan, name, step_index)
        status = "completed" if action == "complete" else step_status
        if status is None and step_notes is None:
            raise ToolError("mark_step needs step_status (not_started, in_progress, completed, blocked) or step_notes")
        step.status = step.status if status is None else status
        step.notes = step.notes if step_notes is None else step_notes
    return _show(name, plan)


def _texts(steps: list[str] | None) -> list[str]:
    texts = [text.strip() for text in steps or ()]
    if not texts or not all(texts):
        raise ToolError(f"steps is {steps!r}; give a list of steps, none of them empty")
    return texts


def _create(state: Plans, name: str, title: str | None, steps: list[str] | None) -> str:
    if name in state.plans:
        raise ToolError(f"there is a plan {name!r} already; update it, delete it first, or choose another plan_id")
    plan = Plan(title=title or name, steps=[PlanStep(text=text) for text in _texts(steps)])
    state.plans[name] = plan
    state.active = name
    return _show(name, plan)


def _find(state: Plans, plan_id: str | None, action: str) -> tuple[str, Plan]:
    name = plan_id or (None if action in ("set_active", "delete") else state.active)
    known = ", ".join(state.plans) or "none yet; create one"
    if name is None:
        raise ToolError(f"{action} needs a plan_id; the plans: {known}")
    if name not in state.plans:
        raise ToolError(f"there is no plan {name!r}; the plans: {known}")
    return name, state.plans[name]


def _step(plan: Plan, name: str, index: int | None) -> PlanStep:
    if index is None or not 0 <= index < len(plan.steps):
        raise ToolError(f"step_index is {index}; plan {name!r} has the steps 0 to {len(plan.steps) - 1}")
    return plan.steps[index]


def _progress(plan: Plan) -> str:
    done = sum(step.status == "completed" for step in plan.steps)
    total = len(plan.steps)
    percent = round(100 * done / total) if total else 0
    counts = {status: sum(step.status == status for step in plan.steps) for status in _MARKS}
    return f"{plan.title} - {done}/{total} ({percent}%), " + ", ".join(f"{n} {status}" for status, n in counts.items())


def _show(name: str, plan: Plan) -> str:
    lines = [f"Plan {name!r}: {_progress(plan)}"]
    for index, step in enumerate(plan.steps):
        lines.append(f"{index}. {_MARKS[step.status]} {step.text}" + (f" ({step.notes})" if step.notes else ""))
    return "\n".join(lines)


def render_todo(vars_: Mapping[str, JsonValue]) -> str:
    """The active plan for the prompt, "" where there is none."""
    state = _load(vars_)
    if state.active is None or state.active not in state.plans:
        return ""
    return _show(state.active, state.plans[state.active])
