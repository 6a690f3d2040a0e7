"""The packaged experts of debates (000, app. G.2)."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent

DEBATE = "debate"
GUEST = "guest_expert"
ROLE = "expert"
TOOLS = ("python", "read_file", "search_files", "search", "fetch")
"""What packaged experts compute with, and look up what they say in; less where a run has less."""

FINANCE_EXPERT = Agent(
    name="finance_expert",
    description=(
        "Finance expert for debates: markets, companies and their figures, valuation, stocks, bonds, portfolios and "
        "what an investment is good for."
    ),
    tools=TOOLS,
    prompt="finance_expert",
    role=ROLE,
    max_steps=6,
    within=(DEBATE,),
)

MATHEMATICS_EXPERT = Agent(
    name="mathematics_expert",
    description=(
        "Mathematics expert for debates: quantities and models, probability and statistics, risk, proof, what follows "
        "from assumptions and what does not."
    ),
    tools=TOOLS,
    prompt="mathematics_expert",
    role=ROLE,
    max_steps=6,
    within=(DEBATE,),
)

GUEST_EXPERT = Agent(
    name=GUEST,
    description="Speaks in a debate as whoever the user describes.",
    tools=TOOLS,
    prompt=GUEST,
    role=ROLE,
    max_steps=6,
    within=(DEBATE,),
)

EXPERTS = (FINANCE_EXPERT, GUEST_EXPERT, MATHEMATICS_EXPERT)

__all__ = ["DEBATE", "EXPERTS", "FINANCE_EXPERT", "GUEST", "GUEST_EXPERT", "MATHEMATICS_EXPERT", "ROLE"]
