"""Print how many lines each room of the package has, and of what: python scripts/lines.py [PATH]

PATH is the package's folder, `src/agentorchestra` by default; its rooms are the folders in it, with all below them. A
line with code and a comment counts as code, an import as an import, a docstring with all its lines as a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

KINDS = ("code", "docstrings", "comments", "imports", "blank")
PACKAGE = Path(__file__).resolve().parent.parent / "src" / "agentorchestra"
_SPACE = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}


def counted(text: str) -> Counter[str]:
    """How many lines of each kind a source text has."""
    kinds = dict.fromkeys(range(1, len(text.splitlines()) + 1), "blank")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SPACE:
            for line in range(token.start[0], token.end[0] + 1):
                if token.type != tokenize.COMMENT or kinds[line] == "blank":
                    kinds[line] = "comments" if token.type == tokenize.COMMENT else "code"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind = "docstrings"  # also a text below an attribute
        else:
            continue
        kinds.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), kind))
    return Counter(kinds.values())


def rooms(package: Path) -> dict[str, Counter[str]]:
    """The counts of each room by its name, "." for the files beside the rooms."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        counts = found.setdefault(parts[0] if len(parts) > 1 else ".", Counter())
        counts.update(counted(path.read_text(encoding="utf-8")))
        counts["files"] += 1
    return found


def table(found: dict[str, Counter[str]]) -> str:
    """A row for each room, and one for all."""
    columns = ("files", "total", *KINDS)
    rows: list[tuple[str, ...]] = [("room", *columns)]
    for name, counts in [*found.items(), ("total", sum(found.values(), Counter()))]:
        counts["total"] = sum(counts[kind] for kind in KINDS)
        rows.append((name, *(f"{counts[one]:,}" for one in columns)))
    return "\n".join("".join([f"{row[0]:14}", *(f"{one:>12}" for one in row[1:])]) for row in rows)


if __name__ == "__main__":
    print(table(rooms(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)))
