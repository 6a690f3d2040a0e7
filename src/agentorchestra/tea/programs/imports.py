"""Imports of a source text: missing ones are added, forbidden ones refused.

The dynamic manager of the paper finds and injects the imports that code from a string needs (000, app. C.1). Nothing is
executed here: all of it is read from the text.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from agentorchestra.core.errors import SourceError

LONGEST = 1_000_000  # characters of one source text


def _words(text: str) -> list[str]:
    return text.split()


def _members(module: str, names: str) -> dict[str, str]:
    return {name: f"from {module} import {name}" for name in names.split()}


KNOWN_IMPORTS: Mapping[str, str] = {
    **{
        name: f"import {name}"
        for name in _words(
            "asyncio base64 bisect collections csv dataclasses decimal enum fractions functools hashlib heapq html io "
            "itertools json logging math operator os pathlib random re statistics string sys textwrap time typing "
            "unicodedata uuid zlib pydantic numpy pandas"
        )
    },
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    **_members("agentorchestra", "Agent Environment RunContext TextBlock Tool ToolError ToolResult tool"),
    **_members("collections", "Counter OrderedDict defaultdict deque namedtuple"),
    **_members("collections.abc", "AsyncIterator Awaitable Callable Collection Iterable Iterator Mapping Sequence"),
    **_members("dataclasses", "asdict dataclass field"),
    **_members("datetime", "UTC date datetime timedelta timezone"),
    **_members("decimal", "Decimal"),
    **_members("enum", "Enum IntEnum StrEnum"),
    **_members("fractions", "Fraction"),
    **_members("functools", "lru_cache partial reduce wraps"),
    **_members("pathlib", "Path PurePath"),
    **_members("pydantic", "BaseModel Field"),
    **_members("typing", "Annotated Any ClassVar Dict Final Generic List Literal NamedTuple Optional Protocol Tuple"),
    **_members("typing", "TypedDict TypeVar Union cast"),
}
"""The imports that bind a name; only these are added."""

FOREIGN_MODULES = frozenset(
    _words(
        "__future__ abc array ast asyncio base64 binascii bisect calendar cmath collections colorsys contextlib copy "
        "csv dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq hmac html io "
        "itertools json keyword locale math matplotlib numbers numpy openpyxl operator os pandas pathlib PIL posixpath "
        "pprint pypdf random re reprlib scipy secrets shlex statistics string struct tempfile textwrap time tokenize "
        "tomllib traceback types typing typing_extensions unicodedata urllib.parse uuid warnings xml zipfile zlib "
        "zoneinfo agentorchestra"
    )
)
"""Modules that code from elsewhere may import. The sandbox is what holds it: this list only refuses early, and in
words, what would not work there (sockets, other processes) or has no business in a tool."""

_IMPORTERS = frozenset({"__import__", "__builtins__", "__loader__"})


@dataclass(frozen=True)
class Completed:
    """A source text with the imports it lacked."""

    text: str  # what is loaded
    added: tuple[str, ...] = ()  # the statements that were added
    after: int = 0  # the line of the given text behind which they stand, in one line

    def line(self, number: int) -> int:
        """Return the line of the given text that a line of the completed one was."""
        return number - 1 if self.added and number > self.after else number


def parse_source(text: str, *, label: str = "the source") -> ast.Module:
    """Return the tree of a source text; raise SourceError with the line for text that is too long or no Python."""
    if len(text) > LONGEST:
        raise SourceError(f"{label} has {len(text):,} characters; at most {LONGEST:,} can be loaded")
    try:
        return ast.parse(text)
    except SyntaxError as exc:
        line = f"line {exc.lineno}" if exc.lineno else "it"
        excerpt = " ".join((exc.text or "").split())[:80]
        problem = f"{exc.msg}{f': {excerpt}' if excerpt else ''}"
        raise SourceError(f"{label} is not Python: {line}: {problem}; correct it") from None
    except (ValueError, MemoryError, RecursionError) as exc:
        raise SourceError(f"{label} is not Python: {str(exc) or type(exc).__name__}; correct it") from None


def complete_imports(text: str, *, imports: Mapping[str, str] = KNOWN_IMPORTS, label: str = "the source") -> Completed:
    """Add known imports for names that a text uses and never binds; one with a star import stays as it is."""
    tree = parse_source(text, label=label)
    try:
        free = _free_names(text, tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as exc:  # what only the compiler finds
        line = getattr(exc, "lineno", None)
        raise SourceError(
            f"{label} is not Python: {f'line {line}: ' if line else ''}{getattr(exc, 'msg', exc)}; correct it"
        ) from None
    statements = {imports[name] for name in free if name in imports}
    if not statements:
        return Completed(text)
    added = tuple(sorted(statements, key=lambda statement: (statement.startswith("from"), statement)))
    after = _header_end(tree)
    lines = re.sub("\r\n?", "\n", text).split("\n")
    lines.insert(after, "; ".join(added))
    return Completed("\n".join(lines), added, after)


def _header_end(tree: ast.Module) -> int:
    """Return the last line of the docstring and the imports from __future__, which must stay first."""
    end = 0
    for index, node in enumerate(tree.body):
        docstring = index == 0 and ast.get_docstring(tree, clean=False) is not None
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not docstring and not future:
            break
        end = node.end_lineno or node.lineno
    return end


def _free_names(text: str, tree: ast.Module) -> set[str]:
    """Return the names that are looked up in the module and that the module does not bind."""
    if any(isinstance(n, ast.ImportFrom) and any(alias.name == "*" for alias in n.names) for n in ast.walk(tree)):
        return set()
    top = symtable.symtable(text, "<source>", "exec")
    bindings = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    anywhere = set(bindings)
    for table in _tables(top):
        for symbol in table.get_symbols():
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace() or symbol.is_parameter()
            if binds:
                anywhere.add(symbol.get_name())
            if symbol.is_global():
                if binds:
                    bindings.add(symbol.get_name())
                elif symbol.is_referenced():
                    used.add(symbol.get_name())
    # An annotation may be a text, and is none of the compiler's business where it is not evaluated.
    hints = {name for node in _annotations(tree) for name in _names(node)} - anywhere
    return (used | hints) - bindings - set(dir(builtins))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    todo = list(table.get_children())
    while todo:
        child = todo.pop()
        yield child
        todo += child.get_children()


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def _names(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval")
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                continue
            yield from (leaf.id for leaf in ast.walk(inner) if isinstance(leaf, ast.Name))


def check_imports(text: str, *, allowed: Collection[str] = FOREIGN_MODULES, label: str = "the source") -> ast.Module:
    """Return a text's tree, or raise SourceError with the line of a forbidden import; `a.b` allows no other."""
    tree = parse_source(text, label=label)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = f"{'.' * node.level}{node.module or ''}"
            inside = _may(base, allowed)
            modules = [base if inside or node.level else f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id in _IMPORTERS:
            modules = [node.id]
        else:
            continue
        for module in modules:
            if not _may(module, allowed):
                raise SourceError(
                    f"{label} imports {module!r} in line {node.lineno}, which code from elsewhere may not; it may "
                    f"import pure modules of the standard library ({', '.join(_EXAMPLES)}, ...), numpy, pandas, scipy"
                )
    return tree


_EXAMPLES = ("json", "re", "math", "datetime", "collections")


def _may(module: str, allowed: Collection[str]) -> bool:
    parts = module.split(".")
    return any(".".join(parts[: end + 1]) in allowed for end in range(len(parts)))
