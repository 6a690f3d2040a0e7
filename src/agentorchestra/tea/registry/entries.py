"""The entries of a history by which content becomes a version of a component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Required, TypedDict, TypeVar

from pydantic import JsonValue

from agentorchestra.core.errors import UsageError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.history import History, LifeState, checked_component_version, version_order
from agentorchestra.tea.registry.kind import Kind, Made, config_changes
from agentorchestra.tea.registry.registry import RegistryEntry, body_of
from agentorchestra.tea.registry.versions import level_of, next_version

T = TypeVar("T")

FIRST_VERSION = "1.0.0"


class By(TypedDict, total=False):
    """Who does something to a component, and why."""

    author: str  # a person, an agent, `user` by default
    reason: str
    run: str


def checked_by(by: By) -> By:
    """Return who does it, with the defaults; raise UsageError for what is no text."""
    credit: By = {"author": "user", "reason": "", "run": "", **by}
    for key, value in credit.items():
        if not isinstance(value, str):
            raise UsageError(f"{key}={value!r}; give text")
    return credit


class Terms(TypedDict, total=False):
    """On which terms content is registered; see New."""

    origin: Required[str]
    by: By
    state: LifeState
    trusted: bool
    parent: str
    invokers: Sequence[str] | None
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True)
class New(Generic[T]):
    """Content that is to become a version of a component."""

    name: str
    component: T
    identity: str  # the hash by which it is known (`identity_of`)
    made: Made | None  # what it is made of; None where it could not be made again
    origin: str  # see Version
    by: By = field(default_factory=By)  # who makes it a version; nobody where the code at hand does
    version: str | None = None  # written down; None to have it computed
    state: LifeState = "active"  # `active` or `candidate`
    trusted: bool = True  # False for code that the workspace's user did not write
    parent: str = ""  # what it was made from, `name@version`; the version before by default
    invokers: Sequence[str] | None = None  # who may invoke it; None for everybody
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)  # what else is to be known of it
    distribution: str = ""  # the version of the package, for what comes with it
    by_code: bool = False  # whether the code at hand brings it, rather than an operation
    alone: bool = False  # whether it is at hand for one run only, so that its name does not mean it


def entry(history: History, type_: str, **fields: Any) -> RegistryEntry:
    return RegistryEntry(history.kind, history.name, type_, body_of(**fields))


def registration(kind: Kind[T], history: History, new: New[T]) -> Iterator[RegistryEntry]:
    """Yield the entries that make content a version; raise VersionError if its version has other content."""
    config = kind.describe(new.name, new.component, new.origin == "package")
    config = config.model_copy(update={"origin": new.origin, "metadata": {**config.metadata, **new.metadata}})
    version, explicit = _version_of(kind, config, history, new)
    if version in history.names:
        prior = history.version(version)
        if prior.config.content_hash != config.content_hash or not explicit:
            raise VersionError(
                f"{kind.name} {new.name}@{version} is registered with other content (made {prior.created:%Y-%m-%d}"
                f"{', ' + prior.reason if prior.reason else ''}); give it another version, or none to have it computed"
            )
        # The text around it changed, not the component itself, whose version its author wrote down.
        yield entry(history, "same", version=version, identity=new.identity)
        is_it = history.current == version and not history.hidden
        if is_it or new.alone or new.state != "active" or history.pinned:
            return
        if not new.by_code:
            yield from activation(history, version, new.by)
        elif history.by_code and not history.hidden and prior.state in ("active", "deprecated"):
            yield entry(history, "activated", version=version, by_code=True)
        return
    before, invokers = history.current, new.invokers
    if new.by_code and before is not None:
        invokers = history.version(before).invokers  # an edit gives nobody a right
    recipe = new.made
    yield entry(
        history,
        "registered",
        version=version,
        identity=new.identity,
        config=config.model_copy(update={"version": version}).model_dump(
            mode="json", exclude_defaults=True, exclude={"state"}
        ),
        source=sha256_text(recipe.text) if recipe is not None and recipe.text else "",
        maker=recipe.maker.model_dump(mode="json", exclude_defaults=True) if recipe is not None else None,
        explicit=explicit,
        state=new.state,
        parent=new.parent or (f"{new.name}@{before}" if before else ""),
        distribution=new.distribution,
        origin=new.origin,
        foreign=not new.trusted,
        invokers=list(invokers) if invokers is not None else None,
        current=new.state == "active" and not new.alone and not history.pinned,
        by_code=new.by_code,
        **new.by,
    )


def registered_again(history: History, version: str, new: New[Any]) -> Iterator[RegistryEntry]:
    """Yield the entries for content that is a version already: what is said of it now, where that is something else."""
    record = history.version(version)
    if new.trusted and record.foreign:
        yield entry(history, "loaded", versions=[version])  # the user stands for it from now on
    if new.invokers is not None and record.invokers != tuple(new.invokers):
        yield entry(history, "limited", version=version, invokers=[*new.invokers], **new.by)
    if new.state == "active" and not history.pinned and (history.current != version or history.hidden):
        yield from activation(history, version, new.by)


def activation(history: History, version: str, by: By) -> Iterator[RegistryEntry]:
    """Yield the entries that make a version the current one; raise LifecycleError if it is archived."""
    if history.version(version).state != "active":
        history.check_step(version, "active")
        yield entry(history, "state", version=version, state="active", **by)
    yield entry(history, "activated", version=version, **by)


def _version_of(kind: Kind[T], config: ComponentConfig, history: History, new: New[T]) -> tuple[str, bool]:
    if new.version is not None:
        return checked_component_version(f"{kind.name} {config.name!r}", new.version), True
    last = max(history.names, key=version_order, default="0.0.0")
    own = kind.own_version(new.component)
    if own is not None and new.origin == "package":
        own = own[0], False  # nobody who upgrades can mend a number that the package forgot to raise
    if own is not None and (own[1] or version_order(own[0]) > version_order(last)):
        return own
    if not history.names:
        return FIRST_VERSION, False
    # To the last one, whatever is current: whoever calls that must be told what changed since.
    level = level_of(config_changes(history.version(last).config, config))
    plain = ".".join(map(str, version_order(last)))
    return next_version(plain, "patch" if level == "none" else level), False
