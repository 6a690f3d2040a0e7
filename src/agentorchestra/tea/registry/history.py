"""The history of a component: its versions with author, reason and lineage, folded from the entries of its history.

    candidate -> active -> deprecated -> archived        (a deprecated version may become active again)

One version is the current one: what a name means where no version is said. Entries are never changed, so a version that
a run used can be read for ever, whatever became of its component.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentNameError, LifecycleError, VersionError
from agentorchestra.core.ids import sha256_json, sha256_text
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.retrieval.discovery import OPENING

LifeState = Literal["candidate", "active", "deprecated", "archived"]
NEXT: dict[str, tuple[LifeState, ...]] = {
    "candidate": ("active", "archived"),
    "active": ("deprecated",),
    "deprecated": ("active", "archived"),
    "archived": (),
}
"""From which state a version may go to which."""

LONGEST_NAME = 64
RESERVED_NAMES = frozenset({"done", *OPENING})
"""`done` is how agents finish; the others are how they find what they may call."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


class Maker(BaseModel, frozen=True):
    """How a component is made again from its text."""

    # `module` (a name in the text of a module), `source` (a text that was registered), `prompt`, `fields` (the values
    # of a definition), `given` (the component at hand itself, which no text makes: a tool of a server, a method, an
    # agent with a drive of its own); `definition` of former versions (a schema alone) makes nothing any more
    how: Literal["module", "source", "prompt", "fields", "definition", "given"]
    symbol: str = ""  # the name in the module, where it is another than the component's
    package: str = ""  # for relative imports in the text
    fields: dict[str, JsonValue] = Field(default_factory=dict)  # of a definition
    # whether the text is that of a program that was started: what it does besides defining is left out
    script: bool = False
    base: str = ""  # content hash of the component at hand that it is, of `given`
    texts: dict[str, str] = {}  # words in place of its own, by their variables' names (`words.py`)
    foreign_texts: bool = False  # whether nobody here stands for these words: they are untrusted


def identity_of(source: str, maker: Maker | None, name: str) -> str:
    """Return the hash by which content made of a text is known: of two things in one text each has its own."""
    symbol = maker.symbol if maker is not None else ""
    digest = source if symbol in ("", name) else sha256_text(f"{source} {symbol}")
    return sha256_json([digest, maker.texts, maker.foreign_texts]) if maker is not None and maker.texts else digest


class Version(BaseModel, frozen=True):
    """One version of a component (000, definitions 3, 6, 9: the configuration with its version and source)."""

    version: str  # `1.2.0`
    # hash of the text it is made of (`identity_of`), of the component itself where there is none: a component of this
    # kind and name with this hash is this version
    identity: str
    config: ComponentConfig  # what is known of it
    source: str = ""  # SHA-256 of the blob with its text, "" where no text is kept
    maker: Maker | None = None  # how it is made again from that, None where it cannot be
    explicit: bool = False  # whether the version was written down by whoever made it, rather than computed
    state: LifeState = "active"  # see the module
    author: str = ""  # who made it; `reason`: why
    reason: str = ""
    parent: str = ""  # what it was made from, `name@version`
    run: str = ""  # in which run, "" for outside of one
    created: datetime
    distribution: str = ""  # the version of the distribution it came with, for what comes with one
    origin: str = ""  # where it came from: `package`, `code` (the application's), `register`, `mcp:NAME`, `file`, ...
    foreign: bool = False  # whether nobody here stands for its code: it runs in the sandbox only
    invokers: tuple[str, ...] | None = None  # who may invoke it (`user`, names of agents); None for everybody
    why: str = ""  # the reason of its present state, where one was given


class Shared(NamedTuple):
    """A candidate that a share of the runs uses which begin from a moment on (a canary)."""

    version: str
    share: float
    since: datetime


