"""Several models analyse, one makes an answer of theirs (001, sec. 3.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentorchestra.agents.forms import FLAG, TEXT, Form, Inquiry, Questioner, form
from agentorchestra.agents.planning.evidence import citations, evidence_block
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Trust
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext


def merged_form(output: dict[str, Any] | None) -> Form:
    """Return the form of one answer made of several, in the shape that the task asks for."""
    return form(("agreed", "answer"), disagreement=TEXT, agreed=FLAG, answer=output or TEXT)


async def merged_results(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, models: Sequence[str]) -> AgentResult:
    """Return one answer of several models, each in a branch of its own and knowing nothing of the others."""
    results = await ctx.call_agents([spec.model_copy(update={"model": model}) for model in models])
    steps = sum(result.steps for result in results)
    usable = [
        (model, result)
        for model, result in zip(models, results, strict=True)
        if result.answer or result.output is not None
    ]
    if not usable:
        report = "\n\n".join(
            f"{model}: {result.report or result.status.value}" for model, result in zip(models, results, strict=True)
        )
        return results[0].model_copy(update={"report": report, "steps": steps})
    answers = [(f"analyst_{number}", result, Trust.UNTRUSTED) for number, (_, result) in enumerate(usable, start=1)]
    values = {"task": spec.instruction, "output_schema": spec.output_schema or ""}
    question = Inquiry(
        "analysis_merge", merged_form(spec.output_schema), values, (evidence_block(answers),), beside=True
    )
    first = next((result for _, result in usable if result.status is RunStatus.COMPLETED), usable[0][1])
    report = "\n\n".join(f"{model}: {result.answer or result.report}" for model, result in usable)
    # What a hard end of the budget leaves while the summariser is asked.
    ctx.partial = {
        "answer": first.answer,
        "report": report,
        "sources": [source.model_dump(mode="json") for source in first.sources],
        "steps": steps,
    }
    reply = await Questioner(ctx, kit, "summariser").one(question)
    authors = "; ".join(f"analyst_{number} is {model}" for number, (model, _) in enumerate(usable, start=1))
    if reply is None:
        note = f"Nobody could make one answer of those of {len(usable)} models; this is the first one's ({authors})."
        return first.model_copy(update={"report": f"{first.report}\n\n{note}".strip(), "steps": steps})
    answer: Any = reply["answer"]
    disagreement = str(reply.get("disagreement") or "").strip()
    notes = [f"Analysed by {len(usable)} of {len(models)} models ({authors})."]
    silent = [(model, result) for model, result in zip(models, results, strict=True) if (model, result) not in usable]
    notes += [f"{model} gave no answer: {result.report or result.status.value}" for model, result in silent]
    if not reply["agreed"] or disagreement:
        notes.append(f"They disagree: {disagreement or 'it was not said in what'}")
    completed = any(result.status is RunStatus.COMPLETED for _, result in usable)
    return AgentResult(
        status=RunStatus.COMPLETED if completed else first.status,
        answer=answer if isinstance(answer, str) else first.answer,
        output=None if spec.output_schema is None else answer,
        report="\n\n".join(notes),
        sources=citations(answers),
        steps=steps,
    )
