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
from agentorchestra.agents.forms import TEXT, TEXTS, Form, Inquiry, Limited, Questioner, form, limit_status, material
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

MOST_SUBTASKS = 8  # of one plan
WORKER_STEPS = 20  # decisions of a worker for one subtask
EXECUTOR = "react"  # the system that drives a worker for one subtask

PLAN = form(["subtasks"], subtasks=TEXTS)


@dataclass(frozen=True)
class Owl(Limited[OwlSettings]):
    """The system: plan, assign, carry out, plan again, answer."""

    description: ClassVar[str] = "A planner, a coordinator, a web, a document and a coding agent in a fixed workflow."

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        delegates = {delegate.agent.name: delegate for delegate in kit.delegates(ctx, leader=NAME)}
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
        return "\n\n".join(text for text in (self.result.answer, self.result.report) if text) or "nothing"

    def block(self, *, with_status: bool = False) -> Block:
        """Return the result as material; `with_status`: with whether the worker says that it failed, for a planner."""
        status = f" ({'done' if self.completed else 'failed'})" if with_status else ""
        body = f"## Subtask{status}\n{self.subtask}\n\n## Its result\n{self.text}"
        return TextBlock(text=body, source=Source(kind="agent", ref=self.worker), trust=self.trust)


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
            "workers": self._worker_list,
            "most": MOST_SUBTASKS,
            "output_schema": self._schema,
            "again": bool(self.done),
        }
        files = ", ".join(ref.name for ref in self.ctx.manifest.files)
        names = (material(f"Files of the task, which the workers can read: {files}", "names", "file"),) if files else ()
        content = (*self.spec.context, *names, *(subtask.block(with_status=True) for subtask in self.done))
        reply = await self.questioner.one(Inquiry("owl_plan", PLAN, values, content, decides=True))
        self.limited = self.questioner.limited
        subtasks = (str(subtask).strip() for subtask in (reply or {}).get("subtasks", ()))
        return [subtask for subtask in subtasks if subtask][:MOST_SUBTASKS]

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
        values = {"subtask": subtask, "workers": self._worker_list}
        reply = await self.questioner.one(Inquiry("owl_assign", schema, values, decides=True))
        self.limited = self.questioner.limited
        return str((reply or {}).get("worker", ""))

    async def _work(self, subtask: str, worker: str, before: Sequence[Block]) -> _Done:
        """Have a worker do a subtask: it is told that and the results before it, and never the task."""
        if not worker:
            result = AgentResult(status=RunStatus.BLOCKED, report="The coordinator named no worker for it.")
            return _Done(subtask, NAME, result, Trust.AGENT)
        delegate = self.workers[worker]
        spec = delegate.agent.spec(
            subtask,
            context=tuple(before),
            tools=delegate.tools,
            system=EXECUTOR,
            max_steps=WORKER_STEPS,
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
            reason = self.limited or "the planner gave no subtasks"
            status = limit_status(self.limited) if self.limited else RunStatus.BLOCKED
            return AgentResult(status=status, report=f"Nothing was done: {reason}.")
        schema = self.spec.output_schema
        output_form = {} if schema is None else {"output": schema}
        answer_form = form(["answer", *output_form], answer=Form(TEXT, {**TEXT, "minLength": 1}), **output_form)
        if schema is not None and "$defs" in schema:  # where its references look for them
            answer_form = Form(
                answer_form.request | {"$defs": schema["$defs"]}, answer_form.read | {"$defs": schema["$defs"]}
            )
        values = {
            "task": self.spec.instruction,
            "failed": not through,
            "limited": bool(self.limited),
            "output_schema": self._schema,
        }
        content = (*self.spec.context, *(subtask.block(with_status=True) for subtask in self.done))
        reply = await self.questioner.one(Inquiry("owl_answer", answer_form, values, content, final=True))
        self.limited = self.limited or self.questioner.limited
        status = RunStatus.COMPLETED if through and reply is not None else RunStatus.PARTIAL
        return AgentResult(
            status=limit_status(self.limited) if self.limited else status,
            answer=str(reply["answer"]).strip() if reply is not None else self._best,
            output=(reply or {}).get("output"),
            report=self._report,
            sources=tuple(dict.fromkeys(citation for piece in self.done for citation in piece.result.sources)),
            steps=len(self.done),
        )

    @property
    def _worker_list(self) -> list[dict[str, str]]:
        return [{"name": name, "purpose": worker.agent.description} for name, worker in self.workers.items()]

    @property
    def _schema(self) -> str:
        return json.dumps(self.spec.output_schema, sort_keys=True) if self.spec.output_schema else ""

    @property
    def _best(self) -> str:
        """Return the last result that says something, of those that their workers call done where there is one."""
        answers = [subtask for subtask in self.done if subtask.result.answer]
        return next(
            (subtask.result.answer for subtask in reversed(answers) if subtask.completed),
            answers[-1].result.answer if answers else "",
        )

    @property
    def _report(self) -> str:
        statuses = ((subtask, "done" if subtask.completed else "failed") for subtask in self.done)
        return "\n".join(
            f"{n}. {subtask.worker}, {status}: {subtask.subtask}"
            for n, (subtask, status) in enumerate(statuses, start=1)
        )
