"""The deep analyzer: questions about the files of a task, answered with quotes that stand where it says (000, app. D).

Before the first step it is told what the files are; before its answer is taken each quote is looked up in its file.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.evidence import CHECK, QuoteCheck
from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.core.content import Source
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session

NAME = "deep_analyzer"
DESCRIBE = "describe_files"


async def analyse(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Metadata first, then the ordinary loop; an answer is taken when its quotes stand in the files."""
    if session.manifest.files and DESCRIBE in spec.tools:
        described = await session.call_tool(DESCRIBE)
        shown = described.blocks(Source(kind="tool", ref=DESCRIBE))
        spec = spec.model_copy(update={"context": (*spec.context, *shown)})
    own = spec.model_copy(update={"tools": tuple(name for name in spec.tools if name not in (DESCRIBE, CHECK))})
    check = QuoteCheck(kit.prompts.get("verification"))
    return await run_agent(own, session, kit, prompt=NAME, observe=(check,))


DEEP_ANALYZER = Agent(
    name=NAME,
    description=(
        "Answers a question from the files of the task: text, pages of PDFs, tables and their cells, and computes with "
        "what it finds. Say which file and what is to be found. It gives the answer with quotes and their places."
    ),
    tools=(DESCRIBE, "search_files", "read_file", "read_artifact", "ask_media", "python", CHECK),
    prompt=NAME,
    role="analyzer",
    # 000 gives its analyzer 3 steps, each of which reads whole files; here a step is one look.
    max_steps=12,
    drive=analyse,
)

__all__ = ["DEEP_ANALYZER", "analyse"]
