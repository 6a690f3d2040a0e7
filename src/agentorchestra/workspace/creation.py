"""New runs and forks: everything is checked, then what the run is pinned to is written into the log."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import (
    BudgetError,
    EmptyTaskError,
    FileInputError,
    ForkError,
    LifecycleError,
    ProjectError,
    PromptError,
    SessionError,
    SettingsError,
    UnheardRecordingError,
    UnknownComponentError,
    UsageError,
)
from agentorchestra.core.events import RunCreated, RunEnded, new_event
from agentorchestra.core.ids import new_run_id, sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.protocols import Acceptance, Owner, RunHead
from agentorchestra.core.settings import PartSettings, RoleSettings
from agentorchestra.core.spec import (
    CHECKS,
    FINAL,
    SOURCE_MEDIA_TYPE,
    Exchange,
    FileRef,
    Project,
    RunManifest,
    RunSpec,
    RunStatus,
    first_names,
)
from agentorchestra.core.turns import TurnState
from agentorchestra.environments.folder import FILES
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.log.folders import MAIN, world_folder
from agentorchestra.log.fork import check_replaceable, fork_point, forked_events, link_files, refuse_lost_environments
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.rows import check_over
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.direct_calls import TASK as CALLS_TASK
from agentorchestra.runtime.run import current_budget
from agentorchestra.runtime.state import KEPT
from agentorchestra.sandbox.base import MIB
from agentorchestra.workspace.catalog import Equipment, distribution
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.equipment import Equipper, RunObjects
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import Schedule
from agentorchestra.workspace.sessions import APART, turns_of
from agentorchestra.workspace.turns import state_after

if TYPE_CHECKING:
    from agentorchestra.agents.parts.foresight import Foresight
    from agentorchestra.environments.project import Survey
    from agentorchestra.tools.files.storage import Kept

EARLIER_MOST = 10
"""Earlier tasks of a session that the top agent is told."""

DEFAULT_COST_USD = 1.0
"""Held for priced models when no dollar limit was given; the command line prints it."""

_KINDS = ("tool", "environment", "agent", "prompt")
"""The kinds of components that a manifest pins by name."""

IN_VIEW_PICTURES = 4  # of a task that go along in the first message, at most, to a model that may see
_MANIFEST_SETTINGS = (
    "embedding_model",
    "transcription_model",
    "prompt_tool_chars",
    "first_tools",
    "in_view_chars",
    "reasoning",
    "preset",
)
"""Settings that a manifest has as they are."""


class RunCreator:
    """Writes new runs into the log of a workspace, whose `parts` these are; `equipper` equips them."""

    def __init__(self, parts: Composition, equipper: Equipper) -> None:
        self._parts = parts
        self._equipper = equipper
        self._settings = parts.settings
        self._catalog = parts.catalog

    async def create(
        self,
        spec: RunSpec,
        objects: RunObjects,
        *,
        temporary_files: bool = False,
        accepted: Acceptance | None = None,
        begins: bool = False,
    ) -> str:
        """Check everything, then write the run; nothing is spent yet. Return the run's id.

        Args:
            objects: what the run has besides.
            temporary_files, accepted, begins: see Workspace.create.
        """
        from agentorchestra.agents.handler import find_system
        from agentorchestra.systems.coral import Coral
        from agentorchestra.tea.programs.sources import pin_of
        from agentorchestra.workspace.agents import wants_in_run

        parts, settings, catalog = self._parts, self._settings, self._catalog
        action = spec.action or settings.action
        task = spec.task.strip()
        if not task:
            raise EmptyTaskError('the task is empty; say what is to be done, e.g. agentorchestra run "What is ...?"')
        if spec.system is not None and spec.system not in catalog.agents:
            find_system(spec.system, catalog.systems)
        await parts.ready()
        session, turns = await self._turns(spec.session)
        last = await self._parts.record(turns[0].id) if turns else None
        spec = _as_before(spec, last.manifest) if last else spec
        system = spec.system or settings.system
        name = settings.model if spec.model is None else spec.model
        if system not in catalog.agents:
            find_system(system, catalog.systems)
        run_id = new_run_id()
        spec = self._spec_with_candidates(spec, run_id)
        equipment = await self._equipment_of(spec, objects, system)
        catalog, models = catalog.of(equipment), equipment.models
        models.check(name)
        agent = catalog.agents.get(system)
        drive = catalog.systems.get(system) if agent is None else agent.drive
        _check_chosen(settings.team.agents or (), catalog.agents)
        team = catalog.team(equipment)
        _check_options(system, drive, spec.options, {*team}, name)
        if isinstance(drive, Coral):
            drive.check(team, {name: wants_in_run(agent) for name, agent in catalog.agents.items() if name not in team})
        if spec.finish == "text" and objects.output_type is not None:
            kind = getattr(objects.output_type, "__name__", objects.output_type)
            raise SettingsError(
                f"finish='text' and output_type={kind} exclude each other: an answer in plain words has no type; leave "
                "one of them out"
            )
        calls = objects.output_type is not None or getattr(drive, "finishes_by_call", False)
        finish = spec.finish or ("done" if calls else settings.finish)
        memory = self._memory_name(spec.memory)
        self._check_components(
            spec.components,
            {
                "tool": equipment.tools,
                "environment": catalog.environments_for(equipment),
                "agent": {*team, system},
                "prompt": catalog.prompts.names,
                "memory": _memories(memory, team),
            },
        )
        roles = self._roles(spec, models)
        steps = self._steps(spec, agent)
        fields = self._base_fields(run_id, name, roles, models, spec.budget, self._part_settings(spec))
        seeing = fields["media_models"]
        self._check_heard(spec.files, seeing)
        blind = not (seeing.get("image") or seeing.get("document"))
        before = last.manifest.files if last else ()
        if before:
            await parts.fetch_files(turns[0].id, before)
        project = last.manifest.project if last else None
        if turns:
            _check_same_project(spec, project)
        survey = await self._survey_project(spec) if not turns else None
        files = await self._keep_files(run_id, spec.files, temporary=temporary_files, blind=blind, before=before)
        await parts.share_files(files.refs)
        schema = _schema_of(objects.output_type)
        project = await self._copy_project(run_id, survey) if survey is not None else project
        schemas = await self._equipper.keep_texts(equipment)
        environments = catalog.environments_for(equipment)
        manifest = RunManifest(
            **fields,
            task=parts.redact(task),
            system=system,
            files=files.refs,
            left_out=files.left_out,
            tools=self._pins(equipment.tools, environments),
            prompts=equipment.prompts.pins(),
            seed=spec.seed or sha256_text(run_id)[:16],
            max_steps=steps,
            on_ask=spec.on_ask or settings.on_ask,
            on_uncertain=spec.on_uncertain or settings.on_uncertain,
            labels=parts.redact_json(spec.labels),
            output_schema=schema,
            session=session,
            previous=turns[0].id if turns else None,
            given=files.new_names if turns else (),
            earlier=await self._earlier(turns),
            agents={name: pin_of(agent) for name, agent in sorted(team.items())},
            finish=finish,
            action=action,
            kept=await self._memory_values(turns),
            schemas=schemas,
            memory=memory,
            memory_session=session,
            environments=equipment.environments,
            options=parts.redact_json(spec.options),
            checks=CHECKS,
            programs=1,
            first_actions="few",
            society=equipment.society,
            components=spec.components,
            task_folder=self._parts.task_place,
            policy_plan=settings.policy.plan,
            policy_review=settings.policy.review,
            image=self._image(environments),
            project=project,
            tests=spec.tests.strip(),
            created=parts.clock.now(),
        )
        left = None
        if last is not None:
            events = await parts.store.load(last.id, verify=True)
            left = state_after(last.manifest, events, self._catalog.agents)
        await self._write(run_id, manifest, accepted, maker=parts.engine.owner if begins else None, begins=left)
        self._equipper.run_equipment.keep(run_id, equipment)
        return run_id

    async def foresee(self, spec: RunSpec, objects: RunObjects) -> Foresight:
        """Check what is asked for, and return what its parts come to; nothing is written."""
        from agentorchestra.agents.handler import find_system
        from agentorchestra.agents.parts.foresight import foreseen

        catalog, settings = self._catalog, self._settings
        system = settings.system if spec.system is None else spec.system
        if system not in catalog.agents:
            find_system(system, catalog.systems)
        await self._parts.ready()
        models = (await self._equipment_of(spec, objects, system)).models
        name = settings.model if spec.model is None else spec.model
        models.check(name)
        parts = self._part_settings(spec)
        fields = self._base_fields("", name, self._roles(spec, models), models, spec.budget, parts)
        return foreseen(parts, self._steps(spec, catalog.agents.get(system)), fields["budget"])

    async def create_calls(self) -> tuple[str, RunManifest]:
        """Write the run that holds the calls made outside of runs; return its id and manifest."""
        settings, catalog = self._settings, self._catalog
        run_id = new_run_id()
        manifest = RunManifest(
            **self._base_fields(
                run_id, settings.model, dict(settings.roles), catalog.models, None, settings.parts, media_cost=False
            ),
            task=CALLS_TASK,
            system=CALLS,
            tools=self._pins(catalog.tools, catalog.every_environment),
            seed=sha256_text(run_id)[:16],
            action=settings.action,
            on_ask="deny" if self._parts.host.asker is None else "wait",
            environments=tuple(sorted(catalog.packaged)),
            image=self._image(catalog.every_environment),
            created=self._parts.clock.now(),
        )
        await self._write(run_id, manifest)
        return run_id, manifest

    async def create_schedule(self, schedule: Schedule) -> str:
        """Check the runs of a schedule, and write it as a run; return its id, which is its name where it has none."""
        spec, parts, run_id = schedule.spec, self._parts, new_run_id()
        if not spec.task.strip():
            raise EmptyTaskError("the task is empty; say what is to be done, e.g. 'What is new in the log?'")
        for path in (*spec.files, *((spec.project,) if spec.project is not None else ())):
            if not path.exists():
                raise FileInputError(f"{path} does not exist; check the name and the folder it is in.")
        await self.foresee(spec, RunObjects())
        files, project = tuple(file.resolve() for file in spec.files), spec.project and spec.project.resolve()
        run_spec = spec.model_copy(update={"files": files, "project": project})
        entry = schedule.model_copy(update={"name": schedule.name or run_id, "spec": run_spec})
        model = spec.model or self._settings.model
        manifest = RunManifest(
            # Its runs have budgets: it asks no model, and is at work for years.
            **self._base_fields(run_id, model, {}, self._catalog.models, None, PartSettings()) | {"budget": Budget()},
            task=parts.redact(spec.task),
            system=SCHEDULE,
            seed=sha256_text(run_id)[:16],
            options=parts.redact_json(entry.model_dump(mode="json", exclude_defaults=True)),
            created=parts.clock.now(),
        )
        # What a server takes on goes on after a crash, wherever there is one, and with `resume --due`.
        await self._write(run_id, manifest, Acceptance(manifest.created), maker=parts.engine.owner)
        return run_id

    def _base_fields(
        self,
        run_id: str,
        model: str,
        roles: dict[str, RoleSettings],
        models: Any,
        budget: Budget | None,
        parts: PartSettings,
        *,
        media_cost: bool = True,
    ) -> dict[str, Any]:
        """Return what the manifest of every new run has: of its models and limits, of settings and process.

        Args:
            budget: that was given.
            parts: the parts of its main agent.
            media_cost: count what models that only see or hear may cost.
        """
        settings, host = self._settings, self._parts.host
        mixture = parts.mixture or {}
        names = [model_name for name in (*_first_models(model, roles), *mixture) for model_name in models.chain(name)]
        for model_name in settings.team.models:
            models.check(model_name)
        pool = {*names, *settings.team.models, *settings.models}
        seeing = self._media_models(models, model, roles)
        perhaps = {model_name for seers in seeing.values() for model_name in seers} if media_cost else ()
        return {
            **{name: getattr(settings, name) for name in _MANIFEST_SETTINGS},
            "parts": parts,
            "model": model,
            "roles": roles,
            "budget": self._budget(names, budget, models, perhaps=perhaps),
            "context_windows": self._windows(pool, models),
            "media_models": seeing,
            "forced": tuple(
                name for name, client in _clients(pool, models) if client.native_tools and client.profile.may_force
            ),
            "choices": settings.team.models,
            "shorten": settings.team.shorten,
            "sandbox": self._catalog.sandbox,
            "keep_tools": settings.generator.keep,
            "in_view_pictures": IN_VIEW_PICTURES,
            "app": host.app,
            "app_folder": host.app_folder,
            "distribution": distribution(),
        }

    def _part_settings(self, spec: RunSpec) -> PartSettings:
        """Return the parts of a run's main agent: those that it names, over those of the settings."""
        if spec.parts is None:
            return self._settings.parts
        parts = spec.parts.over(self._settings.parts)
        if spec.parts.rounds is not None and parts.refine in (None, "none"):
            raise SettingsError(
                f"parts.rounds = {spec.parts.rounds}, and nothing is refined; set parts.refine to textgrad or reflect "
                "(--refine), or leave the rounds out"
            )
        try:
            return PartSettings.model_validate(parts.model_dump())
        except ValidationError as exc:
            raise SettingsError(exc.errors()[0]["msg"].removeprefix("Value error, ")) from None

    def _pins(self, tools: Mapping[str, Any], environments: Mapping[str, Any]) -> dict[str, Any]:
        from agentorchestra.tea.programs.sources import pin_of

        return self._equipper.pins(tools) | {name: pin_of(make()) for name, make in sorted(environments.items())}

    def _image(self, environments: Mapping[str, Any]) -> str:
        """Return the digest of the image that environments of a run lie on, "" for none."""
        if not self._settings.terminal.image:
            return ""
        bases = (getattr(make(), "base", None) for make in environments.values())
        return next((base.image.digest for base in bases if base is not None and base.image is not None), "")

    async def _write(
        self,
        run_id: str,
        manifest: RunManifest,
        acceptance: Acceptance | None = None,
        *,
        maker: Owner | None = None,
        begins: TurnState | None = None,
    ) -> None:
        created = new_event(RunCreated(manifest=manifest, begins=begins), ts=manifest.created)
        await self._parts.store.create_run(run_id, manifest, [created], acceptance=acceptance, maker=maker)

    async def _equipment_of(self, spec: RunSpec, objects: RunObjects, system: str) -> Equipment:
        """Return what the run is driven with; what its environments need of this machine is there."""
        from agentorchestra.systems.coral import Coral

        base = replace(self._equipper.base(), components=spec.components)
        equipment = await self._equipper.with_objects(base, objects)
        environments, agent = spec.environments, self._catalog.agents.get(system)
        if spec.project is not None or spec.tests:  # what works on a folder, and where tests are run
            environments = (*environments, "files", "terminal")
        if agent is not None and agent.on_request:  # who names the agent wants where it works
            environments = (*environments, *agent.environments)
        names = self._catalog.environments_named(environments, equipment)
        for name in names:  # what it needs of this machine is missed now, not in the middle of the work
            check = getattr(self._catalog.packaged[name](), "check", None)
            if check is not None:
                check()
        drive = self._catalog.systems.get(system)
        society = drive.limits if isinstance(drive, Coral) else None
        return replace(equipment, environments=names, system=system, society=society)

    def _check_components(self, components: Mapping[str, str], has: Mapping[str, Collection[str]]) -> None:
        """Refuse versions of components that a run would not use; `has` are names by kind.

        Raises:
            UnknownComponentError, VersionError: for what is not there, or what the run does not have.
            LifecycleError: for an archived version.
        """
        for key, version in components.items():
            kind, _, name = key.partition(":")
            if self._parts.components.of_kind(kind).stock.config(name, version).state == "archived":
                raise LifecycleError(
                    f"the {kind} {name}@{version} is archived: it can be read and not used; name another version"
                )
            if name not in has[kind]:
                raise UnknownComponentError(
                    f"this run does not have the {kind} {name!r}, of which version {version} is named; it has: "
                    f"{first_names(sorted(has[kind]))}"
                )

    def _spec_with_candidates(self, spec: RunSpec, run_id: str) -> RunSpec:
        """Return a spec with the candidates that its run is to use, of those which have a share of the runs.

        Which version it has is a label either way, so that the two can be compared (evolution/canary.py).
        """
        if APART & spec.labels.keys():
            return spec
        components, labels = dict(spec.components), dict(spec.labels)
        for kind in ("tool", "prompt"):
            manager = self._parts.components.of_kind(kind)
            for history in manager.registry.histories(kind):
                key, shared = f"{kind}:{history.name}", history.shared
                if shared is None or key in components or not history.usable:
                    continue
                chance = int(sha256_text(f"{run_id} {key} {shared.version}")[:8], 16) / 2**32
                labels[f"canary {key}"] = shared.version if chance < shared.share else history.version().version
                if chance < shared.share:
                    components[key] = shared.version
        return spec.model_copy(update={"components": components, "labels": labels})

    # -- models and limits -----------------------------------------------------------------------------------------

    def _roles(self, spec: RunSpec, models: Any) -> dict[str, RoleSettings]:
        """Return the model and parameters of each role; every model is one that can be asked."""
        roles = dict(self._settings.roles)
        if spec.model is not None:
            roles = {name: role.model_copy(update={"model": ""}) for name, role in roles.items()}
        for name, model in spec.roles.items():
            roles[name] = roles.get(name, RoleSettings()).model_copy(update={"model": model})
        for role in roles.values():
            if role.model:
                models.check(role.model)
        return dict(sorted(roles.items()))

    def _budget(self, names: Sequence[str], caps: Budget | None, models: Any, *, perhaps: Iterable[str] = ()) -> Budget:
        """Return the limits; `perhaps` are models that may be asked too, for which no price need be known yet."""
        budget = self._settings.budget.model_copy(update=(caps or Budget()).model_dump(exclude_none=True))
        if budget.cost_usd is not None:
            for name in names:
                models.require_price(name)
        elif all(map(models.price_known, names)) and (
            any(models.price_known(name) and not models.free(name) for name in (*names, *perhaps))
            or any(engine.traits.cost_usd for engine in self._parts.engines.ready)
        ):
            budget = budget.model_copy(update={"cost_usd": DEFAULT_COST_USD})
        return budget

    def _media_models(self, models: Any, model: str, roles: Mapping[str, RoleSettings]) -> dict[str, tuple[str, ...]]:
        from agentorchestra.models.media_models import media_models

        return media_models(models, self._settings, model, roles)

    def _windows(self, names: set[str], models: Any) -> dict[str, int]:
        return {name: client.profile.context_window for name, client in _clients(names, models)}

    def _steps(self, spec: RunSpec, agent: Any) -> int:
        settings = self._settings
        steps = settings.max_steps if spec.max_steps is None else spec.max_steps
        if agent is not None and spec.max_steps is None and "max_steps" not in settings.model_fields_set:
            steps = max(steps, agent.max_steps)  # nobody chose another number than its maker
        if steps < 1:
            raise BudgetError(f"max_steps is {steps}; an agent needs at least 1")
        return steps

    # -- memory and sessions ---------------------------------------------------------------------------------------

    def _memory_name(self, memory: str | None) -> str:
        from agentorchestra.tea.memory.base import NO_MEMORY

        memories = self._catalog.memories
        name = self._settings.memory if memory is None else memory
        if name not in ("", NO_MEMORY, *memories):
            failure = self._parts.components.memories.stock.failures().get(name)
            if failure is not None:
                raise UnknownComponentError(failure)
            choices = [NO_MEMORY, *sorted(memories)]
            guess = did_you_mean(name, choices, f"there are: {', '.join(choices)}")
            raise UnknownComponentError(f"no memory system {name!r}; {guess}")
        valid = ("", NO_MEMORY, *sorted(memories))
        for agent, options in self._settings.agents.items():
            if options.memory is not None and options.memory not in valid:
                raise SettingsError(
                    f"the settings give the agent {agent!r} the memory system {options.memory!r} "
                    f"(agents.{agent}.memory), which is not there; the memory systems: {', '.join(valid[1:])}"
                )
        return "" if name == NO_MEMORY else name

    async def _turns(self, run_or_session: str | None) -> tuple[str | None, list[RunHead]]:
        """Return the name of a session and its turns, newest first, of which the last one is over.

        Raises:
            SessionBusyError: it is not.
            SessionError: it came from elsewhere.
        """
        if run_or_session is None:
            return None, []
        if not run_or_session.strip():
            raise SettingsError("the session has no name; give one, e.g. --session contract")
        session, turns = await turns_of(self._parts.store, run_or_session)
        if turns:  # the store looks once more, when the run is written
            check_over(session, turns[0].id, turns[0].status)
        if turns and turns[0].imported is not None:
            raise SessionError(
                f"the run {turns[0].id} came from elsewhere, and its log may say anything; fork it with "
                f"`agentorchestra fork {turns[0].id}`, and go on with the fork"
            )
        return session, turns

    async def _earlier(self, runs: Sequence[RunHead]) -> tuple[Exchange, ...]:
        """Return a session's earlier tasks and answers, oldest first: what the log has of runs that gave an answer."""
        exchanges: list[Exchange] = []
        for record in runs:
            if record.status in (RunStatus.CREATED, RunStatus.RUNNING):
                continue
            events = await self._parts.store.load(record.id)
            end = next((e.data for e in reversed(events) if e.type == "run_ended"), None)
            answer = str(end.result.get("answer") or "") if isinstance(end, RunEnded) else ""
            if answer:
                words = "\n\n".join([record.manifest.task, *Ledger.of(events).read_mail()])
                exchanges.append(Exchange(run_id=record.id, task=words, answer=_whole(answer), status=record.status))
            if len(exchanges) == EARLIER_MOST:
                break
        return tuple(reversed(exchanges))

    async def _memory_values(self, runs: Sequence[RunHead]) -> dict[str, JsonValue]:
        """Return what agents remember at the end of a session's latest run: what it began with, and what it left."""
        for record in runs:
            if record.status not in FINAL:
                continue
            values = dict((await self._parts.record(record.id)).manifest.kept)
            records = Ledger.of(await self._parts.store.load(record.id)).records
            for key in sorted(key for key in records if key.branch == "/"):
                outcome = records[key].outcome
                writes = outcome.writes if outcome is not None else {}
                values |= {name: value for name, value in writes.items() if name.startswith(KEPT)}
            return {_whole(name): _whole(value) for name, value in values.items() if value is not None}
        return {}

    # -- files -----------------------------------------------------------------------------------------------------

    def _check_heard(self, files: Sequence[Path], seeing: Mapping[str, Sequence[str]]) -> None:
        """Refuse recordings that nobody can hear, before anything is spent on them.

        Beside other files they are taken: the question may be about those, and who opens one is told what to configure.

        Raises:
            UnheardRecordingError: with what to configure.
            UsageError: of the model that is to write it down, if it cannot be asked.
        """
        from agentorchestra.tools.files.common import WAY_TO_HEAR

        sounds = [file for file in files if (mimetypes.guess_type(str(file))[0] or "").startswith("audio/")]
        recordings = [sound for sound in sounds if sound.is_file()]
        if not recordings or len(recordings) < len(files) or seeing.get("audio"):
            return
        scribe = self._settings.transcription_model
        if not scribe:
            raise UnheardRecordingError(
                f"{recordings[0].name} is a recording, and no model of this run hears: {WAY_TO_HEAR}."
            )
        self._catalog.models.check(scribe)

    async def _keep_files(
        self, run_id: str, files: Sequence[Path], *, temporary: bool, blind: bool, before: Sequence[FileRef]
    ) -> Kept:
        """Check all files and keep their bytes, so that a resume reads the same ones; `before` has the session's."""
        from agentorchestra.tools.files.storage import Kept, keep_files

        if not files and not before:
            return Kept()
        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                keep_files,
                [*files],
                self._parts.files_folder,
                self._parts.files_of(run_id),
                temporary=temporary,
                apart=self._parts.folder,
                blind=blind,
                stop=stop,
                before=before,
            )
        finally:
            stop.set()  # nobody awaits a cancelled call's thread: it stops between two pieces

    async def _survey_project(self, spec: RunSpec) -> Survey | None:
        """Look at a run's project before anything is spent; ProjectError or SandboxUnavailableError if it cannot be."""
        from agentorchestra.environments.project import survey
        from agentorchestra.workspace.task_folder import need_sandbox

        if spec.project is None:
            return None
        await need_sandbox(self._parts.builtin.workbench.sandbox, "work on a project")
        result = await asyncio.to_thread(
            survey, spec.project, self._project_limits, self._settings.folder.see, apart=self._parts.folder
        )
        if spec.files and any(file == FILES or file.startswith(f"{FILES}/") for file in result.files):
            raise ProjectError(
                f"{spec.project} has a {FILES}/, where agents see the files that are given with a task; leave --file "
                "away and name them in the task"
            )
        return result

    @property
    def _project_limits(self) -> FolderLimits:
        limits = self._settings.folder
        return FolderLimits(
            int(min(limits.max_project_mib, limits.max_mib) * MIB), limits.max_entries, int(limits.max_file_mib * MIB)
        )

    async def _copy_project(self, run_id: str, survey: Survey) -> Project:
        """Copy a project into the folder of its run, and keep what it holds."""
        from agentorchestra.environments.project import Copier

        store, place = self._parts.store, world_folder(self._parts.runs_folder / run_id, MAIN)
        copier = Copier(survey, place, self._project_limits)
        packs = copier.packs()
        try:
            while (pack := await asyncio.to_thread(next, packs, None)) is not None:
                copier.note(await store.put_blob(pack[0]), pack[1])
            manifest = await asyncio.to_thread(copier.manifest)
            return copier.project(await store.put_blob(manifest, "application/json"))
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
            raise

    # -- forks -----------------------------------------------------------------------------------------------------

    async def fork(
        self,
        run_id: str,
        at: int | str | None,
        other: RunSpec,
        objects: RunObjects,
        *,
        prompts: Mapping[str, str | Path],
        outcomes: Mapping[str, JsonValue],
    ) -> str:
        """Write a run that goes on otherwise after an event; return its id.

        Args:
            at, prompts, outcomes: see Workspace.fork.
            other: with the model, roles, versions of components, budget and labels that differ.
            objects: its own tools, and the model as a client.
        """
        parts = self._parts
        parent = await parts.record(run_id)
        events = await parts.store.load(run_id)
        seq = fork_point(run_id, events, at)
        parent_events = await parts.store.load(run_id, upto=seq, verify=True)
        ledger = Ledger.of(parent_events)
        await parts.ready()  # environments that were registered from texts are at hand then
        refuse_lost_environments(run_id, ledger, self._catalog.every_environment)
        for key, value in outcomes.items():
            check_replaceable(ledger, key, value)
        base = self._equipper.of(parent)
        twice = sorted(name for name in prompts if f"prompt:{name}" in other.components)
        if twice:
            raise ForkError(f"the prompt {twice[0]!r} is given as a file and as a version; give one of them")
        rest = {key: version for key, version in base.components.items() if key.removeprefix("prompt:") not in prompts}
        base = replace(base, components={**rest, **other.components})
        equipment = await self._equipper.with_objects(base, objects)
        self._equipper.check(parent.manifest, equipment)
        overrides: dict[str, JsonValue] = {
            name: value
            for name, value in parent.manifest.overrides.items()
            if not name.startswith("outcome:") and name not in other.components
        }
        changes = self._other_models(parent.manifest, equipment.models, other, overrides)
        changes |= await self._other_prompts(parent.manifest, equipment, prompts, overrides)
        changed = parent.manifest.model_copy(update=changes)
        changes |= await self._other_versions(changed, equipment, other.components, overrides)
        limits = current_budget(parent.manifest, parent_events).model_dump()
        limits |= (other.budget or Budget()).model_dump(exclude_none=True)
        first_models = [parent.manifest.model]
        if "model" in changes:
            first_models = _first_models(changes["model"], changes["roles"])
        names = [link for name in first_models for link in equipment.models.chain(name)]
        new_id = new_run_id()
        manifest = parent.manifest.model_copy(
            update={
                **changes,
                "parent_run": run_id,
                "fork_seq": seq,
                "overrides": overrides | {f"outcome:{key}": value for key, value in outcomes.items()},
                "began": parent.manifest.began or parent.manifest.created,
                "created": parts.clock.now(),
                "budget": self._budget(names, Budget(**limits), equipment.models),
                "labels": parent.manifest.labels | parts.redact_json(other.labels),
                "session": None,  # the session has the parent's answer already
                "distribution": distribution(),
            }
        )
        if parent.imported is not None:
            manifest = await self._made_own(manifest, equipment, prompts=tuple(prompts))
        safe_outcomes = parts.redact_json(dict(outcomes))
        new = forked_events(run_id, parent_events, seq, manifest, outcomes=safe_outcomes, now=manifest.created)
        await parts.fetch_files(run_id, parent.manifest.files)
        await asyncio.to_thread(link_files, parts.files_of(run_id), parts.files_of(new_id))
        await parts.store.create_run(new_id, manifest, new)
        self._equipper.run_equipment.keep(new_id, equipment)
        return new_id

    async def _made_own(self, manifest: RunManifest, equipment: Equipment, *, prompts: tuple[str, ...]) -> RunManifest:
        """Return the manifest of a fork of an imported run: with this machine's application, tools and prompts.

        The fork is a run of this machine, so nothing of what came in may stand for this machine's own.

        Args:
            manifest: made of the parent's.
            equipment: what the fork is driven with.
            prompts: names of the prompts that were given to the fork.
        """
        from agentorchestra.tea.programs.sources import pin_of

        catalog, host = self._catalog.of(equipment), self._parts.host
        environments = {name: make() for name, make in catalog.environments_for(equipment).items()}
        foreign = {f"prompt:{name}" for name in manifest.prompts if name not in prompts}
        return manifest.model_copy(
            update={
                "app": host.app,
                "app_folder": host.app_folder,
                "task_folder": self._parts.task_place,
                "project": manifest.project and Project(path="", began=manifest.project.began),
                "tools": {name: pin_of(equipment.tools.get(name) or environments[name]) for name in manifest.tools},
                "agents": {name: pin_of(catalog.agents[name]) for name in manifest.agents},
                "prompts": equipment.prompts.pins() | {name: manifest.prompts[name] for name in prompts},
                "overrides": {name: value for name, value in manifest.overrides.items() if name not in foreign},
                "schemas": await self._equipper.keep_texts(equipment),
            }
        )

    async def _other_prompts(
        self,
        manifest: RunManifest,
        equipment: Equipment,
        prompts: Mapping[str, str | Path],
        overrides: dict[str, JsonValue],
    ) -> dict[str, Any]:
        """Return what changes with a fork's prompts; written into the overrides too."""
        texts = {name: _prompt_text(name, Path(path), equipment.prompts) for name, path in prompts.items()}
        if not texts:
            return {}
        pins = equipment.prompts.with_texts(texts).pins()
        for name, text in texts.items():
            await self._parts.store.put_blob(text.encode(), SOURCE_MEDIA_TYPE)
            overrides[f"prompt:{name}"] = pins[name].content_hash
        return {"prompts": manifest.prompts | {name: pins[name] for name in texts}}

    async def _other_versions(
        self, manifest: RunManifest, equipment: Equipment, versions: Mapping[str, str], overrides: dict[str, JsonValue]
    ) -> dict[str, Any]:
        """Return what changes with the versions of components that a fork names; written into the overrides too.

        Args:
            manifest: with the fork's other changes.
            equipment: with these versions, and those of its parent.
            versions: the versions that the fork names itself.
            overrides: of the fork.
        """
        from agentorchestra.tea.programs.sources import pin_of

        if not versions:
            return {"components": dict(equipment.components)}
        catalog = self._catalog.of(equipment)
        environments = catalog.environments_for(equipment)
        agents = {name: catalog.agents[name] for name in manifest.agents}
        self._check_components(
            versions,
            {
                "tool": {*manifest.tools} - {*environments},
                "environment": {*manifest.tools} & {*environments},
                "agent": {*agents, manifest.system},
                "prompt": manifest.prompts,
                "memory": _memories(manifest.memory, agents),
            },
        )
        overrides |= {f"component:{key}": version for key, version in versions.items()}
        components = {"tool": equipment.tools, "environment": {name: make() for name, make in environments.items()}}
        pins = equipment.prompts.pins()
        names = {kind: [key.partition(":")[2] for key in versions if key.startswith(f"{kind}:")] for kind in _KINDS}
        again = {name: pin_of(components[kind][name]) for kind in components for name in names[kind]}
        return {
            "components": dict(equipment.components),
            "tools": manifest.tools | again,
            "agents": manifest.agents | {name: pin_of(agents[name]) for name in names["agent"] if name in agents},
            "prompts": manifest.prompts | {name: pins[name] for name in names["prompt"]},
            "schemas": await self._equipper.keep_texts(equipment),
        }

    def _other_models(
        self, manifest: RunManifest, models: Any, other: RunSpec, overrides: dict[str, JsonValue]
    ) -> dict[str, Any]:
        """Return what changes with a fork's models; written into the overrides too."""
        if other.model is None and not other.roles:
            return {}
        name, roles = manifest.model if other.model is None else other.model, dict(manifest.roles)
        models.check(name)
        if other.model is not None:
            roles = {role: role_settings.model_copy(update={"model": ""}) for role, role_settings in roles.items()}
        for role, model in other.roles.items():
            models.check(model)
            roles[role] = roles.get(role, RoleSettings()).model_copy(update={"model": model})
            overrides[f"role:{role}"] = model
        if other.model is not None:
            overrides["model"] = name
        return {
            "model": name,
            "roles": dict(sorted(roles.items())),
            "context_windows": manifest.context_windows | self._windows({*_first_models(name, roles)}, models),
            "media_models": self._media_models(models, name, roles),
        }


