"""The deep researcher: many pages on one question, in rounds, every claim with its source (000, app. D.3; 001, 3.3.1).

Its workflow is code (research/workflow.py); the model plans, reads, judges and writes. Each search, page and question
is an effect, so a resume goes on where it was and nothing is read or paid twice.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import Limited, Questioner
from agentorchestra.agents.requests import model_of
from agentorchestra.agents.research.allowance import ResearchAllowance
from agentorchestra.agents.research.reader import FETCH, PYTHON, READ, SEARCH, ResearchReader
from agentorchestra.agents.research.workflow import Research
from agentorchestra.agents.search.tool import search_parts
from agentorchestra.agents.types import Kit
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.environments.report import REPORT
from agentorchestra.runtime.context import BranchContext

NAME = "deep_researcher"
VARIANTS = 1  # of each query that are searched as well, in other words, where `parts.expand` says nothing


class ResearchDriver(Limited[ResearchSettings]):
    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        questioner = Questioner(ctx, kit, spec.role, spec.model)
        sees = model_of(spec, ctx) in ctx.manifest.media_models.get("image", ())
        parts = search_parts(ctx)
        variants = VARIANTS if parts.expand is None else parts.expand
        allowance = ResearchAllowance(ctx, self.limits, questioner)
        reading = ResearchReader(ctx, questioner, self.limits, allowance, frozenset(spec.tools), sees)
        return await Research(spec, ctx, self.limits, questioner, reading, bool(parts.reflect), variants).run()


def deep_researcher(limits: ResearchSettings | None = None) -> Agent:
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
        drive=ResearchDriver(limits or ResearchSettings()),
    )
