"""Context managers: which components of a kind there are, what they can do, and which fit a task (000, app. C.2, C.5).

Tools, environments, agents, prompts and memory systems are the same thing here but for their kind. A manager joins what
is at hand (packaged, given by the application, registered here) with the histories of the registry: each has the
version under which the registry knows its content, and a name means the current version.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from agentorchestra.core.errors import (
    LifecycleError,
    NotAllowedError,
    UnknownComponentError,
    UsageError,
    VersionError,
)
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.config import ComponentConfig, KindName, Operation, first_sentence
from agentorchestra.tea.history import (
    History,
    LifeState,
    Maker,
    Version,
    checked_component_name,
    checked_component_version,
    identity_of,
    version_order,
)
from agentorchestra.tea.kind import Kind, Made, Variable, check_variables, config_changes
from agentorchestra.tea.registry import Entry, Registry, body_of
from agentorchestra.tea.retriever import Group, Retriever
from agentorchestra.tea.versions import level_of, next_version

T = TypeVar("T")

_DEFAULT = "1.0.0"
_OF_RUNS = 1000
"""So many components of runs are remembered as what they are."""


class Found(BaseModel):
    """A component that fits a query.

    Attributes:
        score: between 0 and 1; comparable within one answer only.
    """

    model_config = ConfigDict(frozen=True)

    config: ComponentConfig
    score: float


class By(BaseModel):
    """Who does something to a component, and why.

    Attributes:
        author: a person, an agent, `user` by default.
        reason: in words.
        run: in which run.
    """

    model_config = ConfigDict(frozen=True)

    author: str = "user"
    reason: str = ""
    run: str = ""


def by_whom(author: str, reason: str, run: str) -> By:
    """Who does it, as an operation is told.

    Raises:
        UsageError: for what is no text.
    """
    for what, said in (("author", author), ("reason", reason), ("run", run)):
        if not isinstance(said, str):
            raise UsageError(f"{what}={said!r}; give text")
    return By(author=author, reason=reason, run=run)


class New(NamedTuple, Generic[T]):
    """Something that is to be registered.

    Attributes:
        name: the component's.
        one: itself.
        made: what it is made of, where that is known better than it shows.
        version: written down; None to have it computed.
    """

    name: str
    one: T
    made: Made | None = None
    version: str | None = None


class ContextManager(Generic[T]):
    """The components of one kind.

    Args:
        kind: see Kind.
        registry: the histories; of all kinds.
        given: the components at hand, by name.
        builtin: names of those that come with the package.
        distribution: the package's version.
    """

    def __init__(
        self,
        kind: Kind[T],
        registry: Registry,
        given: Mapping[str, T],
        *,
        builtin: Iterable[str] = (),
        distribution: str = "",
    ) -> None:
        self.kind = kind
        self.registry = registry
        self._given = dict(given)
        self._builtin = frozenset(builtin)
        self._distribution = distribution
        self._origins: dict[str, str] = {}
        self._identities: dict[tuple[str, int], tuple[T, str, Made | None]] = {}
        self._loaded: dict[tuple[str, str], T] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._configs: dict[tuple[str, str, str], ComponentConfig] = {}
        self.retriever = Retriever()
        self._indexed: dict[str, str] = {}
        self._index_of: tuple[tuple[int, int, int], frozenset[str]] = ((-1, -1, -1), frozenset())
        self._names: tuple[int, int, tuple[str, ...]] = (-1, -1, ())
        self._looked: tuple[int, int] = (-1, -1)
        self._handed = 0

    # -- what is at hand -----------------------------------------------------------------------------------------------

    def give(self, components: Mapping[str, T], *, origin: str = "code") -> None:
        """Take further components in; those of the same names are replaced. `ready` registers them."""
        self._given.update(components)
        self._origins.update(dict.fromkeys(components, origin))
        self._handed += 1
        self.registry.handed += 1

    def at_hand(self) -> Iterable[T]:
        """What is at hand: given, or registered here as an object."""
        return [*self._given.values(), *self._loaded.values()]

    def has(self, name: str) -> bool:
        """Whether a component of this name is at hand."""
        return name in self._given

    def take(self, names: Iterable[str]) -> None:
        """Have these no longer at hand; what the registry has of them stays."""
        for name in names:
            self._given.pop(name, None)
            self._origins.pop(name, None)
        self._handed += 1
        self.registry.handed += 1

    def texts(self) -> list[tuple[str, Maker | None]]:
        """SHA-256 of the texts of what is at hand, with how it is made of them."""
        made = [self._identity(name, one)[1] for name, one in self._given.items()]
        return [(sha256_text(one.text), one.maker) for one in made if one is not None and one.text]

    @property
    def is_ready(self) -> bool:
        """Whether nothing was registered or given since `ready`."""
        return self._looked == (self.registry.count, self._handed)

    async def ready(self) -> None:
        """Read what was registered since, and register what is at hand and unknown: it gets its next version by itself.

        Raises:
            VersionError: for an explicit version that is known with other content.
        """
        if self.is_ready:
            return
        if next(iter(self._plan()), None) is not None:
            made = [self._identity(name, one)[1] for name, one in self._given.items()]
            await self.registry.keep({one.text for one in made if one is not None and one.text}, at_hand=True)
            await self.registry.write(self._plan)
        for name in self.names():
            if (name, self._current(name)) not in self._loaded:
                await self._load(name, self._history(name).version())
        self._looked = (self.registry.count, self._handed)

    def _plan(self) -> Iterable[Entry]:
        for name, one in self._given.items():
            yield from self._plan_one(name, one)

    def _plan_one(self, name: str, one: T) -> Iterable[Entry]:
        identity, made = self._identity(name, one)
        history = self.registry.history(self.kind.name, name)
        known = history.known_as(identity) if history is not None else None
        if history is not None and known is not None:
            other = history.current != known and history.by_code and not history.pinned and not history.hidden
            if other and history.version(known).state in ("active", "deprecated"):
                reason = "the code is this version again"
                yield self._entry(name, "activated", version=known, by_code=True, reason=reason)
            return
        by = By(author="", reason="")
        traits = getattr(one, "traits", None)
        own = str(getattr(traits, "origin", "")) or "code"  # what was made of another component says of which
        given = self._origins.get(name, "code")
        origin = "package" if name in self._builtin else own if given == "code" else given
        yield from self._registered(name, one, by, made=made, identity=identity, origin=origin, by_code=True)

    def _identity(self, name: str, one: T) -> tuple[str, Made | None]:
        """What is at hand, once it was looked at."""
        held = self._identities.get((name, id(one)))
        if held is None or held[0] is not one:
            if len(self._identities) > len(self._given) + _OF_RUNS:
                self._identities.clear()  # what was at hand for one run only is not held for ever
            held = self._identities[name, id(one)] = (one, *self._identify(name, one))
        return held[1], held[2]

    def _identify(self, name: str, one: T, made: Made | None = None) -> tuple[str, Made | None]:
        made = made if made is not None else self.kind.made(one)
        if made is not None and made.text:
            return identity_of(sha256_text(made.text), made.maker, name), made
        return self.kind.describe(self.kind.named(one), one, False).content_hash, made

    def _entry(self, name: str, type_: str, **fields: Any) -> Entry:
        return Entry(self.kind.name, name, type_, body_of(**fields))

    def _registered(
        self,
        name: str,
        one: T,
        by: By,
        *,
        made: Made | None,
        identity: str,
        origin: str,
        by_code: bool = False,
        alone: bool = False,
        version: str | None = None,
        state: LifeState = "active",
        trusted: bool = True,
        parent: str = "",
        invokers: Sequence[str] | None = None,
    ) -> Iterable[Entry]:
        """The entries that make content a version of a component, from its history as it is now."""
        history = self.registry.history(self.kind.name, name)
        config = self._config(name, one, origin)
        chosen, explicit = self._version_of(one, config, history, version)
        if history is not None and chosen in history.names:
            held = history.version(chosen)
            if held.config.content_hash == config.content_hash and explicit:
                # The text around it changed, not the component itself, whose version its author wrote down.
                yield self._entry(name, "same", version=chosen, identity=identity)
                is_it = history.current == chosen and not history.hidden
                if is_it or alone or state != "active" or history.pinned:
                    return
                if not by_code:
                    yield from self._to_active(history, chosen, by)
                elif history.by_code and not history.hidden and held.state in ("active", "deprecated"):
                    yield self._entry(name, "activated", version=chosen, by_code=True)
                return
            raise VersionError(
                f"{self.kind.name} {name}@{chosen} is registered with other content (made {held.created:%Y-%m-%d}"
                f"{', ' + held.reason if held.reason else ''}); give it another version, or none to have it computed"
            )
        current = state == "active" and not alone and not (history is not None and history.pinned)
        config = config.model_copy(update={"version": chosen, "state": "active"})
        before = history.current if history is not None else None
        if by_code and history is not None and before is not None:
            invokers = history.version(before).invokers  # an edit gives nobody a right
        yield self._entry(
            name,
            "registered",
            version=chosen,
            identity=identity,
            config=config.model_dump(mode="json", exclude_defaults=True, exclude={"state"}),
            source=sha256_text(made.text) if made is not None and made.text else "",
            maker=made.maker.model_dump(mode="json", exclude_defaults=True) if made is not None else None,
            explicit=explicit,
            state=state,
            parent=parent or (f"{name}@{before}" if before else ""),
            distribution=self._distribution if origin == "package" else "",
            origin=origin,
            foreign=not trusted,
            invokers=list(invokers) if invokers is not None else None,
            current=current,
            by_code=by_code,
            **by.model_dump(),
        )

    def _version_of(
        self, one: T, config: ComponentConfig, history: History | None, version: str | None
    ) -> tuple[str, bool]:
        """The version of new content, and whether it was written down."""
        if version is not None:
            return checked_component_version(f"{self.kind.name} {config.name!r}", version), True
        names = history.names if history is not None else ()
        last = max(names, key=version_order, default="0.0.0")
        written = self.kind.written(one)
        if written is not None and (written[1] or version_order(written[0]) > version_order(last)):
            return written
        if history is None or not names:
            return _DEFAULT, False
        # To the last one, whatever is current: whoever calls that must be told what changed since.
        before = history.version(last).config
        level = level_of(config_changes(before, config))
        plain = ".".join(map(str, version_order(last)))
        return next_version(plain, "patch" if level == "none" else level), False

    async def admit(self, components: Mapping[str, T]) -> dict[str, T]:
        """What is at hand for one run only, under the versions it has: known from now on, but its names mean nothing.

        Raises:
            VersionError: for an explicit version that is known with other content.
        """

        def plan() -> Iterable[Entry]:
            for name, one in components.items():
                identity, made = self._identity(name, one)
                history = self.registry.history(self.kind.name, name)
                if history is None or history.known_as(identity) is None:
                    yield from self._registered(
                        name, one, By(author=""), made=made, identity=identity, origin="run", alone=True
                    )

        await self.registry.refresh()
        if next(iter(plan()), None) is not None:
            of = [self._identity(name, one)[1] for name, one in components.items()]
            await self.registry.keep({one.text for one in of if one is not None and one.text}, at_hand=True)
            await self.registry.write(plan)
        admitted = {}
        for name, one in components.items():
            version = self._history(name, hidden=True).known_as(self._identity(name, one)[0])
            admitted[name] = self.kind.renamed(one, name, version or self.kind.version_of(one))
        return admitted

    # -- reading -------------------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """The names that mean something here, sorted: what only code chose means nothing where that is not at hand."""
        if self._names[:2] != (self.registry.count, self._handed):
            found = self.registry.histories(self.kind.name)
            names = tuple(one.name for one in found if one.usable and (not one.by_code or one.name in self._given))
            self._names = (self.registry.count, self._handed, names)
        return self._names[2]

    def live(self) -> dict[str, T]:
        """Every component by name as runs use it; those that could not be made again are left out (`failures`)."""
        return {
            name: self._loaded[key] for name in self.names() if (key := (name, self._current(name))) in self._loaded
        }

    def failures(self) -> dict[str, str]:
        """Why components that are registered cannot be used here, by name."""
        return {
            name: self._failed[key] for name in self.names() if (key := (name, self._current(name))) in self._failed
        }

    def _current(self, name: str) -> str:
        return self._history(name).current or ""

    def _history(self, name: str, *, hidden: bool = False) -> History:
        """A history by name.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        asked: object = name
        found = self.registry.history(self.kind.name, name) if isinstance(asked, str) else None
        if found is not None and (hidden or (found.usable and (not found.by_code or name in self._given))):
            return found
        names = self.names()
        close = difflib.get_close_matches(str(name)[:200], names, n=3)
        guess = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(names[:20]) or 'none'}"
        gone = " any more (it was unregistered; restore it)" if found is not None and found.hidden else ""
        raise UnknownComponentError(f"no {self.kind.name} {str(name)[:80]!r}{gone}; {guess}")

    async def get(self, name: str, version: str | None = None) -> T:
        """The component itself.

        Raises:
            UnknownComponentError: with the nearest names.
            VersionError: with the versions there are, or for one whose text was not kept.
        """
        history = self._history(name, hidden=version is not None)
        wanted = history.version(version)
        found = await self._load(name, wanted)
        if found is None:
            raise VersionError(self._failed[name, wanted.version])
        return found

    async def _load(self, name: str, wanted: Version) -> T | None:
        """A version as an object: the one at hand where that is its content, else made from its text."""
        key = name, wanted.version
        if key in self._loaded:
            return self._loaded[key]
        at_hand = self._given.get(name)
        if at_hand is not None:
            history = self._history(name, hidden=True)
            if history.known_as(self._identity(name, at_hand)[0]) == wanted.version:
                self._loaded[key] = self._limited(self.kind.renamed(at_hand, name, wanted.version), wanted)
                return self._loaded[key]
        try:
            self._loaded[key] = await self._make(name, wanted)
        except UsageError as exc:
            self._failed[key] = str(exc)
            return None
        self._failed.pop(key, None)
        return self._loaded[key]

    async def _make(self, name: str, wanted: Version) -> T:
        what = f"{self.kind.name} {name}@{wanted.version}"
        if wanted.maker is None or (wanted.maker.how in ("module", "source", "prompt") and not wanted.source):
            raise VersionError(
                f"{what} is not at hand and its text was not kept (it is not defined at the top of a module); "
                "register it from its source, or give it to the workspace"
            )
        text = await self.registry.text(wanted.source) if wanted.source else ""
        if wanted.foreign and self.kind.make_foreign is not None:
            made = await self.kind.make_foreign(name, wanted.maker, text, wanted.config)
        elif not wanted.foreign or not self.kind.is_code(wanted.maker):
            made = self.kind.make(name, wanted.maker, text)
        else:
            raise VersionError(
                f"{what} came from elsewhere, and the code of {self.kind.plural} from elsewhere is not executed; "
                "read its source and register it as your own"
            )
        return self._limited(self.kind.renamed(made, name, wanted.version), wanted)

    def _limited(self, one: T, wanted: Version) -> T:
        """With who may invoke it, where its registration says so."""
        if wanted.invokers is None or self.kind.limited is None:
            return one
        return self.kind.limited(one, wanted.invokers)

    def info(self, name: str, version: str | None = None) -> ComponentConfig:
        """What is known of a component.

        Raises:
            UnknownComponentError, VersionError.
        """
        wanted = self._history(name, hidden=version is not None).version(version)
        return wanted.config.model_copy(update={"state": wanted.state, "origin": wanted.origin})

    def _config(self, name: str, one: T, origin: str) -> ComponentConfig:
        config = self.kind.describe(name, one, origin == "package")
        return config.model_copy(update={"origin": origin})

    async def retrieve(self, query: str, *, limit: int = 10, under: str | None = None) -> list[Found]:
        """The components that fit a query, best first. One more component is added to the index, nothing is rebuilt.

        Args:
            query: what is wanted, in any words; "" gives those of a branch in their order.
            limit: at most so many.
            under: only those of a branch of the tree: `mcp/github`.
        """
        fit = self._index()
        found = await self.retriever.search(query, limit=limit, under=under, among=fit)
        return [Found(config=self.info(match.key), score=round(match.score, 4)) for match in found]

    def browse(self, under: str = "") -> list[Group]:
        """The branches of the tree category -> toolkit -> component below one of them, with what is in each."""
        return self.retriever.browse(under, among=self._index())

    def _index(self) -> frozenset[str]:
        """Bring the index up to date; the names that are to be found."""
        now = self.registry.count, self._handed, id(self.retriever)
        if self._index_of[0] == now:
            return self._index_of[1]
        names = {name: self._current(name) for name in self.names()}
        for name in [one for one in self._indexed if self._indexed[one] != names.get(one)]:
            self.retriever.remove(name)
            del self._indexed[name]
        for name, version in names.items():
            if name not in self._indexed:
                config = self.info(name)
                self.retriever.add(name, config.described, path=config.origin.replace(":", "/", 1))
                self._indexed[name] = version
        fit = frozenset(name for name in names if self._history(name).version().state == "active")
        self._index_of = now, fit
        return fit

    def contract(self) -> str:
        """One document that describes all of them (000, app. C.2)."""
        names = self.names()
        parts = [f"# {self.kind.plural.capitalize()}", ""]
        parts += [f"- {self.info(name).entry}" for name in names] or ["There are none."]
        return "\n".join(parts) + "\n\n" + "\n".join(self.info(name).text for name in names)

    def versions(self, name: str) -> tuple[Version, ...]:
        """Every version of a component, oldest first; of an unregistered one too."""
        return self._history(name, hidden=True).all()

    async def source(self, name: str, version: str | None = None) -> str:
        """The text a version is made of, "" where none is kept."""
        wanted = self._history(name, hidden=version is not None).version(version)
        return await self.registry.text(wanted.source) if wanted.source else ""

    # -- operations ----------------------------------------------------------------------------------------------------

    async def register(
        self,
        name: str,
        one: T,
        by: By,
        *,
        version: str | None = None,
        state: LifeState = "active",
        origin: str = "register",
        made: Made | None = None,
        trusted: bool = True,
        parent: str = "",
        invokers: Sequence[str] | None = None,
        needs: bool = False,
    ) -> ComponentConfig:
        """Make content a version of a component; content that is known already is the version it is.

        Args:
            needs: whether the component must be there already (`update`).
        """
        (config,) = await self.register_all(
            [New(name, one, made, version)],
            by,
            state=state,
            origin=origin,
            trusted=trusted,
            parent=parent,
            invokers=invokers,
            needs=needs,
        )
        return config

    async def register_all(
        self,
        new: Sequence[New[T]],
        by: By,
        *,
        state: LifeState = "active",
        origin: str = "register",
        trusted: bool = True,
        parent: str = "",
        invokers: Sequence[str] | None = None,
        needs: bool = False,
    ) -> list[ComponentConfig]:
        """`register` for several: all of them or none."""
        self._check_invokers(invokers)
        if state not in ("active", "candidate"):
            raise LifecycleError(f"a new version cannot be {state!r}; register it as active or candidate")
        named: dict[str, tuple[T, str, Made | None, str | None]] = {}
        for name, given, made, version in new:
            checked_component_name(self.kind.name, name)
            if version is not None:
                checked_component_version(f"{self.kind.name} {name!r}", version)
            if name in named:
                raise VersionError(f"two of the {self.kind.plural} are called {name!r}; give one another name")
            one = self.kind.renamed(given, name, version or self.kind.version_of(given))
            identity, made = self._identify(name, one, made)
            named[name] = one, identity, made, version
        await self.registry.keep({made.text for _, _, made, _ in named.values() if made is not None and made.text})
        if needs:
            await self.registry.refresh()
            for name in named:
                self._history(name)

        def plan() -> Iterable[Entry]:
            for name, (one, identity, made, version) in named.items():
                history = self.registry.history(self.kind.name, name)
                known = history.known_as(identity, version) if history is not None else None
                # What is archived is over: its content begins another version.
                over = history is not None and known is not None and history.version(known).state == "archived"
                if history is not None and known is not None and not (over and version is None):
                    yield from self._again(history, known, by, state=state, trusted=trusted, invokers=invokers)
                    continue
                limits = invokers
                if needs and invokers is None and history is not None:
                    limits = history.version().invokers  # another implementation gives nobody a right
                yield from self._registered(
                    name,
                    one,
                    by,
                    made=made,
                    identity=identity,
                    origin=origin,
                    version=version,
                    state=state,
                    trusted=trusted,
                    parent=parent,
                    invokers=limits,
                )

        await self.registry.write(plan)
        done = []
        for name, (one, identity, _, version) in named.items():
            history = self._history(name, hidden=True)
            chosen = version or history.known_as(identity) or ""
            if trusted:
                held = self._limited(self.kind.renamed(one, name, chosen), history.version(chosen))
                self._loaded[name, chosen] = held
            done.append(self.info(name, chosen))
        return done

    def _check_invokers(self, invokers: Sequence[str] | None) -> None:
        if invokers is None:
            return
        if self.kind.limited is None:
            raise NotAllowedError(f"who may invoke {self.kind.plural} cannot be limited; leave invokers out")
        listed: list[object] = [*invokers]
        if isinstance(invokers, str) or not all(isinstance(one, str) and one for one in listed):
            raise NotAllowedError(
                f"invokers={invokers!r}; give a list of names of agents, and 'user' for calls outside of runs"
            )

    def _again(
        self,
        history: History,
        version: str,
        by: By,
        *,
        state: LifeState,
        trusted: bool,
        invokers: Sequence[str] | None,
    ) -> Iterable[Entry]:
        """The entries for content that is registered again: what is said of it now, where that is something else."""
        held = history.version(version)
        if trusted and held.foreign:
            yield self._entry(history.name, "loaded", versions=[version])  # the user stands for it from now on
        if invokers is not None and held.invokers != tuple(invokers):
            yield self._entry(history.name, "limited", version=version, invokers=[*invokers], **by.model_dump())
        if state == "active" and not history.pinned and (history.current != version or history.hidden):
            yield from self._to_active(history, version, by)

    def _to_active(self, history: History, version: str, by: By) -> Iterable[Entry]:
        state = history.version(version).state
        if state != "active":
            history.check_step(version, "active")
            yield self._entry(history.name, "state", version=version, state="active", **by.model_dump())
        yield self._entry(history.name, "activated", version=version, **by.model_dump())

    async def copy(self, name: str, new_name: str, by: By, *, version: str | None = None) -> ComponentConfig:
        """The current version under another name, with its lineage."""
        checked_component_name(self.kind.name, new_name)
        held = self._history(name).version()
        if self.registry.history(self.kind.name, new_name) is not None and new_name in self.names():
            raise VersionError(f"there is a {self.kind.name} {new_name!r} already; choose another name for the copy")
        one = await self.get(name)
        text = await self.registry.text(held.source) if held.source else ""
        made = None
        if held.maker is not None:
            made = self.kind.copied(Made(text, held.maker), name, new_name)
        return await self.register(
            new_name,
            self.kind.renamed(one, new_name, version or _DEFAULT),
            by,
            version=version,
            origin=held.origin if held.origin != "package" else "register",
            made=made,
            trusted=not held.foreign,
            parent=held.config.component,
            invokers=held.invokers,
        )

    async def unregister(self, name: str, by: By) -> None:
        """Hide a name; its versions stay readable, and `restore` brings it back."""
        await self.registry.refresh()
        self._history(name)

        def plan() -> Iterable[Entry]:
            history = self.registry.history(self.kind.name, name)
            if history is not None and not history.hidden:
                yield self._entry(name, "hidden", **by.model_dump())

        await self.registry.write(plan)

    async def restore(
        self, name: str, by: By, *, version: str | None = None, pinned: bool | None = None
    ) -> ComponentConfig:
        """Make a version the current one, as it was; it is made before anything is written.

        Args:
            version: the current one of an unregistered name by default.
            pinned: whether the code at hand may replace it (False), or not (True); None leaves that as it is.
        """
        await self.registry.refresh()
        history = self._history(name, hidden=True)
        chosen = history.version(version).version
        if history.version(chosen).state == "candidate":
            raise LifecycleError(
                f"{self.kind.name} {name}@{chosen} is a candidate, which never was in use; activate it instead"
            )
        await self.get(name, chosen)

        def plan() -> Iterable[Entry]:
            now = self._history(name, hidden=True)
            if now.current != chosen or now.hidden or now.version(chosen).state != "active" or now.by_code:
                yield from self._to_active(now, chosen, by)
            if pinned is not None and now.pinned != pinned:
                yield self._entry(name, "pinned", pinned=pinned, **by.model_dump())

        await self.registry.write(plan)
        return self.info(name)

    async def to_state(self, name: str, state: LifeState, by: By, *, version: str | None = None) -> ComponentConfig:
        """Send a version on in its life.

        Raises:
            LifecycleError: from where it is it cannot go there, or the name would be left without a version.
        """
        await self.registry.refresh()
        chosen = self._history(name, hidden=True).version(version).version
        if state == "active":
            await self.get(name, chosen)

        def plan() -> Iterable[Entry]:
            history = self._history(name, hidden=True)
            history.check_step(chosen, state)
            if state == "active":
                yield from self._to_active(history, chosen, by)
                return
            if state == "archived" and history.current == chosen and not history.hidden:
                raise LifecycleError(
                    f"{self.kind.name} {name}@{chosen} is what {name!r} means now; restore another version first, or "
                    "unregister it"
                )
            yield self._entry(name, "state", version=chosen, state=state, **by.model_dump())

        await self.registry.write(plan)
        return self.info(name, chosen)

    async def unpin(self, name: str, by: By) -> None:
        """Let the code at hand decide again which version is the current one."""
        await self.registry.refresh()
        self._history(name)

        def plan() -> Iterable[Entry]:
            if self._history(name).pinned:
                yield self._entry(name, "pinned", pinned=False, **by.model_dump())

        await self.registry.write(plan)

    async def variables(self, name: str, version: str | None = None) -> list[Variable]:
        """The parts of a component that may be optimised."""
        return self.kind.variables(await self.get(name, version), await self._made_of(name, version))

    async def _made_of(self, name: str, version: str | None) -> Made | None:
        held = self._history(name, hidden=version is not None).version(version)
        if held.maker is None:
            return None
        return Made(await self.registry.text(held.source) if held.source else "", held.maker)

    async def set_variables(
        self, name: str, values: Mapping[str, str], by: By, *, version: str | None = None, trusted: bool = True
    ) -> ComponentConfig:
        """A new version with other values for some of these parts; nothing is registered unless it can be made."""
        what = f"{self.kind.name} {name!r}"
        check_variables(what, values, await self.variables(name))
        made = await self._made_of(name, None)
        held = self._history(name).version()
        if made is None or (not made.text and made.maker.how != "fields"):
            raise VersionError(
                f"the text of {what} was not kept, so it cannot be rewritten; register it from its source"
            )
        new = self.kind.rewritten(await self.get(name), made, values)
        trusted = trusted and not held.foreign
        if trusted or not self.kind.is_code(new.maker):
            one = self.kind.make(name, new.maker, new.text)
        elif self.kind.make_foreign is not None:
            one = await self.kind.make_foreign(name, new.maker, new.text, None)
        else:
            raise VersionError(
                f"code of {self.kind.plural} that the workspace's user did not write is not executed; {what} stays"
            )
        return await self.register(
            name, one, by, version=version, made=new, origin="setvars", trusted=trusted, invokers=held.invokers
        )


__all__ = [
    "By",
    "ComponentConfig",
    "ContextManager",
    "Found",
    "Kind",
    "KindName",
    "New",
    "Operation",
    "by_whom",
    "first_sentence",
]
