"""ReAct: one agent, reasoning and acting in turn until it is done. The baseline every other system is compared with."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.evidence import quote_check
from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session


async def react(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Run one agent linearly over the tools of its spec; the quotes of its answer are looked up by code."""
    tools = tuple(name for name in spec.tools if name not in _OF_TEAMS)
    checks = (quote_check(kit.prompts.get("verification")),) if session.manifest.checks else ()
    own = spec.model_copy(update={"tools": tools})
    return await run_agent(own, session, kit, prompt="react", observe=checks)


_OF_TEAMS = frozenset({"describe_files", "check_quotes"})
"""Tools that the deep analyzer's own code calls, before and after its steps."""
