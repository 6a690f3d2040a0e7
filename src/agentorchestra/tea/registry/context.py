"""Context managers: the components of one kind and the operations on them (000, app. C.2, C.5).

Tools, environments, agents, prompts and memory systems are the same thing here but for their kind. A manager joins what
is at hand (packaged, given by the application, registered here) with the histories of the registry: each has the
version under which the registry knows its content, and a name means the current version. `ws.tcp`, `ws.ecp` and
`ws.acp` are the managers of the three protocols (`servers.py`).
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, TypeVar, Unpack

from pydantic import BaseModel, JsonValue

from agentorchestra.core.content import Block
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import LifecycleError, ManifestError, NotAllowedError, UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import RunResult
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.programs.namespaces import within
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.entries import (
    FIRST_VERSION,
    By,
    New,
    Terms,
    activation,
    checked_by,
    entry,
    registered_again,
    registration,
)
from agentorchestra.tea.registry.history import (
    LifeState,
    Maker,
    Version,
    checked_component_name,
    checked_component_version,
)
from agentorchestra.tea.registry.kind import Kind, Made, TextVariable, check_variables, config_changes
from agentorchestra.tea.registry.registration import Draft, components_of, place_of
from agentorchestra.tea.registry.registry import Registry, RegistryEntry
from agentorchestra.tea.registry.rights import EVOLVABLE, INVOKERS, MODE, TOUCHES, check_rights
from agentorchestra.tea.registry.saved import read_saved, saved_text, taken_over
from agentorchestra.tea.registry.stock import Stock
from agentorchestra.tea.registry.usage import Use, uses
from agentorchestra.tea.registry.versions import Level, level_of
from agentorchestra.tea.registry.words import CODE
from agentorchestra.tea.retrieval.retriever import ComponentGroup, Retriever

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
ManagerT = TypeVar("ManagerT", bound="ContextManager[Any]")


class Found(BaseModel, frozen=True):
    """A component that fits a query; scores lie between 0 and 1, comparable within one answer only."""

    config: ComponentConfig
    score: float


class VersionDifference(BaseModel, frozen=True):
    """The difference between two versions of a component.

    Attributes:
        level: what the change means for callers: none, patch, minor, major.
        changes: what changed of its operations, a phrase each.
        text: a unified diff of the texts, "" where they are the same or not kept.
    """

    name: str
    before: str
    after: str
    level: Level
    changes: tuple[str, ...] = ()
    text: str = ""


class Access(NamedTuple):
    """The parts of a workspace that its managers use."""

    # opens what is not open yet, reads what was registered since, and takes it into use
    ready: Callable[[], Awaitable[None]]
    # calls outside of a run; each is recorded
    invoke_tool: Callable[[Tool[..., Any], Mapping[str, JsonValue]], Awaitable[Outcome]]
    invoke_action: Callable[[str, str, Mapping[str, JsonValue]], Awaitable[Outcome]]
    state_of: Callable[[str], Awaitable[tuple[Block, ...]]]
    invoke_agent: Callable[[str, str, dict[str, Any]], Awaitable[RunResult]]
    environments: Callable[[], Mapping[str, Any]]  # every environment there is, by name
    namespace: str = ""  # of the user's program (tea/programs/namespaces.py)


def _changing(
    operation: Callable[Concatenate[ManagerT, P], Awaitable[R]],
) -> Callable[Concatenate[ManagerT, P], Awaitable[R]]:
    """Let an operation find everything that is registered, and take into use what it registers."""

    @wraps(operation)
    async def wrapper(self: ManagerT, /, *args: P.args, **kwargs: P.kwargs) -> R:
        await self.access.ready()
        result = await operation(self, *args, **kwargs)
        await self.access.ready()
        return result

    return wrapper


class ContextManager(Generic[T]):
    """The components of one kind.

    Every operation that changes something takes `author` (`user` by default), `reason` and `run`: they stand in the
    history of the component. Names and texts are checked before anything is written; what cannot be made is not
    registered.
    """

    def __init__(
        self,
        kind: Kind[T],
        registry: Registry,
        components: Mapping[str, T],
        access: Access,
        *,
        builtin: Iterable[str] = (),
        distribution: str = "",
    ) -> None:
        self.kind = kind
        self.registry = registry
        self.access = access
        self.retriever = Retriever()
        self.stock = Stock(
            kind, registry, components, builtin=builtin, distribution=distribution, namespace=access.namespace
        )
        self._indexed: dict[str, str] = {}
        self._index_of: tuple[tuple[int, int, int], frozenset[str]] = ((-1, -1, -1), frozenset())

    async def list(self) -> Sequence[str]:
        """Return the names of all components."""
        await self.access.ready()
        return self.stock.names()

    async def get(self, name: str, version: str | None = None) -> T:
        """Return the component itself, or raise UnknownComponentError or VersionError with what there is instead."""
        await self.access.ready()
        return await self.stock.version(name, version)

    async def info(self, name: str, version: str | None = None) -> ComponentConfig:
        """Return description, version, operations with their schemas; raise UnknownComponentError or VersionError."""
        await self.access.ready()
        return self.stock.config(name, version)

    async def retrieve(self, query: str, *, limit: int = 10, under: str | None = None) -> Sequence[Found]:
        """Return the components that fit a query, best first (docs/retrieval.md).

        Args:
            query: what is wanted, in any words; "" gives those of a branch in their order.
            limit: at most so many.
            under: only those of a branch of the tree category -> toolkit -> component: `mcp/github`.
        """
        values: tuple[object, object, object] = query, limit, under
        if not (isinstance(values[0], str) and isinstance(values[1], int) and isinstance(values[2], str | None)):
            raise UsageError(
                f"retrieve({reprlib.repr(query)}, limit={reprlib.repr(limit)}, under={reprlib.repr(under)}): "
                "query and under are text, limit a number"
            )
        await self.access.ready()
        matches = await self.retriever.search(query, limit=limit, under=under, among=self._index())
        return [Found(config=self.stock.config(match.key), score=round(match.score, 4)) for match in matches]

    async def browse(self, under: str = "") -> Sequence[ComponentGroup]:
        """Return the branches of the tree below one of them (the top ones by default), with how much is in each."""
        if not isinstance(under, str):
            raise UsageError(f"browse({reprlib.repr(under)}): give a branch of the tree, such as 'mcp/github'")
        await self.access.ready()
        return self.retriever.browse(under, among=self._index())

    def _index(self) -> frozenset[str]:
        """Bring the index up to date, without making it anew; return the names that are to be found."""
        now = self.registry.count, self.registry.handed, id(self.retriever)
        if self._index_of[0] == now:
            return self._index_of[1]
        names = {name: self.stock.current(name) for name in self.stock.names()}
        for name in [key for key in self._indexed if self._indexed[key] != names.get(key)]:
            self.retriever.remove(name)
            del self._indexed[name]
        for name, version in names.items():
            if name not in self._indexed:
                config = self.stock.config(name)
                self.retriever.add(name, config.index_entry, path=config.origin.replace(":", "/", 1))
                self._indexed[name] = version
        fit = frozenset(name for name in names if self.stock.history(name).version().state == "active")
        self._index_of = now, fit
        return fit

    async def stats(self) -> Sequence[Use]:
        """Return how often each component was called in all runs, with what success, and where it was reused."""
        await self.access.ready()
        return await uses(self.registry.store, [self.stock.history(name) for name in self.stock.names()])

    async def contract(self) -> str:
        """Return one Markdown document that describes all components (000, app. C.2)."""
        await self.access.ready()
        configs = [self.stock.config(name) for name in self.stock.names()]
        parts = [f"# {self.kind.plural.capitalize()}", ""]
        parts += [f"- {config.entry}" for config in configs] or ["There are none."]
        return "\n".join(parts) + "\n\n" + "\n".join(config.text for config in configs)

    async def versions(self, name: str) -> Sequence[Version]:
        """Return every version with author, reason, lineage and run, oldest first; of an unregistered component too."""
        await self.access.ready()
        return self.stock.history(name, hidden=True).all()

    async def source(self, name: str, version: str | None = None) -> str:
        await self.access.ready()
        return await self.stock.text(self.stock.entry(name, version))

    async def diff(self, name: str, before: str, after: str | None = None) -> VersionDifference:
        """Return what differs between two versions; `after` is the current one by default."""
        await self.access.ready()
        old, new = self.stock.config(name, before), self.stock.config(name, after)
        changes = config_changes(old, new)
        texts = [await self.stock.readable(self.stock.entry(name, config.version)) for config in (old, new)]
        was, now = [text.splitlines(keepends=True) for text in texts]
        lines = difflib.unified_diff(was, now, f"{name}@{old.version}", f"{name}@{new.version}")
        level = level_of(changes)
        return VersionDifference(
            name=name,
            before=old.version,
            after=new.version,
            level="patch" if level == "none" and old.content_hash != new.content_hash else level,
            changes=tuple(change.what for change in changes),
            text="".join(lines),
        )

    async def register(
        self,
        component: Any = None,
        *,
        name: str | None = None,
        source: str | None = None,
        path: str | Path | None = None,
        version: str | None = None,
        state: Literal["active", "candidate"] = "active",
        trusted: bool = True,
        invokers: Sequence[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        **by: Unpack[By],
    ) -> Sequence[ComponentConfig]:
        """Make something a component. What is known already stays the version it is; other content is the next one.

        Args:
            component: an object of the kind, for tools also a function, or a class or object with `@tool` methods; a
                list of them; or
            source: its text (Python; for a prompt its file's text); or
            path: a file (`.py`, `.md`), a manifest (`.json`), or a folder of them.
            name: another than its own; which function or class of a source.
            version: written down; by default computed from how it changed.
            state: `candidate` is kept and can be called by its version, and is not what the name means; it may have no
                right that the version which it is to replace has not (CandidateError).
            trusted: False for code that the workspace's user did not write: it runs in the sandbox only.
            invokers: who may invoke it: names of agents, `user` for calls outside of runs; everybody by default.
            metadata: what else is to be known of it; it stands in its configuration.
            by: `author`, `reason`, `run`: who made it, why, in which run.

        Returns:
            What is known of each component now.

        Raises:
            UsageError: for anything that does not fit, before anything is written.
        """
        if name is not None:
            checked_component_name(self.kind.name, name)
        await self.access.ready()
        with within(self.access.namespace):
            drafts = await components_of(
                self.kind, component, name, source, path, trusted=trusted, environments=self.access.environments
            )
        done = await self._register(
            _with_name(self.kind, drafts, name, version),
            origin="file" if path is not None else "register",
            by=checked_by(by),
            state=state,
            trusted=trusted,
            invokers=invokers,
            metadata=metadata or {},
        )
        await self.access.ready()
        return done

    async def _register(
        self, drafts: Sequence[Draft], *, needs: bool = False, **terms: Unpack[Terms]
    ) -> Sequence[ComponentConfig]:
        """Make content versions, all or nothing; with `needs` (`update`) the components must be there already."""
        _check_terms(self.kind, terms)
        by_name: dict[str, New[T]] = {}
        for name, component, recipe, version in drafts:
            checked_component_name(self.kind.name, name)
            if version is not None:
                checked_component_version(f"{self.kind.name} {name!r}", version)
            if name in by_name:
                raise VersionError(f"two of the {self.kind.plural} are called {name!r}; give one another name")
            subject = self.kind.with_name(component, name, version or self.kind.version_of(component))
            by_name[name] = New(name, subject, *self.stock.identify(name, subject, recipe), version=version, **terms)
        for new in by_name.values() if terms.get("state") == "candidate" else ():
            by_name[new.name] = await self._no_more_rights(new)
        await self.registry.keep({new.made.text for new in by_name.values() if new.made is not None and new.made.text})
        if needs:
            await self.registry.refresh()
            for name in by_name:
                self.stock.history(name)

        def plan() -> Iterable[RegistryEntry]:
            for name, new in by_name.items():
                history = self.stock.so_far(name)
                match = history.known_as(new.identity, new.version)
                # What is archived is over: its content begins another version.
                if match and (new.version is not None or history.version(match).state != "archived"):
                    yield from registered_again(history, match, new)
                    continue
                if needs and new.invokers is None:  # another implementation gives nobody a right
                    new = replace(new, invokers=history.version().invokers)
                yield from registration(self.kind, history, new)

        await self.registry.write(plan)
        done = []
        for name, new in by_name.items():
            history = self.stock.history(name, hidden=True)
            number = new.version or history.known_as(new.identity) or ""
            if new.trusted:
                self.stock.loaded[name, number] = self.stock.with_invokers(name, new.component, history, number)
            done.append(self.stock.config(name, number))
        return done

    async def _no_more_rights(self, new: New[T]) -> New[T]:
        """Return a candidate for whoever may invoke what it is to replace; CandidateError where it has more rights."""
        history = self.stock.so_far(new.name)
        if not history.usable:
            return new
        record, kind, name = history.version(), self.kind, new.name
        present = await self.stock.version(name)
        before = {**kind.rights(present, await self.stock.made(name)), EVOLVABLE: kind.evolvable(present)}
        has = {**kind.rights(new.component, new.made), EVOLVABLE: kind.evolvable(new.component)}
        if not new.trusted and not record.foreign:  # in the sandbox it touches nothing, whatever it says of itself
            before |= {right: has[right] for right in (TOUCHES, MODE) if right in has}
        if record.invokers is not None and new.invokers is not None:
            before[INVOKERS], has[INVOKERS] = frozenset(record.invokers), frozenset(new.invokers)
        check_rights(f"{kind.name} {name!r}", before, has)
        return replace(new, invokers=record.invokers if new.invokers is None else new.invokers)

    @_changing
    async def update(
        self,
        name: str,
        component: Any = None,
        *,
        source: str | None = None,
        version: str | None = None,
        trusted: bool = True,
        **by: Unpack[By],
    ) -> ComponentConfig:
        """Register another implementation of a component that is there: its next version.

        Args: as for `register`.

        Raises:
            UnknownComponentError: for a name that is not there.
            UsageError: for anything else that does not fit.
        """
        self.stock.history(name)
        symbol = name if source else None
        with within(self.access.namespace):
            drafts = await components_of(
                self.kind, component, symbol, source, None, trusted=trusted, environments=self.access.environments
            )
        new = _with_name(self.kind, drafts, name, version)
        (config,) = await self._register(new, origin="update", by=checked_by(by), trusted=trusted, needs=True)
        return config

    @_changing
    async def copy(
        self, name: str, new_name: str | None = None, *, version: str | None = None, **by: Unpack[By]
    ) -> ComponentConfig:
        """Register the current version under another name (`NAME_copy` by default), with its lineage.

        Raises:
            UnknownComponentError, VersionError, ComponentNameError.
        """
        credit = checked_by(by)
        new_name = checked_component_name(self.kind.name, new_name or f"{name}_copy")
        record = self.stock.history(name).version()
        if new_name in self.stock.names():
            raise VersionError(f"there is a {self.kind.name} {new_name!r} already; choose another name for the copy")
        component = self.kind.with_name(await self.stock.version(name), new_name, version or FIRST_VERSION)
        recipe = await self.stock.made(name)
        if recipe is not None:  # what no text makes is at hand under its own name only
            recipe = self.kind.copy_recipe(recipe, name, new_name) if recipe.maker.how != "given" else None
        (config,) = await self._register(
            [Draft(new_name, component, recipe, version)],
            origin=record.origin if record.origin != "package" else "register",
            by=credit,
            trusted=not record.foreign,
            parent=record.config.component,
            invokers=record.invokers,
        )
        return config

    @_changing
    async def unregister(self, name: str, **by: Unpack[By]) -> None:
        """Hide a name, or raise UnknownComponentError. Its versions stay readable; `restore` brings it back."""
        credit = checked_by(by)
        self.stock.history(name)

        def plan() -> Iterable[RegistryEntry]:
            history = self.stock.so_far(name)
            if not history.hidden:
                yield entry(history, "hidden", **credit)

        await self.registry.write(plan)

    @_changing
    async def restore(self, name: str, version: str | None = None, **by: Unpack[By]) -> ComponentConfig:
        """Make an earlier version the current one, or bring an unregistered name back; it behaves as it did.

        The code at hand replaces it again only when it changes; `pin` keeps it even then.

        Raises:
            UnknownComponentError, VersionError, LifecycleError.
        """
        return await self._restore(name, version, by, pin=False)

    @_changing
    async def pin(self, name: str, version: str | None = None, **by: Unpack[By]) -> ComponentConfig:
        """Make a version the current one and keep it so, whatever is registered, until `unpin`."""
        return await self._restore(name, version, by, pin=True)

    async def _restore(self, name: str, version: str | None, by: By, *, pin: bool) -> ComponentConfig:
        """Make a version the current one, as it was; it is made before anything is written."""
        credit = checked_by(by)
        record = self.stock.history(name, hidden=True).version(version)
        if record.state == "candidate":
            raise LifecycleError(
                f"{self.kind.name} {name}@{record.version} is a candidate, which never was in use; activate it instead"
            )
        await self.stock.version(name, record.version)

        def plan() -> Iterable[RegistryEntry]:
            now = self.stock.history(name, hidden=True)
            target = record.version
            if now.current != target or now.hidden or now.version(target).state != "active" or now.by_code:
                yield from activation(now, target, credit)
            if pin and not now.pinned:
                yield entry(now, "pinned", pinned=True, **credit)

        await self.registry.write(plan)
        return self.stock.config(name)

    @_changing
    async def unpin(self, name: str, **by: Unpack[By]) -> None:
        """Let new versions become the current one again."""
        credit = checked_by(by)
        self.stock.history(name)

        def plan() -> Iterable[RegistryEntry]:
            history = self.stock.history(name)
            if history.pinned:
                yield entry(history, "pinned", pinned=False, **credit)

        await self.registry.write(plan)

    @_changing
    async def activate(self, name: str, version: str, **by: Unpack[By]) -> ComponentConfig:
        """Make a candidate or deprecated version active, and what the name means; from another state LifecycleError."""
        await self.stock.version(name, self.stock.history(name, hidden=True).version(version).version)
        return await self._to_state(name, version, "active", by)

    @_changing
    async def deprecate(self, name: str, version: str | None = None, **by: Unpack[By]) -> ComponentConfig:
        """Make an active version one to get away from: it still works, and `retrieve` no longer finds it."""
        return await self._to_state(name, version, "deprecated", by)

    @_changing
    async def share(self, name: str, version: str, share: float, **by: Unpack[By]) -> ComponentConfig:
        """Have a share of the runs that begin from now on use a candidate (a canary); 0 ends it, as `activate` does.

        Which runs is drawn by their ids, and stands in their manifests. Runs that name a version, and those of
        evaluations, are left as they are.

        Raises:
            LifecycleError: for a version that is no candidate, a kind that has no canaries, or a share outside 0 to 1.
        """
        credit = checked_by(by)
        record = self.stock.history(name).version(version)
        label = f"{self.kind.name} {name}@{record.version}"
        if self.kind.name not in ("tool", "prompt"):
            raise LifecycleError(f"{label} cannot have a share of the runs: only tools and prompts can; activate it")
        if record.state != "candidate":
            raise LifecycleError(f"{label} is {record.state}, and only a candidate can have a share of the runs")
        if not 0 <= share < 1:
            raise LifecycleError(f"{label} cannot have the share {share!r}; give one from 0 to below 1, or activate it")

        def plan() -> Iterable[RegistryEntry]:
            yield entry(self.stock.history(name), "shared", version=record.version, share=share, **credit)

        await self.registry.write(plan)
        return self.stock.config(name, record.version)

    @_changing
    async def archive(self, name: str, version: str, **by: Unpack[By]) -> ComponentConfig:
        """End a candidate or deprecated version: it stays readable and cannot be used again."""
        return await self._to_state(name, version, "archived", by)

    async def _to_state(self, name: str, version: str | None, state: LifeState, by: By) -> ComponentConfig:
        credit = checked_by(by)
        target = self.stock.history(name, hidden=True).version(version).version

        def plan() -> Iterable[RegistryEntry]:
            history = self.stock.history(name, hidden=True)
            history.check_step(target, state)
            if state == "active":
                yield from activation(history, target, credit)
                return
            if state == "archived" and history.current == target and not history.hidden:
                raise LifecycleError(
                    f"{self.kind.name} {name}@{target} is what {name!r} means now; restore another version first, or "
                    "unregister it"
                )
            yield entry(history, "state", version=target, state=state, **credit)

        await self.registry.write(plan)
        return self.stock.config(name, target)

    async def vars(self, name: str, version: str | None = None) -> Sequence[TextVariable]:
        """Return the parts of a component that may be optimised, with their texts (000, app. C.4)."""
        await self.access.ready()
        return self.stock.variables(name, await self.stock.version(name, version), await self.stock.made(name, version))

    @_changing
    async def setvars(
        self,
        name: str,
        values: Mapping[str, str],
        *,
        version: str | None = None,
        candidate: bool = False,
        trusted: bool = True,
        **by: Unpack[By],
    ) -> ComponentConfig:
        """Register the next version, with other values for some of these parts.

        Args:
            values: by the names that `vars` gives.
            version: written down; by default computed from how it changed.
            candidate: True leaves the name with what it means: the version stands beside it until `activate`, and only
                runs that name it use it. It may have no right that the version it is made from has not.
            trusted: False for texts that the workspace's user did not write: code of theirs runs in the sandbox only.

        Raises:
            SourceError, VersionError, PromptError: for values that make no component; nothing is registered.
            CandidateError: for a candidate with more rights.
        """
        if not isinstance(values, Mapping):
            raise UsageError(f"the values of variables are {reprlib.repr(values)}; give them by name, as `vars` does")
        credit, kind, stock, label = checked_by(by), self.kind, self.stock, f"{self.kind.name} {name!r}"
        record, present, recipe = stock.history(name).version(), await stock.version(name), await stock.made(name)
        check_variables(label, values, stock.variables(name, present, recipe), candidate=candidate)
        if recipe is None or (not recipe.text and recipe.maker.how in ("module", "source", "prompt")):
            raise VersionError(
                f"the text of {label} was not kept, so it cannot be rewritten; register it from its source"
            )
        new = kind.rewritten(present, recipe, values)
        if not trusted and new.maker.texts != recipe.maker.texts:
            new = Made(new.text, new.maker.model_copy(update={"foreign_texts": True}))
        # Words that are laid over code leave it as trusted as it was.
        whole = CODE in values or (not kind.is_code(new.maker) and new.maker.how != "given")
        foreign = record.foreign or (whole and not trusted)
        if foreign and CODE in values and kind.make_foreign is None:
            raise VersionError(
                f"code of {kind.plural} that the workspace's user did not write is not executed; {label} stays"
            )
        component = await self.stock.build(label, name, new, record.config, foreign)
        (config,) = await self._register(
            [Draft(name, component, new, version)],
            origin="setvars",
            by=credit,
            state="candidate" if candidate else "active",
            trusted=not foreign,
            invokers=record.invokers,
        )
        return config

    async def save(self, path: str | Path) -> Path:
        """Write all components with their versions, history and texts to a JSON file."""
        await self.access.ready()
        place = place_of(path)
        text = await saved_text(self.registry, self.kind.name)
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise ManifestError(f"{place} cannot be written: {exc}") from None
        return place

    async def load(self, path: str | Path, *, trusted: bool = False) -> Sequence[str]:
        """Take over what `save` wrote; all of it or nothing.

        Args:
            trusted: whether its code is the user's own; else it runs in the sandbox only.

        Returns:
            The names of its components.

        Raises:
            ManifestError: for a file that is damaged, newer, of another kind, or at odds with what is here.
        """
        file = read_saved(place_of(path), self.kind.name)
        await self.registry.keep(file.texts.values())
        recipes = [self.stock.identity(name, component)[1] for name, component in self.stock.given.items()]
        at_hand: Sequence[tuple[str, Maker | None]]
        at_hand = [(sha256_text(recipe.text), recipe.maker) for recipe in recipes if recipe is not None and recipe.text]
        await self.registry.write(lambda: taken_over(file, self.registry, trusted=trusted, at_hand=at_hand))
        await self.access.ready()
        await self.access.ready()
        return sorted(file.changes)

    async def export_skills(self, folder: str | Path) -> Sequence[Path]:
        """Write every component as an Agent Skill: a folder with a SKILL.md that says how it is used.

        Returns:
            The folders, by name.

        Raises:
            ManifestError: a folder of that name is there that is no export of that component; nothing is written.
        """
        from agentorchestra.tea.registry.skills import skills_of, write_skills

        return write_skills(skills_of(await self.descriptions()), Path(folder))

    async def descriptions(self) -> Sequence[tuple[ComponentConfig, str]]:
        await self.access.ready()
        live = self.stock.live()
        templates = {name: prompt.template for name, prompt in live.items() if isinstance(prompt, Prompt)}
        return [(self.stock.config(name), templates.get(name, "")) for name in self.stock.names()]


def _with_name(kind: Kind[Any], drafts: Sequence[Draft], name: str | None, version: str | None) -> Sequence[Draft]:
    if not drafts:
        raise ManifestError(f"there is no {kind.name} in what was given")
    if len(drafts) > 1 and (name is not None or version is not None):
        raise UsageError(f"it has {len(drafts)} {kind.plural}; leave name= and version= out, or give one of them")
    return [draft._replace(name=name or draft.name, version=version or draft.version) for draft in drafts]


def _check_terms(kind: Kind[Any], terms: Terms) -> None:
    """Check the state in which something is to be registered, and who may invoke it."""
    state: str = terms.get("state", "active")
    invokers: Any = terms.get("invokers")
    if invokers is not None and kind.with_invokers is None:
        raise NotAllowedError(f"who may invoke {kind.plural} cannot be limited; leave invokers out")
    if isinstance(invokers, str) or not all(isinstance(invoker, str) and invoker for invoker in invokers or ()):
        raise NotAllowedError(
            f"invokers={invokers!r}; give a list of names of agents, and 'user' for calls outside of runs"
        )
    if state not in ("active", "candidate"):
        raise LifecycleError(f"a new version cannot be {state!r}; register it as active or candidate")
