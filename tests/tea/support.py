"""Tools called through the door: a real run over a store in memory, without agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind, Outcome, Provenance
from agentorchestra.core.protocols import Handler
from agentorchestra.core.spec import Pinned
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.code import CodeHandler
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.handler import ToolHandler, effect_for
from agentorchestra.tea.calling.tool import Tool
from tests.runtime.support import Bench, Main

AnyTool = Tool[..., Any]


def seen(trust: Trust) -> tuple[Provenance, ...]:
    """Something of this trust was in view."""
    return (Provenance(kind="file", ref="note.txt", trust=trust),)


class ToolBench:
    """A run in which tools are called.

    Args:
        tools: what may be called.
        folder: where the run keeps its files.
        deps: what the tools find as `ctx.deps`.
        interpreters: of RunCode, by name.
        limits: arguments of ToolHandler.
    """

    def __init__(
        self,
        tools: Sequence[AnyTool],
        folder: Path,
        *,
        deps: Any = None,
        interpreters: Mapping[str, Handler] | None = None,
        **limits: Any,
    ) -> None:
        self.tools = {one.name: one for one in tools}
        self.store = MemoryStore()
        self.handler = ToolHandler(self.tools.get, **limits)
        self.bench = Bench(self.store, {}, folder=folder, deps=deps)
        services = self.bench.services
        handlers = {**services.handlers, EffectKind.INVOKE_TOOL: self.handler}
        handlers[EffectKind.RUN_CODE] = CodeHandler(interpreters or {})
        self.bench.services = replace(services, handlers=handlers)

    async def drive(self, main: Main, run_id: str = "run_test") -> Any:
        """A run with this main function; its result."""
        await self.store.open()
        if await self.store.get_run(run_id) is None:
            pinned = {
                name: Pinned(version=one.version, content_hash=one.content_hash) for name, one in self.tools.items()
            }
            await self.bench.create(run_id, tools=pinned)
        return await self.bench.drive(main, run_id)

    async def call(
        self,
        *calls: tuple[AnyTool, dict[str, Any] | str],
        provenance: tuple[Provenance, ...] = (),
        together: bool = False,
        run_id: str = "run_test",
    ) -> list[Outcome]:
        """The outcomes of calls in one run, one decision each unless they are made together."""
        outcomes: list[Outcome] = []

        async def main(root: BranchContext[Any]) -> str:
            effects = [effect_for(one, given, role="agent", provenance=provenance) for one, given in calls]
            if together:
                outcomes.extend(await root.perform_all(effects))
            else:
                for effect in effects:
                    outcomes.append(await root.perform(effect))
            return "done"

        result = await self.drive(main, run_id)
        assert result.error is None, result.error
        return outcomes

    async def one(self, tool: AnyTool, **arguments: Any) -> Outcome:
        """The outcome of one call."""
        (outcome,) = await self.call((tool, arguments))
        return outcome


def validated(tool: AnyTool, **arguments: Any) -> dict[str, Any]:
    """The keyword arguments of a call that fits."""
    found, sentence = tool.validate(arguments)
    assert found is not None, sentence
    return found


def refused(tool: AnyTool, arguments: dict[str, Any] | str) -> str:
    """The sentence of a call that does not fit."""
    found, sentence = tool.validate(arguments)
    assert found is None and sentence is not None, found
    return sentence
