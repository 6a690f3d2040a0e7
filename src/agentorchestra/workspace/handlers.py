"""The handlers: who executes each kind of effect in the runs of a workspace, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Handler
from agentorchestra.core.settings import Settings
from agentorchestra.runtime.code import CodeHandler
from agentorchestra.runtime.direct_calls import LiveMapping
from agentorchestra.runtime.handlers import builtin_handlers
from agentorchestra.runtime.run import Asker, Services
from agentorchestra.runtime.session import Session
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.workspace.catalog import Stock
from agentorchestra.workspace.parts import Equipment
from agentorchestra.workspace.place import Place

if TYPE_CHECKING:
    from agentorchestra.agents.types import Kit
    from agentorchestra.tea.calling.threads import Threads
    from agentorchestra.tea.programs.interpreter import Interpreter
    from agentorchestra.tea.registry.servers import TCPServer
    from agentorchestra.tools.registry import BuiltinTools

MAX_THREADS = 32
"""Plain functions among the tools that run at the same time, over all runs of a workspace."""


def _threads() -> Threads:
    from agentorchestra.tea.calling.threads import Threads

    return Threads(MAX_THREADS)


@dataclass(kw_only=True)
class Supply:
    """Registers the handlers for the runs of an open workspace.

    Attributes:
        settings, place, stock: of the workspace.
        builtin: the packaged tools, with their interpreters and the sandbox.
        finder: looks for components that fit a task.
        tcp: where tools that were made are registered.
        environ: where secrets are.
        policy: the user's, None for the default one.
        wrap: replaces or wraps handlers.
        asker: answers questions in place; None where nobody can now.
        deps: the user's dependencies.
        programs: the interpreters of programs as decisions.
        threads: one for all runs: it bounds the threads in which plain functions run.
    """

    settings: Settings
    place: Place
    stock: Stock
    builtin: BuiltinTools
    finder: Any
    tcp: Callable[[], TCPServer]
    environ: Mapping[str, str]
    policy: Policy | None
    wrap: Callable[[dict[EffectKind, Handler]], dict[EffectKind, Handler]] | None
    asker: Callable[[], Asker | None]
    deps: Callable[[], Any]
    programs: tuple[Interpreter, ...]
    threads: Threads = field(default_factory=_threads)

    async def aclose(self) -> None:
        """Let the threads end, close the interpreters of programs."""
        await self.threads.aclose()
        for interpreter in self.programs:
            await interpreter.aclose()

    def for_calls(self, called: Mapping[str, Any]) -> Services:
        """What the calls outside of runs are driven with; they see what is registered meanwhile.

        Args:
            called: their tools, by `name@version`.
        """
        tools = LiveMapping(lambda: self.stock.tools)
        environments = LiveMapping(lambda: self.stock.every_environment)
        equipment = Equipment(tools, self.stock.models, self.stock.prompts)
        return self._services(equipment, None, environments, environments, called)

    def for_run(self, equipment: Equipment, policy: Policy | None = None) -> Services:
        """What a run is driven with.

        Args:
            equipment: its tools, models and prompts.
            policy: in place of the workspace's.
        """
        every = self.stock.environments_for(equipment)
        shown = every
        if equipment.recorded is not None:
            shown = {name: one for name, one in every.items() if name in equipment.recorded.tools}
        return self._services(equipment, policy, every, shown, None)

    def _services(
        self,
        equipment: Equipment,
        policy: Policy | None,
        environments: Mapping[str, Any],
        shown: Mapping[str, Any],
        called: Mapping[str, Any] | None,
    ) -> Services:
        """Services with all environments, of which agents are shown these."""
        from agentorchestra.agents.agent import agent_effect
        from agentorchestra.agents.requests import request_effect

        hidden = self.stock.hidden(equipment)
        kit = self._kit(equipment, shown, hidden)
        handlers = self._handlers(equipment, kit, called)
        if self.wrap is not None:
            handlers = self.wrap(handlers)
        chosen = policy or self.policy

        def tool_effect(name: str, arguments: dict[str, JsonValue], session: Session[Any]) -> Effect:
            found = equipment.tools.get(name)
            if found is None:
                raise UnknownComponentError(f"no tool {name!r}; the tools: {', '.join(sorted(equipment.tools))}")
            return effect_for(found, arguments, role=session.role, provenance=session.provenance)

        kinds: dict[EffectKind, Mapping[str, Any]] = {
            EffectKind.INVOKE_TOOL: equipment.tools,
            EffectKind.INVOKE_ACTION: shown,
            EffectKind.INVOKE_AGENT: kit.agents,
            EffectKind.SPAWN: kit.agents,
        }

        def granted(effect: Effect) -> frozenset[str]:
            found = kinds.get(effect.kind, {}).get(effect.name)
            named = hidden & {*getattr(found, "environments", ())}
            return named | frozenset(getattr(found, "uses", ()))

        return Services(
            store=self.place.store,
            handlers=handlers,
            policy=lambda folder: chosen or DefaultPolicy(self.settings.policy, folder=folder),
            environments=environments,
            secrets=self.place.secrets(),
            environ=self.environ,
            asker=self.asker(),
            runs_folder=self.place.runs_folder,
            deps=self.deps(),
            clock=self.place.clock,
            tool_effect=tool_effect,
            agent_effect=agent_effect,
            request_effect=partial(request_effect, kit),
            granted=granted,
        )

    def _kit(self, equipment: Equipment, environments: Mapping[str, Any], hidden: frozenset[str]) -> Kit:
        """What the agents of a run are made with."""
        from agentorchestra.agents.registry import builtin_agents, wants_in_run
        from agentorchestra.agents.types import Kit

        stock = self.stock
        team: Mapping[str, Any] = stock.team(equipment)
        # Where there is an agent for an environment, general workers do not have it besides.
        expert = {name for one in team.values() if one.on_request for name in one.environments}
        agents = team
        if equipment.recorded is not None:
            agents = {name: one for name, one in team.items() if name in equipment.recorded.agents}
        own = {*equipment.tools} - stock.builtin | {*environments}
        return Kit(
            tools=equipment.tools,
            environments=environments,
            prompts=equipment.prompts,
            models=equipment.models,
            systems=stock.systems,
            agents=agents,
            given=tuple(sorted(own - stock.behind - hidden - expert)),
            choices=tuple(sorted(self.settings.models)),
            finder=self.finder,
            behind=stock.agents_behind,
            memories=stock.memories,
            apart=hidden,
            absent={name: wants_in_run(one) for name, one in stock.agents.items() if name not in agents},
            workshop=self._workshop(),
            packaged=tuple(builtin_agents()),
        )

    def _handlers(self, equipment: Equipment, kit: Kit, called: Mapping[str, Any] | None) -> dict[EffectKind, Handler]:
        from agentorchestra.agents.handler import AgentHandler
        from agentorchestra.models.handler import RequestModelHandler
        from agentorchestra.models.services import EmbedHandler, TranscribeHandler
        from agentorchestra.tea.calling.handler import ToolHandler
        from agentorchestra.tea.memory.handler import MemoryHandler
        from agentorchestra.tea.programs.handler import NAME as PROGRAM
        from agentorchestra.tea.programs.handler import ProgramHandler

        agents = AgentHandler(lambda: kit)
        return {
            **builtin_handlers(max_result_chars=self.settings.max_result_chars),
            EffectKind.REQUEST_MODEL: RequestModelHandler(equipment.models),
            EffectKind.EMBED: EmbedHandler(equipment.models),
            EffectKind.TRANSCRIBE: TranscribeHandler(equipment.models),
            EffectKind.INVOKE_TOOL: ToolHandler(
                equipment.tools.get,
                called=called,
                max_result_chars=self.settings.max_result_chars,
                timeout_s=self.settings.tool_timeout_s,
                threads=self.threads,
            ),
            EffectKind.RUN_CODE: CodeHandler({**self.builtin.interpreters, PROGRAM: ProgramHandler(self.programs)}),
            EffectKind.INVOKE_AGENT: agents,
            EffectKind.SPAWN: agents,
            EffectKind.READ_MEMORY: (memory := MemoryHandler()),
            EffectKind.WRITE_MEMORY: memory,
        }

    def _workshop(self) -> Any:
        """Where tools are made; None without a sandbox."""
        from agentorchestra.agents.generation.workshop import Workshop

        bench = self.builtin.workbench
        if bench.sandbox is None:
            return None
        return Workshop(bench, self.tcp, bench.sandbox.problem, self.settings.generator)


__all__ = ["MAX_THREADS", "Supply"]
