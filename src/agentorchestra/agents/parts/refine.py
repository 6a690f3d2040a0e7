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
from agentorchestra.agents.forms import TEXT, TEXTS, Form, Inquiry, form, material
from agentorchestra.agents.optimiser.evidence import cut
from agentorchestra.agents.outputs import ToolOutput, outputs
from agentorchestra.agents.parts.base import PartWork, bullets, texts
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
_ENDS = frozenset({RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT})


async def refine_answer(result: AgentResult, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Return the result of a run's top agent with an answer that was refined as the run's parts say.

    It stays as it is without an answer in words, where the budget has ended the work, and where a reply cannot be had.
    """
    method = ctx.manifest.parts.refine or "none"
    in_words = result.answer.strip() and (result.output is None or spec.output_schema is not None)
    if method == "none" or not in_words or result.status in _ENDS:
        return result
    context = (*spec.context, *(() if spec.on_demand else await short_files(ctx, spec)))
    work = _Refinement(spec, ctx, PartWork(spec, kit), (*context, *_output_blocks(outputs(ctx))))
    for _ in range(ctx.manifest.parts.rounds or ROUNDS):
        critique = await (work.gradient(result.answer) if method == "textgrad" else work.reflection(result.answer))
        better = await work.step(result, critique) if critique else None
        if better is None or better.answer == result.answer:
            break
        result = better
    return result


def _output_blocks(tool_outputs: Sequence[ToolOutput]) -> list[Block]:
    """Return what tools gave, each once, shortened evenly."""
    unlike = [*{(output.name, output.request, output.text): output for output in tool_outputs}.values()]
    room = MOST_OUTPUTS // max(1, len(unlike))
    return [
        TextBlock(
            text=cut(f"{output.asker} called {output.name}: {output.request}\nIt gave: {output.text}", room),
            source=Source(kind="tool", ref=output.name),
            trust=output.trust,
        )
        for output in unlike
    ]


class _Refinement:
    def __init__(self, spec: AgentSpec, ctx: BranchContext[Any], work: PartWork, context: tuple[Block, ...]) -> None:
        self._spec, self._ctx, self._work, self._context = spec, ctx, work, context

    async def gradient(self, answer: str) -> str:
        loss = await self._ask(LOSS, _LOSS, answer)
        problems = texts((loss or {}).get("problems"))
        if not problems:
            return ""
        problem_list = "\n".join(f"- {problem}" for problem in problems)
        reply = await self._ask(GRADIENT, _GRADIENT, answer, ("The problems:", problem_list))
        return str((reply or {}).get("feedback") or "").strip() or problem_list

    async def reflection(self, answer: str) -> str:
        """Return what is wrong with an answer by self-reflection, "" for nothing."""
        reply = await self._ask(REFLECTION, _REFLECTION, answer) or {}
        return "\n".join(line for name, title in _TITLES.items() for line in bullets(title, texts(reply.get(name))))

    async def step(self, result: AgentResult, critique: str) -> AgentResult | None:
        schema = self._spec.output_schema
        extra = {} if schema is None else {"output": schema}
        reply_form = form(["answer", *extra], answer=Form(TEXT, {**TEXT, "minLength": 1}), **extra)
        if schema is not None and "$defs" in schema:  # where its references look for them
            reply_form = Form(
                reply_form.request | {"$defs": schema["$defs"]}, reply_form.read | {"$defs": schema["$defs"]}
            )
        values = {"output_schema": json.dumps(schema, sort_keys=True) if schema else ""}
        reply = await self._ask(STEP, reply_form, result.answer, ("What is to be bettered:", critique), values)
        if reply is None:
            return None
        return result.model_copy(
            update={"answer": str(reply["answer"]).strip(), "output": reply.get("output", result.output)}
        )

    async def _ask(
        self,
        prompt: str,
        schema: Form,
        answer: str,
        critique: tuple[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        content = [*self._context, block_from("The answer:", trust=Trust.SYSTEM), material(answer, "answer")]
        if critique is not None:
            content += [block_from(critique[0], trust=Trust.SYSTEM), material(critique[1], "critique")]
        fields = {"task": self._spec.instruction, "found": bool(self._context), **(values or {})}
        question = Inquiry(prompt, schema, fields, tuple(content))
        return await self._work.ask(self._ctx, question)
