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
from agentorchestra.agents.forms import FLAG, INTEGER, TEXT, TEXTS, Form, Inquiry, form, list_of
from agentorchestra.agents.parts.base import PartWork, bullets, opening_blocks, texts, trust_of
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
DIVISION = form(["subtasks"], constraints=TEXTS, subtasks=list_of(SUBTASK))
FACT = form(["fact"], fact=TEXT, source=TEXT)
CHECK_FORM = form(["valid"], facts=list_of(FACT), valid=FLAG, problem=TEXT)


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
        lines += bullets("Facts", self.facts)
        lines += [f"Result: {self.answer}"] if self.answer and not (self.facts and self.holds) else []
        return "\n".join([*lines, *bullets("Files", self.files)])


def graph_of(reply: Mapping[str, Any]) -> list[Subtask]:
    pieces = reply["subtasks"][:MOST_SUBTASKS]
    return [
        Subtask(number=n, task=str(row["task"]).strip(), needs=tuple(dict.fromkeys(row.get("needs") or ())))
        for n, row in enumerate(pieces, start=1)
    ]


def ready(graph: Sequence[Subtask], results: Mapping[int, Knowledge]) -> list[Subtask]:
    """Return the subtasks that can begin: not done yet, and all that they need holds."""
    sound = {number for number, knowledge in results.items() if knowledge.holds}
    return [subtask for subtask in graph if subtask.number not in results and sound.issuperset(subtask.needs)]


def obstacle(subtask: Subtask, graph: Sequence[Subtask], results: Mapping[int, Knowledge]) -> str:
    for number in subtask.needs:
        if number == subtask.number:
            return "it needs itself"
        if number not in {node.number for node in graph}:
            return f"it needs subtask {number}, which there is not"
        if number in results and not results[number].holds:
            return f"it needs subtask {number}, which has no result that holds"
    waits = next(number for number in subtask.needs if number not in results)
    return f"it waits for subtask {waits}, which cannot begin"


@dataclass(frozen=True)
class Subtasks:
    """A `perceive` part: before the first step the task is divided, and what can be done of it is done."""

    work: PartWork

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        """Return what is known by the subtasks; None in later steps, and where the task is not divided."""
        if state.step or state.must_answer:
            return None
        rights = ctx.capabilities
        every = {*ctx.manifest.tools} if rights is None else rights - OF_EVERY_AGENT
        tools = tuple(sorted(every - self.work.kit.apart))
        child = AgentSpec(name="subtask", instruction="", tools=tools, role=ROLE, system=EXECUTOR, on_demand=True)
        ctx.seen.add(descriptions([tool.schema for name in tools if (tool := self.work.kit.tools.get(name))]))
        values = {"actions": actions_of(child, self.work.kit), "most": MOST_SUBTASKS}
        content = (*opening_blocks(state), *tips_of(ctx), *plan_blocks(ctx))
        # As a decision, so that the budget keeps what the agent's own answer needs, whatever its sub-agents spend.
        question = Inquiry("parts_subtasks", DIVISION, values, content, decides=True)
        reply = await self.work.ask(ctx, question)
        graph = graph_of(reply) if reply is not None else []
        if len(graph) < 2:  # one agent can do it: that is the agent itself
            return None
        run = _Graph(self.work, ctx, child, graph, texts((reply or {}).get("constraints")))
        results = await run.carried_out()
        trust = lowest(trust_of(ctx), *(result.trust for result in results))
        return self.work.seen("parts_subtasks_view", "\n\n".join(result.text for result in results), trust, keep=True)


