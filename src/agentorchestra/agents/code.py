"""Code as action: `decide` with a model whose decision is a Python program, not a list of calls (docs/code-action.md).

CodeAct, as OAgents uses it (004): in the program the agent's tools and sub-agents are functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.agents.decider import ModelDecider
from agentorchestra.core.effects import Effect, Provenance
from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.core.reply_text import FENCE, PYTHON
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.replies import ModelReply, decision_fields
from agentorchestra.tea.programs.handler import NAME, program_effect


@dataclass(frozen=True)
class CodeReply:
    """A reply taken apart: its programs, the words around its blocks, and whether the last block has no end."""

    programs: tuple[str, ...]
    words: str
    cut: bool = False


def read_programs(text: str) -> CodeReply:
    """Return the programs of a reply: its blocks fenced as Python, else those without a language."""
    blocks = [match for match in FENCE.finditer(text) if match["inside"].strip()]
    python_blocks = [match for match in blocks if match["language"].casefold() in PYTHON]
    programs = python_blocks or [match for match in blocks if not match["language"]]
    cut = bool(programs) and programs[-1]["open"] is not None
    return CodeReply(tuple(match["inside"] for match in programs), FENCE.sub("\n", text).strip(), cut)


@dataclass
class CodeDecider(ModelDecider):
    """`decide` with a model that answers with a program.

    No tools are offered natively, so that it is one way for all models: code inside the JSON of a call is where they
    make most of their mistakes, and many take no native calls.
    """

    native: bool = False

    def read(
        self, reply: ModelReply, response: ModelResponse, state: State, *, final: bool
    ) -> tuple[dict[str, Any] | None, tuple[ToolCall, ...], str | None]:
        code = read_programs(reply.text)
        fields = decision_fields(code.words) or {"thinking": code.words}
        cut = f"your reply was cut at {self.cut_at(response)} tokens within the program; be brief"
        problem = None
        if response.finish_reason == "content_filter":
            problem = "the provider withheld the reply; put the next step differently"
        elif response.finish_reason == "length" and (code.cut or not code.programs):
            problem = cut
        elif response.tool_calls:
            names = ", ".join(call.name for call in response.tool_calls)
            problem = f"your reply called {names} as a tool; call functions from a program, in one ```python block"
        elif not code.programs:
            problem = (
                "your reply held no program; write exactly one, in a block that begins with ```python and ends with "
                f"```. To finish, call {self.finish} in it, with the answer"
            )
        elif len(code.programs) > 1:
            problem = f"your reply held {len(code.programs)} programs; write exactly one ```python block in a step"
        if problem is not None:
            return fields, (), problem
        call = ToolCall(id=f"call_{state.step}_0", name=NAME, arguments={"code": code.programs[0]})
        return fields, (call,), None

    def effect(
        self,
        call: ToolCall,
        ctx: BranchContext[Any],
        provenance: tuple[Provenance, ...],
        *,
        final: bool,
        open_names: Sequence[str] = (),
    ) -> Effect:
        """Return RunCode; in the last decision the program may call nothing but `done`."""
        code = call.arguments.get("code", "") if isinstance(call.arguments, dict) else ""
        return program_effect(str(code), role=self.role, provenance=provenance, final=final)

    def is_prose(self, reply: ModelReply, fields: dict[str, Any] | None) -> bool:
        """Return True if a reply holds no block at all, and is no decision's JSON."""
        return "```" not in reply.text and not reply.calls and reply.fields is None
