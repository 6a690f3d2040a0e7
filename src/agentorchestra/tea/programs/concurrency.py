"""Find the calls of a program that are awaited: those may run at the same time, all others give their value at once.

Models write `x = search("a")` as well as `await asyncio.gather(search("a"), search("b"))`. A function of the host
therefore gives a value where it is simply called, and something to wait for where the program awaits it:

- the operand of `await`, and what stands in the arguments of `gather`;
- what is put (assigned, appended) into a name that is awaited or gathered: `jobs = [search(q) for q in qs]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

Span = tuple[int, int]  # the place of a call: from byte to byte of the program's UTF-8 text

_ADDS = ("append", "extend", "insert")


def awaited_calls(code: str) -> frozenset[Span]:
    """Return the places of the calls whose result is awaited; none for text that is no Python."""
    if "await" not in code and "gather" not in code:
        return frozenset()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return frozenset()
    nodes = list(ast.walk(tree))
    operands = [inner for node in nodes for inner in _operands(node)]
    names: set[str] = set()
    while new := {node.id for operand in operands for node in ast.walk(operand) if isinstance(node, ast.Name)} - names:
        names |= new
        operands += [value for node in nodes for value in _put_into(node, new)]
    starts = _line_starts(code)
    return frozenset(
        (starts[call.lineno - 1] + call.col_offset, starts[call.end_lineno - 1] + call.end_col_offset)
        for operand in operands
        for call in _outer_calls(operand)
        if call.end_lineno is not None and call.end_col_offset is not None
    )


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Await):
        yield node.value
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "gather":
            yield from (argument.value if isinstance(argument, ast.Starred) else argument for argument in node.args)


def _put_into(node: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    def has_name(target: ast.AST | None) -> bool:
        return any(isinstance(leaf, ast.Name) and leaf.id in names for leaf in ast.walk(target)) if target else False

    match node:
        case ast.Assign() if any(has_name(target) for target in node.targets):
            yield node.value
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr() if has_name(node.target) and node.value is not None:
            yield node.value
        case ast.For() | ast.comprehension() if has_name(node.target):
            yield node.iter
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _ADDS and has_name(node.func):
            yield from node.args


def _outer_calls(value: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls whose results an expression holds: not those in the arguments of another call."""
    todo: list[ast.AST] = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call):
            yield node
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            todo.append(node.elt)
        elif isinstance(node, ast.DictComp):
            todo.append(node.value)
        elif isinstance(node, ast.Dict):
            todo += node.values
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Starred | ast.IfExp | ast.NamedExpr | ast.BinOp):
            todo += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _line_starts(code: str) -> list[int]:
    starts = [0]
    for line in code.encode("utf-8", "surrogatepass").split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts
