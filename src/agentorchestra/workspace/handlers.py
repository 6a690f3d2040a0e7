"""The handlers: who executes each kind of effect in the runs of a workspace, and with what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.errors import UnknownComponentError, UsageError
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Handler
from agentorchestra.core.spec import RunStatus, TestsRan
from agentorchestra.runtime.code import CodeHandler
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.direct_calls import LiveMapping
from agentorchestra.runtime.handlers import builtin_handlers
from agentorchestra.runtime.run import Run, Services
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.workspace.catalog import Equipment, system_purpose
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.delivery import folder_files
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import starter

if TYPE_CHECKING:
    from agentorchestra.agents.types import Kit

MAX_THREADS = 32  # plain functions among the tools that run at the same time, over all runs of a workspace


class Handlers:
    """Makes the services that runs are driven with.

    Args:
        parts: of the workspace.
        ended: is called when a run has ended, while its environments are still open.
    """

    def __init__(self, parts: Composition, ended: Callable[[Run, RunStatus], Awaitable[TestsRan | None]]) -> None:
        from agentorchestra.tea.calling.threads import Threads

        self._parts, self._ended = parts, ended
        self._threads = Threads(MAX_THREADS)

    async def aclose(self) -> None:
        """Let the threads end, close the interpreters of programs."""
        await self._threads.aclose()
        for interpreter in self._parts.programs:
            await interpreter.aclose()

    def for_calls(self, called: Mapping[str, Any]) -> Services:
        """Return the services of calls outside of runs (of tools by `name@version`), with what is registered later."""
        catalog = self._parts.catalog
        environments = LiveMapping(lambda: catalog.every_environment)
        equipment = Equipment(LiveMapping(lambda: catalog.tools), catalog.models, catalog.prompts)
        return self._services(equipment, None, environments, environments, called)

    def for_run(self, equipment: Equipment, policy: Policy | None = None) -> Services:
        """Return the services of a run; `policy` takes the place of the workspace's."""
        every = self._parts.catalog.of(equipment).environments_for(equipment)
        shown = every
        if equipment.recorded is not None:
            shown = {name: tool for name, tool in every.items() if name in equipment.recorded.tools}
        return self._services(equipment, policy, every, shown, None)

    def _services(
        self,
        equipment: Equipment,
        policy: Policy | None,
        environments: Mapping[str, Any],
        shown: Mapping[str, Any],
        called: Mapping[str, Any] | None,
    ) -> Services:
        """Return services with all environments, of which agents are shown some."""
        from agentorchestra.agents.agent import agent_effect
        from agentorchestra.agents.policy_plan import plan_effect
        from agentorchestra.agents.policy_review import may_review, review_effect
        from agentorchestra.agents.requests import request_effect

        parts, host = self._parts, self._parts.host
        hidden = parts.catalog.of(equipment).hidden(equipment)
        kit = self._kit(equipment, shown, hidden)
        handlers = self._handlers(equipment, kit, called)
        if host.own.handlers is not None:
            handlers = host.own.handlers(handlers)
            _refuse_redacting(handlers)
        chosen = policy or host.own.policy

        def tool_effect(name: str, arguments: dict[str, JsonValue], ctx: BranchContext[Any]) -> Effect:
            found = equipment.tools.get(name)
            if found is None:
                raise UnknownComponentError(f"no tool {name!r}; the tools: {', '.join(sorted(equipment.tools))}")
            return effect_for(found, arguments, role=ctx.role, provenance=ctx.provenance)

        kinds: dict[EffectKind, Mapping[str, Any]] = {
            EffectKind.INVOKE_TOOL: equipment.tools,
            EffectKind.INVOKE_ACTION: shown,
            EffectKind.INVOKE_AGENT: kit.agents,
            EffectKind.SPAWN: kit.agents,
        }

        def granted(effect: Effect) -> frozenset[str]:
            tool = kinds.get(effect.kind, {}).get(effect.name)
            names = hidden & {*getattr(tool, "environments", ())}
            return names | frozenset(getattr(tool, "uses", ()))

        return Services(
            store=parts.store,
            handlers=handlers,
            policy=lambda folder: chosen or DefaultPolicy(parts.settings.policy, folder=folder),
            environments=environments,
            secrets=parts.secrets(),
            environ=host.own.environ,
            asker=host.asker,
            runs_folder=parts.runs_folder,
            deps=host.deps,
            clock=parts.clock,
            tool_effect=tool_effect,
            agent_effect=agent_effect,
            request_effect=partial(request_effect, kit),
            plan_effect=partial(plan_effect, kit),
            review_effect=partial(review_effect, kit),
            may_review=partial(may_review, kit),
            granted=granted,
            ended=self._ended,
            folder_files=folder_files,
            elsewhere=parts.engine.elsewhere,
        )

    def _kit(self, equipment: Equipment, environments: Mapping[str, Any], hidden: frozenset[str]) -> Kit:
        from agentorchestra.agents.types import Kit
        from agentorchestra.agents.workshop import Workshop
        from agentorchestra.workspace.agents import packaged_agents, wants_in_run

        parts, catalog = self._parts, self._parts.catalog.of(equipment)
        team: Mapping[str, Any] = catalog.team(equipment)
        # Where there is an agent for an environment, general workers do not have it besides.
        expert = {name for agent in team.values() if agent.on_request for name in agent.environments}
        agents = team
        if equipment.recorded is not None:
            agents = {name: agent for name, agent in team.items() if name in equipment.recorded.agents}
        own = {*equipment.tools} - catalog.builtin | {*environments}
        bench, workshop = parts.builtin.workbench, None
        if bench.sandbox is not None:
            workshop = Workshop(bench, lambda: parts.components.tools, bench.sandbox.problem, parts.settings.generator)
        return Kit(
            tools=equipment.tools,
            environments=environments,
            prompts=equipment.prompts,
            models=equipment.models,
            systems=catalog.systems,
            agents=agents,
            given=tuple(sorted(own - catalog.behind - hidden - expert)),
            choices=tuple(sorted(parts.settings.models)),
            finder=parts.finding.finder,
            behind=catalog.agents_behind,
            memories=catalog.memories,
            apart=hidden,
            packaged=packaged_agents(),
            absent={name: wants_in_run(agent) for name, agent in catalog.agents.items() if name not in agents},
            workshop=workshop,
            max_depth=parts.settings.max_depth,
            team_systems={name: system_purpose(name, catalog.systems) for name in parts.settings.team.systems},
        )

    def _handlers(self, equipment: Equipment, kit: Kit, called: Mapping[str, Any] | None) -> dict[EffectKind, Handler]:
        from agentorchestra.agents.handler import AgentHandler, SpawnHandler
        from agentorchestra.models.handler import RequestModelHandler
        from agentorchestra.models.services import EmbedHandler, TranscribeHandler
        from agentorchestra.tea.calling.handler import ToolHandler
        from agentorchestra.tea.memory.handler import MemoryHandler
        from agentorchestra.tea.programs.handler import NAME as PROGRAM
        from agentorchestra.tea.programs.handler import ProgramHandler

        settings, interpreters = self._parts.settings, self._parts.builtin.interpreters
        tools = starter(self._parts) if equipment.system == SCHEDULE else equipment.tools
        memory = MemoryHandler()
        return {
            **builtin_handlers(max_result_chars=settings.max_result_chars),
            EffectKind.REQUEST_MODEL: RequestModelHandler(equipment.models),
            EffectKind.EMBED: EmbedHandler(equipment.models),
            EffectKind.TRANSCRIBE: TranscribeHandler(equipment.models),
            EffectKind.INVOKE_TOOL: ToolHandler(
                tools.get,
                by_component=called,
                max_result_chars=settings.max_result_chars,
                timeout_s=settings.tool_timeout_s,
                threads=self._threads,
            ),
            EffectKind.RUN_CODE: CodeHandler({**interpreters, PROGRAM: ProgramHandler(self._parts.programs)}),
            EffectKind.INVOKE_AGENT: AgentHandler(lambda: kit),
            EffectKind.SPAWN: SpawnHandler(lambda: kit),
            EffectKind.READ_MEMORY: memory,
            EffectKind.WRITE_MEMORY: memory,
        }


def _refuse_redacting(handlers: Mapping[EffectKind, Handler]) -> None:
    """Refuse handlers with a method `redact`: nobody would call it, and what it hides would be recorded."""
    for handler in handlers.values():
        if hasattr(type(handler), "redact"):
            raise UsageError(
                f"the handler {type(handler).__name__} has a method `redact`, which is not called: the door itself "
                "replaces the values of the secrets that the workspace knows. Name its secrets in the setting "
                "`secrets`, or change the effect before it is performed, and remove the method"
            )
