"""The components of one kind as runs use them: what is at hand, joined with the histories of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from agentorchestra.core.errors import UnknownComponentError, UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.tea.programs.namespaces import within
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.entries import New, registration
from agentorchestra.tea.registry.history import History, Maker, Version, identity_of
from agentorchestra.tea.registry.kind import Kind, Made, Variable, mark_evolvable
from agentorchestra.tea.registry.registry import Entry, Registry

T = TypeVar("T")
R = TypeVar("R")

FOR_ONE_RUN = 100
"""Objects whose identities are remembered, besides as many as are at hand always."""


class Stock(Generic[T]):
    """The components of one kind: those at hand (packaged, given by the application), and those made from their texts.

    Attributes:
        notice: is called once with each component that is looked at.
    """

    def __init__(
        self,
        kind: Kind[T],
        registry: Registry,
        given: Mapping[str, T],
        *,
        builtin: Iterable[str],
        distribution: str,
        namespace: str,  # of the user's program (tea/programs/namespaces.py)
    ) -> None:
        self.kind = kind
        self.registry = registry
        self.given = dict(given)
        self.loaded: dict[tuple[str, str], T] = {}
        self.notice: Callable[[T], object] | None = None
        self._builtin = frozenset(builtin)
        self._distribution = distribution
        self._namespace = namespace
        self._origins: dict[str, str] = {}
        self._identities: dict[tuple[str, int], tuple[T, str, Made | None]] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._names: tuple[tuple[int, int], tuple[str, ...]] = ((-1, -1), ())
        self._settled = (-1, -1)

    def give(self, components: Mapping[str, T], *, origin: str = "code") -> None:
        """Take further components in; those of the same names are replaced. `settle` registers them."""
        self.given.update(components)
        self._origins.update(dict.fromkeys(components, origin))
        self.registry.handed += 1

    def take(self, names: Iterable[str]) -> None:
        """Have these no longer at hand; what the registry has of them stays."""
        for name in names:
            self.given.pop(name, None)
            self._origins.pop(name, None)
            self.so_far(name).at_hand = None
        self.registry.handed += 1

    def at_hand(self) -> Iterable[T]:
        """Return what is at hand: given, or registered here as an object."""
        return [*self.given.values(), *self.loaded.values()]

    def has(self, name: str) -> bool:
        return name in self.given

    @property
    def is_settled(self) -> bool:
        return self._settled == (self.registry.count, self.registry.handed)

    async def settle(self) -> None:
        """Register what is at hand and unknown: it gets its next version by itself, or raises VersionError."""
        if self.is_settled:
            return
        await self._write_given(self._plan_given, self.given)
        for name, one in self.given.items():
            history = self.so_far(name)
            history.at_hand = history.known_as(self.identity(name, one)[0])
        for name in self.names():
            if (name, self.current(name)) not in self.loaded:
                await self._load(name, self.current(name))
        self._settled = (self.registry.count, self.registry.handed)

    async def admit(self, components: Mapping[str, T]) -> dict[str, T]:
        """Return what is at hand for one run only, under its versions; VersionError for one with other content."""

        def plan() -> Iterable[Entry]:
            for name, one in components.items():
                identity, made = self.identity(name, one)
                history = self.so_far(name)
                if history.known_as(identity) is None:
                    yield from registration(self.kind, history, New(name, one, identity, made, "run", alone=True))

        await self.registry.refresh()
        await self._write_given(plan, components)
        admitted = {}
        for name, one in components.items():
            version = self.history(name, hidden=True).known_as(self.identity(name, one)[0])
            admitted[name] = self.kind.renamed(one, name, version or self.kind.version_of(one))
        return admitted

    async def _write_given(self, plan: Callable[[], Iterable[Entry]], components: Mapping[str, T]) -> None:
        if next(iter(plan()), None) is not None:
            made = [self.identity(name, one)[1] for name, one in components.items()]
            await self.registry.keep({one.text for one in made if one is not None and one.text}, at_hand=True)
            await self.registry.write(plan)

    def _plan_given(self) -> Iterable[Entry]:
        for name, one in self.given.items():
            yield from self._plan_of(name, one)

    def _plan_of(self, name: str, one: T) -> Iterable[Entry]:
        identity, made = self.identity(name, one)
        history = self.so_far(name)
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
        for name, one in self.given.items():
            try:
                [*self._plan_of(name, one)]
            except UsageError as exc:
                refusals.append(str(exc))
        for name in self.names():
            if name not in self.given:
                await self._load(name, self.current(name))
        return refusals, [why for _, why in sorted(self.failures().items())]

    def identity(self, name: str, one: T) -> tuple[str, Made | None]:
        """Return the identity of what is at hand, and what it is made of; it is looked at once."""
        held = self._identities.pop((name, id(one)), None)
        if held is None or held[0] is not one:
            held = (one, *self.identify(name, one))
        self._identities[name, id(one)] = held  # the last one now
        if len(self._identities) > len(self.given) + FOR_ONE_RUN:
            del self._identities[next(iter(self._identities))]
        return held[1], held[2]

    def identify(self, name: str, one: T, made: Made | None = None) -> tuple[str, Made | None]:
        """Return the identity of what is registered, and what it is made of; each comes here once."""
        if self.notice is not None:
            self.notice(one)
        made = made if made is not None else self.kind.made(one)
        if made is not None and made.text:
            return identity_of(sha256_text(made.text), made.maker, name), made
        return self.kind.describe(self.kind.named(one), one, False).content_hash, made

    def names(self) -> tuple[str, ...]:
        """Return the names that mean something here, sorted."""
        now = self.registry.count, self.registry.handed
        if self._names[0] != now:
            found = self.registry.histories(self.kind.name)
            self._names = now, tuple(one.name for one in found if self._is_usable(one))
        return self._names[1]

    def _is_usable(self, history: History) -> bool:
        """Return True if the name means something: what only code chose means nothing where that is not at hand."""
        return history.usable and (not history.by_code or history.name in self.given)

    def live(self) -> dict[str, T]:
        """Return every component by name as runs use it; without those that could not be made again (`failures`)."""
        return self._of_current(self.loaded)

    def failures(self) -> dict[str, str]:
        """Return why components that are registered cannot be used here, by name."""
        return self._of_current(self._failed) if self._failed else {}

    def _of_current(self, known: Mapping[tuple[str, str], R]) -> dict[str, R]:
        return {name: known[key] for name in self.names() if (key := (name, self.current(name))) in known}

    def current(self, name: str) -> str:
        return self.history(name).current or ""

    def so_far(self, name: str) -> History:
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

    def entry(self, name: str, version: str | None) -> Version:
        return self.history(name, hidden=version is not None).version(version)

    def config(self, name: str, version: str | None = None) -> ComponentConfig:
        """Return what is known of a component as of the last operation (`info`)."""
        held = self.entry(name, version)
        return held.config.model_copy(update={"state": held.state, "origin": held.origin})

    async def version(self, name: str, version: str | None = None) -> T:
        """Return a version as a run uses it that names it, or raise UnknownComponentError or VersionError."""
        wanted = self.entry(name, version)
        found = await self._load(name, wanted.version)
        if found is None:
            raise VersionError(self._failed[name, wanted.version])
        return found

    async def _load(self, name: str, version: str) -> T | None:
        """Return a version as an object: the one at hand where that is its content, else made from its text."""
        key = name, version
        if key in self.loaded:
            return self.loaded[key]
        one = self.given.get(name)
        try:
            history = self.so_far(name)
            if one is None or history.known_as(self.identity(name, one)[0]) != version:
                one = await self._make(name, history.version(version))
            self.loaded[key] = self.limited(name, one, history, version)
        except UsageError as exc:
            self._failed[key] = str(exc)
            return None
        self._failed.pop(key, None)
        return self.loaded[key]

    async def _make(self, name: str, wanted: Version) -> T:
        what = f"{self.kind.name} {name}@{wanted.version}"
        if wanted.maker is None or (
            wanted.maker.how in ("module", "source", "prompt", "definition") and not wanted.source
        ):
            raise VersionError(
                f"{what} is not at hand and its text was not kept (it is not defined at the top of a module); "
                "register it from its source, or give it to the workspace"
            )
        return await self.build(what, name, Made(await self.text(wanted), wanted.maker), wanted.config, wanted.foreign)

    async def build(self, what: str, name: str, made: Made, config: ComponentConfig, foreign: bool) -> T:
        kind, maker = self.kind, made.maker
        if maker.how == "given":
            one = self.given.get(name)
            if one is None or kind.describe(name, one, False).content_hash != maker.base:
                raise VersionError(
                    f"{what} is the {kind.name} {name!r} of another program or version with other words, and that is "
                    "not at hand; change the words of the one that is"
                )
            if made.text and foreign:
                raise self._not_executed(what)
            if made.text and kind.recoded is not None:
                with within(self._namespace):
                    one = kind.recoded(one, made)
        elif foreign and kind.make_foreign is not None:
            one = await kind.make_foreign(name, maker, made.text, config)
        elif not foreign or not kind.is_code(maker):
            with within(self._namespace):
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

    def limited(self, name: str, one: T, history: History, version: str) -> T:
        """Return a component under its version, with who may invoke it where its registration says so."""
        one = self.kind.renamed(one, name, version)
        invokers = history.invokers(version)
        if invokers is None or self.kind.limited is None:
            return one
        return self.kind.limited(one, invokers)

    async def text(self, held: Version) -> str:
        return await self.registry.text(held.source) if held.source else ""

    async def readable(self, held: Version) -> str:
        words = held.maker.texts if held.maker is not None else {}
        return "\n".join([await self.text(held), *(f"{name}:\n{text}\n" for name, text in sorted(words.items()))])

    async def made(self, name: str, version: str | None = None) -> Made | None:
        held = self.entry(name, version)
        if held.maker is not None:
            return Made(await self.text(held), held.maker)
        one = self.given.get(name)
        if one is None or self.so_far(name).known_as(self.identity(name, one)[0]) != held.version:
            return None
        return Made("", Maker(how="given", base=held.config.content_hash))

    def variables(self, name: str, one: T, made: Made | None) -> Sequence[Variable]:
        return mark_evolvable(self.kind.variables(one, made), self.kind.evolvable(one), builtin=name in self._builtin)