@dataclass
class _Graph:
    work: PartWork
    ctx: BranchContext[Any]
    child: AgentSpec  # the spec of a sub-agent but for its instruction and context
    graph: Sequence[Subtask]
    constraints: Sequence[str]  # of the whole task
    results: dict[int, Knowledge] = field(default_factory=dict)

    async def carried_out(self) -> list[Knowledge]:
        while wave := ready(self.graph, self.results):
            for knowledge in await self._check(await self._done(wave)):
                self.results[knowledge.subtask.number] = knowledge
            self.ctx.partial = {"steps": 0, "memory": "\n\n".join(result.text for result in self.results.values())}
        rest = [subtask for subtask in self.graph if subtask.number not in self.results]
        reasons = {subtask.number: obstacle(subtask, self.graph, self.results) for subtask in rest}
        self.results |= {
            subtask.number: Knowledge(subtask=subtask, how="not begun", problem=reasons[subtask.number])
            for subtask in rest
        }
        return [self.results[subtask.number] for subtask in self.graph]

    async def _done(self, wave: Sequence[Subtask]) -> list[tuple[Subtask, AgentResult, Trust]]:
        specs = [
            self.child.model_copy(
                update={"name": f"subtask_{part.number}", "instruction": part.task, "context": self._context(part)}
            )
            for part in wave
        ]
        first = self.ctx.last_n + 1
        outcomes = await self.ctx.perform_all([agent_effect(spec, self.ctx) for spec in specs])
        outputs = []
        for n, (subtask, spec, outcome) in enumerate(zip(wave, specs, outcomes, strict=True), start=first):
            path = EffectKey(self.ctx.branch, n).path
            outputs.append((subtask, *handed_back(outcome, trace_of(self.ctx.run.ledger, f"{path}.{spec.name}"))))
        return outputs

    def _context(self, subtask: Subtask) -> tuple[Block, ...]:
        """Return what a sub-agent is given to know: what its result has to fit, and the results that it needs."""
        needs = [self.results[number] for number in subtask.needs]
        trust = trust_of(self.ctx)
        fits = "\n".join(bullets("The whole task, of which yours is a part, asks that", self.constraints))
        pairs = [(fits, trust), *((knowledge.text, knowledge.trust) for knowledge in needs)]
        source = Source(kind="agent", ref=self.ctx.actor)
        return tuple(TextBlock(text=text, source=source, trust=level) for text, level in pairs if text)

    async def _check(self, done: Sequence[tuple[Subtask, AgentResult, Trust]]) -> list[Knowledge]:
        """Return what is known by results: those that came to an end are checked against the task's constraints."""
        completed = [row for row in done if row[1].status is RunStatus.COMPLETED]
        replies = await self.work.ask_all(self.ctx, [self._question(*row) for row in completed])
        by_number = {row[0].number: reply for row, reply in zip(completed, replies, strict=True)}
        return [_knowledge(subtask, result, trust, by_number.get(subtask.number)) for subtask, result, trust in done]

    def _question(self, subtask: Subtask, result: AgentResult, trust: Trust) -> Inquiry:
        sources = [f"{citation.source}, {citation.place}: {citation.quote}" for citation in result.sources]
        words = "\n\n".join(text for text in (result.answer, result.report, *bullets("Sources", sources)) if text)
        block = TextBlock(
            text=words or "nothing", source=Source(kind="agent", ref=f"subtask_{subtask.number}"), trust=trust
        )
        return Inquiry("parts_check", CHECK_FORM, {"task": subtask.task, "constraints": self.constraints}, (block,))


def _knowledge(subtask: Subtask, result: AgentResult, trust: Trust, verdict: Mapping[str, Any] | None) -> Knowledge:
    files = tuple(artifact.name for artifact in result.artifacts)
    knowledge = Knowledge(subtask=subtask, how="unchecked", answer=result.answer, files=files, trust=trust)
    if result.status is not RunStatus.COMPLETED:
        reason = "; ".join((*result.errors[-1:], *([result.report] if result.report else []))) or result.status.value
        return knowledge.model_copy(update={"how": "failed", "problem": reason})
    if verdict is None:
        return knowledge
    facts = [
        f"{fact['fact']} ({fact['source']})" if fact.get("source") else fact["fact"]
        for fact in verdict.get("facts", ())
    ]
    problem = str(verdict.get("problem") or "") or "it breaks what the task asks"
    valid = {"how": "checked"} if verdict["valid"] else {"how": "refused", "problem": problem}
    return knowledge.model_copy(update={**valid, "facts": texts(facts)})
