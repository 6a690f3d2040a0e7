"""The deep analyzer: questions about the files of a task, answered with quotes that stand where it says (000, app. D).

Before the first step it is told what the files are; after the last one each quote is checked against its file.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.core.content import Source
from agentorchestra.core.spec import AgentResult, AgentSpec, Citation
from agentorchestra.runtime.session import Session

NAME = "deep_analyzer"


async def analyse(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Metadata first, then the ordinary loop, then the check of its quotes."""
    if session.manifest.files and "describe_files" in kit.tools:
        described = await session.call_tool("describe_files")
        shown = described.blocks(Source(kind="tool", ref="describe_files"))
        spec = spec.model_copy(update={"context": (*spec.context, *shown)})
    own = spec.model_copy(update={"tools": tuple(name for name in spec.tools if name not in _BEFORE_AND_AFTER)})
    return await checked(await run_agent(own, session, kit, prompt=NAME), session, kit)


_BEFORE_AND_AFTER = frozenset({"describe_files", "check_quotes"})


async def checked(result: AgentResult, session: Session[Any], kit: Kit) -> AgentResult:
    """The result without the quotes from files that do not stand at their places; the report says which."""
    names = {ref.name for ref in session.manifest.files}
    quoted = [one for one in result.sources if one.source in names and one.place and one.quote]
    if not quoted or "check_quotes" not in kit.tools:
        return result
    outcome = await session.call_tool("check_quotes", quotes=[one.model_dump(mode="json") for one in quoted])
    stands = outcome.value if outcome.ok and isinstance(outcome.value, list) else []
    wrong = [one for one, found in zip(quoted, stands, strict=False) if found is False]
    if not wrong:
        return result
    kept = tuple(one for one in result.sources if one not in wrong)
    struck = "; ".join(_shown(one) for one in wrong)
    report = f"{result.report}\n\n" if result.report else ""
    return result.model_copy(
        update={"sources": kept, "report": f"{report}Struck out, not found word for word at its place: {struck}"}
    )


def _shown(one: Citation) -> str:
    quote = " ".join(one.quote.split())
    return f"“{quote[:120]}” ({one.source}, {one.place})"


DEEP_ANALYZER = Agent(
    name=NAME,
    description=(
        "Answers a question from the files of the task: text, pages of PDFs, tables and their cells, and computes with "
        "what it finds. Say which file and what is to be found. It gives the answer with quotes and their places."
    ),
    tools=("describe_files", "search_files", "read_file", "read_artifact", "python", "check_quotes"),
    prompt=NAME,
    role="analyzer",
    # 000 gives its analyzer 3 steps, each of which reads whole files; here a step is one look.
    max_steps=12,
    drive=analyse,
)

__all__ = ["DEEP_ANALYZER", "analyse", "checked"]
