"""How content becomes a version of a component: what is at hand does by itself, and what is registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from agentorchestra.core.errors import UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.history import History, LifeState, checked_component_version, version_order
from agentorchestra.tea.registry.kind import Made, config_changes
from agentorchestra.tea.registry.lookup import Known
from agentorchestra.tea.registry.registry import Entry, body_of
from agentorchestra.tea.registry.versions import level_of, next_version

T = TypeVar("T")

FIRST_VERSION = "1.0.0"


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


class Entering(Known[T]):
    """The components of one kind, and the entries by which their content gets its versions."""

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
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Iterable[Entry]:
        """The entries that make content a version of a component, from its history as it is now."""
        history = self.registry.history(self.kind.name, name)
        config = self._config(name, one, origin)
        if metadata:
            config = config.model_copy(update={"metadata": {**config.metadata, **metadata}})
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
            return FIRST_VERSION, False
        # To the last one, whatever is current: whoever calls that must be told what changed since.
        before = history.version(last).config
        level = level_of(config_changes(before, config))
        plain = ".".join(map(str, version_order(last)))
        return next_version(plain, "patch" if level == "none" else level), False

    def _to_active(self, history: History, version: str, by: By) -> Iterable[Entry]:
        state = history.version(version).state
        if state != "active":
            history.check_step(version, "active")
            yield self._entry(history.name, "state", version=version, state="active", **by.model_dump())
        yield self._entry(history.name, "activated", version=version, **by.model_dump())
