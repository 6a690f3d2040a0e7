"""Context managers: which components of a kind there are, what they can do, and which fit a task (000, app. C.2, C.5).

Tools, environments, agents, prompts and memory systems are the same thing here but for their kind. A manager joins what
is at hand (packaged, given by the application, registered here) with the histories of the registry: each has the
version under which the registry knows its content, and a name means the current version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from agentorchestra.core.errors import LifecycleError, NotAllowedError, VersionError
from agentorchestra.tea.registry.config import ComponentConfig, KindName, Operation, first_sentence
from agentorchestra.tea.registry.entries import FIRST_VERSION, By, Entering, by_whom
from agentorchestra.tea.registry.history import History, LifeState, checked_component_name, checked_component_version
from agentorchestra.tea.registry.kind import Kind, Made, Variable, check_variables
from agentorchestra.tea.registry.lookup import Found
from agentorchestra.tea.registry.registry import Entry

T = TypeVar("T")


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


class ContextManager(Entering[T]):
    """The components of one kind.

    Args:
        kind: see Kind.
        registry: the histories; of all kinds.
        given: the components at hand, by name.
        builtin: names of those that come with the package.
        distribution: the package's version.
    """

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
        metadata: Mapping[str, JsonValue] | None = None,
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
                    metadata=metadata,
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
            self.kind.renamed(one, new_name, version or FIRST_VERSION),
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
