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
from agentorchestra.tea.calling.tool import Tool, Traits, tool_from_schema
from agentorchestra.tea.programs.handler import given
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
    where = f"the source of {name!r}"
    allowed = FOREIGN_MODULES | {*may_import}
    called = tuple(sorted(called_tools(check_imports(text, allowed=allowed, where=where)) & {*may_call}))
    source = complete_imports(text, where=where).text
    schema = read_schema(text, name, allowed=allowed)

    async def call(ctx: Any, **arguments: Any) -> ToolResult:
        """Run one call as a program of its own, whose only word to us is its result."""

        async def answer(_: Any, asked: dict[str, JsonValue]) -> dict[str, JsonValue]:
            said = asked.get("arguments")
            values = said if isinstance(said, dict) else {}
            if asked.get("name") == _GIVE:
                raise _Given(values)
            outcome = await ctx.call_tool(str(asked.get("name")), **values)
            return (
                {"value": given(outcome)} if outcome.ok else {"error": outcome.error or f"it ended as {outcome.status}"}
            )

        # The program's text is an argument of the effect: a changed byte in that file lets recorded runs diverge.
        inside = (importlib.resources.files(__package__) / "_foreign_call.py").read_text("utf-8")
        code = f"{inside}\n\n_call({_GIVE}, {source!r}, {name!r}, {canonical_json(arguments)!r}, {LONGEST_RESULT})\n"
        try:
            outcome = await programs.run(
                ctx, "python", code, called, functions=(_GIVE,), answer=answer, seconds=trial_s
            )
        except _Given as result:
            error = result.arguments.get("error")
            if error is not None:
                raise ToolError(f"{name} failed: {str(error)[:2500]}") from None
            return ToolResult(content=result.arguments.get("value"), trust=Trust.UNTRUSTED)
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or f"{name} gave no result")
        said = outcome.value
        ending, words = str(said.get("ending")), str(said.get("stderr") or "").strip().splitlines()
        how = str(said.get("detail") or "") or (words[-1] if words else f"exit code {said.get('exit_code')}")
        raise ToolError(f"{name} ended without a result ({'it exited' if ending == 'exited' else ending}: {how[:500]})")

    return tool_from_schema(
        call,
        schema,
        effect=("composite", "execute"),
        takes_context=True,
        source=text,
        traits=Traits(version=version, timeout_s=timeout_s),
        trust=Trust.UNTRUSTED,
    )


def called_tools(tree: ast.AST) -> frozenset[str]:
    return frozenset(
        one.attr
        for one in ast.walk(tree)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == TOOLS
    )


# -- what a function takes, from its text ------------------------------------------------------------------------------


def read_schema(text: str, name: str, *, allowed: Collection[str] = FOREIGN_MODULES) -> ToolSchema:
    """Return name, description and parameters of a function, read from its text, or raise SourceError with the line."""
    where = f"the source of {name!r}"
    function = _function(text, name, where, allowed)
    described: dict[str, str]
    description, described = read_docstring((ast.get_docstring(function) or "")[:LONGEST_WORDS])
    asked = function.args
    if asked.posonlyargs or asked.vararg is not None or asked.kwarg is not None:
        raise SourceError(
            f"{where}: line {function.lineno}: it is called with arguments by name; leave out '/', *args and **kwargs"
        )
    named: list[tuple[ast.arg, ast.expr | None]] = []
    none: list[ast.expr | None] = [None] * (len(asked.args) - len(asked.defaults))
    named += zip(asked.args, [*none, *asked.defaults], strict=True)
    named += zip(asked.kwonlyargs, asked.kw_defaults, strict=True)
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    for parameter, default in named:
        try:
            properties[parameter.arg] = _parameter(parameter, default, described.get(parameter.arg, ""), where)
        except RecursionError:
            raise SourceError(f"{where}: line {parameter.lineno}: the type of {parameter.arg!r} is too deep") from None
        if default is None:
            required.append(parameter.arg)
    parameters: dict[str, JsonValue] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        parameters["required"] = required
    return ToolSchema(name=name, description=description, parameters=parameters, trust=Trust.UNTRUSTED)


def _function(text: str, name: str, where: str, allowed: Collection[str]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    tree = check_imports(text, allowed=allowed, where=where)
    found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    if name in found:
        return found[name]
    there = did_you_mean(name, found, f"it defines {', '.join(found) or 'no function'}")
    raise SourceError(f"{where} does not define the function {name!r}; {there}")


def _parameter(parameter: ast.arg, default: ast.expr | None, described: str, where: str) -> JsonValue:
    line = f"{where}: line {parameter.lineno}"
    if parameter.annotation is None:
        raise SourceError(f"{line}: the parameter {parameter.arg!r} has no type; write e.g. {parameter.arg}: str")
    schema = _type(parameter.annotation, parameter.arg, line)
    if described and "description" not in schema:
        schema["description"] = described
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
            raise _refused(node, parameter, line) from None
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
            return {"enum": [_literal(one, parameter, line) for one in inner]}
        if name == "Annotated":
            return _annotated(inner, parameter, line)
        raise _refused(node, parameter, line)
    if name in _TYPES:
        return {"type": _TYPES[name]}
    if name in _LISTS:
        return {"type": "array"}
    if name in _DICTS:
        return {"type": "object"}
    if name in ("Any", "object"):
        return {}
    raise _refused(node, parameter, line)


def _sides(node: ast.expr) -> list[ast.expr]:
    """Return the types of a union written with |, in order."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _any_of(nodes: list[ast.expr], parameter: str, line: str) -> dict[str, Any]:
    kinds = [_type(one, parameter, line) for one in nodes]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _annotated(inner: list[ast.expr], parameter: str, line: str) -> dict[str, Any]:
    schema = _type(inner[0], parameter, line)
    for extra in inner[1:]:
        said: ast.expr | None = extra
        if isinstance(extra, ast.Call):
            said = next((one.value for one in extra.keywords if one.arg == "description"), None)
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            schema = {**schema, "description": said.value}
    return schema


def _literal(node: ast.expr, parameter: str, line: str) -> JsonValue:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        raise _refused(node, parameter, line) from None
    if value is not None and not isinstance(value, str | int | bool):
        raise _refused(node, parameter, line)
    found: JsonValue = value
    return found


def _name(node: ast.expr) -> str:
    """Return a type's name, also behind its module's; "None" for None."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return "None" if isinstance(node, ast.Constant) and node.value is None else ""


def _refused(node: ast.expr, parameter: str, line: str) -> SourceError:
    try:
        shown = ast.unparse(node)[:80]
    except (ValueError, RecursionError):
        shown = "it has"
    if _name(node.value if isinstance(node, ast.Subscript) else node) == "RunContext":
        return SourceError(f"{line}: {parameter!r} takes the run's context, which code from elsewhere does not get")
    return SourceError(
        f"{line}: the type {shown} of {parameter!r} is not one that code from elsewhere may take; use str, int, float, "
        "bool, list, dict, Literal, Optional and unions of these"
    )
