"""The plan: facts of the task, steps made of them, both revised from what was observed (004, sec. 3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from agentorchestra.agents.compaction import steps_as_blocks
from agentorchestra.agents.forms import FLAG, TEXTS, Inquiry, form
from agentorchestra.agents.parts.base import PartWork, bullets, opening_blocks, texts, trust_of
from agentorchestra.agents.parts.tips import tips_of
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.state import PRIVATE

FACTS = form(["given"], given=TEXTS, to_look_up=TEXTS, to_derive=TEXTS, needs_plan=FLAG)
PLAN = form(["steps"], steps=TEXTS)
REVISION = form(["steps"], learned=TEXTS, to_look_up=TEXTS, to_derive=TEXTS, steps=TEXTS)

_KEY = f"{PRIVATE}plan"
"""Where the plan stands in the state of the agent's branch: rivals of a step may each revise it."""


class AgentPlan(BaseModel, frozen=True):
    """A plan and the facts that it rests on."""

    # `given`, `learned`, `to_look_up`, `to_derive`: facts of the task; those that were found out, are to be found,
    # follow
    given: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    to_look_up: tuple[str, ...] = ()
    to_derive: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()  # what is to be done, in this order
    made_at: int = 0  # decisions that were taken before it was made or looked at last
    trust: Trust = Trust.AGENT  # of what it was made of

    @property
    def facts(self) -> str:
        lines = [
            *bullets("Given", self.given),
            *bullets("Found out", self.learned),
            *bullets("To look up", self.to_look_up),
            *bullets("To derive", self.to_derive),
        ]
        return "\n".join(lines)

    @property
    def text(self) -> str:
        steps = [f"{n}. {step}" for n, step in enumerate(self.steps, start=1)]
        return "\n".join([*([self.facts] if self.facts else []), *(["Plan:", *steps] if steps else [])])


@dataclass(frozen=True)
class Planning:
    """A `perceive` part: makes the plan before the first step, and puts it before the agent in each step."""

    work: PartWork
    interval: int = 0  # steps from one review to the next; 0 for a plan that is made once

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        plan = plan_of(ctx)
        if plan is None and state.must_answer:
            return None
        if plan is None:
            plan = await self._first_plan(state, ctx)
        elif self.interval and state.step - plan.made_at >= self.interval and not state.must_answer:
            plan = await self._revise(plan, state, ctx)
        ctx.vars[_KEY] = plan.model_dump(mode="json")
        return self.work.seen("parts_plan_view", plan.text, plan.trust) if plan.text else None

    async def _first_plan(self, state: State, ctx: BranchContext[Any]) -> AgentPlan:
        """Return the first plan: facts, and steps made of them; no steps where the survey says that one is enough."""
        # The agent's first decision, so that the budget keeps what its answer needs.
        survey = Inquiry("parts_facts", FACTS, content=opening_blocks(state), decides=True)
        answers = await self.work.ask(ctx, survey) or {}
        facts = AgentPlan(
            given=texts(answers.get("given")),
            to_look_up=texts(answers.get("to_look_up")),
            to_derive=texts(answers.get("to_derive")),
            made_at=state.step,
            trust=trust_of(ctx),
        )
        if answers.get("needs_plan") is False:
            return facts
        content = (*opening_blocks(state), *tips_of(ctx), *_block(facts.facts, facts.trust))
        reply = await self.work.ask(ctx, Inquiry("parts_plan", PLAN, {"actions": self.work.actions}, content))
        return facts.model_copy(update={"steps": texts((reply or {}).get("steps")), "trust": trust_of(ctx)})

    async def _revise(self, plan: AgentPlan, state: State, ctx: BranchContext[Any]) -> AgentPlan:
        """Return the plan as what was observed since it was looked at last leaves it; as it was without a reply."""
        observations = steps_as_blocks(_since(state, plan.made_at))
        content = (*opening_blocks(state), *tips_of(ctx), *_block(plan.text, plan.trust), *observations)
        reply = await self.work.ask(ctx, Inquiry("parts_review", REVISION, {"actions": self.work.actions}, content))
        changes = {"made_at": state.step}
        if reply is None:
            return plan.model_copy(update=changes)
        lessons = dict.fromkeys((*plan.learned, *texts(reply.get("learned"))))
        return plan.model_copy(
            update={
                **changes,
                "learned": tuple(lessons),
                "to_look_up": texts(reply.get("to_look_up")),
                "to_derive": texts(reply.get("to_derive")),
                "steps": texts(reply.get("steps")) or plan.steps,
                "trust": lowest(plan.trust, trust_of(ctx)),
            }
        )


def plan_of(ctx: BranchContext[Any]) -> AgentPlan | None:
    record = ctx.vars.get(_KEY)
    return None if record is None else AgentPlan.model_validate(record)


def plan_blocks(ctx: BranchContext[Any]) -> tuple[Block, ...]:
    """Return the plan as material for a question, () without one."""
    plan = plan_of(ctx)
    return () if plan is None else _block(plan.text, plan.trust)


def _since(state: State, step: int) -> tuple[Any, ...]:
    """Return the messages of the decisions after a step: what was said before each, its calls and their results."""
    steps, begin = state.step - step, len(state.messages)
    start = state.steps_at
    for place in range(len(state.messages) - 1, start - 1, -1):
        if steps and state.messages[place].role == "assistant":
            steps, begin = steps - 1, place
    while begin > start and state.messages[begin - 1].role == "user":
        begin -= 1
    return state.messages[begin:]


def _block(text: str, trust: Trust) -> tuple[Block, ...]:
    """Return words that a model wrote as material, () for none."""
    return (TextBlock(text=text, source=Source(kind="memory", ref="plan"), trust=trust),) if text else ()
