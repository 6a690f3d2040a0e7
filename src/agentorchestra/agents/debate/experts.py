"""The packaged experts of debates (000, app. G.2)."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent

DEBATE = "debate"
GUEST = "guest_expert"
ROLE = "expert"
TOOLS = ("python", "read_file", "search_files", "search", "fetch")
"""What packaged experts compute with, and look up what they say in; less where a run has less."""


def _expert(name: str, description: str) -> Agent:
    return Agent(name=name, description=description, tools=TOOLS, prompt=name, role=ROLE, max_steps=6, within=(DEBATE,))


FINANCE_EXPERT = _expert(
    "finance_expert",
    "Finance expert for debates: markets, companies and their figures, valuation, stocks, bonds, portfolios and "
    "what an investment is good for.",
)
MATHEMATICS_EXPERT = _expert(
    "mathematics_expert",
    "Mathematics expert for debates: quantities and models, probability and statistics, risk, proof, what follows "
    "from assumptions and what does not.",
)
GUEST_EXPERT = _expert(GUEST, "Speaks in a debate as whoever the user describes.")
EXPERTS = (FINANCE_EXPERT, GUEST_EXPERT, MATHEMATICS_EXPERT)
