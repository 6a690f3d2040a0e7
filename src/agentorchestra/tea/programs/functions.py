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
from agentorchestra.tea.programs.interpreter import Call

_LONGEST_CALL = 1_000_000
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}
_TAKEN = frozenset(dir(builtins)) | {"ToolError"}


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

    def arguments(self, call: Call) -> dict[str, JsonValue]:
        """Return the arguments of a call by name; raise TypeError for too many, two for one, or one that is no JSON."""
        names = list(self._schemas[call.name].parameters.get("properties", {}))
        if len(call.args) > len(names):
            raise TypeError(
                f"{call.name}() takes at most {len(names)} arguments, not {len(call.args)}: {self.head(call.name)}"
            )
        given = dict(zip(names, call.args, strict=False))
        for name, value in call.kwargs.items():
            if name in given:
                raise TypeError(f"{call.name}() got two values for the argument {name!r}")
            given[name] = value
        return {name: json_argument(value) for name, value in given.items()}

    def head(self, name: str) -> str:
        """Return `def name(argument: str, other: int = 5)`."""
        parameters = self._schemas[name].parameters
        required = parameters.get("required", [])
        shown, by_name = [], False
        for argument, schema in parameters.get("properties", {}).items():
            default = _default(schema)
            if argument not in required:
                by_name = True
                kind = _type(schema, parameters)
                optional = "" if default != "None" or kind == "Any" or "None" in kind.split(" | ") else " | None"
                shown.append(f"{argument}: {kind}{optional} = {default}")
            else:
                if by_name and "*" not in shown:
                    shown.insert(next(i for i, one in enumerate(shown) if " = " in one), "*")
                shown.append(f"{argument}: {_type(schema, parameters)}")
        return f"def {name}({', '.join(shown)})"

    def text(self, name: str) -> str:
        """Return signature and docstring, as a program's author reads them."""
        schema = self._schemas[name]
        properties = schema.parameters.get("properties", {})
        lines = [schema.description.strip() or name.replace("_", " ")]
        described = [(one, _described(inner, schema.parameters)) for one, inner in properties.items()]
        if any(text for _, text in described):
            lines += ["", "Args:", *(f"    {one}: {text}" for one, text in described if text)]
        body = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
        return f'{self.head(name)}:\n{textwrap.indent(chr(34) * 3 + body, "    ")}\n    """'


def python_name(name: str) -> str:
    """Return a tool's name as a name of Python that hides no builtin."""
    made = name.replace("-", "_")
    return f"{made}_" if keyword.iskeyword(made) or made in _TAKEN else made


def _resolved(schema: Any, root: dict[str, Any]) -> Any:
    ref = schema.get("$ref", "") if isinstance(schema, dict) else ""
    return root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {}) if ref.startswith("#/$defs/") else schema


def _type(schema: Any, root: dict[str, Any], depth: int = 0) -> str:
    schema = _resolved(schema, root)
    if not isinstance(schema, dict) or depth > 3:
        return "Any"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(repr(one) for one in values)}]"
    either = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(either, list):
        return " | ".join(dict.fromkeys(_type(one, root, depth + 1) for one in either))
    kinds = schema.get("type")
    found = []
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind == "array":
            found.append(f"list[{_type(schema['items'], root, depth + 1)}]" if "items" in schema else "list")
        else:
            found.append(_TYPES.get(str(kind), "Any"))
    return " | ".join(dict.fromkeys(found))


def _default(schema: Any) -> str:
    return repr(schema["default"]) if isinstance(schema, dict) and "default" in schema else "None"


def _described(schema: Any, root: dict[str, Any]) -> str:
    """Return what is said of an argument, with the fields of objects in it."""
    text = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    inner = _resolved(schema, root)
    items = [inner, *(inner.get("anyOf") or [])] if isinstance(inner, dict) else []
    for one in items:
        one = _resolved(one, root)
        if isinstance(one, dict) and one.get("type") == "array":
            one = _resolved(one.get("items", {}), root)
        fields = one.get("properties") if isinstance(one, dict) else None
        if fields:
            needed = one.get("required", [])
            shown = "; ".join(_field(name, field, root, name in needed) for name, field in fields.items())
            return f"{text} Of dicts: {shown}".strip()
    return text


def _field(name: str, schema: Any, root: dict[str, Any], required: bool) -> str:
    said = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    optional = "" if required else ", may be left out"
    return f"{name!r} ({_type(schema, root)}{optional}){f': {said}' if said else ''}"


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
        return [_plain(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(one) for key, one in value.items()}
    raise TypeError(
        f"a {type(value).__name__} cannot be an argument; give text, numbers, booleans, None, and lists and dicts of "
        "them (with text as keys)"
    )
