"""What is known of the components of a kind: what is at hand, which version a name means, which fit a task."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from agentorchestra.core.errors import UnknownComponentError, UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.history import History, Maker, Version, identity_of
from agentorchestra.tea.registry.kind import Kind, Made
from agentorchestra.tea.registry.registry import Registry
from agentorchestra.tea.retrieval.retriever import Group, Retriever

T = TypeVar("T")

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


class Known(Generic[T]):
    """The components of one kind, to read.

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
