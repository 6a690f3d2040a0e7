"""Count the names of variables, functions and classes that say nothing: python scripts/names.py [PATH] [--list]

PATH is a file or a folder, `src/agentorchestra` by default. A variable or function counts where its whole name is a
pronoun or a participle (`one`, `said`, `already_shown`), a class where two files define a public class of its name. The
line of each kind ends with their share of all. `--list` prints each with its place. Exits with 1 where a share is above
its limit, as `make lint` asks.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "agentorchestra"
REWRITTEN = ("trust",)
"""Rooms that are counted only where PATH is inside them: they are about to be written anew."""
LIMITS = {"variables": 0.005, "functions": 0.005, "classes": 0.005}
"""The highest share of weak names by kind: that of well-kept libraries."""

PRONOUNS = """
another any anybody anyone anything both each either everybody everyone everything few he hers him his how its itself
many mine much neither nobody none nothing one ones others ours several she some somebody someone something such that
theirs them themselves there these they this those what whatever where which whichever who whoever whom whose why
"""
PARTICIPLES = """
been begun bent bought broken brought built caught chosen come dealt drawn driven eaten fallen felt fought found
forgotten given gone got grown had handed heard held kept known laid lent lost made meant met paid ran risen said sent
shaken shown shut slept sold sought spent spoken stolen stood stuck taken taught thought thrown told torn understood
undone unheard unkept unread unsaid unseen unsent untold withdrawn won worn written
"""
FIELD = """
added all allowed cached cancelled changed closed completed confined created cut decoded deleted disabled done elapsed
enabled encoded expected failed finished frozen hidden it left loaded modified other parsed read removed required same
seen selected shared skipped started stopped unknown updated used when
bed bleed breed deed embed exceed feed need proceed red seed shed speed succeed weed
"""
"""What well-known libraries call a flag, a set or an operand; and words in -ed that are no participles."""
FILLERS = "already also ever not now once only so still then too yet"
_WEAK = frozenset((PRONOUNS + PARTICIPLES).split())
_SOUND = frozenset(FIELD.split())
_FILLERS = frozenset(FILLERS.split())


def bad(name: str) -> bool:
    """Return whether the name consists of pronouns, participles and adverbs only."""
    words = name.strip("_").lower().split("_")
    weak = [word for word in words if word in _WEAK or (word.endswith("ed") and len(word) > 3 and word not in _SOUND)]
    return bool(weak) and all(word in weak or word in _FILLERS for word in words)


def variables(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and name of each binding by an assignment, a loop, a parameter, a match."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.lineno, node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name


def functions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and name of each function and method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def sources(path: Path) -> Iterator[Path]:
    """The files below a path, without the rooms that are counted only by themselves."""
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        if not (path == PACKAGE and file.relative_to(path).parts[0] in REWRITTEN):
            yield file


def main(arguments: list[str]) -> int:
    """Print the counts; return 1 where a share is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    counts = dict.fromkeys(LIMITS, 0)
    weak: dict[str, list[str]] = {kind: [] for kind in LIMITS}
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for file in sources(options.path.resolve()):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        place = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        for kind, names in (("variables", variables(tree)), ("functions", functions(tree))):
            for line, name in names:
                counts[kind] += 1
                if bad(name):
                    weak[kind].append(f"{place}:{line} {name}")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(f"{place}:{node.lineno} {node.name}")
    counts["classes"] = len(classes)
    failed = False
    for kind, limit in LIMITS.items():
        places = weak[kind] if kind != "classes" else [";  ".join(rows) for rows in classes.values() if len(rows) > 1]
        if options.list and places:
            print(*places, sep="\n")
        share = len(places) / max(counts[kind], 1)
        failed = failed or share > limit
        print(f"{kind}: {len(places):,} of {counts[kind]:,}, {share:.1%} (limit {limit:.1%})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
