"""The deep researcher: many pages on one question, in rounds, every claim with its source (000, app. D.3; 001, 3.3.1).

Its workflow is code (research/workflow.py); the model plans, reads, judges and writes. Each search, page and question
is an effect, so a resume goes on where it was and nothing is read or paid twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import Asking
from agentorchestra.agents.reporting.pieces import REPORT
from agentorchestra.agents.requests import model_of
from agentorchestra.agents.research.allowance import Allowance
from agentorchestra.agents.research.reader import FETCH, PYTHON, READ, SEARCH, Reading
from agentorchestra.agents.research.workflow import Research
from agentorchestra.agents.types import Kit
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session

NAME = "deep_researcher"


@dataclass(frozen=True)
class Researching:
    """Drives the researcher.

    Attributes:
        limits: of one research.
    """

    limits: ResearchSettings = field(default_factory=ResearchSettings)

    @property
    def content_hash(self) -> str:
        """The limits are a part of what the agent is."""
        return sha256_json(self.limits.model_dump(mode="json"))

    async def __call__(self, spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
        """Research what the spec asks for."""
        asking = Asking(session, kit, spec.role, spec.model)
        model = model_of(spec, session)
        sees = model in session.manifest.media_models.get("image", ())
        allowance = Allowance(session, self.limits, asking)
        reading = Reading(session, asking, self.limits, allowance, frozenset(spec.tools), sees)
        return await Research(spec, session, self.limits, asking, reading).run()


def deep_researcher(limits: ResearchSettings | None = None) -> Agent:
    """The agent, with the limits of the settings."""
    return Agent(
        name=NAME,
        description=(
            "Researches a question on the web, in archives and in the task's files: facts from many sources, and where "
            "sources disagree. It gives the answer and a report with numbered sources."
        ),
        tools=(SEARCH, FETCH, READ, PYTHON),
        environments=(REPORT,),
        needs=(SEARCH, FETCH),
        prompt="research_plan",
        role="researcher",
        max_steps=3,
        drive=Researching(limits or ResearchSettings()),
    )


__all__ = ["NAME", "Researching", "deep_researcher"]
