"""The equipment of runs: tools, models and prompts, today's or as a run was started."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import (
    BudgetError,
    PinError,
    PromptError,
    SettingsError,
    ToolDefinitionError,
    UnknownComponentError,
    UnknownModelError,
)
from agentorchestra.core.events import Event
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import ENCODING, SOURCE_MEDIA_TYPE, Pinned, RunFields, RunManifest, RunSpec, first_names
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.function import as_client
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.hooks import OnModel, OnStep, OnTool
from agentorchestra.workspace.catalog import Equipment, is_toolkit, same_objects, tools_by_name
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import need_croniter
from agentorchestra.workspace.settings import SETTINGS_FILE

if TYPE_CHECKING:
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.tea.registry.reach import Affected


@dataclass(frozen=True, kw_only=True)
class RunObjects:
    """The objects of a run besides its RunSpec; no log can hold them: another process has to be given them again."""

    model: Any = None  # a ModelClient; a name, or None, where the model is found by its name
    tools: Sequence[Any] = ()  # further tools for this run
    deps: Any = None  # dependencies instead of the workspace's
    policy: Policy | None = None  # replaces the workspace's
    output_type: type[Any] | None = None  # the type of the result's output
    on_step: OnStep | None = None
    on_tool: OnTool | None = None
    on_model: OnModel | None = None


class RunOptions(RunFields, total=False):
    """The arguments of `Workspace.run` besides a task and `output_type`: the fields of RunSpec and of RunObjects."""

    tools: Sequence[Any]
    deps: Any
    policy: Policy | None
    on_step: OnStep | None
    on_tool: OnTool | None
    on_model: OnModel | None


def run_request(task: str | RunSpec, options: Mapping[str, object]) -> tuple[RunSpec, RunObjects]:
    """Return what is asked and what is given besides; fields among the options replace those of a spec.

    Raises:
        UsageError: for a value that does not fit.
        TypeError: for an option that there is not.
    """
    fields: dict[str, Any] = {**options}
    objects = {field.name: fields.pop(field.name) for field in dataclasses.fields(RunObjects) if field.name in fields}
    if "model" in objects:
        objects["model"] = as_client(objects["model"])
    model = objects.get("model")
    if model is not None:
        fields["model"] = model if isinstance(model, str) else getattr(model, "name", None)
        if not isinstance(fields["model"], str):
            raise UnknownModelError(f"{model!r} is neither a model's name, nor a function, nor a ModelClient")
    if unknown := fields.keys() - RunSpec.model_fields:
        names = ", ".join([*RunOptions.__annotations__, "output_type"])
        raise TypeError(f"a run has no option {min(unknown)!r}; its options: {names}")
    budget = fields.get("budget")
    if budget is not None and not isinstance(budget, Budget):
        raise BudgetError(f"budget is {budget!r}; give a Budget, e.g. Budget(cost_usd=0.5)")
    base = dict(task) if isinstance(task, RunSpec) else {"task": task}
    try:
        return RunSpec(**(base | fields)), RunObjects(**objects)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{name} = {first['input']!r} does not fit: {first['msg']}") from None


class PinMismatch(NamedTuple):
    """A component that is another one than a run's manifest pins."""

    key: str  # `tool:read_file`
    content_hash: str  # of today's, "" for one that is gone
    sentence: str


class GivenEquipment:
    """What runs were given in this process; of those that have ended only the last `ENDED_MOST`."""

    def __init__(self) -> None:
        self._of: dict[str, Equipment] = {}
        self._ended: dict[str, None] = {}  # the ids in the order in which they ended

    def keep(self, run_id: str, equipment: Equipment) -> None:
        """Remember what a run was given, at least until it has ended."""
        self._of[run_id] = equipment
        self._ended.pop(run_id, None)

    def get(self, run_id: str) -> Equipment | None:
        """Return what a run was given, None where that was elsewhere or too many have ended since."""
        return self._of.get(run_id)

    def note_end(self, run_id: str) -> None:
        """Note the end of a run; forget the one that ended longest ago where they are too many."""
        self._ended.pop(run_id, None)
        self._ended[run_id] = None
        if len(self._ended) > ENDED_MOST:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._of.pop(oldest, None)


ENDED_MOST = 100  # ended runs whose own tools and model are at hand for a replay or a fork without being given again


