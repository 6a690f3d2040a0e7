"""Subtasks as a graph: the ready ones are done at the same time, each result is checked (004, sec. 3.2.1).

    task ─> subtasks, what each needs, the task's constraints ─> those that need nothing (more) ─> results ─> checks
                                                                  ^                                             │
                                                                  └── knowledge, as facts with their sources ───┘

What cannot be done is no error: the agent is told of each subtask how it ended, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from agentorchestra.agents.agent import agent_effect
from agentorchestra.agents.forms import FLAG, INTEGER, TEXT, TEXTS, Form, Question, form, list_of
from agentorchestra.agents.parts.base import Work, listed, texts, told, trust_of
from agentorchestra.agents.parts.plan import plan_blocks
from agentorchestra.agents.parts.tips import tips_of
from agentorchestra.agents.toolkit import actions_of
from agentorchestra.agents.trace import handed_back, trace_of
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import Seen, State, descriptions
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.permission import OF_EVERY_AGENT

MOST_SUBTASKS = 8
EXECUTOR, ROLE = "react", "worker"  # the system that does a subtask, and the role that its model is chosen by

SUBTASK = form(["task"], task=Form(TEXT, {**TEXT, "minLength": 1}), needs={"type": "array", "items": INTEGER})
DIVIDED = form(["subtasks"], constraints=TEXTS, subtasks=list_of(SUBTASK))
FACT = form(["fact"], fact=TEXT, source=TEXT)
CHECKED = form(["valid"], facts=list_of(FACT), valid=FLAG, problem=TEXT)


class Subtask(BaseModel, frozen=True):
    """A part of the task."""

    number: int  # its name, from 1 on
    task: str
    needs: tuple[int, ...] = ()  # numbers of the subtasks whose results it needs; they may be wrong, a model wrote them


class Knowledge(BaseModel, frozen=True):
    """How a subtask ended, and what is known by it."""

    subtask: Subtask
    # `checked`, `unchecked` (nobody could be asked), `refused` (it breaks a constraint), `failed`, `not begun`
    how: str
    facts: tuple[str, ...] = ()  # each with its source, of a result that was checked
    answer: str = ""  # the result in its agent's words
    problem: str = ""  # why it was refused, failed or was not begun
    files: tuple[str, ...] = ()  # names of the files that were made
    trust: Trust = Trust.AGENT

    @property
    def holds(self) -> bool:
        return self.how in ("checked", "unchecked")

    @property
    def text(self) -> str:
        lines = [f"Subtask {self.subtask.number} ({self.how}): {self.subtask.task}"]
        lines += [f"Problem: {self.problem}"] if self.problem else []
        lines += listed("Facts", self.facts)
        lines += [f"Result: {self.answer}"] if self.answer and not (self.facts and self.holds) else []
        return "\n".join([*lines, *listed("Files", self.files)])


def graph_of(reply: Mapping[str, Any]) -> list[Subtask]:
    pieces = reply["subtasks"][:MOST_SUBTASKS]
    return [
        Subtask(number=n, task=str(one["task"]).strip(), needs=tuple(dict.fromkeys(one.get("needs") or ())))
        for n, one in enumerate(pieces, start=1)
    ]


def ready(graph: Sequence[Subtask], known: Mapping[int, Knowledge]) -> list[Subtask]:
    """Return the subtasks that can begin: not done yet, and all that they need holds."""
    held = {number for number, one in known.items() if one.holds}
    return [one for one in graph if one.number not in known and held.issuperset(one.needs)]


def not_begun(one: Subtask, graph: Sequence[Subtask], known: Mapping[int, Knowledge]) -> str:
    for number in one.needs:
        if number == one.number:
            return "it needs itself"
        if number not in {each.number for each in graph}:
            return f"it needs subtask {number}, which there is not"
        if number in known and not known[number].holds:
            return f"it needs subtask {number}, which has no result that holds"
    waits = next(number for number in one.needs if number not in known)
    return f"it waits for subtask {waits}, which cannot begin"


@dataclass(frozen=True)
class Subtasks:
    """A `perceive` part: before the first step the task is divided, and what can be done of it is done."""

    work: Work

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        """Return what is known by the subtasks; None in later steps, and where the task is not divided."""
        if state.step or state.must_answer:
            return None
        held = ctx.capabilities
        every = {*ctx.manifest.tools} if held is None else held - OF_EVERY_AGENT
        tools = tuple(sorted(every - self.work.kit.apart))
        child = AgentSpec(name="subtask", instruction="", tools=tools, role=ROLE, system=EXECUTOR, on_demand=True)
        ctx.seen.add(descriptions([one.schema for name in tools if (one := self.work.kit.tools.get(name))]))
        values = {"actions": actions_of(child, self.work.kit), "most": MOST_SUBTASKS}
        content = (*told(state), *tips_of(ctx), *plan_blocks(ctx))
        # As a decision, so that the budget keeps what the agent's own answer needs, whatever its sub-agents spend.
        question = Question("parts_subtasks", DIVIDED, values, content, decides=True)
        reply = await self.work.ask(ctx, question)
        graph = graph_of(reply) if reply is not None else []
        if len(graph) < 2:  # one agent can do it: that is the agent itself
            return None
        run = _Graph(self.work, ctx, child, graph, texts((reply or {}).get("constraints")))
        known = await run.carried_out()
        trust = lowest(trust_of(ctx), *(one.trust for one in known))
        return self.work.seen("parts_subtasks_view", "\n\n".join(one.text for one in known), trust, keep=True)


@dataclass
class _Graph:
    work: Work
    ctx: BranchContext[Any]
    child: AgentSpec  # the spec of a sub-agent but for its instruction and context
    graph: Sequence[Subtask]
    constraints: Sequence[str]  # of the whole task
    known: dict[int, Knowledge] = field(default_factory=dict)

    async def carried_out(self) -> list[Knowledge]:
        while wave := ready(self.graph, self.known):
            for one in await self._checked(await self._done(wave)):
                self.known[one.subtask.number] = one
            self.ctx.partial = {"steps": 0, "memory": "\n\n".join(one.text for one in self.known.values())}
        left = [one for one in self.graph if one.number not in self.known]
        why = {one.number: not_begun(one, self.graph, self.known) for one in left}
        self.known |= {one.number: Knowledge(subtask=one, how="not begun", problem=why[one.number]) for one in left}
        return [self.known[one.number] for one in self.graph]

    async def _done(self, wave: Sequence[Subtask]) -> list[tuple[Subtask, AgentResult, Trust]]:
        specs = [
            self.child.model_copy(
                update={"name": f"subtask_{one.number}", "instruction": one.task, "context": self._context(one)}
            )
            for one in wave
        ]
        first = self.ctx.last_n + 1
        outcomes = await self.ctx.perform_all([agent_effect(one, self.ctx) for one in specs])
        found = []
        for n, (one, spec, outcome) in enumerate(zip(wave, specs, outcomes, strict=True), start=first):
            path = EffectKey(self.ctx.branch, n).path
            found.append((one, *handed_back(outcome, trace_of(self.ctx.run.ledger, f"{path}.{spec.name}"))))
        return found

    def _context(self, one: Subtask) -> tuple[Block, ...]:
        """Return what a sub-agent is given to know: what its result has to fit, and the results that it needs."""
        needed = [self.known[number] for number in one.needs]
        trust = trust_of(self.ctx)
        fits = "\n".join(listed("The whole task, of which yours is a part, asks that", self.constraints))
        said = [(fits, trust), *((each.text, each.trust) for each in needed)]
        source = Source(kind="agent", ref=self.ctx.actor)
        return tuple(TextBlock(text=text, source=source, trust=how) for text, how in said if text)

    async def _checked(self, done: Sequence[tuple[Subtask, AgentResult, Trust]]) -> list[Knowledge]:
        """Return what is known by results: those that came to an end are checked against the task's constraints."""
        ended = [one for one in done if one[1].status is RunStatus.COMPLETED]
        replies = await self.work.ask_all(self.ctx, [self._question(*one) for one in ended])
        by_number = {one[0].number: reply for one, reply in zip(ended, replies, strict=True)}
        return [_knowledge(one, result, trust, by_number.get(one.number)) for one, result, trust in done]

    def _question(self, one: Subtask, result: AgentResult, trust: Trust) -> Question:
        sources = [f"{each.source}, {each.place}: {each.quote}" for each in result.sources]
        said = "\n\n".join(text for text in (result.answer, result.report, *listed("Sources", sources)) if text)
        block = TextBlock(text=said or "nothing", source=Source(kind="agent", ref=f"subtask_{one.number}"), trust=trust)
        return Question("parts_check", CHECKED, {"task": one.task, "constraints": self.constraints}, (block,))


def _knowledge(one: Subtask, result: AgentResult, trust: Trust, checked: Mapping[str, Any] | None) -> Knowledge:
    files = tuple(each.name for each in result.artifacts)
    known = Knowledge(subtask=one, how="unchecked", answer=result.answer, files=files, trust=trust)
    if result.status is not RunStatus.COMPLETED:
        why = "; ".join((*result.errors[-1:], *([result.report] if result.report else []))) or result.status.value
        return known.model_copy(update={"how": "failed", "problem": why})
    if checked is None:
        return known
    facts = [
        f"{one['fact']} ({one['source']})" if one.get("source") else one["fact"] for one in checked.get("facts", ())
    ]
    problem = str(checked.get("problem") or "") or "it breaks what the task asks"
    valid = {"how": "checked"} if checked["valid"] else {"how": "refused", "problem": problem}
    return known.model_copy(update={**valid, "facts": texts(facts)})
