"""The tools a server lists, as they are taken over: names, schemas and hints from a stranger, checked and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tools.mcp.config import as_name, prefix_of

MAX_TOOLS = 2_000
MAX_DESCRIPTION = 4_000
MAX_TOOL = 50_000  # characters of one tool as JSON
_DEEPEST = 64
_MOST_NODES = 5_000
_LONGEST_NAME = 64
_MAPS = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "patternProperties"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset(
    {
        "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains",
        "propertyNames", "not", "if", "then", "else",
    }
)  # fmt: skip
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Effects = tuple[Literal["read", "write", "network", "execute"], ...]


@dataclass(frozen=True)
class Definition:
    """A tool of a server that can be used, described as a model sees it."""

    server: str  # the server's name in the file
    remote: str  # what the server calls it
    name: str  # what models call it
    description: str
    parameters: dict[str, Any]
    effect: Effects
    idempotent: bool

    def problems(self, arguments: dict[str, Any]) -> list[str]:
        inner = self._check_schema
        return [] if inner is None else schema_problems(arguments, inner)

    @cached_property
    def _check_schema(self) -> dict[str, Any] | None:
        """The schema that arguments are measured by; None where that is left to the server."""
        import jsonschema

        inner = _Inlining(self.parameters).schema()
        newest = jsonschema.Draft202012Validator
        if jsonschema.validators.validator_for(self.parameters, default=newest) is newest:
            return inner
        try:
            newest.check_schema(inner)
        except jsonschema.SchemaError:
            return None  # in an older draft's words
        return inner


def definitions_of(
    server: str, tools: Sequence[Mapping[str, Any]], *, trust: bool
) -> tuple[list[Definition], list[str]]:
    """Return the usable tools, names not yet unique, and why others are left out; `trust` lets hints loosen effects."""
    by_name: dict[str, Definition] = {}
    notes = []
    for tool in tools:
        remote = tool.get("name")
        if not isinstance(remote, str) or not remote.strip():
            notes.append(f"a tool of the MCP server {server!r} is left out: it has no name")
            continue
        if remote in by_name:
            notes.append(f"the tool {remote[:80]!r} of the MCP server {server!r} is listed twice: the first one holds")
            continue
        if "size" in tool:
            problem = f"it has {tool['size']:,} characters; at most {MAX_TOOL:,} are taken"
        else:
            problem = schema_problem(tool.get("inputSchema"))
        if problem:
            notes.append(f"the tool {remote[:80]!r} of the MCP server {server!r} is left out: {problem}")
            continue
        effect, idempotent = effects_of(tool.get("annotations"), trust=trust)
        by_name[remote] = Definition(
            server=server,
            remote=remote,
            name=tool_name(server, remote),
            description=_description(tool),
            parameters={**tool["inputSchema"], "type": "object"},
            effect=effect,
            idempotent=idempotent,
        )
    return list(by_name.values()), notes


def effects_of(annotations: Any, *, trust: bool) -> tuple[Effects, bool]:
    """Return what a tool is taken to do, and whether doing it twice is doing it once (the table of docs/mcp.md).

    What any server says is believed where it makes the tool more dangerous, the rest of a server that the user trusts.
    """
    hints = annotations if isinstance(annotations, Mapping) else {}
    true_hints = {name for name, value in hints.items() if value is True}
    destructive = "destructiveHint" in true_hints
    if trust and "readOnlyHint" in true_hints and not destructive:
        return ("read", "network"), False
    idempotent = trust and "idempotentHint" in true_hints
    return (("write", "network", "execute") if destructive else ("write", "network")), idempotent


def tool_name(server: str, remote: str) -> str:
    """Return `server_tool`, made of the characters and of the length that names of tools have."""
    full_name = f"{server}_{remote}"
    name = as_name(full_name)
    return name if len(name) <= _LONGEST_NAME else _with_mark(name, full_name)


def own_tools(definitions: Sequence[Definition], servers: Iterable[str]) -> tuple[list[Definition], list[str]]:
    """Return the tools whose names are their server's own, and why others are left out.

    A name belongs to the server with the longest prefix that it begins with, whether that server is there or not: none
    comes to be called what another's tool is called in `policy.allow`.
    """
    prefixes = {prefix_of(server): server for server in servers}
    own, notes = list[Definition](), list[str]()
    for tool in definitions:
        owner = prefixes[max((prefix for prefix in prefixes if tool.name.startswith(prefix)), key=len)]
        if owner == tool.server:
            own.append(tool)
        else:
            notes.append(
                f"the tool {tool.remote[:80]!r} of the MCP server {tool.server!r} is left out: its name {tool.name!r} "
                f"would be one of the MCP server {owner!r}; rename one of the servers"
            )
    return own, notes


def unique(definitions: Iterable[Definition]) -> list[Definition]:
    """Return the same with one name each: of several, the first keeps it and the others get a mark that stays."""
    by_name: dict[str, Definition] = {}
    for tool in definitions:
        name = tool.name if tool.name not in by_name else _with_mark(tool.name, f"{tool.server}\0{tool.remote}")
        if name not in by_name:  # the mark is a hash of 32 bits: a second one is not worth more than leaving it out
            by_name[name] = tool if name == tool.name else replace(tool, name=name)
    return list(by_name.values())


def _with_mark(name: str, full_name: str) -> str:
    return f"{name[: _LONGEST_NAME - 9]}_{sha256_text(full_name)[:8]}"


def _description(tool: Mapping[str, Any]) -> str:
    annotations = tool.get("annotations")
    titles = [tool.get("title"), annotations.get("title") if isinstance(annotations, Mapping) else None]
    texts = [tool.get("description"), *titles]
    text = next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
    return text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]}… [cut]"


def schema_problem(schema: Any) -> str:
    if not isinstance(schema, dict):
        return f"its inputSchema is {type(schema).__name__}, not an object"
    if schema.get("type", "object") != "object":
        return f"its inputSchema describes {str(schema['type'])[:60]!r}; the arguments of a tool are an object"
    if _depth_exceeds(schema, _DEEPEST):
        return f"its inputSchema is nested more than {_DEEPEST} deep"
    return _schema_problem(json.dumps(schema))


@lru_cache(maxsize=4096)
def _schema_problem(text: str) -> str:
    """Return the same for a schema as JSON. It takes time, and servers list the same tools again."""
    import jsonschema

    schema = json.loads(text)
    if not isinstance(schema.get("$schema", ""), str):
        return "its inputSchema has a $schema that is no address"
    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        _Inlining(schema).schema()
    except jsonschema.SchemaError as exc:
        return f"its inputSchema is no JSON schema: {exc.message[:200]}"
    except _NowhereError as exc:
        return f"its inputSchema refers to {str(exc)[:80]!r}, which is not in it"
    except ValueError as exc:  # an address that is none
        return f"its inputSchema cannot be read: {str(exc)[:80]}"
    except RecursionError:
        return "its inputSchema is nested too deep"
    return ""


def size_of(value: Any) -> int:
    try:
        return len(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return MAX_TOOL + 1


def _depth_exceeds(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


class _NowhereError(Exception):
    """A reference that leads nowhere in the schema."""


class _Inlining:
    """A schema for checking arguments in bounded time, whoever wrote it.

    References are replaced by what they refer to as far as `_MOST_NODES` go, by "anything" beyond and where they refer
    to what they stand in; patterns, which may take for ever, are left out. The server checks what is not checked here.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST_NODES

    def schema(self) -> dict[str, Any]:
        """Return the whole; _NowhereError for a reference that leads out of the schema."""
        schema = self._node(self._root, ())
        return schema if isinstance(schema, dict) else {}

    def _node(self, node: Any, within: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        self._left -= 1
        if self._left < 0:
            return {}
        copy: dict[str, Any] = {}
        for key, value in node.items():
            if key in ("pattern", "patternProperties", "$defs", "definitions", "$id", "$schema", *_REFERENCES):
                continue
            if key in ("additionalProperties", "unevaluatedProperties") and "patternProperties" in node:
                continue  # what the patterns allow is not known here
            if key in _MAPS and isinstance(value, dict):
                copy[key] = {name: self._node(child, within) for name, child in value.items()}
            elif key in _LISTS and isinstance(value, list):
                copy[key] = [self._node(child, within) for child in value]
            elif key in _SINGLE and isinstance(value, dict):
                copy[key] = self._node(value, within)
            elif key != "items" or not isinstance(value, list):  # a list of items: an older draft's tuple
                copy[key] = value
        for key in _REFERENCES:
            if key in node:
                target = self._target(node[key])
                if node[key] not in within and len(within) < _DEEPEST:
                    copy["allOf"] = [*copy.get("allOf", []), self._node(target, (*within, node[key]))]
        return copy

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _NowhereError(str(reference))
        place: Any = self._root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and key.isdecimal() and int(key) < len(place):
                place = place[int(key)]
            elif isinstance(place, dict) and key in place:
                place = place[key]
            else:
                raise _NowhereError(reference)
        if not isinstance(place, dict | bool):
            raise _NowhereError(reference)
        return place
