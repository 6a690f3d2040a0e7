"""Pieces of the run's report, by which workflows document what they found, through the door (000, app. D.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Outcome
from agentorchestra.core.spec import AgentSpec, Citation
from agentorchestra.environments.report import REPORT
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect


def has_report(ctx: BranchContext[Any]) -> bool:
    """Return True if the agent may write a report in this run: runs of earlier versions have none."""
    capabilities = ctx.capabilities
    is_on = REPORT in ctx.run.services.environments and REPORT in ctx.manifest.tools
    return is_on and (capabilities is None or REPORT in capabilities)


async def act_on_report(ctx: BranchContext[Any], action: str, arguments: Mapping[str, JsonValue]) -> Outcome:
    """Act on the report of the run, where there is one (`has_report`)."""
    environment = ctx.run.services.environments[REPORT]()
    return await ctx.perform(action_effect(environment, action, arguments, role=ctx.role, provenance=ctx.provenance))


async def add_to_report(
    ctx: BranchContext[Any],
    content: str | dict[str, JsonValue],
    *,
    title: str = "",
    citations: Sequence[Citation] = (),
    titles: Mapping[str, str] | None = None,
) -> None:
    """Add a piece to the report of the run, if it has one. Nothing that goes wrong ends the work.

    The content is Markdown with its own links, or marks `[1]` for the first of the citations, or a JSON object. The
    titles are those of the citations' sources, by name.
    """
    empty = not content.strip() if isinstance(content, str) else not content
    if not has_report(ctx) or (empty and not citations):
        return
    source_titles = titles or {}
    records: list[JsonValue] = [
        citation.model_dump(mode="json", exclude_defaults=True)
        | ({"title": source_titles[citation.source]} if source_titles.get(citation.source) else {})
        for citation in citations
    ]
    await act_on_report(ctx, "add", {"content": content, "title": title, "citations": records})


def without_report(spec: AgentSpec) -> AgentSpec:
    """Return a spec whose model is not offered the report: its workflow writes it."""
    return spec.model_copy(update={"tools": tuple(tool for tool in spec.tools if tool != REPORT)})
