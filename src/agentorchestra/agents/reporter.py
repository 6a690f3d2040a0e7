"""The reporter: writes the report from what the team found; its references are made by code (000, app. D.7)."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.evidence import citations, evidence_block, results_before
from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.agents.references import make_report
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session

NAME = "reporter"


async def report(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Show the evidence, let the model write, number its marks."""
    caller = session.parent
    found = results_before(caller, upto=session.asked_at) if caller is not None else []
    shown = spec.model_copy(update={"context": (*spec.context, evidence_block(found))})
    result = await run_agent(shown, session, kit, prompt=NAME)
    made = make_report(result.answer, citations(found), session.manifest.files)
    said = "\n".join(part for part in (result.report, *made.notes) if part)
    return result.model_copy(update={"answer": made.text, "sources": made.sources, "report": said})


REPORTER = Agent(
    name=NAME,
    description=(
        "Writes the final report from everything the agents have found so far, with numbered references. Ask it when "
        "a report or a longer text is wanted, after the findings are there. Say what it is to answer, and for whom."
    ),
    tools=(),
    prompt=NAME,
    role="reporter",
    max_steps=3,
    drive=report,
)

__all__ = ["REPORTER", "report"]
