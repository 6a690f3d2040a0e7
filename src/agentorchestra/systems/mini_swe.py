"""mini-SWE: one agent with one action, a shell, and a linear history: an executor of AOrchestra (002, sec. 4.3.3).

terminal is among its environments, or `execute` among its tools ─> each call is the action `run` there: the shell and
                                                                   its folder stay
else the tool `bash`                                             ─> each call is a fresh shell in the sandbox's working
                                                                   folder
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.types import Kit
from agentorchestra.core.effects import Effect, Provenance
from agentorchestra.core.errors import SandboxUnavailableError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.tool import Tool

NAME = "bash"
TERMINAL, EXECUTE = "terminal", "execute"
DISABLED = 'the settings want none; set sandbox.backend to "auto" and install bubblewrap or Docker'


async def mini_swe(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Run one agent that has a shell and nothing else; raise SandboxUnavailableError if the run has no shell."""
    if not ctx.run.replaying:
        problem = DISABLED if kit.workshop is None else await kit.workshop.problem()
        if problem:
            raise SandboxUnavailableError(f"mini_swe works in a shell in the sandbox, and {problem}")
    own = spec.model_copy(update={"tools": ()})
    shell = _shell(spec, kit)
    values = {"files": bool(ctx.manifest.files), "fresh": shell.fresh}
    single = replace(kit, max_calls=1)
    return await run_agent(own, ctx, single, prompt="mini_swe", offered=[shell], values=values, receives=False)


def _shell(spec: AgentSpec, kit: Kit) -> Bash:
    if TERMINAL in spec.tools and TERMINAL in kit.environments:
        return Bash(kit.environments[TERMINAL]())
    for name in (EXECUTE, NAME):
        if name in spec.tools and name in kit.tools:
            return Bash(kit.tools[name], fresh=name == NAME)
    raise SandboxUnavailableError(
        f"mini_swe works in a shell, and has neither the environment {TERMINAL!r} nor the tool {NAME!r} here; name one "
        f"of them among its tools ({', '.join(spec.tools) or 'none'})"
    )


@dataclass(frozen=True)
class Bash:
    """The one action (an `Offered`): a command in the run's terminal, or in a fresh shell of the tool `bash`."""

    shell: Tool[..., Any] | Environment
    fresh: bool = False  # whether each call has a shell of its own

    @property
    def schema(self) -> ToolSchema:
        state_note = "" if self.fresh else " Directory and variables stay for the next call."
        return ToolSchema(
            name=NAME,
            description=f"Run a shell command or script in the sandbox and wait for its end.{state_note}",
            parameters={
                "type": "object",
                "properties": {"command": {"type": "string", "description": "What bash runs."}},
                "required": ["command"],
                "additionalProperties": False,
            },
        )

    def effect(self, arguments: dict[str, Any], ctx: Any, provenance: tuple[Provenance, ...]) -> Effect:
        if isinstance(self.shell, Tool):
            return effect_for(self.shell, arguments, role=ctx.role, provenance=provenance)
        return action_effect(self.shell, "run", arguments, role=ctx.role, provenance=provenance)
