"""The servers of the three protocols: the operations of the TEA paper on a context manager (000, definitions 4, 7, 10).

`ws.tcp`, `ws.ecp`, `ws.acp`; prompts and memory systems have the same operations (`ws.prompt_components`,
`ws.memory_components`).
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from agentorchestra.core.content import Block
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import (
    LifecycleError,
    ManifestError,
    SourceError,
    ToolDefinitionError,
    UnknownComponentError,
    UsageError,
)
from agentorchestra.core.ids import is_flat
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import RunResult
from agentorchestra.tea.calling.definitions import defined_tool
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.prompts.catalog import Prompt
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.context import By, ContextManager, Found, New, by_whom
from agentorchestra.tea.registry.history import LifeState, Version, checked_component_name
from agentorchestra.tea.registry.kind import Variable, config_changes
from agentorchestra.tea.registry.registration import (
    Given,
    check_environments,
    files_of,
    from_path,
    from_source,
    objects_in,
    read_manifest,
)
from agentorchestra.tea.registry.saved import read_saved, saved, taken_over
from agentorchestra.tea.registry.usage import Use, uses
from agentorchestra.tea.registry.versions import Level, level_of
from agentorchestra.tea.retrieval.retriever import Group

T = TypeVar("T")

EnvironmentFactory = Callable[[], Environment]


class Difference(BaseModel):
    """What differs between two versions of a component.

    Attributes:
        name, before, after: of what.
        level: what the change means for callers: none, patch, minor, major.
        changes: what changed of its operations, a phrase each.
        text: a unified diff of the texts, "" where they are the same or not kept.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    before: str
    after: str
    level: Level
    changes: tuple[str, ...] = ()
    text: str = ""


