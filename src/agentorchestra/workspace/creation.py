"""New runs: everything is checked, then what the run is pinned to is written into the log."""

from __future__ import annotations

import asyncio
import difflib
import mimetypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.errors import (
    BudgetError,
    EmptyTaskError,
    SettingsError,
    UnheardRecordingError,
    UnknownComponentError,
)
from agentorchestra.core.events import RunCreated, RunEnded, new_event
from agentorchestra.core.ids import new_run_id, sha256_text
from agentorchestra.core.settings import RoleSettings, Settings
from agentorchestra.core.spec import CHECKS, FINAL, Exchange, RunManifest, RunSpec, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.direct_calls import TASK as CALLS_TASK
from agentorchestra.runtime.state import KEPT
from agentorchestra.workspace.catalog import Stock
from agentorchestra.workspace.equipment import Equipping
from agentorchestra.workspace.model_choice import Choices
from agentorchestra.workspace.parts import (
    Equipment,
    RunObjects,
    check_finish,
    check_options,
    distribution,
    schema_of,
)
from agentorchestra.workspace.place import Place, Ready

if TYPE_CHECKING:
    from agentorchestra.agents.components import Components
    from agentorchestra.tools.files.storage import Kept

EARLIER_MOST = 10
"""Earlier tasks of a session that the top agent is told."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the runs of this process come from.

    Attributes:
        app: the user's application, `module:workspace`, and the folder where it was found.
        app_folder: see `app`.
        answers: whether somebody answers questions in place now.
    """

    app: str | None
    app_folder: str | None
    answers: Callable[[], bool]


