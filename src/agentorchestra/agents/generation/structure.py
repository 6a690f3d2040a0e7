"""Rules for the structure of a tool's code: one function that fits its specification. Nothing of it is executed.

What holds the code is the sandbox. These rules refuse early and in words what would fail there or has no place in a
tool, so that its author can correct it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agentorchestra.agents.generation.specification import Specification
from agentorchestra.core.errors import SourceError
from agentorchestra.core.settings import GeneratorSettings
from agentorchestra.tea.programs.foreign import TOOLS, called_tools, read_schema
from agentorchestra.tea.programs.imports import FOREIGN_MODULES, check_imports, complete_imports

LIBRARIES = frozenset({"matplotlib", "numpy", "openpyxl", "pandas", "PIL", "pypdf", "scipy"})
STANDARD = FOREIGN_MODULES - LIBRARIES - {"agentorchestra", "asyncio", "locale", "os", "pathlib", "tempfile"}
"""What every tool may import: modules of the standard library that compute."""

_REACHING = frozenset(
    {"open", "exec", "eval", "compile", "input", "breakpoint", "globals", "locals", "vars", "getattr", "setattr"}
)
"""Built-in functions that reach outside of a function, or hide what it does."""


def problems_of(code: str, spec: Specification, limits: GeneratorSettings) -> list[str]:
    """Return what is wrong with the code of a tool, a sentence each; nothing where its structure is right."""
    place = "the code"
    try:
        tree = check_imports(
            complete_imports(code, label=place).text, allowed=STANDARD | {*limits.libraries}, label=place
        )
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        matches = [function for function in functions if function.name == spec.name]
        if not matches:
            return [f"there is no function {spec.name!r} at the top of the code"]
        problems = [*_around(tree), *_reaching(tree), *_calls(tree, limits.tools), *_annotation_problems(matches[0])]
        schema = read_schema(code, spec.name, allowed=FOREIGN_MODULES | {*limits.libraries})
    except SourceError as exc:
        return [str(exc)]
    return [*problems, *_signature(dict(schema.parameters), spec.parameters)]


def imported_modules(code: str) -> list[str]:
    modules = set()
    for node in ast.walk(ast.parse(complete_imports(code).text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").split(".")[0])
    return sorted(modules - {"__future__"})


def _around(tree: ast.Module) -> Iterator[str]:
    """Yield what stands at the top besides imports and one function: nothing may happen on import."""
    count = 0
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count += 1
            if node.decorator_list:
                yield f"line {node.lineno}: the function has a decorator; leave it out"
            continue
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not isinstance(node, ast.Import | ast.ImportFrom) and not docstring:
            yield (
                f"line {node.lineno}: at the top of the code stand imports and the one function, nothing else: "
                "put constants and helpers into the function"
            )
    if count > 1:
        yield f"the code defines {count} functions; put helpers into the one that is the tool"


def _reaching(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _REACHING:
            yield f"line {node.lineno}: {node.id}() may not be used: a tool works on its arguments"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            yield f"line {node.lineno}: {node.attr} may not be used"
        elif isinstance(node, ast.Global):
            yield f"line {node.lineno}: `global` may not be used: a tool keeps nothing between its calls"


def _calls(tree: ast.AST, allowed: Collection[str]) -> Iterator[str]:
    names = ", ".join(sorted(allowed)) or "none"
    for name in sorted(called_tools(tree) - {*allowed}):
        yield f"it calls tools.{name}, which it may not; it may call: {names}"
    uses = sum(isinstance(node, ast.Name) and node.id == TOOLS for node in ast.walk(tree))
    calls = sum(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == TOOLS
        for node in ast.walk(tree)
    )
    if uses > calls:
        yield f"`{TOOLS}` is used for calls only: {TOOLS}.NAME(argument=value)"


def _annotation_problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if not (ast.get_docstring(function) or "").strip():
        yield "the function has no docstring"
    if function.returns is None:
        yield "the function does not say what it returns: annotate it"


def _signature(has: Mapping[str, Any], specified_schema: Mapping[str, Any]) -> Iterator[str]:
    own, parameters = has.get("properties", {}), specified_schema.get("properties", {})
    required_names = set(specified_schema.get("required", ()))
    for name in sorted(set(parameters) - set(own)):
        yield f"the parameter {name!r} is missing"
    for name in sorted(set(has.get("required", ())) - required_names):
        problem = "is not specified" if name not in parameters else "is optional: give it a default"
        yield f"the parameter {name!r} {problem}"
