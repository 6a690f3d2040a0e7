"""Context managers: which components of a kind there are, what they can do, and which fit a task (000, app. C.2, C.5).

Tools, environments, agents and prompts are the same thing here but for their kind, which says how one is described.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.tea.retrieval import Described, Index

T = TypeVar("T")

KindName = Literal["tool", "environment", "agent", "prompt"]
EMPTY: dict[str, JsonValue] = {"type": "object", "properties": {}}


class Operation(BaseModel):
    """Something a component can be asked to do: a tool's or an agent's call, an environment's action.

    Attributes:
        name: what a model calls it.
        description: as a model reads it.
        parameters: JSON schema of the arguments.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = EMPTY

    @property
    def function(self) -> dict[str, JsonValue]:
        """The function-calling schema."""
        called: dict[str, JsonValue] = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**called, "parameters": self.parameters}}


class ComponentConfig(BaseModel):
    """What is known of a component (ToolConfig, EnvironmentConfig, AgentConfig; 000, definitions 3, 6, 9).

    Attributes:
        kind, name, description, version: what it is.
        content_hash: of what it is made of: two components with one hash do the same.
        operations: what it can be asked to do; a prompt has none.
        rules: text for whoever uses it (an environment's rules, a prompt's variables).
        metadata: what else its kind says: tags and mode of a tool, role and tools of an agent.
        builtin: whether it comes with the package.
    """

    model_config = ConfigDict(frozen=True)

    kind: KindName
    name: str
    description: str = ""
    version: str
    content_hash: str
    operations: tuple[Operation, ...] = ()
    rules: str = ""
    metadata: dict[str, JsonValue] = {}
    builtin: bool = False

    @property
    def component(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def entry(self) -> str:
        """One line: the name and the first sentence of the description."""
        return f"{self.name}: {first_sentence(self.description)}" if self.description else self.name

    @property
    def text(self) -> str:
        """All of it in words, as Markdown."""
        lines = [f"## {self.name}", "", f"version {self.version}"]
        lines += ["", self.description] if self.description else []
        for one in self.operations:
            if one.name != self.name:
                lines += ["", f"### {one.name}", "", one.description]
            lines += ["", *(_parameter_lines(one.parameters) or ["No parameters."])]
        lines += ["", self.rules] if self.rules else []
        for name, value in self.metadata.items():
            lines += ["", f"{name}: {_said(value)}"]
        return "\n".join(lines).strip() + "\n"

    @property
    def described(self) -> Described:
        """What it is found by."""
        parameters = [Described.of_schema("", "", one.parameters).parameters for one in self.operations]
        actions = [f"{one.name} {one.description}" for one in self.operations if one.name != self.name]
        return Described(self.name, self.description, " ".join([*actions, *parameters]))


def first_sentence(text: str) -> str:
    """The first sentence of a text, in one line."""
    line = " ".join(text.split())
    end = _SENTENCE_END.search(line)
    return line if end is None else line[: end.start() + 1]


_SENTENCE_END = re.compile(r"[.!?] (?=[^a-z\d])")
"""Not after an abbreviation, which a small letter or a number follows."""


def _parameter_lines(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    properties = schema.get("properties")
    lines = []
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        told = inner if isinstance(inner, Mapping) else {}
        described = str(told.get("description") or "").strip()
        optional = "" if name in needed else ", optional"
        lines.append(f"- `{name}` ({_type(told)}{optional}){': ' + described if described else ''}")
    return lines


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return " or ".join(_type(one) for one in schema[several])
    kind = schema.get("type", "any")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {_type(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _said(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What differs between tools, environments, agents and prompts.

    Attributes:
        name: of the kind.
        plural: for sentences.
        describe: the configuration of a component, from its name, itself, and whether it comes with the package.
    """

    name: KindName
    plural: str
    describe: Callable[[str, T, bool], ComponentConfig]


class Found(BaseModel):
    """A component that fits a query.

    Attributes:
        score: between 0 and 1; comparable within one answer only.
    """

    model_config = ConfigDict(frozen=True)

    config: ComponentConfig
    score: float


class ContextManager(Generic[T]):
    """The components of one kind. What they are found by is indexed when somebody first looks for one.

    Args:
        kind: see Kind.
        components: by name.
        builtin: names of those that come with the package.
    """

    def __init__(self, kind: Kind[T], components: Mapping[str, T], *, builtin: Iterable[str] = ()) -> None:
        self.kind = kind
        self._components = dict(components)
        self._builtin = frozenset(builtin)
        self._configs: dict[str, ComponentConfig] = {}
        self._index: Index | None = None

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._components))

    def get(self, name: str) -> T:
        """The component itself.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        try:
            return self._components[name]
        except KeyError:
            close = difflib.get_close_matches(name, self._components, n=3)
            guess = (
                f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(self.names()) or 'none'}"
            )
            raise UnknownComponentError(f"no {self.kind.name} {name!r}; {guess}") from None

    def info(self, name: str) -> ComponentConfig:
        """What is known of a component.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        component = self.get(name)
        if name not in self._configs:
            self._configs[name] = self.kind.describe(name, component, name in self._builtin)
        return self._configs[name]

    def retrieve(self, query: str, *, limit: int = 10) -> list[Found]:
        """The components that fit a query, best first."""
        if self._index is None:
            self._index = Index()
            for name in self.names():
                self._index.add(name, self.info(name).described)
        return [
            Found(config=self.info(match.key), score=round(match.score, 4))
            for match in self._index.search(query, limit=limit)
        ]

    def contract(self) -> str:
        """One document that describes all of them (000, app. C.2)."""
        parts = [f"# {self.kind.plural.capitalize()}", ""]
        parts += [f"- {self.info(name).entry}" for name in self.names()] or ["There are none."]
        return "\n".join(parts) + "\n\n" + "\n".join(self.info(name).text for name in self.names())


class Server(Generic[T]):
    """The operations of one protocol on its context manager: `ws.tcp`, `ws.ecp`, `ws.acp` (000, definitions 4, 7, 10).

    Args:
        manager: see ContextManager.
    """

    def __init__(self, manager: ContextManager[T]) -> None:
        self.manager = manager

    async def list(self) -> Sequence[str]:
        """The names of all components."""
        return self.manager.names()

    async def get(self, name: str) -> T:
        """The component itself.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        return self.manager.get(name)

    async def info(self, name: str) -> ComponentConfig:
        """What is known of a component: description, version, operations with their schemas.

        Raises:
            UnknownComponentError: with the nearest names.
        """
        return self.manager.info(name)

    async def retrieve(self, query: str, *, limit: int = 10) -> Sequence[Found]:
        """The components that fit a query, best first; by words and their pieces, without a model."""
        return self.manager.retrieve(query, limit=limit)

    async def contract(self) -> str:
        """One Markdown document that describes all components."""
        return self.manager.contract()


__all__ = ["ComponentConfig", "ContextManager", "Found", "Kind", "KindName", "Operation", "Server", "first_sentence"]