class Creating:
    """Writes new runs into the log.

    Args:
        settings: of the workspace.
        place: where the runs will be.
        stock: what there is by name.
        components: say why one of them failed.
        equipping: equips the runs.
        choices: of their models and limits.
        origin: of the runs.
        ready: takes into use what is registered.
    """

    def __init__(
        self,
        settings: Settings,
        place: Place,
        stock: Stock,
        components: Components,
        equipping: Equipping,
        choices: Choices,
        origin: Origin,
        ready: Ready,
    ) -> None:
        self._settings = settings
        self._place = place
        self._stock = stock
        self._components = components
        self._equipping = equipping
        self._choices = choices
        self._origin = origin
        self._ready = ready

    async def create(self, spec: RunSpec, objects: RunObjects, *, temporary_files: bool = False) -> str:
        """Check everything, then write the run; nothing is spent yet. Return the run's id."""
        from agentorchestra.agents.handler import find_system
        from agentorchestra.tea.programs.sources import pin_of

        settings, stock, place, choices = self._settings, self._stock, self._place, self._choices
        finish = spec.finish or settings.finish
        action = spec.action or settings.action
        task = spec.task.strip()
        if not task:
            raise EmptyTaskError('the task is empty; say what is to be done, e.g. agentorchestra run "What is ...?"')
        system = spec.system or settings.system
        if system not in stock.agents:
            find_system(system, stock.systems)
        name = spec.model or settings.model
        await self._ready()
        equipment = await self._equipped(spec, objects, system)
        models = equipment.models
        models.check(name)
        agent = stock.agents.get(system)
        drive = stock.systems.get(system) if agent is None else agent.drive
        check_options(system, drive, spec.options, {*stock.team(equipment)}, name)
        worded = finish != "text" or action == "code" or models.client(name).native_tools
        check_finish(finish, objects.output_type, native=worded)
        remembering = self._memory_name(spec.memory)
        roles = choices.roles(spec.roles, explicit=spec.model is not None, models=models)
        history = await self._earlier(spec.session)
        remembered = await self._remembered(spec.session)
        steps = self._steps(spec, agent)
        seeing = choices.media_models(models, name, roles)
        names = _with_fallbacks(name, roles, models)
        perhaps = {one for each in seeing.values() for one in each}
        limits = choices.budget(names, spec.budget, models, perhaps=perhaps)
        run_id = new_run_id()
        blind = not (seeing.get("image") or seeing.get("document"))
        self._check_heard(spec.files, seeing)
        kept = await self._keep_files(run_id, spec.files, temporary=temporary_files, blind=blind)
        schema = schema_of(objects.output_type)
        schemas = await self._equipping.keep_texts(equipment)
        environments = stock.environments_for(equipment)
        manifest = RunManifest(
            task=place.redact(task),
            system=system,
            model=name,
            files=kept.refs,
            left_out=kept.left_out,
            tools={name: pin_of(one) for name, one in sorted(equipment.tools.items())}
            | {name: pin_of(make()) for name, make in sorted(environments.items())},
            prompts=equipment.prompts.pins(),
            seed=spec.seed or sha256_text(run_id)[:16],
            budget=limits,
            max_steps=steps,
            on_ask=spec.on_ask or settings.on_ask,
            on_uncertain=spec.on_uncertain or settings.on_uncertain,
            labels={place.redact(key): place.redact(value) for key, value in spec.labels.items()},
            app=self._origin.app,
            app_folder=self._origin.app_folder,
            output_schema=schema,
            distribution=distribution(),
            created=place.clock.now(),
            session=spec.session,
            earlier=history,
            roles=roles,
            agents={name: pin_of(one) for name, one in sorted(stock.team(equipment).items())},
            embedding_model=settings.embedding_model,
            transcription_model=settings.transcription_model,
            context_windows=choices.windows({*names, *settings.models}, models),
            media_models=seeing,
            finish=finish,
            action=action,
            sandbox=stock.sandbox,
            kept=remembered,
            schemas=schemas,
            choices=tuple(sorted(settings.models)),
            memory=remembering,
            memory_session=spec.session,
            prompt_tool_chars=settings.prompt_tool_chars,
            first_tools=settings.first_tools,
            in_view_chars=settings.in_view_chars,
            reasoning=settings.reasoning,
            forced=choices.forced({*names, *settings.models}, models),
            environments=equipment.environments,
            options=place.redact_json(spec.options),
            preset=settings.preset,
            keep_tools=settings.generator.keep,
            checks=CHECKS,
        )
        await self._write(run_id, manifest)
        self._equipping.hold(run_id, equipment)
        return run_id

    async def create_calls(self) -> tuple[str, RunManifest]:
        """Write the run that holds the calls made outside of runs; its id and manifest."""
        from agentorchestra.tea.programs.sources import pin_of

        settings, stock, models = self._settings, self._stock, self._stock.models
        run_id = new_run_id()
        roles = dict(settings.roles)
        names = _with_fallbacks(settings.model, roles, models)
        manifest = RunManifest(
            task=CALLS_TASK,
            system=CALLS,
            model=settings.model,
            tools={name: pin_of(one) for name, one in sorted(stock.tools.items())}
            | {name: pin_of(make()) for name, make in sorted(stock.every_environment.items())},
            seed=sha256_text(run_id)[:16],
            budget=self._choices.budget(names, None, models),
            roles=roles,
            context_windows=self._choices.windows({*names, *settings.models}, models),
            choices=tuple(sorted(settings.models)),
            action=settings.action,
            preset=settings.preset,
            prompt_tool_chars=settings.prompt_tool_chars,
            first_tools=settings.first_tools,
            in_view_chars=settings.in_view_chars,
            reasoning=settings.reasoning,
            forced=self._choices.forced({*names, *settings.models}, models),
            on_ask="wait" if self._origin.answers() else "deny",
            app=self._origin.app,
            app_folder=self._origin.app_folder,
            distribution=distribution(),
            created=self._place.clock.now(),
            embedding_model=settings.embedding_model,
            transcription_model=settings.transcription_model,
            media_models=self._choices.media_models(models, settings.model, settings.roles),
            sandbox=stock.sandbox,
            environments=tuple(sorted(stock.packaged)),
            keep_tools=settings.generator.keep,
        )
        await self._write(run_id, manifest)
        return run_id, manifest

    async def _write(self, run_id: str, manifest: RunManifest) -> None:
        created = new_event(RunCreated(manifest=manifest), ts=manifest.created)
        await self._place.store.create_run(run_id, manifest, [created])

    async def _equipped(self, spec: RunSpec, objects: RunObjects, system: str) -> Equipment:
        """What the run is driven with; what its environments need of this machine is there."""
        equipment = await self._equipping.with_given(self._equipping.base(), objects.tools, objects.model)
        environments, agent = spec.environments, self._stock.agents.get(system)
        if agent is not None and agent.on_request:  # who names the agent wants where it works
            environments = (*environments, *agent.environments)
        named = self._stock.environments_named(environments, equipment)
        for one in named:  # what it needs of this machine is missed now, not in the middle of the work
            check = getattr(self._stock.packaged[one](), "check", None)
            if check is not None:
                check()
        return replace(equipment, environments=named, system=system)

    def _steps(self, spec: RunSpec, agent: Any) -> int:
        settings = self._settings
        steps = settings.max_steps if spec.max_steps is None else spec.max_steps
        if agent is not None and spec.max_steps is None and "max_steps" not in settings.model_fields_set:
            steps = max(steps, agent.max_steps)  # nobody chose another number than its maker
        if steps < 1:
            raise BudgetError(f"max_steps is {steps}; an agent needs at least 1")
        return steps

    def _memory_name(self, given: str | None) -> str:
        from agentorchestra.tea.memory.base import NONE

        memories = self._stock.memories
        name = self._settings.memory if given is None else given
        if name not in ("", NONE, *memories):
            failure = self._components.memories.failures().get(name)
            if failure is not None:
                raise UnknownComponentError(failure)
            near = difflib.get_close_matches(name, [NONE, *memories], n=1)
            guess = f"did you mean {near[0]}?" if near else f"there are: {', '.join([NONE, *sorted(memories)])}"
            raise UnknownComponentError(f"no memory system {name!r}; {guess}")
        self._check_agents_memories(("", NONE, *sorted(memories)))
        return "" if name == NONE else name

    def _check_agents_memories(self, known: Sequence[str]) -> None:
        for name, one in self._settings.agents.items():
            if one.memory is not None and one.memory not in known:
                raise SettingsError(
                    f"the settings give the agent {name!r} the memory system {one.memory!r} (agents.{name}.memory), "
                    f"which is not there; the memory systems: {', '.join(known[1:])}"
                )

    async def _earlier(self, session: str | None) -> tuple[Exchange, ...]:
        """The session's earlier tasks and answers, oldest first: what the log has of runs that gave an answer."""
        if session is None:
            return ()
        if not session.strip():
            raise SettingsError("the session has no name; give one, e.g. --session contract")
        store, found = self._place.store, []
        for record in await store.list_runs():
            if record.manifest.session != session or record.status in (RunStatus.CREATED, RunStatus.RUNNING):
                continue
            ended = next((e.data for e in reversed(await store.load(record.id)) if e.type == "run_ended"), None)
            answer = str(ended.result.get("answer") or "") if isinstance(ended, RunEnded) else ""
            if answer:
                found.append(Exchange(run_id=record.id, task=record.manifest.task, answer=answer, status=record.status))
            if len(found) == EARLIER_MOST:
                break
        return tuple(reversed(found))

    async def _remembered(self, session: str | None) -> dict[str, JsonValue]:
        """What agents remember at the end of the session's latest run: what it began with, and what it left."""
        store = self._place.store
        for record in await store.list_runs() if session is not None else ():
            if record.manifest.session != session or record.status not in FINAL:
                continue
            kept = dict(record.manifest.kept)
            records = Ledger.of(await store.load(record.id)).records
            for key in sorted(key for key in records if key.branch == "/"):
                outcome = records[key].outcome
                writes = outcome.writes if outcome is not None else {}
                kept |= {name: value for name, value in writes.items() if name.startswith(KEPT)}
            return {name: value for name, value in kept.items() if value is not None}
        return {}

    def _check_heard(self, files: Sequence[str | Path], seeing: Mapping[str, Sequence[str]]) -> None:
        """Refuse recordings that nobody can hear, before anything is spent on them.

        Beside other files they are taken: the question may be about those, and who opens one is told what to configure.

        Raises:
            UnheardRecordingError: with what to configure.
            UsageError: of the model that is to write it down, if it cannot be spec.
        """
        from agentorchestra.tools.files.common import WAY_TO_HEAR

        sounds = [Path(one) for one in files if (mimetypes.guess_type(str(one))[0] or "").startswith("audio/")]
        given = [one for one in sounds if one.is_file()]
        if not given or len(given) < len(files) or seeing.get("audio"):
            return
        scribe = self._settings.transcription_model
        if not scribe:
            raise UnheardRecordingError(
                f"{given[0].name} is a recording, and no model of this run hears: {WAY_TO_HEAR}."
            )
        self._stock.models.check(scribe)

    async def _keep_files(self, run_id: str, files: Sequence[str | Path], *, temporary: bool, blind: bool) -> Kept:
        """Check all files and keep their bytes, so that a resume reads the same ones."""
        from agentorchestra.tools.files.storage import keep_files

        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                keep_files,
                [Path(one) for one in files],
                self._place.files_folder,
                self._place.files_of(run_id),
                temporary=temporary,
                apart=self._place.folder,
                blind=blind,
                stop=stop,
            )
        finally:
            stop.set()  # nobody awaits a cancelled call's thread: it stops between two pieces


def _with_fallbacks(model: str, roles: Mapping[str, RoleSettings], models: Any) -> list[str]:
    """The models that a run may ask: its own, those of its roles, and what each of them falls back to."""
    first: Iterable[str] = (model, *(role.model for role in roles.values() if role.model))
    return [one for name in first for one in models.chain(name)]


__all__ = ["EARLIER_MOST", "Creating", "Origin"]
