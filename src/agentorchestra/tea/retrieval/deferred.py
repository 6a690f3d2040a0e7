"""Tools that an agent rarely needs: their names in the description of `open_tools`, their schemas when it opens them.

    what fits the task ─────────────> schemas in every prompt
    the others ─> a name ─> open_tools > schemas from the next step on, behind the others
                         └> called by name: executed as any other

What an agent may do does not change: only what stands in its prompt. The list of schemas grows at its end alone, so
that what a provider keeps of a prompt stays valid. Of very many tools `tea/retrieval/discovery.py` shows a few.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, Provenance
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolCall, ToolSchema
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.retrieval.discovery import OPEN_TOOLS

LINE_CHARS = 80


class DeferredTools:
    """The toolset of an agent whose rarely used tools (`waiting`, at least one) are opened when they are wanted.

    Each has a line in the description of `open_tools`, or with `by_name` its name.
    """

    def __init__(self, tools: AgentToolset, waiting: Sequence[str], *, by_name: bool = False) -> None:
        self._tools = tools
        self._by_name = by_name
        self._waiting = tuple(sorted(waiting))
        self.own = (self._build(),)
        for own_tool in self.own:
            tools.add(own_tool)

    @property
    def core(self) -> tuple[ToolSchema, ...]:
        return (*[schema for schema in self._tools.schemas() if schema.name not in self._waiting],)

    def schemas(self, open_names: Sequence[str] = ()) -> tuple[ToolSchema, ...]:
        return (*self.core, *self.open_schemas(open_names))

    def open_schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        late = {schema.name for schema in self._tools.open_schemas(names)}
        return tuple(self._tools.schema(name) for name in dict.fromkeys(names) if name in self._waiting or name in late)

    def effect(
        self, call: ToolCall, ctx: Any, provenance: tuple[Provenance, ...], open_names: Sequence[str] = ()
    ) -> Effect:
        return self._tools.effect(call, ctx, provenance)

    def add_later(self, tool: Tool[..., Any]) -> None:
        """Add one more tool in the middle of the work."""
        self._tools.add_later(tool)

    def _build(self) -> Tool[..., Any]:
        lines = [f"- {name}: {_first_words(self._tools.schema(name).description)}" for name in self._waiting]
        entries = [", ".join(self._waiting)] if self._by_name else lines
        description = "\n".join(["Open further tools; you can call them from the next step on:", *entries])
        return _opening(self._waiting, description)


@functools.lru_cache  # agents of one kind open the same ones
def _opening(waiting: tuple[str, ...], description: str) -> Tool[..., Any]:
    @tool(effect="pure", thread=False, cut=False, name=OPEN_TOOLS, description=description)
    def opening(names: list[str]) -> dict[str, JsonValue]:
        valid = [name for name in dict.fromkeys(names) if name in waiting]
        if not valid:
            raise ToolError(f"open_tools opens none of {names}; it opens: {', '.join(waiting)}")
        return {"opened": [*valid]}

    return opening


def _first_words(description: str) -> str:
    sentence = " ".join(description.split()).split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= LINE_CHARS else f"{sentence[: LINE_CHARS - 1]}…"