class _OfTools:
    """The parts of a manifest that follow from its tools alone."""

    def __init__(self, tools: Mapping[str, Any]) -> None:
        self.tools = dict(tools)

    @cached_property
    def pins(self) -> dict[str, Pinned]:
        from agentorchestra.tea.programs.sources import pin_of

        return {name: pin_of(tool) for name, tool in sorted(self.tools.items())}

    @cached_property
    def texts(self) -> tuple[str, dict[str, str]]:
        """The hash of their schemas; the text of these and of their modules by hash."""
        from agentorchestra.tea.programs.sources import schemas_text, texts_of

        schemas = schemas_text(self.tools.values())
        digest = sha256_text(schemas)
        return digest, {**texts_of(self.tools.values()), digest: schemas}


class Equipper:
    """Equips runs from a workspace; what was given to one run, another run never sees.

    Args:
        parts: of the workspace.
        run_equipment: what runs were given in this process; also before the workspace was opened again.
        clients: the models that were given to runs as objects, but for scripted ones that are used up.
    """

    def __init__(self, parts: Composition, run_equipment: GivenEquipment, clients: list[Any]) -> None:
        self._catalog = parts.catalog
        self._components = parts.components
        self._store = parts.store
        self._preset = parts.settings.preset
        self._without = parts.settings.without_tools
        self._namespace = parts.host.namespace
        self.run_equipment = run_equipment
        self._clients = clients
        self._kept_texts: set[str] = set()
        self._keeping = asyncio.Lock()
        self._last = _OfTools({})

    def base(self) -> Equipment:
        """Return the workspace's own, without the packaged tools that the settings take away.

        Raises:
            UnknownComponentError: the settings take away a tool that is not packaged here.
        """
        packaged_names = self._catalog.builtin | {"transcribe_file"}  # there only where a model writes recordings down
        if unknown := {*self._without} - packaged_names:
            raise UnknownComponentError(
                f"the settings take away (without_tools) {', '.join(sorted(unknown))}; packaged are other names: "
                f"{', '.join(sorted(packaged_names))}"
            )
        tools = {name: tool for name, tool in self._catalog.tools.items() if name not in self._without}
        return Equipment(tools, self._catalog.models, self._catalog.prompts)

    def of(self, record: RunRecord) -> Equipment:
        """Return what a run was created with here; in another process the workspace's, and what its manifest names."""
        manifest = record.manifest
        base = self.base()
        if manifest.checks < ENCODING and "fetch" in base.tools.keys() - {*self._catalog.replaced}:
            base = replace(base, tools={**base.tools, "fetch": base.tools["fetch"].without("encoding")})
        rebuilt = replace(
            base,
            environments=manifest.environments,
            system=manifest.system,
            society=manifest.society,
            components={} if record.imported is not None else manifest.components,  # those are another machine's
        )
        return self.run_equipment.get(record.id) or rebuilt

    async def with_objects(self, base: Equipment, objects: RunObjects) -> Equipment:
        """Return the equipment with a run's own tools and client, and with the versions of components that it names.

        Each takes the place of its namesake.

        Raises:
            UnknownComponentError, VersionError: for a component or version that is not there.
        """
        from agentorchestra.tea.transformations.dependencies import need_nothing

        catalog, models, model = self._catalog, base.models, as_client(objects.model)
        if model is not None and not isinstance(model, str):
            models = models.overlay(model)
            rest = [client for client in self._clients if client is not model and not getattr(client, "spent", False)]
            self._clients[:] = [*rest, model]
        for tool in objects.tools:
            if is_toolkit(tool):
                raise ToolDefinitionError(f"the toolkit {tool.name!r} belongs to a workspace: Workspace(tools=[...])")
        own_tools = tools_by_name(objects.tools, catalog.every_environment)
        need_nothing(own_tools, {*catalog.tools}, {*catalog.every_environment}, {*catalog.agents})
        own_tools = await self._components.tools.stock.admit(own_tools)
        return await self._with_versions(replace(base, tools={**base.tools, **own_tools}, models=models))

    async def _with_versions(self, base: Equipment) -> Equipment:
        versions: dict[str, dict[str, Any]] = {}
        for key, version in base.components.items():
            kind, _, name = key.partition(":")
            if kind == "tool" and name not in base.tools:
                continue  # of a server that this process has not opened: a replay shows what the log has of it
            versions.setdefault(kind, {})[name] = await self._components.of_kind(kind).stock.version(name, version)
        tools, library = versions.pop("tool", {}), base.prompts.with_prompts(versions.pop("prompt", {}))
        return replace(base, tools={**base.tools, **tools}, prompts=library, versions=versions)

    def pins(self, tools: Mapping[str, Any]) -> dict[str, Pinned]:
        return dict(self._derived_parts(tools).pins)

    def _derived_parts(self, tools: Mapping[str, Any]) -> _OfTools:
        if not same_objects(tools, self._last.tools):  # most runs have the same tools as the one before
            self._last = _OfTools(tools)
        return self._last

    async def keep_texts(self, equipment: Equipment) -> str:
        """Keep the texts of prompts and tools that a run will be pinned to; return the hash of its tools' schemas."""
        digest, of_tools = self._derived_parts(equipment.tools).texts
        texts = {**equipment.prompts.texts(), **of_tools}
        if texts.keys() <= self._kept_texts:
            return digest
        async with self._keeping:  # of many runs at once the first keeps them for all
            new = {digest: text for digest, text in texts.items() if digest not in self._kept_texts}
            unknown = [text for digest, text in new.items() if not self._components.registry.is_kept(digest)]
            await self._store.put_texts(unknown, SOURCE_MEDIA_TYPE)
            self._kept_texts.update(new)
        return digest

    async def as_started(
        self, record: RunRecord, equipment: Equipment, *, pin: bool, apart: Mapping[str, Any] | None = None
    ) -> Equipment:
        """Return today's equipment with the prompts a fork was given; with `pin` all as the run was started.

        An imported run has its own prompts, where they came with it: this machine's are another's. Its tools' modules
        are a stranger's programs and are never executed.

        A packaged tool that its kept text does not give any more is today's: the code around it is another version's.

        Raises:
            PinError: for a text of the application that was not kept, or one that cannot be used any more.
        """
        from agentorchestra.tea.programs.namespaces import within, without_namespace
        from agentorchestra.tea.programs.sources import pinned_tool
        from agentorchestra.tea.prompts.restrictions import check_plain

        manifest, is_imported = record.manifest, record.imported is not None
        if pin and is_imported:
            raise PinError(
                f"run {record.id} was imported: the texts of its tools came with it and are not executed; install the "
                "tools it needs and go on without --pin (it has its own prompts in any case)"
            )
        came = set()
        if is_imported:
            came = set(await self._store.find_blobs([ref.source for ref in manifest.prompts.values() if ref.source]))
        today = equipment.prompts.pins()
        texts: dict[str, str] = {}
        for name, ref in manifest.prompts.items():
            if f"prompt:{name}" not in manifest.overrides and not pin and ref.source not in came:
                continue
            if not ref.source:  # the first versions kept no texts of prompts
                continue
            if name not in today or today[name].content_hash != ref.content_hash:
                texts[name] = await self._kept_text(f"prompt {name!r}", ref)
                if is_imported:
                    check_plain(texts[name], name)
        apart = apart or {}
        tools = {**equipment.tools, **apart}
        environments = self._catalog.of(equipment).environments_for(equipment)
        for name, ref in manifest.tools.items() if pin else ():
            tool = tools.get(name)
            same = tool is not None and tool.content_hash == ref.content_hash
            if same or name in environments or name in apart:
                continue
            if self._is_registered("tool", name, ref):
                tools[name] = await self._components.tools.stock.version(name, ref.version)
                continue
            package = without_namespace(getattr(tool, "__module__", "")).rpartition(".")[0]
            try:
                text = await self._kept_text(f"tool {name!r}", ref)
                with within(self._namespace):
                    tools[name] = pinned_tool(name, ref, text, package=package)
            except PinError:
                if not self._is_packaged(name, ref):
                    raise
        prompts = _with_kept(equipment.prompts, texts) if texts else equipment.prompts
        return replace(equipment, tools=tools, prompts=prompts)

    def _is_packaged(self, name: str, pin: Pinned) -> bool:
        """Return True for a tool that comes with the package or stands behind another component, or once did."""
        return name in self._catalog.builtin | self._catalog.behind or self._is_gone("tool", name, pin)

    def _is_registered(self, kind: str, name: str, pin: Pinned) -> bool:
        """Return True if the registry can make what a run was pinned to: words may be laid over its text."""
        manager = self._components.of_kind(kind)
        history = manager.registry.history(kind, name)
        if history is None or pin.version not in history.names:
            return False
        version = history.version(pin.version)
        return bool(version.config.content_hash == pin.content_hash and version.maker and version.maker.texts)

    async def as_replayed(
        self, record: RunRecord, equipment: Equipment, events: list[Event], *, pin: bool
    ) -> Equipment:
        """Return what a run is replayed with.

        Tools of a server that this process does not have are as the log shows them. An imported run has its own texts,
        its tools as models saw them, and no model at all.
        """
        from agentorchestra.models.manager import RecordedModels

        manifest = record.manifest
        if record.imported is None:
            away = [n for n, tool in manifest.tools.items() if tool.origin and n not in equipment.tools]
            apart = await self._recorded_tools(record, away, events)
            started = await self.as_started(record, equipment, pin=pin, apart=apart)
            if not pin or Ledger.of(events).upgraded_at:  # who went on did so with today's
                return started
            # Nothing is executed: of a packaged tool that is another one, it is enough how models saw it.
            changed_tools = [
                name
                for name, tool in manifest.tools.items()
                if self._is_packaged(name, tool)
                and (tool_here := started.tools.get(name)) is not None
                and tool_here.content_hash != tool.content_hash
            ]
            recorded_tools = await self._recorded_tools(record, changed_tools, events, here=started.tools)
            return replace(started, tools={**started.tools, **recorded_tools})
        started = await self.as_started(record, equipment, pin=False)
        environments = self._catalog.of(equipment).environments_for(equipment)
        names = [name for name in manifest.tools if name not in environments]
        tools = await self._recorded_tools(record, names, events, here=equipment.tools)
        return replace(started, tools=tools, models=RecordedModels(), manifest=manifest)

    async def _recorded_tools(
        self, record: RunRecord, names: Sequence[str], events: list[Event], here: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        from agentorchestra.tea.calling.recorded import as_recorded

        if not names:
            return {}
        digest = record.manifest.schemas
        schemas = await self._store.get_blob(digest) if digest and await self._store.find_blobs([digest]) else b"{}"
        return as_recorded(names, here or {}, Ledger.of(events), schemas)

    async def _kept_text(self, subject: str, pin: Pinned) -> str:
        if not pin.source:
            raise PinError(
                f"the {subject} changed since the run was started, and its text was not kept (a tool that its module "
                "does not name); put it back as it was, or resume without --pin"
            )
        return (await self._store.get_blob(pin.source)).decode("utf-8")

    async def changed_since(self, manifest: RunManifest, equipment: Equipment) -> list[PinMismatch]:
        """Return what is not as the run was started with: it goes on with today's, and its recorded outcomes hold."""
        from agentorchestra.tea.programs.sources import pin_of

        catalog = self._catalog.of(equipment)
        environments = catalog.environments_for(equipment)
        pins = {("tool", name): pin for name, pin in self.pins(equipment.tools).items()}
        pins |= {("prompt", name): pin for name, pin in equipment.prompts.pins().items()}
        pins |= {("agent", name): pin_of(catalog.agents[name]) for name in manifest.agents if name in catalog.agents}
        instances = {name: environments[name]() for name in manifest.tools if name in environments}
        pins |= {("environment", name): pin_of(environment) for name, environment in instances.items()}
        old_pins = {("environment" if name in instances else "tool", name): pin for name, pin in manifest.tools.items()}
        old_pins |= {("prompt", name): pin for name, pin in manifest.prompts.items()}
        old_pins |= {("agent", name): pin for name, pin in manifest.agents.items()}
        changed = []
        for (kind, name), was in old_pins.items():
            now = pins.get((kind, name))
            if now is None:
                if kind != "prompt" and self._is_gone(kind, name, was):  # no code of today asks for such a prompt
                    notice = f"{kind} {name} is no part of the package any more: the run goes on without it"
                    changed.append(PinMismatch(f"{kind}:{name}", "", notice))
                continue
            # The file around a tool may change without the tool: it has another version then, and is the same.
            if now.content_hash != was.content_hash:
                change = await self._schema_change(name, manifest, equipment) if kind == "tool" else ""
                sentence = (
                    f"{kind} {name} changed since the run was started: {was.version} {was.content_hash[:12]} -> "
                    f"{now.version} {now.content_hash[:12]}{change}"
                )
                changed.append(PinMismatch(f"{kind}:{name}", now.content_hash, sentence))
        return changed

    def gone_components(self, manifest: RunManifest, equipment: Equipment) -> set[str]:
        """Return the tools and environments of a run that came with the package once, and do not any more."""
        here = {*equipment.tools, *self._catalog.of(equipment).environments_for(equipment)}
        return {name for name, pin in manifest.tools.items() if name not in here and self._is_gone("tool", name, pin)}

    def _is_gone(self, kind: str, name: str, pin: Pinned) -> bool:
        """Return True for a component that came with the package once, and does not any more."""
        kinds = ("tool", "environment") if kind == "tool" else (kind,)
        for any_kind in kinds:
            history = self._components.of_kind(any_kind).registry.history(any_kind, name)
            if history is not None and pin.version in history.names:
                return history.version(pin.version).origin == "package"
        return False

    async def _schema_change(self, name: str, manifest: RunManifest, equipment: Equipment) -> str:
        """Say what became of a tool's arguments; "" where they are the same or the old ones were not kept."""
        from agentorchestra.tea.registry.versions import changes_of, level_of

        if not manifest.schemas or not await self._store.find_blobs([manifest.schemas]):
            return ""
        schemas = json.loads(await self._store.get_blob(manifest.schemas)).get(name, {})
        changes = changes_of(schemas.get("parameters", {}), equipment.tools[name].schema.parameters)
        if level_of(changes) in ("none", "patch"):
            return ""
        return f"; its arguments: {', '.join(change.what for change in changes)} (a {level_of(changes)} change)"

    async def first_affected(
        self, record: RunRecord, events: list[Event], components: Mapping[str, str]
    ) -> Affected | None:
        """Return the first effect of a run that other versions of components can change; see Workspace."""
        from agentorchestra.tea.registry.reach import first_affected

        manifest, ledger = record.manifest, Ledger.of(events)
        pins_by_kind = {"tool": manifest.tools, "environment": manifest.tools, "agent": manifest.agents}
        candidates = []
        for key, version in components.items():
            kind, _, name = key.partition(":")
            stock = self._components.of_kind(kind).stock
            pin = {**pins_by_kind, "prompt": manifest.prompts}.get(kind, {}).get(name)
            old = manifest.components.get(key) or (pin.version if pin is not None else _memory_used(ledger, name))
            before = stock.history(name, hidden=True).version(old)
            after = stock.history(name, hidden=True).version(version)
            template, peers = "", []
            if kind == "prompt":
                template = (await stock.version(name, before.version)).template
                peers = [entry.template for other, entry in stock.live().items() if other != name]
            candidates.append(first_affected(ledger, before, after, template=template, peers=peers))
        return min((entry for entry in candidates if entry is not None), key=lambda entry: entry.at, default=None)

    def check(self, manifest: RunManifest, equipment: Equipment) -> None:
        """Complain if this process does not have what a run was started with.

        Raises:
            SettingsError: it was started with another preset.
            UnknownComponentError: names what is missing, and where it may be found.
            MissingExtraError: it is a schedule, and the extra for these is not there.
        """
        catalog = self._catalog.of(equipment)
        if manifest.preset != self._preset:
            raise SettingsError(
                f"the run was started with the preset {manifest.preset!r}, this workspace has "
                f"{self._preset!r}; open it with Workspace(..., preset={manifest.preset!r})"
            )
        here = {*equipment.tools, *catalog.environments_for(equipment), *self.gone_components(manifest, equipment)}
        missing = sorted({*manifest.tools} - here)
        agents = sorted(set(manifest.agents) - set(catalog.agents))
        missing += [name for name in agents if not self._is_gone("agent", name, manifest.agents[name])]
        system_names = {*catalog.systems, *catalog.agents, CALLS, SCHEDULE}
        if manifest.system == SCHEDULE:
            need_croniter()
        missing += [manifest.system] if manifest.system not in system_names else []
        origins = {name: pin.origin for name in missing if (pin := manifest.tools.get(name)) and pin.origin}
        if origins:
            raise UnknownComponentError(
                f"this process does not have {first_names(origins)}, tools of "
                f"{', '.join(sorted(set(origins.values())))} which the run was started with; "
                f'name the file of the servers by --mcp, by mcp = "mcp.json" in {SETTINGS_FILE}, or by tools=[mcp(...)]'
            )
        if missing:
            place = f"its app is {manifest.app!r}" if manifest.app else "no app was recorded with it"
            raise UnknownComponentError(
                f"this process does not have {', '.join(missing)}, which the run was started with ({place}); "
                f'name them in {SETTINGS_FILE} by app = "module:workspace", or pass tools= to resume'
            )


def _with_kept(prompts: PromptLibrary, texts: Mapping[str, str]) -> PromptLibrary:
    """Return a library with kept texts, but for packaged ones that today's code cannot fill; else PromptError."""
    try:
        return prompts.with_texts(texts)
    except PromptError:  # which of them?
        names = {*prompts.builtin}
        for name, text in texts.items():
            try:
                prompts = prompts.with_texts({name: text})
            except PromptError:
                if name not in names:
                    raise
        return prompts


def _memory_used(ledger: Ledger, name: str) -> str | None:
    """Return the version of a memory system that a run used, which its manifest does not pin; None for none."""
    kinds = (EffectKind.READ_MEMORY, EffectKind.WRITE_MEMORY)
    used = [record.effect["component"].rpartition("@") for record in ledger.records.values() if record.kind in kinds]
    return next((version for memory, _, version in used if memory == name), None)
