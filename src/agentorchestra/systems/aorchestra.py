"""AOrchestra: an orchestrator that makes its sub-agents on demand (002, sec. 3.2, app. D.1).

    delegate_task(task_instruction, context, tools, model) ─> a sub-agent of this four-tuple works; a reviewer reads
                                                              its log; status, result and findings come back
    complete(answer), or submit(reason) where tests grade  ─> the end

The orchestrator never acts itself. Any system, agent or program can be the executor of its sub-agents (sec. 4.3.3).
`delegate_task`, what comes back of it and the reviewer are in `agents/delegation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agentorchestra.agents.delegation import DelegateTask
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.forms import Limited
from agentorchestra.agents.handler import find_system
from agentorchestra.agents.toolkit import purpose
from agentorchestra.agents.trace import CALLED_BY_CODE
from agentorchestra.agents.types import Kit
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.settings import AOrchestraSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.transformations.base import Factory
from agentorchestra.tea.transformations.e2t import e2t
from agentorchestra.tools.done import complete, done_tool, submit_tool

NAME = "aorchestra"
MAIN = "main"  # its role, beside those of `agents/delegation.py` (002, table 3)

TOOLSETS: Mapping[str, Sequence[str]] = {
    "gaia": ("search", "fetch", "python", "bash", "ask_media", "transcribe_file"),
    "terminal": ("terminal",),
    "swe": ("execute", "view_file", "edit_file"),
}
"""Tools and environments of sub-agents by benchmark (002, table 6); those of SWE by its names, the others by ours."""

SWE = {"execute": ("terminal", "run"), "view_file": ("files", "read"), "edit_file": ("files", "edit")}
"""The actions that are meant by 002's tools for SWE (app. D.2)."""


def swe_tools(environments: Mapping[str, Factory]) -> list[Tool[..., Any]]:
    """Return these actions, as far as the environments are there, as tools of those names."""
    tools = []
    for name, (environment, action) in SWE.items():
        if environment in environments:
            (tool,) = e2t(environments[environment], only=[action], state=False)
            tools.append(tool.with_name(name, tool.version))
    return tools


@dataclass(frozen=True)
class AOrchestra(Limited[AOrchestraSettings]):
    """The system: orchestrate, delegate, complete."""

    finishes_by_call: ClassVar[bool] = True
    description: ClassVar[str] = "Directs sub-agents that it makes for each part, with the tools that the part needs."

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do one task.

        Raises:
            UnknownComponentError: the settings name a toolset of which the run has nothing.
            UnknownSystemError: the settings name an executor that is not there.
        """
        limits = self.limits
        if limits.executor not in kit.agents:
            find_system(limits.executor, kit.systems, kit.absent)
        tools = offered_tools(spec, kit, limits)
        models = offered_models(ctx, limits)
        work = DelegateTask(spec, ctx, kit, limits, tools, models)
        is_graded = limits.toolset in ("terminal", "swe")
        finish = submit_tool() if is_graded else done_tool(spec.output_schema, base=complete)
        own = spec.model_copy(update={"role": MAIN, "tools": ()})
        values = {
            "graded": is_graded,
            "attempts": limits.attempts,
            "context": limits.context,
            "sees_question": limits.question,
            "actions": [{"name": name, "purpose": purpose} for name, purpose in tools.items()],
            "models": [{"name": name, **self._price(real, kit)} for name, real in models.items()],
        }
        narrow = replace(kit, max_calls=limits.parallel)
        result = await run_agent(own, ctx, narrow, prompt=NAME, own=(work.tool, finish), values=values, receives=False)
        sources = dict.fromkeys(citation for _, result in work.finished() for citation in result.sources)
        return result.model_copy(update={"sources": (*result.sources, *sources)})

    def _price(self, model: str, kit: Kit) -> dict[str, str]:
        price = kit.models.dollars(model)
        rates = "" if price is None else f"${price[0]:g} in, ${price[1]:g} out per million tokens"
        return {"price": rates, "guide": self.limits.guide.get(model, "")}


def offered_tools(spec: AgentSpec, kit: Kit, limits: AOrchestraSettings) -> dict[str, str]:
    """Return what sub-agents may be given, by name, with what each is for: of what the orchestrator itself may use.

    Raises:
        UnknownComponentError: of the toolset nothing is in the run.
    """
    available = {*kit.tools, *kit.environments} - CALLED_BY_CODE
    usable = [name for name in spec.tools if name in available]
    subset = TOOLSETS.get(limits.toolset)
    names = [name for name in usable if (name in subset if subset is not None else name not in kit.apart)]
    if subset is not None and not names:
        raise UnknownComponentError(
            f"the toolset {limits.toolset!r} (aorchestra.toolset) needs {' or '.join(subset)}, and the run has none of "
            "them; name environments with --environment, and see that the settings leave the tools on"
        )
    return {name: purpose(name, kit) for name in names}


def offered_models(ctx: BranchContext[Any], limits: AOrchestraSettings) -> dict[str, str]:
    """Return the models that a delegation may name, by the name it uses: their own, or `model_1`, ..."""
    choices = limits.models or ctx.manifest.choices or ()
    return {f"model_{n}" if limits.mask else name: name for n, name in enumerate(choices, start=1)}
