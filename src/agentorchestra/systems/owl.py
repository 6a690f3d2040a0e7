"""OWL, the workforce that CORAL was compared with: who does what, and what is seen, is decided here (003, fig. 1).

    planner ─> subtasks, one after the other ─> coordinator: whose? ─> worker ─> its result, by its own judgement
       ^                                                                │
       └──── the whole task again, with what was done and why it failed ┘ failed, at most `replans` times
    answerer: the form that the task asks for

It is a baseline, with its weaknesses: nobody but the worker looks whether a subtask was done, and no worker knows the
task. Before the answerer only a planner that plans again sees a result together with the task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentorchestra.agents.agent import Delegate, agent_effect
from agentorchestra.agents.forms import TEXT, TEXTS, Form, Limited, Question, Questioner, form, limit_status, material
from agentorchestra.agents.society.actors import WORKERS
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import Outcome
from agentorchestra.core.settings import OwlSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext

NAME = "owl"
MAIN, WORKER = "main", "worker"
"""The roles whose models can be chosen: of planner, coordinator and answerer, and of the workers (003, sec. 4.1)."""

EXECUTOR = "react"  # the system that drives a worker for one subtask

PLAN = form(["subtasks"], subtasks=TEXTS)


@dataclass(frozen=True)
class Owl(Limited[OwlSettings]):
    """The system: plan, assign, carry out, plan again, answer."""

    description: ClassVar[str] = "A planner, a coordinator, a web, a document and a coding agent in a fixed workflow."

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        delegates = {one.agent.name: one for one in kit.delegates(ctx, leader=NAME)}
        workers = {name: delegates[name] for name in WORKERS if name in delegates}
        return await _Workforce(spec, ctx, self.limits, workers, Questioner(ctx, kit, MAIN, spec.model)).run()


@dataclass(frozen=True)
class _Done:
    subtask: str
    worker: str
    result: AgentResult
    trust: Trust

    @property
    def completed(self) -> bool:
        """Return what the worker says of itself: there is no other check."""
        return self.result.status is RunStatus.COMPLETED

    @property
    def text(self) -> str:
        return "\n\n".join(one for one in (self.result.answer, self.result.report) if one) or "nothing"

    def block(self, *, judged: bool = False) -> Block:
        """Return the result as material; `judged`: with whether the worker says that it failed, for a planner."""
        how = f" ({'done' if self.completed else 'failed'})" if judged else ""
        said = f"## Subtask{how}\n{self.subtask}\n\n## Its result\n{self.text}"
        return TextBlock(text=said, source=Source(kind="agent", ref=self.worker), trust=self.trust)


@dataclass
class _Workforce:
    spec: AgentSpec
    ctx: BranchContext[Any]
    limits: OwlSettings
    workers: Mapping[str, Delegate]
    questioner: Questioner
    done: list[_Done] = field(default_factory=list)
    limited: str = ""

    async def run(self) -> AgentResult:
        """Plan and carry out, until a plan came through or there may be no other; then answer."""
        through = False
        for _ in range(1 + self.limits.replans):
            subtasks = await self._plan()
            through = bool(subtasks) and await self._carry_out(subtasks)
            if through or self.limited or not subtasks:
                break
        return await self._answer(through=through)

    async def _plan(self) -> list[str]:
        """Return the subtasks of the whole task, () where the planner gives none."""
        values = {
            "task": self.spec.instruction,
            "workers": self._described,
            "most": self.limits.subtasks,
            "output_schema": self._schema,
            "again": bool(self.done),
        }
        files = ", ".join(one.name for one in self.ctx.manifest.files)
        named = (material(f"Files of the task, which the workers can read: {files}", "names", "file"),) if files else ()
        content = (*self.spec.context, *named, *(one.block(judged=True) for one in self.done))
        reply = await self.questioner.one(Question("owl_plan", PLAN, values, content, decides=True))
        self.limited = self.questioner.limited
        subtasks = (str(one).strip() for one in (reply or {}).get("subtasks", ()))
        return [one for one in subtasks if one][: self.limits.subtasks]

    async def _carry_out(self, subtasks: Sequence[str]) -> bool:
        """Have the subtasks done, one after the other; return False at the first one that failed."""
        before: list[Block] = []
        for subtask in subtasks:
            worker = await self._assign(subtask)
            if self.limited:
                return False
            self.done.append(await self._work(subtask, worker, before))
            self.ctx.partial = {"steps": len(self.done), "answer": self._best, "report": self._report}
            if not self.done[-1].completed:
                return False
            before.append(self.done[-1].block())
        return True

    async def _assign(self, subtask: str) -> str:
        """Return the name of the worker that the coordinator assigns, "" where it names none that there is."""
        schema = form(["worker"], worker={**TEXT, "enum": [*self.workers]})
        values = {"subtask": subtask, "workers": self._described}
        reply = await self.questioner.one(Question("owl_assign", schema, values, decides=True))
        self.limited = self.questioner.limited
        return str((reply or {}).get("worker", ""))

    async def _work(self, subtask: str, worker: str, before: Sequence[Block]) -> _Done:
        """Have a worker do a subtask: it is told that and the results before it, and never the task."""
        if not worker:
            nobody = AgentResult(status=RunStatus.BLOCKED, report="The coordinator named no worker for it.")
            return _Done(subtask, NAME, nobody, Trust.AGENT)
        chosen = self.workers[worker]
        spec = chosen.agent.spec(
            subtask,
            context=tuple(before),
            tools=chosen.tools,
            system=EXECUTOR,
            max_steps=self.limits.worker_steps,
            on_demand=True,
        )
        outcome = await self.ctx.perform(agent_effect(spec, self.ctx))
        return _Done(subtask, worker, self._result_of(outcome), outcome.trust)

    def _result_of(self, outcome: Outcome) -> AgentResult:
        """Return a worker's result; of one that did not come to its end why."""
        if outcome.ok:
            return AgentResult.model_validate(outcome.value)
        if outcome.status == "limited":
            self.limited = outcome.error or "the budget has no room for more"
        return AgentResult(status=RunStatus.BLOCKED, report=outcome.error or "It came to no end.")

    async def _answer(self, *, through: bool) -> AgentResult:
        """Return the end in the form that the task asks for; without an answerer the last result as it stands."""
        if not self.done:
            why = self.limited or "the planner gave no subtasks"
            status = limit_status(self.limited) if self.limited else RunStatus.BLOCKED
            return AgentResult(status=status, report=f"Nothing was done: {why}.")
        schema = self.spec.output_schema
        wanted = {} if schema is None else {"output": schema}
        asked = form(["answer", *wanted], answer=Form(TEXT, {**TEXT, "minLength": 1}), **wanted)
        if schema is not None and "$defs" in schema:  # where its references look for them
            asked = Form(asked.asked | {"$defs": schema["$defs"]}, asked.read | {"$defs": schema["$defs"]})
        values = {
            "task": self.spec.instruction,
            "failed": not through,
            "limited": bool(self.limited),
            "output_schema": self._schema,
        }
        content = (*self.spec.context, *(one.block(judged=True) for one in self.done))
        reply = await self.questioner.one(Question("owl_answer", asked, values, content, final=True))
        self.limited = self.limited or self.questioner.limited
        status = RunStatus.COMPLETED if through and reply is not None else RunStatus.PARTIAL
        return AgentResult(
            status=limit_status(self.limited) if self.limited else status,
            answer=str(reply["answer"]).strip() if reply is not None else self._best,
            output=(reply or {}).get("output"),
            report=self._report,
            sources=tuple(dict.fromkeys(one for piece in self.done for one in piece.result.sources)),
            steps=len(self.done),
        )

    @property
    def _described(self) -> list[dict[str, str]]:
        return [{"name": name, "purpose": one.agent.description} for name, one in self.workers.items()]

    @property
    def _schema(self) -> str:
        return json.dumps(self.spec.output_schema, sort_keys=True) if self.spec.output_schema else ""

    @property
    def _best(self) -> str:
        """Return the last result that says something, of those that their workers call done where there is one."""
        said = [one for one in self.done if one.result.answer]
        return next(
            (one.result.answer for one in reversed(said) if one.completed), said[-1].result.answer if said else ""
        )

    @property
    def _report(self) -> str:
        how = ((one, "done" if one.completed else "failed") for one in self.done)
        return "\n".join(f"{n}. {one.worker}, {said}: {one.subtask}" for n, (one, said) in enumerate(how, start=1))