def _as_before(spec: RunSpec, before: RunManifest) -> RunSpec:
    """Return the spec of a session's next turn: what it leaves open is as in the turn `before`."""
    return spec.model_copy(
        update={
            "system": spec.system or before.system,
            "model": before.model if spec.model is None else spec.model,
            "environments": spec.environments or before.environments,
            "tests": spec.tests or before.tests,
        }
    )


def _check_same_project(spec: RunSpec, before: Project | None) -> None:
    """Refuse (ProjectError) another project than that of a session, whose turns share one folder."""
    if spec.project is None or (before is not None and str(spec.project.resolve()) == before.path):
        return
    folder = f"on a copy of {before.path}" if before and before.path else "in a folder of its own"
    raise ProjectError(
        f"the session {spec.session!r} works {folder}, and its turns share it: leave {spec.project} (--in) out, or "
        "begin another session for it"
    )


def _memories(name: str, agents: Mapping[str, Any]) -> set[str]:
    """Return the memory systems of a run: that of its top agent, and those that its agents name."""
    return {name, *(agent.memory for agent in agents.values())} - {""}


def _first_models(model: str, roles: Mapping[str, RoleSettings]) -> list[str]:
    """Return the models that are asked first: a run's own, and those of its roles."""
    return [model, *(role.model for role in roles.values() if role.model)]


