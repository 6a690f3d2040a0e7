"""The offline model where agents act by programs: functions it may call, the program, and what that printed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.models.offline.passages import pieces
from agentorchestra.models.render import RenderedContent, parse_contents

_FUNCTIONS = re.compile(r"<functions>\n(.*)\n</functions>", re.DOTALL)
_RESULT = "Result of program "
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "object"}
_FINISHING = "done"

_HEAD = """import json

def tell(name, function, arguments):
    said = {"call": name, "arguments": arguments}
    try:
        said["result"] = function(**arguments)
    except ToolError as error:
        said["error"] = str(error)
    print(json.dumps(said))
"""


@dataclass(frozen=True)
class Call:
    """A call that was made, with its result ("" and no contents while it is not known)."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool
    contents: tuple[RenderedContent, ...]


def offered_functions(system: str) -> dict[str, dict[str, Any]] | None:
    """Return the functions that a prompt offers, with the schema of their arguments; None where it offers none."""
    found = _FUNCTIONS.search(system)
    if found is None:
        return None
    try:
        tree = ast.parse(found[1])
    except SyntaxError:
        return {}
    return {node.name: _schema(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)}


def _schema(arguments: ast.arguments) -> dict[str, Any]:
    named = [*arguments.args, *arguments.kwonlyargs]
    without = len(arguments.args) - len(arguments.defaults)
    required = [one.arg for one in arguments.args[:without]]
    required += [
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return {"type": "object", "properties": {one.arg: _type(one.annotation) for one in named}, "required": required}


def _type(annotation: ast.expr | None) -> dict[str, Any]:
    if isinstance(annotation, ast.Name):
        return {"type": _TYPES.get(annotation.id, "string")}
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id == "Literal":
            values = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return {"type": "string", "enum": [one.value for one in values if isinstance(one, ast.Constant)]}
        return {"type": "array"}
    if isinstance(annotation, ast.BinOp):  # the first of several
        return _type(annotation.left)
    return {}


def program(calls: Sequence[tuple[str, dict[str, JsonValue]]]) -> str:
    lines = [f"tell({name!r}, {name}, {arguments!r})" for name, arguments in calls if name != _FINISHING]
    ends = [f"done(**{arguments!r})" for name, arguments in calls if name == _FINISHING]
    return "\n".join([*([_HEAD] if lines else []), *lines, *ends])


def printed_calls(text: str) -> list[Call]:
    if not text.startswith(_RESULT):
        return []
    shown = "\n".join(one.text for one in parse_contents(text)) or text
    found = []
    for line in shown.splitlines():
        try:
            said = json.loads(line) if line.startswith('{"call": ') else None
        except ValueError:
            said = None  # cut
        if isinstance(said, dict):
            found.append(_call(said))
    return found


def _call(said: dict[str, Any]) -> Call:
    name, arguments = str(said["call"]), said.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    if "error" in said:
        return Call(name, given, str(said["error"]), True, ())
    result = said.get("result")
    listed = result if isinstance(result, list) else []
    if not listed or not all(isinstance(one, dict) and "text" in one for one in listed):
        return Call(name, given, result if isinstance(result, str) else json.dumps(result), False, ())
    contents = [
        RenderedContent(kind="file", ref=str(one["source"]), place=str(one["place"]), text=str(one["text"]))
        for one in listed
        if one.get("place")
    ]
    text = "\n".join(str(one["text"]) for one in listed if not one.get("place"))
    return Call(name, given, text, False, tuple(pieces(contents)))
