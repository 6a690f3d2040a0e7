"""Tools, agents and actions as functions of a Python program: names, signatures, docstrings, arguments."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.programs.interpreter import ProgramCall

_LONGEST_CALL = 1_000_000
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}
_BUILTINS = frozenset(dir(builtins)) | {"ToolError"}


class Functions:
    """Tools, agents and actions as functions (`only` some); ToolDefinitionError if two have one name in Python."""

    def __init__(self, tools: AgentToolset, only: Sequence[str] | None = None) -> None:
        self.tools = tools
        self._schemas: dict[str, ToolSchema] = {}
        for schema in tools.schemas() if only is None else map(tools.schema, only):
            name = python_name(schema.name)
            if name in self._schemas:
                raise ToolDefinitionError(
                    f"{schema.name!r} and {self._schemas[name].name!r} are both called {name!r} in a program; "
                    "give one another name (name=...)"
                )
            self._schemas[name] = schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def tool(self, name: str) -> str:
        return self._schemas[name].name

    def arguments(self, call: ProgramCall) -> dict[str, JsonValue]:
        """Return the arguments of a call by name; raise TypeError for too many, two for one, or one that is no JSON."""
        names = list(self._schemas[call.name].parameters.get("properties", {}))
        if len(call.args) > len(names):
            raise TypeError(
                f"{call.name}() takes at most {len(names)} arguments, not {len(call.args)}: {self.head(call.name)}"
            )
        values = dict(zip(names, call.args, strict=False))
        for name, value in call.kwargs.items():
            if name in values:
                raise TypeError(f"{call.name}() got two values for the argument {name!r}")
            values[name] = value
        return {name: json_argument(value) for name, value in values.items()}

    def head(self, name: str) -> str:
        """Return `def name(argument: str, other: int = 5)`."""
        parameters = self._schemas[name].parameters
        required = parameters.get("required", [])
        parts, by_name = [], False
        for argument, schema in parameters.get("properties", {}).items():
            default = _default(schema)
            if argument not in required:
                by_name = True
                kind = _type(schema, parameters)
                optional = "" if default != "None" or kind == "Any" or "None" in kind.split(" | ") else " | None"
                parts.append(f"{argument}: {kind}{optional} = {default}")
            else:
                if by_name and "*" not in parts:
                    parts.insert(next(i for i, part in enumerate(parts) if " = " in part), "*")
                parts.append(f"{argument}: {_type(schema, parameters)}")
        return f"def {name}({', '.join(parts)})"

    def text(self, name: str) -> str:
        """Return signature and docstring, as a program's author reads them."""
        schema = self._schemas[name]
        properties = schema.parameters.get("properties", {})
        lines = [schema.description.strip() or name.replace("_", " ")]
        entries = [(argument, _description(inner, schema.parameters)) for argument, inner in properties.items()]
        if any(text for _, text in entries):
            lines += ["", "Args:", *(f"    {argument}: {text}" for argument, text in entries if text)]
        body = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
        return f'{self.head(name)}:\n{textwrap.indent(chr(34) * 3 + body, "    ")}\n    """'


def python_name(name: str) -> str:
    """Return a tool's name as a name of Python that hides no builtin."""
    identifier = name.replace("-", "_")
    return f"{identifier}_" if keyword.iskeyword(identifier) or identifier in _BUILTINS else identifier


def _resolve(schema: Any, root: dict[str, Any]) -> Any:
    ref = schema.get("$ref", "") if isinstance(schema, dict) else ""
    return root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {}) if ref.startswith("#/$defs/") else schema


def _type(schema: Any, root: dict[str, Any], depth: int = 0) -> str:
    schema = _resolve(schema, root)
    if not isinstance(schema, dict) or depth > 3:
        return "Any"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(repr(value) for value in values)}]"
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        return " | ".join(dict.fromkeys(_type(option, root, depth + 1) for option in options))
    kinds = schema.get("type")
    names = []
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind == "array":
            names.append(f"list[{_type(schema['items'], root, depth + 1)}]" if "items" in schema else "list")
        else:
            names.append(_TYPES.get(str(kind), "Any"))
    return " | ".join(dict.fromkeys(names))


def _default(schema: Any) -> str:
    return repr(schema["default"]) if isinstance(schema, dict) and "default" in schema else "None"


def _description(schema: Any, root: dict[str, Any]) -> str:
    """Return what is said of an argument, with the fields of objects in it."""
    text = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    inner = _resolve(schema, root)
    items = [inner, *(inner.get("anyOf") or [])] if isinstance(inner, dict) else []
    for entry in items:
        entry = _resolve(entry, root)
        if isinstance(entry, dict) and entry.get("type") == "array":
            entry = _resolve(entry.get("items", {}), root)
        fields = entry.get("properties") if isinstance(entry, dict) else None
        if fields:
            required = entry.get("required", [])
            listing = "; ".join(_field(name, field, root, name in required) for name, field in fields.items())
            return f"{text} Of dicts: {listing}".strip()
    return text


def _field(name: str, schema: Any, root: dict[str, Any], required: bool) -> str:
    text = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    optional = "" if required else ", may be left out"
    return f"{name!r} ({_type(schema, root)}{optional}){f': {text}' if text else ''}"


def json_argument(value: Any) -> JsonValue:
    """Return an argument as JSON, tuples as lists; raise TypeError for what JSON does not have, and for too much."""
    try:
        plain = _plain(value)
        sha256_json(plain)
        if len(str(plain)) > _LONGEST_CALL:
            raise TypeError(f"an argument has more than {_LONGEST_CALL:,} characters; give a part of it")
    except (ValueError, RecursionError) as exc:
        raise TypeError(f"an argument cannot be passed on: {type(exc).__name__}") from None
    return plain


def _plain(value: Any) -> JsonValue:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(member) for key, member in value.items()}
    raise TypeError(
        f"a {type(value).__name__} cannot be an argument; give text, numbers, booleans, None, and lists and dicts of "
        "them (with text as keys)"
    )
