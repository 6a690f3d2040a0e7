"""The configuration of a component in the TEA protocol, with its representations (000, app. C.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.tea.calling.signatures import kind_of
from agentorchestra.tea.retrieval.index import Described

KindName = Literal["tool", "environment", "agent", "prompt", "memory"]


def empty() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class Operation(BaseModel, frozen=True):
    """A tool's or agent's call or an environment's action, with the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=empty)

    @property
    def function(self) -> dict[str, JsonValue]:
        head: dict[str, JsonValue] = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**head, "parameters": self.parameters}}

    @property
    def text(self) -> str:
        """In words, as Markdown: what it does and what it takes."""
        lines = [self.description, ""] if self.description else []
        return "\n".join([f"### {self.name}", "", *lines, *(parameter_lines(self.parameters) or ["No parameters."])])

    @property
    def arguments_model(self) -> type[BaseModel]:
        from agentorchestra.tea.calling.schemas import arguments_model  # here: describing a component needs no models

        return arguments_model(self.name, self.parameters)


class ComponentConfig(BaseModel, frozen=True):
    """The configuration of a component (ToolConfig, EnvironmentConfig, AgentConfig; 000, definitions 3, 6, 9)."""

    # `kind`, `name`, `description`, `version`: what it is
    kind: KindName
    name: str
    description: str = ""
    version: str
    content_hash: str  # of what it is made of: two components with one hash do the same
    operations: tuple[Operation, ...] = ()  # what it can be asked to do; a prompt has none
    rules: str = ""  # text for whoever uses it (an environment's rules, a prompt's variables)
    # what else its kind says: tags and mode of a tool, role and tools of an agent
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    builtin: bool = False  # whether it comes with the package
    evolvable: bool = False  # whether its text may be optimised (`vars`, `setvars`); definitions 2, 5, 8 call this g
    origin: str = ""  # where it came from, where that is known: `package`, `code`, `register`, `mcp:NAME`, a file
    state: str = "active"  # of this version: candidate, active, deprecated, archived

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
        for operation in self.operations:
            if operation.name != self.name:
                lines += ["", f"### {operation.name}", "", operation.description]
            lines += ["", *(parameter_lines(operation.parameters) or ["No parameters."])]
        lines += ["", self.rules] if self.rules else []
        for name, value in self.metadata.items():
            lines += ["", f"{name}: {_text(value)}"]
        return "\n".join(lines).strip() + "\n"

    @property
    def index_entry(self) -> Described:
        parameters = [Described.of_schema("", "", operation.parameters).parameters for operation in self.operations]
        actions = [f"{action.name} {action.description}" for action in self.operations if action.name != self.name]
        return Described(self.name, self.description, " ".join([*actions, *parameters]))


def first_sentence(text: str) -> str:
    line = " ".join(text.split())
    for end in _SENTENCE_END.finditer(line):
        sentence = line[: end.start() + 1]
        if sentence.count("(") <= sentence.count(")"):
            return sentence
    return line


_SENTENCE_END = re.compile(r"[.!?] (?=[^a-z\d])")
"""Not after an abbreviation, which a small letter or a number follows, and not within brackets ("app. H")."""


def parameter_lines(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    names = [*required] if isinstance(required, list) else []
    properties = schema.get("properties")
    lines = []
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        fields = inner if isinstance(inner, Mapping) else {}
        description = str(fields.get("description") or "").strip()
        optional = "" if name in names else ", optional"
        kind = kind_of(fields, schema.get("$defs", {}))
        lines.append(f"- `{name}` ({kind}{optional}){': ' + description if description else ''}")
    return lines


def _text(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(str(element) for element in value) or "none"
    return str(value)