def _clients(names: set[str], models: Any) -> Iterator[tuple[str, Any]]:
    """Yield the models that can be asked, by name: not a profile without its key."""
    for name in sorted(names):
        try:
            yield name, models.client(name)
        except UsageError:
            continue


def _check_chosen(names: Sequence[str], agents: Mapping[str, Any]) -> None:
    """Raise UnknownComponentError if the settings choose an agent for the team that is not there."""
    for name in names:
        if name not in agents:
            raise UnknownComponentError(
                f"the settings choose the agent {name!r} for the team (team.agents), which is not there; the agents: "
                f"{', '.join(sorted(agents))}"
            )


def _check_options(system: str, drive: Any, options: dict[str, JsonValue], agents: Collection[str], model: str) -> None:
    """Refuse options that a system does not take; `drive` runs it, `agents` are names of the run's."""
    check = getattr(drive, "check_options", None)
    if check is not None:
        check(options, agents, model)
    elif options:
        raise SettingsError(
            f"the system {system!r} has no options, but {', '.join(options)} were given; leave them out"
        )


def _whole(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each half of a surrogate pair, which providers send and no manifest holds."""
    text = json.dumps(value, ensure_ascii=False)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value if whole == text else json.loads(whole)


def _prompt_text(name: str, path: Path, prompts: Any) -> str:
    """Return the text of a file that takes a known prompt's place."""
    prompts.get(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PromptError(f"the prompt {path} cannot be read: {exc}") from None


def _schema_of(output_type: type[Any] | None) -> dict[str, Any] | None:
    if output_type is None:
        return None
    try:
        return TypeAdapter(output_type).json_schema()
    except Exception as exc:
        raise SettingsError(f"output_type={output_type!r} has no JSON schema: {exc}; use a pydantic model") from None
