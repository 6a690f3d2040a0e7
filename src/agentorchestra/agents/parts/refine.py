"""Refinement: a run's answer is criticised and written anew before it is given (000, sec. 3.4 and table 5).

    textgrad: answer ─> loss: problems ─> gradient: what should change ─> step: a better answer
    reflect:  answer ─> diagnosis: failures, missing, assumptions, unsafe ─> a better answer

The solution is the variable. Each round begins with the answer of the round before; the rounds end where the critique
finds nothing. Whoever criticises knows the task, the answer and what tools gave: never the truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentorchestra.agents.first_view import short_files
from agentorchestra.agents.forms import TEXT, TEXTS, Form, Question, form, material
from agentorchestra.agents.optimiser.evidence import cut
from agentorchestra.agents.outputs import Output, outputs
from agentorchestra.agents.parts.base import Work, listed, texts
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext

LOSS, GRADIENT, REFLECTION, STEP = "refine_loss", "refine_gradient", "refine_reflection", "refine_step"

ROUNDS = 3  # rounds at most, where nobody says another number (000 names none)
REQUESTS = {"textgrad": 3, "reflect": 2}  # requests of a round
MOST_OUTPUTS = 12_000  # characters of what tools gave that whoever criticises is shown

_LOSS = form(["problems"], problems=TEXTS)
_GRADIENT = form(["feedback"], feedback=TEXT)
_REFLECTION = form(["failures"], failures=TEXTS, missing=TEXTS, assumptions=TEXTS, unsafe=TEXTS)
_TITLES = {
    "failures": "What is wrong",
    "missing": "What is missing",
    "assumptions": "What is assumed without ground",
    "unsafe": "What is unsafe",
}
_ENDED = frozenset({RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT})


async def refined(result: AgentResult, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Return the result of a run's top agent with an answer that was refined as the run's parts say.

    It stays as it is without an answer in words, where the budget has ended the work, and where a reply cannot be had.
    """
    how = ctx.manifest.parts.refine or "none"
    in_words = result.answer.strip() and (result.output is None or spec.output_schema is not None)
    if how == "none" or not in_words or result.status in _ENDED:
        return result
    known = (*spec.context, *(() if spec.on_demand else await short_files(ctx, spec)))
    work = _Refinement(spec, ctx, Work(spec, kit), (*known, *_found(outputs(ctx))))
    for _ in range(ctx.manifest.parts.rounds or ROUNDS):
        said = await (work.gradient(result.answer) if how == "textgrad" else work.reflection(result.answer))
        better = await work.step(result, said) if said else None
        if better is None or better.answer == result.answer:
            break
        result = better
    return result


def _found(shown: Sequence[Output]) -> list[Block]:
    """Return what tools gave, each once, shortened evenly."""
    unlike = [*{(one.name, one.asked, one.text): one for one in shown}.values()]
    room = MOST_OUTPUTS // max(1, len(unlike))
    return [
        TextBlock(
            text=cut(f"{one.asker} called {one.name}: {one.asked}\nIt gave: {one.text}", room),
            source=Source(kind="tool", ref=one.name),
            trust=one.trust,
        )
        for one in unlike
    ]


class _Refinement:
    def __init__(self, spec: AgentSpec, ctx: BranchContext[Any], work: Work, known: tuple[Block, ...]) -> None:
        self._spec, self._ctx, self._work, self._known = spec, ctx, work, known

    async def gradient(self, answer: str) -> str:
        loss = await self._asked(LOSS, _LOSS, answer)
        problems = texts((loss or {}).get("problems"))
        if not problems:
            return ""
        said = "\n".join(f"- {one}" for one in problems)
        reply = await self._asked(GRADIENT, _GRADIENT, answer, ("The problems:", said))
        return str((reply or {}).get("feedback") or "").strip() or said

    async def reflection(self, answer: str) -> str:
        """Return what is wrong with an answer by self-reflection, "" for nothing."""
        reply = await self._asked(REFLECTION, _REFLECTION, answer) or {}
        return "\n".join(line for name, title in _TITLES.items() for line in listed(title, texts(reply.get(name))))

    async def step(self, result: AgentResult, said: str) -> AgentResult | None:
        schema = self._spec.output_schema
        wanted = {} if schema is None else {"output": schema}
        asked = form(["answer", *wanted], answer=Form(TEXT, {**TEXT, "minLength": 1}), **wanted)
        if schema is not None and "$defs" in schema:  # where its references look for them
            asked = Form(asked.asked | {"$defs": schema["$defs"]}, asked.read | {"$defs": schema["$defs"]})
        values = {"output_schema": json.dumps(schema, sort_keys=True) if schema else ""}
        reply = await self._asked(STEP, asked, result.answer, ("What is to be bettered:", said), values)
        if reply is None:
            return None
        return result.model_copy(
            update={"answer": str(reply["answer"]).strip(), "output": reply.get("output", result.output)}
        )

    async def _asked(
        self,
        prompt: str,
        schema: Form,
        answer: str,
        said: tuple[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        content = [*self._known, block_from("The answer:", trust=Trust.SYSTEM), material(answer, "answer")]
        if said is not None:
            content += [block_from(said[0], trust=Trust.SYSTEM), material(said[1], "critique")]
        given = {"task": self._spec.instruction, "found": bool(self._known), **(values or {})}
        question = Question(prompt, schema, given, tuple(content))
        return await self._work.ask(self._ctx, question)
