"""The deep analyzer: questions about files and addresses, and tasks that have none (000, app. D.4; 001, sec. 3.3.3).

Before the first step it is told what the sources are, and may answer from that alone. Each round is the ordinary loop,
whose tools read, search, look, compute and analyse a whole file; an answer is taken when its quotes stand. What does
not stand is judged, and the next round knows what was tried. The parts are in `agents/analysis/`.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.analysis.merge import merged_results
from agentorchestra.agents.analysis.rounds import CHECK, DESCRIBE, FETCH, Rounds
from agentorchestra.agents.analysis.tool import NAME as ANALYZE
from agentorchestra.agents.first_view import VIEW
from agentorchestra.agents.forms import Limited
from agentorchestra.agents.types import Kit
from agentorchestra.core.settings import AnalysisSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.environments.report import REPORT
from agentorchestra.runtime.context import BranchContext

NAME = "deep_analyzer"


class AnalysisDriver(Limited[AnalysisSettings]):
    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Analyse what the spec asks for; by several models, where the settings name them and the caller none."""
        if self.limits.models and not spec.model:
            return await merged_results(spec, ctx, kit, self.limits.models)
        return await Rounds(spec, ctx, kit, self.limits).run()


def deep_analyzer(limits: AnalysisSettings | None = None) -> Agent:
    return Agent(
        name=NAME,
        description=(
            "Answers a question from the task's files or from addresses - text, PDFs, tables, pictures, recordings, "
            "archives - and computes with what it finds. Also solves logic and mathematics without files."
        ),
        tools=(
            *(DESCRIBE, VIEW, "search_files", "read_file", "read_artifact"),
            *("ask_media", ANALYZE, "python", FETCH, CHECK),
        ),
        environments=(REPORT,),
        prompt=NAME,
        role="analyzer",
        # 000 and 001 give their analyzer 3 steps, each of which reads whole files; here a step is one look.
        max_steps=12,
        drive=AnalysisDriver(limits or AnalysisSettings()),
    )
