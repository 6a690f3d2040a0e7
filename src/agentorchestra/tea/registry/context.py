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
from agentorchestra.core.errors import (
    LifecycleError,
    ManifestError,
    NotAllowedError,
    UnknownComponentError,
    UsageError,
    VersionError,
)
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.names import did_you_mean
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
    History,
    LifeState,
    Maker,
    Version,
    checked_component_name,
    checked_component_version,
    identity_of,
)
from agentorchestra.tea.registry.kind import Kind, Made, Variable, check_variables, config_changes, mark_evolvable
from agentorchestra.tea.registry.registration import Given, components_of, place_of
from agentorchestra.tea.registry.registry import Entry, Registry
from agentorchestra.tea.registry.rights import EVOLVABLE, INVOKERS, MODE, TOUCHES, check_rights
from agentorchestra.tea.registry.saved import read_saved, saved_text, taken_over
from agentorchestra.tea.registry.usage import Use, uses
from agentorchestra.tea.registry.versions import Level, level_of
from agentorchestra.tea.registry.words import CODE
from agentorchestra.tea.retrieval.retriever import Group, Retriever

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
ManagerT = TypeVar("ManagerT", bound="ContextManager[Any]")

FOR_ONE_RUN = 100
"""Objects whose identities are remembered, besides as many as are at hand always."""


class Found(BaseModel, frozen=True):
    """A component that fits a query; scores lie between 0 and 1, comparable within one answer only."""

    config: ComponentConfig
    score: float


class Difference(BaseModel, frozen=True):
    """The difference between two versions of a component.

    Attributes:
        name, before, after: of what.
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
    async def settled(self: ManagerT, /, *args: P.args, **kwargs: P.kwargs) -> R:
        await self.access.ready()
        result = await operation(self, *args, **kwargs)
        await self.access.ready()
        return result

    return settled


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
        given: Mapping[str, T],
        access: Access,
        *,
        builtin: Iterable[str] = (),
        distribution: str = "",
    ) -> None:
        self.kind = kind
        self.registry = registry
        self.access = access
        self.retriever = Retriever()
        self._given = dict(given)
        self._builtin = frozenset(builtin)
        self._distribution = distribution
        self._origins: dict[str, str] = {}
        self._identities: dict[tuple[str, int], tuple[T, str, Made | None]] = {}
        self._loaded: dict[tuple[str, str], T] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._indexed: dict[str, str] = {}
        self._index_of: tuple[tuple[int, int, int], frozenset[str]] = ((-1, -1, -1), frozenset())
        self._names: tuple[tuple[int, int], tuple[str, ...]] = ((-1, -1), ())
        self._settled = (-1, -1)

    # -- what is at hand -----------------------------------------------------------------------------------------------

    def give(self, components: Mapping[str, T], *, origin: str = "code") -> None:
        """Take further components in; those of the same names are replaced. `settle` registers them."""
        self._given.update(components)
        self._origins.update(dict.fromkeys(components, origin))
        self.registry.handed += 1

    def take(self, names: Iterable[str]) -> None:
        """Have these no longer at hand; what the registry has of them stays."""
        for name in names:
            self._given.pop(name, None)
            self._origins.pop(name, None)
            self._so_far(name).at_hand = None
        self.registry.handed += 1

    def at_hand(self) -> Iterable[T]:
        """Return what is at hand: given, or registered here as an object."""
        return [*self._given.values(), *self._loaded.values()]

    def has(self, name: str) -> bool:
        return name in self._given

    @property
    def is_settled(self) -> bool:
        return self._settled == (self.registry.count, self.registry.handed)

    async def settle(self) -> None:
        """Register what is at hand and unknown: it gets its next version by itself, or raises VersionError."""
        if self.is_settled:
            return
        await self._write_given(self._plan_given, self._given)
        for name, one in self._given.items():
            history = self._so_far(name)
            history.at_hand = history.known_as(self._identity(name, one)[0])
        for name in self.names():
            if (name, self._current(name)) not in self._loaded:
                await self._load(name, self._current(name))
        self._settled = (self.registry.count, self.registry.handed)

    async def admit(self, components: Mapping[str, T]) -> dict[str, T]:
        """Return what is at hand for one run only, under its versions; VersionError for one with other content."""

        def plan() -> Iterable[Entry]:
            for name, one in components.items():
                identity, made = self._identity(name, one)
                history = self._so_far(name)
                if history.known_as(identity) is None:
                    yield from registration(self.kind, history, New(name, one, identity, made, "run", alone=True))

        await self.registry.refresh()
        await self._write_given(plan, components)
        admitted = {}
        for name, one in components.items():
            version = self.history(name, hidden=True).known_as(self._identity(name, one)[0])
            admitted[name] = self.kind.renamed(one, name, version or self.kind.version_of(one))
        return admitted

    async def _write_given(self, plan: Callable[[], Iterable[Entry]], components: Mapping[str, T]) -> None:
        if next(iter(plan()), None) is not None:
            made = [self._identity(name, one)[1] for name, one in components.items()]
            await self.registry.keep({one.text for one in made if one is not None and one.text}, at_hand=True)
            await self.registry.write(plan)

    def _plan_given(self) -> Iterable[Entry]:
        for name, one in self._given.items():
            yield from self._plan_of(name, one)

    def _plan_of(self, name: str, one: T) -> Iterable[Entry]:
        identity, made = self._identity(name, one)
        history = self._so_far(name)
        if history.known_as(identity) is not None:
            return
        builtin = name in self._builtin
        origin = "package" if builtin else self._origins.get(name, "code")
        if origin == "code":  # what was made of another component says of which
            origin = str(getattr(getattr(one, "traits", None), "origin", "")) or "code"
        distribution = self._distribution if builtin else ""
        new = New(name, one, identity, made, origin, by_code=True, distribution=distribution)
        yield from registration(self.kind, history, new)

    async def examine(self) -> tuple[list[str], list[str]]:
        """Return why no run can begin, and why components cannot be used by one; nothing is written."""
        await self.registry.refresh()
        refusals = []
        for name, one in self._given.items():
            try:
                [*self._plan_of(name, one)]
            except UsageError as exc:
                refusals.append(str(exc))
        for name in self.names():
            if name not in self._given:
                await self._load(name, self._current(name))
        return refusals, [why for _, why in sorted(self.failures().items())]

    def _identity(self, name: str, one: T) -> tuple[str, Made | None]:
        """Return the identity of what is at hand, and what it is made of; it is looked at once."""
        held = self._identities.pop((name, id(one)), None)
        if held is None or held[0] is not one:
            held = (one, *self._identify(name, one))
        self._identities[name, id(one)] = held  # the last one now
        if len(self._identities) > len(self._given) + FOR_ONE_RUN:
            del self._identities[next(iter(self._identities))]
        return held[1], held[2]

    def _identify(self, name: str, one: T, made: Made | None = None) -> tuple[str, Made | None]:
        made = made if made is not None else self.kind.made(one)
        if made is not None and made.text:
            return identity_of(sha256_text(made.text), made.maker, name), made
        return self.kind.describe(self.kind.named(one), one, False).content_hash, made

    # -- names and versions --------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """Return the names that mean something here, sorted."""
        now = self.registry.count, self.registry.handed
        if self._names[0] != now:
            found = self.registry.histories(self.kind.name)
            self._names = now, tuple(one.name for one in found if self._is_usable(one))
        return self._names[1]

    def _is_usable(self, history: History) -> bool:
        """Return True if the name means something: what only code chose means nothing where that is not at hand."""
        return history.usable and (not history.by_code or history.name in self._given)

    def live(self) -> dict[str, T]:
        """Return every component by name as runs use it; without those that could not be made again (`failures`)."""
        return self._of_current(self._loaded)

    def failures(self) -> dict[str, str]:
        """Return why components that are registered cannot be used here, by name."""
        return self._of_current(self._failed)

    def _of_current(self, known: Mapping[tuple[str, str], R]) -> dict[str, R]:
        return {name: known[key] for name in self.names() if (key := (name, self._current(name))) in known}

    def _current(self, name: str) -> str:
        return self.history(name).current or ""

    def _so_far(self, name: str) -> History:
        return self.registry.history(self.kind.name, name) or History(self.kind.name, name)

    def history(self, name: str, *, hidden: bool = False) -> History:
        """Return what is known of a name, `hidden`: even if it means nothing here, or raise UnknownComponentError."""
        asked: object = name
        found = self.registry.history(self.kind.name, name) if isinstance(asked, str) else None
        if found is not None and (hidden or self._is_usable(found)):
            return found
        names = self.names()
        guess = did_you_mean(str(name), names, f"there are: {', '.join(names[:20]) or 'none'}", n=3)
        gone = " any more (it was unregistered; restore it)" if found is not None and found.hidden else ""
        raise UnknownComponentError(f"no {self.kind.name} {str(name)[:80]!r}{gone}; {guess}")

    def _version(self, name: str, version: str | None) -> Version:
        return self.history(name, hidden=version is not None).version(version)

    def config(self, name: str, version: str | None = None) -> ComponentConfig:
        """Return what is known of a component as of the last operation (`info`)."""
        held = self._version(name, version)
        return held.config.model_copy(update={"state": held.state, "origin": held.origin})

    async def version(self, name: str, version: str | None = None) -> T:
        """Return a version as a run uses it that names it, or raise UnknownComponentError or VersionError."""
        wanted = self._version(name, version)
        found = await self._load(name, wanted.version)
        if found is None:
            raise VersionError(self._failed[name, wanted.version])
        return found

    async def _load(self, name: str, version: str) -> T | None:
        """Return a version as an object: the one at hand where that is its content, else made from its text."""
        key = name, version
        if key in self._loaded:
            return self._loaded[key]
        one = self._given.get(name)
        try:
            history = self._so_far(name)
            if one is None or history.known_as(self._identity(name, one)[0]) != version:
                one = await self._make(name, history.version(version))
            self._loaded[key] = self._limited(name, one, history, version)
        except UsageError as exc:
            self._failed[key] = str(exc)
            return None
        self._failed.pop(key, None)
        return self._loaded[key]

    async def _make(self, name: str, wanted: Version) -> T:
        what = f"{self.kind.name} {name}@{wanted.version}"
        if wanted.maker is None or (
            wanted.maker.how in ("module", "source", "prompt", "definition") and not wanted.source
        ):
            raise VersionError(
                f"{what} is not at hand and its text was not kept (it is not defined at the top of a module); "
                "register it from its source, or give it to the workspace"
            )
        return await self._built(
            what, name, Made(await self._text(wanted), wanted.maker), wanted.config, wanted.foreign
        )

    async def _built(self, what: str, name: str, made: Made, config: ComponentConfig, foreign: bool) -> T:
        kind, maker = self.kind, made.maker
        if maker.how == "given":
            one = self._given.get(name)
            if one is None or kind.describe(name, one, False).content_hash != maker.base:
                raise VersionError(
                    f"{what} is the {kind.name} {name!r} of another program or version with other words, and that is "
                    "not at hand; change the words of the one that is"
                )
            if made.text and foreign:
                raise self._not_executed(what)
            if made.text and kind.recoded is not None:
                with within(self.access.namespace):
                    one = kind.recoded(one, made)
        elif foreign and kind.make_foreign is not None:
            one = await kind.make_foreign(name, maker, made.text, config)
        elif not foreign or not kind.is_code(maker):
            with within(self.access.namespace):
                one = kind.make(name, maker, made.text)
        else:
            raise self._not_executed(what)
        if not maker.texts:
            return one
        return kind.worded(one, maker.model_copy(update={"foreign_texts": True}) if foreign else maker)

    def _not_executed(self, what: str) -> VersionError:
        return VersionError(
            f"{what} came from elsewhere, and the code of {self.kind.plural} from elsewhere is not executed; "
            "read its source and register it as your own"
        )

    def _limited(self, name: str, one: T, history: History, version: str) -> T:
        """Return a component under its version, with who may invoke it where its registration says so."""
        one = self.kind.renamed(one, name, version)
        invokers = history.invokers(version)
        if invokers is None or self.kind.limited is None:
            return one
        return self.kind.limited(one, invokers)

    async def _text(self, held: Version) -> str:
        return await self.registry.text(held.source) if held.source else ""

    async def _read(self, held: Version) -> str:
        words = held.maker.texts if held.maker is not None else {}
        return "\n".join([await self._text(held), *(f"{name}:\n{text}\n" for name, text in sorted(words.items()))])

    async def _made(self, name: str, version: str | None = None) -> Made | None:
        held = self._version(name, version)
        if held.maker is not None:
            return Made(await self._text(held), held.maker)
        one = self._given.get(name)
        if one is None or self._so_far(name).known_as(self._identity(name, one)[0]) != held.version:
            return None
        return Made("", Maker(how="given", base=held.config.content_hash))

    # -- reading -------------------------------------------------------------------------------------------------------

    async def list(self) -> Sequence[str]:
        """Return the names of all components."""
        await self.access.ready()
        return self.names()

    async def init(self) -> Sequence[str]:
        """Register what is at hand, read what others registered; return the names."""
        return await self.list()

    async def get(self, name: str, version: str | None = None) -> T:
        """Return the component itself, or raise UnknownComponentError or VersionError with what there is instead."""
        await self.access.ready()
        return await self.version(name, version)

    async def info(self, name: str, version: str | None = None) -> ComponentConfig:
        """Return description, version, operations with their schemas; raise UnknownComponentError or VersionError."""
        await self.access.ready()
        return self.config(name, version)

    async def retrieve(self, query: str, *, limit: int = 10, under: str | None = None) -> Sequence[Found]:
        """Return the components that fit a query, best first (docs/retrieval.md).

        Args:
            query: what is wanted, in any words; "" gives those of a branch in their order.
            limit: at most so many.
            under: only those of a branch of the tree category -> toolkit -> component: `mcp/github`.
        """
        given: tuple[object, object, object] = query, limit, under
        if not (isinstance(given[0], str) and isinstance(given[1], int) and isinstance(given[2], str | None)):
            raise UsageError(
                f"retrieve({reprlib.repr(query)}, limit={reprlib.repr(limit)}, under={reprlib.repr(under)}): "
                "query and under are text, limit a number"
            )
        await self.access.ready()
        found = await self.retriever.search(query, limit=limit, under=under, among=self._index())
        return [Found(config=self.config(match.key), score=round(match.score, 4)) for match in found]

    async def browse(self, under: str = "") -> Sequence[Group]:
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
        names = {name: self._current(name) for name in self.names()}
        for name in [one for one in self._indexed if self._indexed[one] != names.get(one)]:
            self.retriever.remove(name)
            del self._indexed[name]
        for name, version in names.items():
            if name not in self._indexed:
                config = self.config(name)
                self.retriever.add(name, config.described, path=config.origin.replace(":", "/", 1))
                self._indexed[name] = version
        fit = frozenset(name for name in names if self.history(name).version().state == "active")
        self._index_of = now, fit
        return fit

    async def stats(self) -> Sequence[Use]:
        """Return how often each component was called in all runs, with what success, and where it was reused."""
        await self.access.ready()
        return await uses(self.registry.store, [self.history(name) for name in self.names()])

    async def contract(self) -> str:
        """Return one Markdown document that describes all components (000, app. C.2)."""
        await self.access.ready()
        configs = [self.config(name) for name in self.names()]
        parts = [f"# {self.kind.plural.capitalize()}", ""]
        parts += [f"- {one.entry}" for one in configs] or ["There are none."]
        return "\n".join(parts) + "\n\n" + "\n".join(one.text for one in configs)

    async def versions(self, name: str) -> Sequence[Version]:
        """Return every version with author, reason, lineage and run, oldest first; of an unregistered component too."""
        await self.access.ready()
        return self.history(name, hidden=True).all()

    async def source(self, name: str, version: str | None = None) -> str:
        await self.access.ready()
        return await self._text(self._version(name, version))

    async def diff(self, name: str, before: str, after: str | None = None) -> Difference:
        """Return what differs between two versions; `after` is the current one by default."""
        await self.access.ready()
        old, new = self.config(name, before), self.config(name, after)
        changes = config_changes(old, new)
        texts = [await self._read(self._version(name, one.version)) for one in (old, new)]
        was, now = [text.splitlines(keepends=True) for text in texts]
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
            found = await components_of(
                self.kind, component, name, source, path, trusted=trusted, environments=self.access.environments
            )
        done = await self._register(
            self._checked(found, name, version),
            origin="file" if path is not None else "register",
            by=checked_by(by),
            state=state,
            trusted=trusted,
            invokers=invokers,
            metadata=metadata or {},
        )
        await self.access.ready()
        return done

    def _checked(self, found: Sequence[Given], name: str | None, version: str | None) -> Sequence[Given]:
        if not found:
            raise ManifestError(f"there is no {self.kind.name} in what was given")
        if len(found) > 1 and (name is not None or version is not None):
            raise UsageError(
                f"it has {len(found)} {self.kind.plural}; leave name= and version= out, or give one of them"
            )
        return [one._replace(name=name or one.name, version=version or one.version) for one in found]

    async def _register(
        self, found: Sequence[Given], *, needs: bool = False, **terms: Unpack[Terms]
    ) -> Sequence[ComponentConfig]:
        """Make content versions, all or nothing; with `needs` (`update`) the components must be there already."""
        self._check_terms(terms)
        named: dict[str, New[T]] = {}
        for name, given, made, version in found:
            checked_component_name(self.kind.name, name)
            if version is not None:
                checked_component_version(f"{self.kind.name} {name!r}", version)
            if name in named:
                raise VersionError(f"two of the {self.kind.plural} are called {name!r}; give one another name")
            one = self.kind.renamed(given, name, version or self.kind.version_of(given))
            named[name] = New(name, one, *self._identify(name, one, made), version=version, **terms)
        for new in named.values() if terms.get("state") == "candidate" else ():
            named[new.name] = await self._no_more_rights(new)
        await self.registry.keep({one.made.text for one in named.values() if one.made is not None and one.made.text})
        if needs:
            await self.registry.refresh()
            for name in named:
                self.history(name)

        def plan() -> Iterable[Entry]:
            for name, new in named.items():
                history = self._so_far(name)
                known = history.known_as(new.identity, new.version)
                # What is archived is over: its content begins another version.
                if known and (new.version is not None or history.version(known).state != "archived"):
                    yield from registered_again(history, known, new)
                    continue
                if needs and new.invokers is None:  # another implementation gives nobody a right
                    new = replace(new, invokers=history.version().invokers)
                yield from registration(self.kind, history, new)

        await self.registry.write(plan)
        done = []
        for name, new in named.items():
            history = self.history(name, hidden=True)
            chosen = new.version or history.known_as(new.identity) or ""
            if new.trusted:
                self._loaded[name, chosen] = self._limited(name, new.one, history, chosen)
            done.append(self.config(name, chosen))
        return done

    async def _no_more_rights(self, new: New[T]) -> New[T]:
        """Return a candidate for whoever may invoke what it is to replace; CandidateError where it has more rights."""
        history = self._so_far(new.name)
        if not history.usable:
            return new
        held, kind, name = history.version(), self.kind, new.name
        present = await self.version(name)
        had = {**kind.rights(present, await self._made(name)), EVOLVABLE: kind.evolvable(present)}
        has = {**kind.rights(new.one, new.made), EVOLVABLE: kind.evolvable(new.one)}
        if not new.trusted and not held.foreign:  # in the sandbox it touches nothing, whatever it says of itself
            had |= {right: has[right] for right in (TOUCHES, MODE) if right in has}
        if held.invokers is not None and new.invokers is not None:
            had[INVOKERS], has[INVOKERS] = frozenset(held.invokers), frozenset(new.invokers)
        check_rights(f"{kind.name} {name!r}", had, has)
        return replace(new, invokers=held.invokers if new.invokers is None else new.invokers)

    def _check_terms(self, terms: Terms) -> None:
        """Check the state in which something is to be registered, and who may invoke it."""
        state: str = terms.get("state", "active")
        invokers: Any = terms.get("invokers")
        if invokers is not None and self.kind.limited is None:
            raise NotAllowedError(f"who may invoke {self.kind.plural} cannot be limited; leave invokers out")
        if isinstance(invokers, str) or not all(isinstance(one, str) and one for one in invokers or ()):
            raise NotAllowedError(
                f"invokers={invokers!r}; give a list of names of agents, and 'user' for calls outside of runs"
            )
        if state not in ("active", "candidate"):
            raise LifecycleError(f"a new version cannot be {state!r}; register it as active or candidate")

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
        self.history(name)
        asked = name if source else None
        with within(self.access.namespace):
            found = await components_of(
                self.kind, component, asked, source, None, trusted=trusted, environments=self.access.environments
            )
        new = self._checked(found, name, version)
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
        said = checked_by(by)
        new_name = checked_component_name(self.kind.name, new_name or f"{name}_copy")
        held = self.history(name).version()
        if new_name in self.names():
            raise VersionError(f"there is a {self.kind.name} {new_name!r} already; choose another name for the copy")
        one = self.kind.renamed(await self.version(name), new_name, version or FIRST_VERSION)
        made = await self._made(name)
        if made is not None:  # what no text makes is at hand under its own name only
            made = self.kind.copied(made, name, new_name) if made.maker.how != "given" else None
        (config,) = await self._register(
            [Given(new_name, one, made, version)],
            origin=held.origin if held.origin != "package" else "register",
            by=said,
            trusted=not held.foreign,
            parent=held.config.component,
            invokers=held.invokers,
        )
        return config

    @_changing
    async def unregister(self, name: str, **by: Unpack[By]) -> None:
        """Hide a name, or raise UnknownComponentError. Its versions stay readable; `restore` brings it back."""
        said = checked_by(by)
        self.history(name)

        def plan() -> Iterable[Entry]:
            history = self._so_far(name)
            if not history.hidden:
                yield entry(history, "hidden", **said)

        await self.registry.write(plan)

    @_changing
    async def restore(self, name: str, version: str | None = None, **by: Unpack[By]) -> ComponentConfig:
        """Make an earlier version the current one, or bring an unregistered name back; it behaves as it did.

        The code at hand replaces it again only when it changes; `pin` keeps it even then.

        Raises:
            UnknownComponentError, VersionError, LifecycleError.
        """
        return await self._restore(name, version, by, pinned=False)

    @_changing
    async def pin(self, name: str, version: str | None = None, **by: Unpack[By]) -> ComponentConfig:
        """Make a version the current one and keep it so, whatever is registered, until `unpin`."""
        return await self._restore(name, version, by, pinned=True)

    async def _restore(self, name: str, version: str | None, by: By, *, pinned: bool) -> ComponentConfig:
        """Make a version the current one, as it was; it is made before anything is written."""
        said = checked_by(by)
        held = self.history(name, hidden=True).version(version)
        if held.state == "candidate":
            raise LifecycleError(
                f"{self.kind.name} {name}@{held.version} is a candidate, which never was in use; activate it instead"
            )
        await self.version(name, held.version)

        def plan() -> Iterable[Entry]:
            now = self.history(name, hidden=True)
            chosen = held.version
            if now.current != chosen or now.hidden or now.version(chosen).state != "active" or now.by_code:
                yield from activation(now, chosen, said)
            if pinned and not now.pinned:
                yield entry(now, "pinned", pinned=True, **said)

        await self.registry.write(plan)
        return self.config(name)

    @_changing
    async def unpin(self, name: str, **by: Unpack[By]) -> None:
        """Let new versions become the current one again."""
        said = checked_by(by)
        self.history(name)

        def plan() -> Iterable[Entry]:
            history = self.history(name)
            if history.pinned:
                yield entry(history, "pinned", pinned=False, **said)

        await self.registry.write(plan)

    @_changing
    async def activate(self, name: str, version: str, **by: Unpack[By]) -> ComponentConfig:
        """Make a candidate or deprecated version active, and what the name means; from another state LifecycleError."""
        await self.version(name, self.history(name, hidden=True).version(version).version)
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
        said = checked_by(by)
        held = self.history(name).version(version)
        what = f"{self.kind.name} {name}@{held.version}"
        if self.kind.name not in ("tool", "prompt"):
            raise LifecycleError(f"{what} cannot have a share of the runs: only tools and prompts can; activate it")
        if held.state != "candidate":
            raise LifecycleError(f"{what} is {held.state}, and only a candidate can have a share of the runs")
        if not 0 <= share < 1:
            raise LifecycleError(f"{what} cannot have the share {share!r}; give one from 0 to below 1, or activate it")

        def plan() -> Iterable[Entry]:
            yield entry(self.history(name), "shared", version=held.version, share=share, **said)

        await self.registry.write(plan)
        return self.config(name, held.version)

    @_changing
    async def archive(self, name: str, version: str, **by: Unpack[By]) -> ComponentConfig:
        """End a candidate or deprecated version: it stays readable and cannot be used again."""
        return await self._to_state(name, version, "archived", by)

    async def _to_state(self, name: str, version: str | None, state: LifeState, by: By) -> ComponentConfig:
        said = checked_by(by)
        chosen = self.history(name, hidden=True).version(version).version

        def plan() -> Iterable[Entry]:
            history = self.history(name, hidden=True)
            history.check_step(chosen, state)
            if state == "active":
                yield from activation(history, chosen, said)
                return
            if state == "archived" and history.current == chosen and not history.hidden:
                raise LifecycleError(
                    f"{self.kind.name} {name}@{chosen} is what {name!r} means now; restore another version first, or "
                    "unregister it"
                )
            yield entry(history, "state", version=chosen, state=state, **said)

        await self.registry.write(plan)
        return self.config(name, chosen)

    async def vars(self, name: str, version: str | None = None) -> Sequence[Variable]:
        """Return the parts of a component that may be optimised, with their texts (000, app. C.4)."""
        await self.access.ready()
        return self._variables(name, await self.version(name, version), await self._made(name, version))

    def _variables(self, name: str, one: T, made: Made | None) -> Sequence[Variable]:
        return mark_evolvable(self.kind.variables(one, made), self.kind.evolvable(one), builtin=name in self._builtin)

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
        said, kind, what = checked_by(by), self.kind, f"{self.kind.name} {name!r}"
        held, present, made = self.history(name).version(), await self.version(name), await self._made(name)
        check_variables(what, values, self._variables(name, present, made), candidate=candidate)
        if made is None or (not made.text and made.maker.how in ("module", "source", "prompt")):
            raise VersionError(
                f"the text of {what} was not kept, so it cannot be rewritten; register it from its source"
            )
        new = kind.rewritten(present, made, values)
        if not trusted and new.maker.texts != made.maker.texts:
            new = Made(new.text, new.maker.model_copy(update={"foreign_texts": True}))
        # Words that are laid over code leave it as trusted as it was.
        whole = CODE in values or (not kind.is_code(new.maker) and new.maker.how != "given")
        foreign = held.foreign or (whole and not trusted)
        if foreign and CODE in values and kind.make_foreign is None:
            raise VersionError(
                f"code of {kind.plural} that the workspace's user did not write is not executed; {what} stays"
            )
        one = await self._built(what, name, new, held.config, foreign)
        (config,) = await self._register(
            [Given(name, one, new, version)],
            origin="setvars",
            by=said,
            state="candidate" if candidate else "active",
            trusted=not foreign,
            invokers=held.invokers,
        )
        return config

    # -- files ---------------------------------------------------------------------------------------------------------

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
        made = [self._identity(name, one)[1] for name, one in self._given.items()]
        at_hand: Sequence[tuple[str, Maker | None]]
        at_hand = [(sha256_text(one.text), one.maker) for one in made if one is not None and one.text]
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

        return write_skills(skills_of(await self.described()), Path(folder))

    async def described(self) -> Sequence[tuple[ComponentConfig, str]]:
        await self.access.ready()
        live = self.live()
        templates = {name: one.template for name, one in live.items() if isinstance(one, Prompt)}
        return [(self.config(name), templates.get(name, "")) for name in self.names()]
