"""Tools whose code the workspace's user did not write: an agent did, or a bundle or another machine brought it.

Such code is never imported or executed in this process. What it takes is read from its text, and each call runs in the
sandbox (docs/sandbox.md): arguments go in as JSON, the result comes back through the JSON pipe, and is untrusted.
"""

from __future__ import annotations

import ast
import importlib.resources
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal, Protocol

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import SourceError, ToolError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.names import did_you_mean
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import read_docstring
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.tea.programs.handler import json_value
from agentorchestra.tea.programs.imports import FOREIGN_MODULES, check_imports, complete_imports

TIMEOUT_S = 60.0  # seconds that one call may take
LONGEST_RESULT = 500_000  # characters of JSON that one call may return
LONGEST_WORDS = 8_000  # characters of a docstring that are read
_GIVE = "_give"

TOOLS = "tools"  # under this name code has the tools that it may call


class Programs(Protocol):
    """Runs programs: the workbench of tools/workbench.py."""

    async def run(
        self,
        ctx: Any,
        language: Literal["python", "bash"],
        code: str,
        tools: Sequence[str] = (),
        *,
        functions: Sequence[str] = (),
        answer: Callable[[Any, dict[str, JsonValue]], Awaitable[dict[str, JsonValue]]] | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        """Run a program to its end, or for so many seconds; `answer` makes the calls of `tools` and `functions`."""


class _Given(Exception):
    """The program has given its result: the rest of it does not matter."""

    def __init__(self, arguments: dict[str, JsonValue]) -> None:
        super().__init__()
        self.arguments = arguments


def foreign_tool(
    text: str,
    name: str,
    programs: Programs,
    *,
    version: str = "1.0.0",
    timeout_s: float = TIMEOUT_S,
    may_call: Collection[str] = (),
    may_import: Collection[str] = (),
    trial_s: float | None = None,
) -> Tool[..., Any]:
    """Return a tool from source that the workspace's user did not write: nothing of it is executed here.

    Its code may call the tools `may_call` as `tools.NAME(argument=value)`, each time through the door, where whoever
    calls it may call them too; `may_import` are modules besides those of every such code. A trial ends after `trial_s`
    seconds, in the sandbox, and says so. Missing imports are added where they are known.

    Raises:
        SourceError: for text that is no Python, imports what it may not, lacks the function, or has a signature that
            cannot be read from its text.
    """
    label = f"the source of {name!r}"
    allowed = FOREIGN_MODULES | {*may_import}
    callees = tuple(sorted(called_tools(check_imports(text, allowed=allowed, label=label)) & {*may_call}))
    source = complete_imports(text, label=label).text
    schema = read_schema(text, name, allowed=allowed)

    async def call(ctx: Any, **arguments: Any) -> ToolResult:
        """Run one call as a program of its own, whose only word to us is its result."""

        async def answer(_: Any, request: dict[str, JsonValue]) -> dict[str, JsonValue]:
            data = request.get("arguments")
            values = data if isinstance(data, dict) else {}
            if request.get("name") == _GIVE:
                raise _Given(values)
            outcome = await ctx.call_tool(str(request.get("name")), **values)
            if outcome.ok:
                return {"value": json_value(outcome)}
            return {"error": outcome.error or f"it ended as {outcome.status}"}

        # The program's text is an argument of the effect: a changed byte in that file lets recorded runs diverge.
        inside = (importlib.resources.files(__package__) / "_foreign_call.py").read_text("utf-8")
        code = f"{inside}\n\n_call({_GIVE}, {source!r}, {name!r}, {canonical_json(arguments)!r}, {LONGEST_RESULT})\n"
        try:
            outcome = await programs.run(
                ctx, "python", code, callees, functions=(_GIVE,), answer=answer, seconds=trial_s
            )
        except _Given as result:
            error = result.arguments.get("error")
            if error is not None:
                raise ToolError(f"{name} failed: {str(error)[:2500]}") from None
            return ToolResult(content=result.arguments.get("value"), trust=Trust.UNTRUSTED)
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or f"{name} gave no result")
        report = outcome.value
        end, words = str(report.get("ending")), str(report.get("stderr") or "").strip().splitlines()
        detail = str(report.get("detail") or "") or (words[-1] if words else f"exit code {report.get('exit_code')}")
        raise ToolError(f"{name} ended without a result ({'it exited' if end == 'exited' else end}: {detail[:500]})")

    return tool_from_schema(
        call,
        schema,
        effect=("composite", "execute"),
        takes_context=True,
        source=text,
        traits=ToolTraits(version=version, timeout_s=timeout_s),
        trust=Trust.UNTRUSTED,
    )


def called_tools(tree: ast.AST) -> frozenset[str]:
    return frozenset(
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == TOOLS
    )


