"""The syntax of a file that was changed, by its language's own parser. Nothing of the file is run or expanded."""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from collections.abc import Callable
from pathlib import PurePosixPath

MOST_CHECKED = 200_000  # characters; a longer text is not looked at


def syntax_problem(name: str, text: str) -> str:
    """Return what keeps a file from being read as what its name says, with its line; "" for nothing, or no parser."""
    check = _CHECKS.get(PurePosixPath(name).suffix.lower())
    if check is None or len(text) > MOST_CHECKED:
        return ""
    try:
        return check(text)
    except (RecursionError, MemoryError):
        return "it is nested too deep to be read"


def _python(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings; they are no errors
            ast.parse(text)
    except SyntaxError as exc:
        return f"line {exc.lineno}: {exc.msg}" if exc.lineno else str(exc.msg)
    except ValueError as exc:  # NUL characters
        return str(exc)
    return ""


def _json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as exc:
        return _with_line(exc)
    return ""


def _toml(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        return _with_line(exc)
    return ""


def _with_line(exc: ValueError) -> str:
    line = getattr(exc, "lineno", None)
    return f"line {line}: {getattr(exc, 'msg', exc)}" if line else str(exc)


def _yaml(text: str) -> str:
    import yaml

    try:
        for _ in yaml.parse(text, Loader=yaml.SafeLoader):  # its events: anchors are not followed
            pass
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        problem = str(getattr(exc, "problem", None) or exc)
        return f"line {mark.line + 1}: {problem}" if mark is not None else problem
    return ""


_CHECKS: dict[str, Callable[[str], str]] = {
    ".py": _python,
    ".pyi": _python,
    ".json": _json,
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
}
