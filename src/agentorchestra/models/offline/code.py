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
class CallRecord:
    """A call that was made, with its result ("" and no contents while it is not known)."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool
    contents: tuple[RenderedContent, ...]


def offered_functions(system: str) -> dict[str, dict[str, Any]] | None:
    """Return the functions that a prompt offers, with the schema of their arguments; None where it offers none."""
    match = _FUNCTIONS.search(system)
    if match is None:
        return None
    try:
        tree = ast.parse(match[1])
    except SyntaxError:
        return {}
    return {node.name: _schema(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)}


def _schema(arguments: ast.arguments) -> dict[str, Any]:
    parameters = [*arguments.args, *arguments.kwonlyargs]
    without = len(arguments.args) - len(arguments.defaults)
    required = [arg.arg for arg in arguments.args[:without]]
    required += [
        arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return {
        "type": "object",
        "properties": {arg.arg: _type(arg.annotation) for arg in parameters},
        "required": required,
    }


def _type(annotation: ast.expr | None) -> dict[str, Any]:
    if isinstance(annotation, ast.Name):
        return {"type": _TYPES.get(annotation.id, "string")}
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id == "Literal":
            values = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return {"type": "string", "enum": [node.value for node in values if isinstance(node, ast.Constant)]}
        return {"type": "array"}
    if isinstance(annotation, ast.BinOp):  # the first of several
        return _type(annotation.left)
    return {}


def program(calls: Sequence[tuple[str, dict[str, JsonValue]]]) -> str:
    lines = [f"tell({name!r}, {name}, {arguments!r})" for name, arguments in calls if name != _FINISHING]
    ends = [f"done(**{arguments!r})" for name, arguments in calls if name == _FINISHING]
    return "\n".join([*([_HEAD] if lines else []), *lines, *ends])


def printed_calls(text: str) -> list[CallRecord]:
    if not text.startswith(_RESULT):
        return []
    output = "\n".join(content.text for content in parse_contents(text)) or text
    calls = []
    for line in output.splitlines():
        try:
            record = json.loads(line) if line.startswith('{"call": ') else None
        except ValueError:
            record = None  # cut
        if isinstance(record, dict):
            calls.append(_call(record))
    return calls


def _call(record: dict[str, Any]) -> CallRecord:
    name, arguments = str(record["call"]), record.get("arguments")
    values = arguments if isinstance(arguments, dict) else {}
    if "error" in record:
        return CallRecord(name, values, str(record["error"]), True, ())
    result = record.get("result")
    rows = result if isinstance(result, list) else []
    if not rows or not all(isinstance(row, dict) and "text" in row for row in rows):
        return CallRecord(name, values, result if isinstance(result, str) else json.dumps(result), False, ())
    contents = [
        RenderedContent(kind="file", ref=str(row["source"]), place=str(row["place"]), text=str(row["text"]))
        for row in rows
        if row.get("place")
    ]
    text = "\n".join(str(row["text"]) for row in rows if not row.get("place"))
    return CallRecord(name, values, text, False, tuple(pieces(contents)))