class History:
    """The versions of one component, as its entries add up to them."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.seq = 0  # of its last entry
        self.chosen: str | None = None  # the last version that became active; None where none ever was
        self.at_hand: str | None = None  # the version of the code at hand in this process, None for no such code
        self.by_code = False  # code at hand, no operation, chose it: without that code the name means nothing
        self.hidden = False  # its name is unregistered
        self.pinned = False  # the current version stays, whatever the code at hand says
        self.shared: Shared | None = None  # a candidate that a part of the runs uses
        self.changes: list[ComponentChange] = []
        self._bodies: dict[str, dict[str, Any]] = {}
        self._parsed: dict[str, Version] = {}
        self._by_identity: dict[str, str] = {}

    def apply(self, change: ComponentChange) -> None:
        """Take the next entry in; raise VersionError for one of another component, or of a later kind."""
        if (change.kind, change.name, change.seq) != (self.kind, self.name, self.seq + 1):
            raise VersionError(
                f"entry {change.seq} of {change.kind} {change.name!r} does not follow entry {self.seq} of "
                f"{self.kind} {self.name!r}"
            )
        body: Mapping[str, Any] = change.body
        match change.type:
            case "registered":
                version = str(body["version"])
                self._bodies[version] = {**body, "created": change.ts}
                self._by_identity[str(body["identity"])] = version
                self._parsed.pop(version, None)
                if body.get("current"):
                    self._choose(version, bool(body.get("by_code")))
            case "activated":
                self._choose(str(body["version"]), bool(body.get("by_code")))
            case "state":
                version = str(body["version"])
                self._bodies[version] = {**self._bodies[version], "state": body["state"], "why": body.get("reason", "")}
                self._parsed.pop(version, None)
                if self.shared is not None and self.shared.version == version:
                    self.shared = None
            case "same":
                self._need(str(body["version"]))
                self._by_identity[str(body["identity"])] = str(body["version"])
            case "limited":
                version = str(body["version"])
                self._bodies[version] = {**self._bodies[version], "invokers": body["invokers"]}
                self._parsed.pop(version, None)
            case "loaded":
                # This machine's own, and never saved: whose code came from elsewhere.
                for version in body["versions"]:
                    self._bodies[version] = {**self._bodies[version], "foreign": bool(body.get("foreign"))}
                self._parsed.clear()
                self.by_code = False
            case "hidden":
                self.hidden = True
            case "pinned":
                self.pinned = bool(body.get("pinned"))
            case "shared":
                share = float(body.get("share", 0.0))
                self.shared = Shared(str(body["version"]), share, change.ts) if share else None
            case other:
                raise VersionError(
                    f"the history of {self.kind} {self.name!r} has an entry {other!r}, which this version of "
                    "agentorchestra does not know; use the one that wrote it, or a later one"
                )
        self.seq = change.seq
        self.changes.append(change)

    def _choose(self, version: str, by_code: bool) -> None:
        self._need(version)
        self.chosen, self.by_code, self.hidden, self.shared = version, by_code, False, None

    def _need(self, version: str) -> None:
        if version not in self._bodies:
            raise VersionError(f"the history of {self.kind} {self.name!r} has no version {version[:40]!r}")

    @property
    def current(self) -> str | None:
        """The version that its name means here; None where no version ever was active.

        Where code chose it, that is the code of this process: another version of the package, at work on the same log,
        has its own.
        """
        here = self.at_hand if self.by_code and not self.pinned and not self.hidden else None
        if here is not None and self._bodies[here].get("state", "active") in ("active", "deprecated"):
            return here
        return self.chosen

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._bodies)

    def known_as(self, identity: str, version: str | None = None) -> str | None:
        """Return the version with this identity (the last one, or this one), None where there is none."""
        if version is None:
            return self._by_identity.get(identity)
        return version if self._bodies.get(version, {}).get("identity") == identity else None

    def version(self, version: str | None = None) -> Version:
        """Return a version, the current one by default; raise VersionError with the versions there are."""
        name = version if version is not None else self.current
        if not isinstance(name, str) or name not in self._bodies:
            names = ", ".join(self._bodies) or "none"
            lack = f"no version {name!r}" if name is not None else "no active version"
            raise VersionError(f"{self.kind} {self.name!r} has {lack}; its versions: {names}")
        record = self._parsed.get(name)
        if record is None:
            fields = {key: value for key, value in self._bodies[name].items() if key in Version.model_fields}
            record = self._parsed[name] = Version.model_validate(fields)
        return record

    def invokers(self, version: str) -> tuple[str, ...] | None:
        """Return who may invoke a version, None for everybody. A workspace that is opened asks this of each one."""
        names = self._bodies[version].get("invokers")
        return None if names is None else tuple(names)

    def all(self) -> tuple[Version, ...]:
        return tuple(self.version(name) for name in self._bodies)

    @property
    def usable(self) -> bool:
        return self.current is not None and not self.hidden

    def check_step(self, version: str, state: LifeState) -> None:
        """Check that a version may go to a state; raise LifecycleError with those it may go to."""
        now = self.version(version).state
        if state not in get_args(LifeState):
            raise LifecycleError(f"{state!r} is no state; the states: {', '.join(get_args(LifeState))}")
        if state not in NEXT[now]:
            allowed = " or ".join(NEXT[now]) or "nothing else: register its content again"
            raise LifecycleError(
                f"{self.kind} {self.name}@{version} is {now} and cannot become {state}; it can become {allowed}"
            )


def checked_component_name(kind: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ComponentNameError(f"the name of a {kind} is {name!r}; give letters, digits, '_' or '-'")
    if len(name) > LONGEST_NAME:
        raise ComponentNameError(
            f"the name {name[:20]!r}... of a {kind} has {len(name)} characters; {LONGEST_NAME} are the most"
        )
    if name.casefold() in RESERVED_NAMES:
        raise ComponentNameError(f"a {kind} cannot be named {name!r}: the name is reserved; choose another one")
    if not _NAME.fullmatch(name):
        raise ComponentNameError(
            f"a {kind} cannot be named {name!r}: use letters, digits, '_' or '-', the first not a digit or '-'"
        )
    return name


def checked_component_version(label: str, version: object) -> str:
    """Return a version that looks like `1.2.0`, else raise VersionError."""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise VersionError(f"{label} has the version {version!r}; versions look like 1.2.0")
    return version


def version_order(version: str) -> tuple[int, int, int]:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
