"""The components of one kind as runs use them: what is at hand, joined with the histories of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from agentorchestra.core.errors import UnknownComponentError, UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.tea.programs.namespaces import within
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.entries import New, registration
from agentorchestra.tea.registry.history import History, Maker, Version, identity_of
from agentorchestra.tea.registry.kind import Kind, Made, TextVariable, mark_evolvable
from agentorchestra.tea.registry.registry import Registry, RegistryEntry

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
        components: Mapping[str, T],
        *,
        builtin: Iterable[str],
        distribution: str,
        namespace: str,  # of the user's program (tea/programs/namespaces.py)
    ) -> None:
        self.kind = kind
        self.registry = registry
        self.given = dict(components)
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

    async def _settle(self) -> None:
        """Take in what is registered by now."""
        for name, component in self.given.items():
            history = self.so_far(name)
            history.at_hand = history.known_as(self.identity(name, component)[0])
        for name in self.names():
            if (name, self.current(name)) not in self.loaded:
                await self._load(name, self.current(name))
        self._settled = (self.registry.count, self.registry.handed)

    async def admit(self, components: Mapping[str, T]) -> dict[str, T]:
        """Return what is at hand for one run only, under its versions; VersionError for one with other content."""

        def plan() -> Iterable[RegistryEntry]:
            for name, part in components.items():
                identity, recipe = self.identity(name, part)
                history = self.so_far(name)
                if history.known_as(identity) is None:
                    yield from registration(self.kind, history, New(name, part, identity, recipe, "run", alone=True))

        await self.registry.refresh()
        await _write(self.registry, plan, self._recipes(components))
        admissions = {}
        for name, component in components.items():
            version = self.history(name, hidden=True).known_as(self.identity(name, component)[0])
            admissions[name] = self.kind.with_name(component, name, version or self.kind.version_of(component))
        return admissions

    def _recipes(self, components: Mapping[str, T]) -> Iterator[Made | None]:
        return (self.identity(name, component)[1] for name, component in components.items())

    def _plan_of(self, name: str, component: T) -> Iterable[RegistryEntry]:
        identity, recipe = self.identity(name, component)
        history = self.so_far(name)
        if history.known_as(identity) is not None:
            return
        builtin = name in self._builtin
        origin = "package" if builtin else self._origins.get(name, "code")
        if origin == "code":  # what was made of another component says of which
            origin = str(getattr(getattr(component, "traits", None), "origin", "")) or "code"
        distribution = self._distribution if builtin else ""
        new = New(name, component, identity, recipe, origin, by_code=True, distribution=distribution)
        yield from registration(self.kind, history, new)

    async def examine(self) -> tuple[list[str], list[str]]:
        """Return why no run can begin, and why components cannot be used by one; nothing is written."""
        await self.registry.refresh()
        refusals = []
        for name, component in self.given.items():
            try:
                [*self._plan_of(name, component)]
            except UsageError as exc:
                refusals.append(str(exc))
        for name in self.names():
            if name not in self.given:
                await self._load(name, self.current(name))
        return refusals, [reason for _, reason in sorted(self.failures().items())]

    def identity(self, name: str, component: T) -> tuple[str, Made | None]:
        """Return the identity of what is at hand, and what it is made of; it is looked at once."""
        cached = self._identities.pop((name, id(component)), None)
        if cached is None or cached[0] is not component:
            cached = (component, *self.identify(name, component))
        self._identities[name, id(component)] = cached  # the last one now
        if len(self._identities) > len(self.given) + FOR_ONE_RUN:
            del self._identities[next(iter(self._identities))]
        return cached[1], cached[2]

    def identify(self, name: str, component: T, recipe: Made | None = None) -> tuple[str, Made | None]:
        """Return the identity of what is registered, and what it is made of; each comes here once."""
        if self.notice is not None:
            self.notice(component)
        recipe = recipe if recipe is not None else self.kind.recipe_of(component)
        if recipe is not None and recipe.text:
            return identity_of(sha256_text(recipe.text), recipe.maker, name), recipe
        return self.kind.describe(self.kind.name_of(component), component, False).content_hash, recipe

    def names(self) -> tuple[str, ...]:
        """Return the names that mean something here, sorted."""
        now = self.registry.count, self.registry.handed
        if self._names[0] != now:
            histories = self.registry.histories(self.kind.name)
            self._names = now, tuple(history.name for history in histories if self._is_usable(history))
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

    def _of_current(self, by_key: Mapping[tuple[str, str], R]) -> dict[str, R]:
        return {name: by_key[key] for name in self.names() if (key := (name, self.current(name))) in by_key}

    def current(self, name: str) -> str:
        return self.history(name).current or ""

    def so_far(self, name: str) -> History:
        return self.registry.history(self.kind.name, name) or History(self.kind.name, name)

    def history(self, name: str, *, hidden: bool = False) -> History:
        """Return what is known of a name, `hidden`: even if it means nothing here, or raise UnknownComponentError."""
        key: object = name
        history = self.registry.history(self.kind.name, name) if isinstance(key, str) else None
        if history is not None and (hidden or self._is_usable(history)):
            return history
        names = self.names()
        guess = did_you_mean(str(name), names, f"there are: {', '.join(names[:20]) or 'none'}", n=3)
        note = " any more (it was unregistered; restore it)" if history is not None and history.hidden else ""
        raise UnknownComponentError(f"no {self.kind.name} {str(name)[:80]!r}{note}; {guess}")

    def entry(self, name: str, version: str | None) -> Version:
        return self.history(name, hidden=version is not None).version(version)

    def config(self, name: str, version: str | None = None) -> ComponentConfig:
        """Return what is known of a component as of the last operation (`info`)."""
        record = self.entry(name, version)
        return record.config.model_copy(update={"state": record.state, "origin": record.origin})

    async def version(self, name: str, version: str | None = None) -> T:
        """Return a version as a run uses it that names it, or raise UnknownComponentError or VersionError."""
        record = self.entry(name, version)
        component = await self._load(name, record.version)
        if component is None:
            raise VersionError(self._failed[name, record.version])
        return component

    async def _load(self, name: str, version: str) -> T | None:
        """Return a version as an object: the one at hand where that is its content, else made from its text."""
        key = name, version
        if key in self.loaded:
            return self.loaded[key]
        component = self.given.get(name)
        try:
            history = self.so_far(name)
            if component is None or history.known_as(self.identity(name, component)[0]) != version:
                component = await self._make(name, history.version(version))
            self.loaded[key] = self.with_invokers(name, component, history, version)
        except UsageError as exc:
            self._failed[key] = str(exc)
            return None
        self._failed.pop(key, None)
        return self.loaded[key]

    async def _make(self, name: str, record: Version) -> T:
        label = f"{self.kind.name} {name}@{record.version}"
        if record.maker is None or (
            record.maker.how in ("module", "source", "prompt", "definition") and not record.source
        ):
            raise VersionError(
                f"{label} is not at hand and its text was not kept (it is not defined at the top of a module); "
                "register it from its source, or give it to the workspace"
            )
        return await self.build(label, name, Made(await self.text(record), record.maker), record.config, record.foreign)

    async def build(self, label: str, name: str, recipe: Made, config: ComponentConfig, foreign: bool) -> T:
        kind, maker = self.kind, recipe.maker
        if maker.how == "given":
            component = self.given.get(name)
            if component is None or kind.describe(name, component, False).content_hash != maker.base:
                raise VersionError(
                    f"{label} is the {kind.name} {name!r} of another program or version with other words, and that is "
                    "not at hand; change the words of the one that is"
                )
            if recipe.text and foreign:
                raise self._refusal(label)
            if recipe.text and kind.with_code is not None:
                with within(self._namespace):
                    component = kind.with_code(component, recipe)
        elif foreign and kind.make_foreign is not None:
            component = await kind.make_foreign(name, maker, recipe.text, config)
        elif not foreign or not kind.is_code(maker):
            with within(self._namespace):
                component = kind.make(name, maker, recipe.text)
        else:
            raise self._refusal(label)
        if not maker.texts:
            return component
        return kind.with_words(component, maker.model_copy(update={"foreign_texts": True}) if foreign else maker)

    def _refusal(self, label: str) -> VersionError:
        return VersionError(
            f"{label} came from elsewhere, and the code of {self.kind.plural} from elsewhere is not executed; "
            "read its source and register it as your own"
        )

    def with_invokers(self, name: str, component: T, history: History, version: str) -> T:
        """Return a component under its version, with who may invoke it where its registration says so."""
        component = self.kind.with_name(component, name, version)
        invokers = history.invokers(version)
        if invokers is None or self.kind.with_invokers is None:
            return component
        return self.kind.with_invokers(component, invokers)

    async def text(self, record: Version) -> str:
        return await self.registry.text(record.source) if record.source else ""

    async def readable(self, record: Version) -> str:
        words = record.maker.texts if record.maker is not None else {}
        return "\n".join([await self.text(record), *(f"{name}:\n{text}\n" for name, text in sorted(words.items()))])

    async def made(self, name: str, version: str | None = None) -> Made | None:
        record = self.entry(name, version)
        if record.maker is not None:
            return Made(await self.text(record), record.maker)
        component = self.given.get(name)
        if component is None or self.so_far(name).known_as(self.identity(name, component)[0]) != record.version:
            return None
        return Made("", Maker(how="given", base=record.config.content_hash))

    def variables(self, name: str, part: T, recipe: Made | None) -> Sequence[TextVariable]:
        return mark_evolvable(
            self.kind.variables(part, recipe), self.kind.evolvable(part), builtin=name in self._builtin
        )


async def settle(registry: Registry, stocks: Iterable[Stock[Any]]) -> None:
    """Register what is at hand and unknown, all of it in one write; it gets its next version by itself.

    Raises:
        VersionError: for a version that is written down and is known with other content.
    """
    unsettled = [stock for stock in stocks if not stock.is_settled]

    def plan() -> Iterable[RegistryEntry]:
        for stock in unsettled:
            for name, component in stock.given.items():
                yield from stock._plan_of(name, component)

    await _write(registry, plan, (recipe for stock in unsettled for recipe in stock._recipes(stock.given)))
    for stock in unsettled:
        await stock._settle()


async def _write(
    registry: Registry, plan: Callable[[], Iterable[RegistryEntry]], recipes: Iterator[Made | None]
) -> None:
    """Write what a plan says, after the texts that it may name."""
    if next(iter(plan()), None) is not None:
        await registry.keep({form.text for form in recipes if form is not None and form.text}, at_hand=True)
        await registry.write(plan)
