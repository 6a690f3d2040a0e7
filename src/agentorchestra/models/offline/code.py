"""The offline model where agents act by programs: functions it may call, the program, and what that printed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.models.offline.calls import CallRecord
from agentorchestra.models.offline.passages import passages_of
from agentorchestra.models.render import RenderedContent, parse_contents

_FUNCTIONS = re.compile(r"<functions>\n(.*)\n</functions>", re.DOTALL)
_HEAD = """import json

def tell(name, function, arguments):
    said = {"call": name, "arguments": arguments}
    try:
        said["result"] = function(**arguments)
    except ToolError as error:
        said["error"] = str(error)
    print(json.dumps(said))
"""


def offered_functions(system: str) -> dict[str, dict[str, Any]] | None:
    """Return the functions that a prompt offers, with the names of their arguments; None where it offers none."""
    match = _FUNCTIONS.search(system)
    if match is None:
        return None
    try:
        tree = ast.parse(match[1])
    except SyntaxError:
        return {}
    return {node.name: _schema(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)}


def _schema(arguments: ast.arguments) -> dict[str, Any]:
    required = arguments.args[: len(arguments.args) - len(arguments.defaults)]
    defaults = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required += [argument for argument, default in defaults if default is None]
    properties: dict[str, dict[str, Any]] = {argument.arg: {} for argument in (*arguments.args, *arguments.kwonlyargs)}
    return {"properties": properties, "required": [argument.arg for argument in required]}


def program(calls: Sequence[tuple[str, dict[str, JsonValue]]]) -> str:
    lines = [f"tell({name!r}, {name}, {arguments!r})" for name, arguments in calls if name != "done"]
    ends = [f"done(**{arguments!r})" for name, arguments in calls if name == "done"]
    return "\n".join([*([_HEAD] if lines else []), *lines, *ends])


def printed_calls(text: str) -> list[CallRecord]:
    if not text.startswith("Result of program "):
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
        return CallRecord(name, values, (str(record["error"]),), True)
    result = record.get("result")
    rows = result if isinstance(result, list) else []
    if not rows or not all(isinstance(row, dict) and "text" in row for row in rows):
        return CallRecord(name, values, (result if isinstance(result, str) else json.dumps(result),))
    passages = (
        passage
        for row in rows
        if row.get("place")
        for passage in passages_of(
            RenderedContent(kind="file", ref=str(row["source"]), place=str(row["place"]), text=str(row["text"]))
        )
    )
    return CallRecord(name, values, tuple(str(row["text"]) for row in rows), False, tuple(passages))