class Access:
    """What a server needs of its workspace.

    Args:
        ready: opens what is not open yet, reads what was registered since, and takes it into use.
        invoke_tool, invoke_action, state_of, invoke_agent: calls outside of a run; each is recorded.
    """

    def __init__(
        self,
        ready: Callable[[], Awaitable[None]],
        *,
        invoke_tool: Callable[[Tool[..., Any], Mapping[str, JsonValue]], Awaitable[Outcome]],
        invoke_action: Callable[[str, str, Mapping[str, JsonValue]], Awaitable[Outcome]],
        state_of: Callable[[str], Awaitable[tuple[Block, ...]]],
        invoke_agent: Callable[[str, str, dict[str, Any]], Awaitable[RunResult]],
        environments: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.ready = ready
        self.invoke_tool = invoke_tool
        self.invoke_action = invoke_action
        self.state_of = state_of
        self.invoke_agent = invoke_agent
        self.environments = environments


class Server(Generic[T]):
    """The operations of one protocol on its context manager.

    Every operation that changes something takes `author` (`user` by default), `reason` and `run`: they stand in the
    history of the component. Names and texts are checked before anything is written; what cannot be made is not
    registered.

    Args:
        manager: see ContextManager.
        access: see Access.
    """

    def __init__(self, manager: ContextManager[T], access: Access) -> None:
        self.manager = manager
        self._access = access
        self._watched: dict[Path, _Watched] = {}

    # -- reading -------------------------------------------------------------------------------------------------------

    async def init(self) -> Sequence[str]:
        """Register what is at hand, read what others registered, load manifests that changed again; the names."""
        await self._access.ready()
        return self.manager.names()

    async def list(self) -> Sequence[str]:
        """The names of all components."""
        await self._access.ready()
        return self.manager.names()

    async def get(self, name: str, version: str | None = None) -> T:
        """The component itself.

        Raises:
            UnknownComponentError: with the nearest names.
            VersionError: with the versions there are, or for one that cannot be made again.
        """
        await self._access.ready()
        return await self.manager.get(name, version)

    async def info(self, name: str, version: str | None = None) -> ComponentConfig:
        """What is known of a component: description, version, operations with their schemas.

        Raises:
            UnknownComponentError, VersionError.
        """
        await self._access.ready()
        return self.manager.info(name, version)

    async def retrieve(self, query: str, *, limit: int = 10, under: str | None = None) -> Sequence[Found]:
        """The components that fit a query, best first (docs/retrieval.md).

        Args:
            query: what is wanted, in any words; "" gives those of a branch in their order.
            limit: at most so many.
            under: only those of a branch of the tree category -> toolkit -> component: `mcp/github`.
        """
        if not (_is(query, str) and _is(limit, int) and _is(under, str | None)):
            raise UsageError(
                f"retrieve({reprlib.repr(query)}, limit={reprlib.repr(limit)}, under={reprlib.repr(under)}): "
                "query and under are text, limit a number"
            )
        await self._access.ready()
        return await self.manager.retrieve(query, limit=limit, under=under)

    async def browse(self, under: str = "") -> Sequence[Group]:
        """The branches of the tree below one of them (the top ones by default), with how much is in each."""
        if not isinstance(under, str):
            raise UsageError(f"browse({reprlib.repr(under)}): give a branch of the tree, such as 'mcp/github'")
        await self._access.ready()
        return self.manager.browse(under)

    async def stats(self) -> Sequence[Use]:
        """How often each component was called in all runs, with what success, and where it was reused."""
        await self._access.ready()
        histories = [self.manager.registry.history(self.manager.kind.name, name) for name in self.manager.names()]
        return await uses(self.manager.registry.store, [one for one in histories if one is not None])

    async def contract(self) -> str:
        """One Markdown document that describes all components."""
        await self._access.ready()
        return self.manager.contract()

    async def versions(self, name: str) -> Sequence[Version]:
        """Every version with author, reason, lineage and run, oldest first; of an unregistered component too."""
        await self._access.ready()
        return self.manager.versions(name)

    async def source(self, name: str, version: str | None = None) -> str:
        """The text that a version is made of, "" where none is kept."""
        await self._access.ready()
        return await self.manager.source(name, version)

    async def diff(self, name: str, before: str, after: str | None = None) -> Difference:
        """What differs between two versions; the current one by default."""
        await self._access.ready()
        manager = self.manager
        old, new = manager.info(name, before), manager.info(name, after)
        changes = config_changes(old, new)
        was, now = [(await manager.source(name, one.version)).splitlines(keepends=True) for one in (old, new)]
        unified = difflib.unified_diff(was, now, f"{name}@{old.version}", f"{name}@{new.version}")
        level = level_of(changes)
        return Difference(
            name=name,
            before=old.version,
            after=new.version,
            level="patch" if level == "none" and old.content_hash != new.content_hash else level,
            changes=tuple(one.what for one in changes),
            text="".join(unified),
        )

    # -- registering ---------------------------------------------------------------------------------------------------

    async def register(
        self,
        component: Any = None,
        *,
        name: str | None = None,
        source: str | None = None,
        path: str | Path | None = None,
        version: str | None = None,
        state: Literal["active", "candidate"] = "active",
        author: str = "user",
        reason: str = "",
        run: str = "",
        trusted: bool = True,
        invokers: Sequence[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Sequence[ComponentConfig]:
        """Make something a component. What is known already stays the version it is; other content is the next one.

        Args:
            component: an object of the kind, for tools also a function, or a class or object with `@tool` methods; a
                list of them; or
            source: its text (Python; for a prompt its file's text); or
            path: a file (`.py`, `.md`), a manifest (`.json`, loaded again when it changes), or a folder of them.
            name: another than its own; which function or class of a source.
            version: written down; by default computed from how it changed.
            state: `candidate` is kept and can be called by its version, and is not what the name means.
            author, reason, run: who made it, why, in which run.
            trusted: False for code that the workspace's user did not write: it runs in the sandbox only.
            invokers: who may invoke it: names of agents, `user` for calls outside of runs; everybody by default.
            metadata: what else is to be known of it; it stands in its configuration.

        Returns:
            What is known of each component now.

        Raises:
            UsageError: for anything that does not fit, before anything is written.
        """
        if name is not None:
            checked_component_name(self.manager.kind.name, name)
        await self._access.ready()
        found = await self._found(component, name=name, source=source, path=path, trusted=trusted)
        by = by_whom(author, reason, run)
        done = await self.manager.register_all(
            [New(*one) for one in self._checked(found, name, version)],
            by,
            state=state,
            trusted=trusted,
            invokers=invokers,
            metadata=metadata,
            origin="file" if path is not None else "register",
        )
        if path is not None and _place(path).suffix == ".json":
            self._watched[Path(path)] = _Watched(_stamps(Path(path)), state, invokers)
            self.manager.registry.handed += 1
        await self._access.ready()
        return done

    async def _found(
        self, component: Any, *, name: str | None, source: str | None, path: str | Path | None, trusted: bool
    ) -> Sequence[Given]:
        given = [one for one in (component, source, path) if one is not None]
        if len(given) != 1:
            raise UsageError(f"give a {self.manager.kind.name}, its source= or its path=, one of them")
        kind = self.manager.kind
        if not trusted:
            if not isinstance(source, str):
                raise SourceError("code that the user did not write is registered as its text: give source=")
            return await self._foreign(source, name)
        if source is not None:
            return from_source(kind, source, name=name)
        if path is not None:
            place = _place(path)
            if place.suffix == ".json" and place.is_file():
                check_environments(place, read_manifest(place), self._access.environments())
            return from_path(kind, place)
        several = component if isinstance(component, list | tuple) else [component]
        return [given for one in several for given in objects_in(kind, one)]

    async def _foreign(self, source: str, name: str | None) -> Sequence[Given]:
        from agentorchestra.tea.registry.history import Maker
        from agentorchestra.tea.registry.kind import Made

        kind = self.manager.kind
        maker = Maker(how="prompt" if kind.name == "prompt" else "source", symbol=name or "")
        if not kind.is_code(maker):
            return from_source(kind, source, name=name)
        if kind.make_foreign is None:
            raise SourceError(f"code of {kind.plural} that the workspace's user did not write is not executed")
        if name is None:
            raise SourceError("name the function of the source: name=")
        return [Given(name, await kind.make_foreign(name, maker, source, None), Made(source, maker))]

    def _checked(self, found: Sequence[Given], name: str | None, version: str | None) -> Sequence[Given]:
        kind = self.manager.kind
        if name is not None:
            checked_component_name(kind.name, name)
        if not found:
            raise ManifestError(f"there is no {kind.name} in what was given")
        if len(found) > 1 and (name is not None or version is not None):
            raise UsageError(f"it has {len(found)} {kind.plural}; leave name= and version= out, or give one of them")
        named = [one._replace(name=name or one.name, version=version or one.version) for one in found]
        for one in named:
            checked_component_name(kind.name, one.name)
        return named

    @property
    def watches(self) -> bool:
        """Whether manifests were registered, which may change."""
        return bool(self._watched)

    async def reload(self) -> None:
        """Load the manifests that were registered, and have changed since or name files that have: whole or not."""
        for path, watched in list(self._watched.items()):
            if not path.is_file() or all(_stamp(one) == stamp for one, stamp in watched.stamps.items()):
                continue
            # What is wrong with it now is said once, and looked at again when a file changes.
            self._watched[path] = watched._replace(stamps={one: _stamp(one) for one in watched.stamps})
            check_environments(path, read_manifest(path), self._access.environments())
            found = from_path(self.manager.kind, path)
            await self.manager.register_all(
                [New(*one) for one in found],
                By(reason=f"{path.name} changed"),
                state=watched.state,
                invokers=watched.invokers,
                origin="file",
            )
            self._watched[path] = watched._replace(stamps=_stamps(path))

    async def update(
        self,
        name: str,
        component: Any = None,
        *,
        source: str | None = None,
        version: str | None = None,
        author: str = "user",
        reason: str = "",
        run: str = "",
        trusted: bool = True,
    ) -> ComponentConfig:
        """Another implementation of a component that is there: its next version.

        Args: as for `register`.

        Raises:
            UnknownComponentError: for a name that is not there.
            UsageError: for anything else that does not fit.
        """
        await self._access.ready()
        self.manager.info(name)
        found = await self._found(component, name=name if source else None, source=source, path=None, trusted=trusted)
        (one,) = self._checked(found, name, version)
        by = by_whom(author, reason, run)
        config = await self.manager.register(
            name, one.one, by, made=one.made, version=one.version, trusted=trusted, origin="update", needs=True
        )
        await self._access.ready()
        return config

    async def copy(
        self,
        name: str,
        new_name: str | None = None,
        *,
        version: str | None = None,
        author: str = "user",
        reason: str = "",
        run: str = "",
    ) -> ComponentConfig:
        """The current version under another name (`NAME_copy` by default), with its lineage.

        Raises:
            UnknownComponentError, VersionError, ComponentNameError.
        """
        await self._access.ready()
        by = by_whom(author, reason, run)
        config = await self.manager.copy(name, new_name or f"{name}_copy", by, version=version)
        await self._access.ready()
        return config

    async def unregister(self, name: str, *, author: str = "user", reason: str = "", run: str = "") -> None:
        """Hide a name. Its versions stay readable; `restore` brings it back.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        await self._access.ready()
        await self.manager.unregister(name, by_whom(author, reason, run))
        await self._access.ready()

    async def restore(
        self, name: str, version: str | None = None, *, author: str = "user", reason: str = "", run: str = ""
    ) -> ComponentConfig:
        """Make an earlier version the current one, or bring an unregistered name back; it behaves as it did.

        The code at hand replaces it again only when it changes; `pin` keeps it even then.

        Raises:
            UnknownComponentError, VersionError, LifecycleError.
        """
        return await self._restored(name, version, None, by_whom(author, reason, run))

    async def pin(
        self, name: str, version: str | None = None, *, author: str = "user", reason: str = "", run: str = ""
    ) -> ComponentConfig:
        """Make a version the current one and keep it so, whatever is registered, until `unpin`."""
        return await self._restored(name, version, True, by_whom(author, reason, run))

    async def _restored(self, name: str, version: str | None, pinned: bool | None, by: By) -> ComponentConfig:
        await self._access.ready()
        config = await self.manager.restore(name, by, version=version, pinned=pinned)
        await self._access.ready()
        return config

    async def unpin(self, name: str, *, author: str = "user", reason: str = "", run: str = "") -> None:
        """Let new versions become the current one again."""
        await self._access.ready()
        await self.manager.unpin(name, by_whom(author, reason, run))
        await self._access.ready()

    async def activate(
        self, name: str, version: str, *, author: str = "user", reason: str = "", run: str = ""
    ) -> ComponentConfig:
        """A candidate or deprecated version becomes active, and what the name means.

        Raises:
            LifecycleError: from any other state.
        """
        return await self._to(name, version, "active", by_whom(author, reason, run))

    async def deprecate(
        self, name: str, version: str | None = None, *, author: str = "user", reason: str = "", run: str = ""
    ) -> ComponentConfig:
        """An active version is one to get away from: it still works, and `retrieve` no longer finds it."""
        return await self._to(name, version, "deprecated", by_whom(author, reason, run))

    async def archive(
        self, name: str, version: str, *, author: str = "user", reason: str = "", run: str = ""
    ) -> ComponentConfig:
        """A candidate or deprecated version is over: it stays readable and cannot be used again."""
        return await self._to(name, version, "archived", by_whom(author, reason, run))

    async def _to(self, name: str, version: str | None, state: Any, by: By) -> ComponentConfig:
        await self._access.ready()
        config = await self.manager.to_state(name, state, by, version=version)
        await self._access.ready()
        return config

    async def vars(self, name: str, version: str | None = None) -> Sequence[Variable]:
        """The parts of a component that may be optimised, with their texts (000, app. C.4)."""
        await self._access.ready()
        return await self.manager.variables(name, version)

    async def setvars(
        self,
        name: str,
        values: Mapping[str, str],
        *,
        version: str | None = None,
        author: str = "user",
        reason: str = "",
        run: str = "",
        trusted: bool = True,
    ) -> ComponentConfig:
        """The next version, with other values for some of these parts.

        Args:
            values: by the names that `vars` gives.
            trusted: False for texts that the workspace's user did not write: code of theirs runs in the sandbox only.

        Raises:
            SourceError, VersionError, PromptError: for values that make no component; nothing is registered.
        """
        if not isinstance(values, Mapping):
            raise UsageError(f"the values of variables are {reprlib.repr(values)}; give them by name, as `vars` does")
        await self._access.ready()
        by = by_whom(author, reason, run)
        config = await self.manager.set_variables(name, values, by, version=version, trusted=trusted)
        await self._access.ready()
        return config

    # -- files ---------------------------------------------------------------------------------------------------------

    async def save(self, path: str | Path) -> Path:
        """Write all components with their versions, history and texts to a JSON file."""
        await self._access.ready()
        place = _place(path)
        text = await saved(self.manager.registry, self.manager.kind.name)
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise ManifestError(f"{place} cannot be written: {exc}") from None
        return place

    async def export_skills(self, folder: str | Path) -> Sequence[Path]:
        """Write every component as an Agent Skill: a folder with a SKILL.md that says how it is used.

        Returns:
            The folders, by name.

        Raises:
            ManifestError: a folder of that name is there that is no export of that component; nothing is written.
        """
        from agentorchestra.tea.registry.skills import skills_of, write_skills

        return write_skills(skills_of(await self.described()), Path(folder))

    async def described(self) -> Sequence[tuple[ComponentConfig, str]]:
        """What is known of every component, with the template of a prompt, else ""."""
        await self._access.ready()
        live = self.manager.live()
        templates = {name: one.template for name, one in live.items() if isinstance(one, Prompt)}
        return [(self.manager.info(name), templates.get(name, "")) for name in self.manager.names()]

    async def load(self, path: str | Path, *, trusted: bool = False) -> Sequence[str]:
        """Take over what `save` wrote; all of it or nothing.

        Args:
            path: the file.
            trusted: whether its code is the user's own; else it runs in the sandbox only.

        Returns:
            The names of its components.

        Raises:
            ManifestError: for a file that is damaged, newer, of another kind, or at odds with what is here.
        """
        manager = self.manager
        file = read_saved(_place(path), manager.kind.name)
        await manager.registry.keep(file.texts.values())
        at_hand = manager.texts()
        await manager.registry.write(lambda: taken_over(file, manager.registry, trusted=trusted, at_hand=at_hand))
        await self._access.ready()
        await self._access.ready()
        return sorted(file.changes)


class TCPServer(Server[Tool[..., Any]]):
    """The Tool Context Protocol (000, definition 4)."""

    async def register_definition(
        self,
        *,
        name: str,
        description: str,
        parameters: dict[str, JsonValue],
        author: str = "user",
        reason: str = "",
        run: str = "",
    ) -> ComponentConfig:
        """A tool that is known by its schema only: it is found and described, and refused when it is called.

        Args:
            name, description: as a model reads them; the words count as untrusted.
            parameters: JSON schema of an object.
        """
        checked_component_name("tool", name)
        try:
            schema = ToolSchema(name=name, description=description, parameters=parameters)
        except ValidationError as exc:
            first = exc.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ToolDefinitionError(f"the definition of the tool {name!r}: {place}: {first['msg']}") from None
        one = defined_tool(schema)
        (config,) = await self.register(one, author=author, reason=reason, run=run)
        return config

    async def invoke(
        self, name: str, arguments: Mapping[str, JsonValue] | None = None, *, version: str | None = None
    ) -> Outcome:
        """Call a tool outside of a run: checked, allowed, limited and recorded as within one.

        Args:
            name: the tool.
            arguments: by name.
            version: another than the current one; a candidate is called so.

        Returns:
            The outcome: `value`, or `error` with a `status` that says what went wrong.

        Raises:
            UnknownComponentError, VersionError, NotAllowedError.
        """
        await self._access.ready()
        if version is not None and self.manager.info(name, version).state == "archived":
            raise LifecycleError(
                f"the tool {name}@{version} is archived: it can be read and not called; restore another"
            )
        return await self._access.invoke_tool(await self.manager.get(name, version), _arguments(arguments))


class ECPServer(Server[EnvironmentFactory]):
    """The Environment Context Protocol (000, definition 7)."""

    async def invoke(self, name: str, action: str, arguments: Mapping[str, JsonValue] | None = None) -> Outcome:
        """Perform an action outside of a run, on one instance that lives as long as the workspace is open.

        Raises:
            UnknownComponentError: for an environment or action that is not there.
        """
        await self._access.ready()
        actions = [one.name for one in self.manager.info(name).operations]
        if action not in actions:
            close = difflib.get_close_matches(str(action)[:200], actions, n=1)
            guess = f"did you mean {close[0]!r}?" if close else f"its actions: {', '.join(actions) or 'none'}"
            raise UnknownComponentError(f"the environment {name!r} has no action {reprlib.repr(action)}; {guess}")
        return await self._access.invoke_action(name, action, _arguments(arguments))

    async def state(self, name: str) -> tuple[Block, ...]:
        """What the instance shows on which `invoke` acts."""
        await self._access.ready()
        self.manager.info(name)
        return await self._access.state_of(name)


class ACPServer(Server[Any]):
    """The Agent Context Protocol (000, definition 10)."""

    async def invoke(self, name: str, task: str, **options: Any) -> RunResult:
        """Let an agent do a task, in a run of its own.

        Args:
            name: the agent.
            task: what it is to do.
            options: as for `Workspace.run`.
        """
        if not isinstance(task, str):
            raise UsageError(f"the task is {reprlib.repr(task)}; give text")
        await self._access.ready()
        self.manager.info(name)
        return await self._access.invoke_agent(name, task, options)


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind)  # whatever the annotations promise


def _place(path: object) -> Path:
    if not isinstance(path, str | Path) or "\0" in str(path) or len(str(path)) > _LONGEST_PATH:
        raise UsageError(f"{reprlib.repr(path)} is no path of a file")
    return Path(path)


_LONGEST_PATH = 4000
_WRITTEN = json.JSONEncoder(default=str)


def _arguments(arguments: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue]:
    """Arguments that can be recorded; whether they fit the tool is another question."""
    if arguments is None:
        return {}
    if type(arguments) is dict and is_flat(arguments):
        return arguments
    if not _is(arguments, Mapping) or not all(_is(one, str) for one in arguments):
        raise UsageError(f"the arguments are {reprlib.repr(arguments)}; give them by name: {{'number': 4}}")
    try:
        _WRITTEN.encode(arguments if isinstance(arguments, dict) else dict(arguments))
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"the arguments cannot be written as JSON: {str(exc)[:120]}") from None
    return arguments


class _Watched(NamedTuple):
    """A manifest that was registered: the files it is made of as they were read, and how it was registered."""

    stamps: dict[Path, tuple[int, int]]
    state: LifeState
    invokers: Sequence[str] | None


def _stamps(path: Path) -> dict[Path, tuple[int, int]]:
    return {one: _stamp(one) for one in files_of(path)}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


__all__ = ["ACPServer", "Access", "Difference", "ECPServer", "Server", "TCPServer"]