def read_schema(text: str, name: str, *, allowed: Collection[str] = FOREIGN_MODULES) -> ToolSchema:
    """Return name, description and parameters of a function, read from its text, or raise SourceError with the line."""
    label = f"the source of {name!r}"
    function = _function(text, name, label, allowed)
    descriptions: dict[str, str]
    description, descriptions = read_docstring((ast.get_docstring(function) or "")[:LONGEST_WORDS])
    signature = function.args
    if signature.posonlyargs or signature.vararg is not None or signature.kwarg is not None:
        raise SourceError(
            f"{label}: line {function.lineno}: it is called with arguments by name; leave out '/', *args and **kwargs"
        )
    pairs: list[tuple[ast.arg, ast.expr | None]] = []
    gaps: list[ast.expr | None] = [None] * (len(signature.args) - len(signature.defaults))
    pairs += zip(signature.args, [*gaps, *signature.defaults], strict=True)
    pairs += zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    for parameter, default in pairs:
        try:
            properties[parameter.arg] = _parameter(parameter, default, descriptions.get(parameter.arg, ""), label)
        except RecursionError:
            raise SourceError(f"{label}: line {parameter.lineno}: the type of {parameter.arg!r} is too deep") from None
        if default is None:
            required.append(parameter.arg)
    parameters: dict[str, JsonValue] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        parameters["required"] = required
    return ToolSchema(name=name, description=description, parameters=parameters, trust=Trust.UNTRUSTED)


def _function(text: str, name: str, label: str, allowed: Collection[str]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    tree = check_imports(text, allowed=allowed, label=label)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if name in functions:
        return functions[name]
    hint = did_you_mean(name, functions, f"it defines {', '.join(functions) or 'no function'}")
    raise SourceError(f"{label} does not define the function {name!r}; {hint}")


def _parameter(parameter: ast.arg, default: ast.expr | None, description: str, label: str) -> JsonValue:
    line = f"{label}: line {parameter.lineno}"
    if parameter.annotation is None:
        raise SourceError(f"{line}: the parameter {parameter.arg!r} has no type; write e.g. {parameter.arg}: str")
    schema = _type(parameter.annotation, parameter.arg, line)
    if description and "description" not in schema:
        schema["description"] = description
    if default is not None:
        try:
            value = ast.literal_eval(default)
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, SyntaxError, MemoryError):
            raise SourceError(
                f"{line}: the default of {parameter.arg!r} is not a JSON value; write it out, or use None"
            ) from None
        schema["default"] = value
    return schema


_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null", "NoneType": "null"}
_LISTS = frozenset({"list", "List", "Sequence", "Iterable", "Collection"})
_DICTS = frozenset({"dict", "Dict", "Mapping"})


def _type(node: ast.expr, parameter: str, line: str) -> dict[str, Any]:
    """Return the JSON schema of an annotation, of the types whose values are JSON as they are."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _type(ast.parse(node.value, mode="eval").body, parameter, line)
        except (SyntaxError, ValueError, MemoryError):
            raise _refusal(node, parameter, line) from None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _any_of([*_sides(node)], parameter, line)
    name = _name(node.value if isinstance(node, ast.Subscript) else node)
    if isinstance(node, ast.Subscript):
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in _LISTS and len(inner) == 1:
            return {"type": "array", "items": _type(inner[0], parameter, line)}
        if name in _DICTS and len(inner) == 2 and _name(inner[0]) == "str":
            return {"type": "object", "additionalProperties": _type(inner[1], parameter, line)}
        if name == "Optional" and len(inner) == 1:
            return _any_of([inner[0], ast.Constant(None)], parameter, line)
        if name == "Union":
            return _any_of(inner, parameter, line)
        if name == "Literal":
            return {"enum": [_literal(choice, parameter, line) for choice in inner]}
        if name == "Annotated":
            return _annotation(inner, parameter, line)
        raise _refusal(node, parameter, line)
    if name in _TYPES:
        return {"type": _TYPES[name]}
    if name in _LISTS:
        return {"type": "array"}
    if name in _DICTS:
        return {"type": "object"}
    if name in ("Any", "object"):
        return {}
    raise _refusal(node, parameter, line)


def _sides(node: ast.expr) -> list[ast.expr]:
    """Return the types of a union written with |, in order."""
    sides: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides.append(node.right)
        node = node.left
    return [node, *reversed(sides)]


def _any_of(nodes: list[ast.expr], parameter: str, line: str) -> dict[str, Any]:
    kinds = [_type(node, parameter, line) for node in nodes]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _annotation(inner: list[ast.expr], parameter: str, line: str) -> dict[str, Any]:
    schema = _type(inner[0], parameter, line)
    for extra in inner[1:]:
        words: ast.expr | None = extra
        if isinstance(extra, ast.Call):
            words = next((keyword.value for keyword in extra.keywords if keyword.arg == "description"), None)
        if isinstance(words, ast.Constant) and isinstance(words.value, str):
            schema = {**schema, "description": words.value}
    return schema


def _literal(node: ast.expr, parameter: str, line: str) -> JsonValue:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        raise _refusal(node, parameter, line) from None
    if value is not None and not isinstance(value, str | int | bool):
        raise _refusal(node, parameter, line)
    literal: JsonValue = value
    return literal


def _name(node: ast.expr) -> str:
    """Return a type's name, also behind its module's; "None" for None."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return "None" if isinstance(node, ast.Constant) and node.value is None else ""


def _refusal(node: ast.expr, parameter: str, line: str) -> SourceError:
    try:
        text = ast.unparse(node)[:80]
    except (ValueError, RecursionError):
        text = "it has"
    if _name(node.value if isinstance(node, ast.Subscript) else node) == "RunContext":
        return SourceError(f"{line}: {parameter!r} takes the run's context, which code from elsewhere does not get")
    return SourceError(
        f"{line}: the type {text} of {parameter!r} is not one that code from elsewhere may take; use str, int, float, "
        "bool, list, dict, Literal, Optional and unions of these"
    )
