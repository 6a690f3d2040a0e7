"""What stands in the results of tools: the pieces of their records and texts, conditions on records, sums of them."""

from __future__ import annotations

import ast
import contextlib
import csv
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.content import text_of
from agentorchestra.core.effects import BLOCKS, Outcome
from agentorchestra.core.policy import Given, PlannedTest
from agentorchestra.trust.roles import name_words
from agentorchestra.trust.words import as_decimal, fold, number_of

LONGEST_LABEL = 40  # characters before the colon of a line that names what stands behind it
LONGEST_YAML = 100_000  # characters of a result that is read as YAML, which takes time

LONGEST_FORMULA = 200

_NUMBERED = re.compile(r"^[ \d]{0,8}\d\t", re.MULTILINE)
_YAML_ALIAS = re.compile(r"(?:^|[\s\[{,])[&*]\w")  # a short text with such can hold very much
_LABELLED = re.compile(
    rf"\s*(?:[-*]\s+)?[\"'*]*(?P<label>[^\W\d][^:：=\n]{{0,{LONGEST_LABEL}}}?)[\"'*]*\s*(?:[:=](?=\s)|：)\s*(?P<text>.+)"
)
_COLUMN = re.compile(r"[^\W\d][\w %/.-]{0,40}")
DAY = re.compile(r"\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?)?")
"""A month, a day, or a day with its time."""

_NO_YEAR = re.compile(r"\d{2}-\d{2}")  # a day in the user's words, which leave the year out


class Piece(NamedTuple):
    """A piece of a result: the words of its field and of its label in a text, its text, the words of its record."""

    field: frozenset[str]
    label: frozenset[str]
    text: str
    record: frozenset[str]
    whole: bool  # whether it is a value of a field, or all of a text
    fields: Mapping[str, JsonValue] = {}  # those of its record and of the records around it; none in a text


# -- the pieces of a result ------------------------------------------------------------------------------------------


def text_in(value: JsonValue) -> str:
    """Return a result as a text."""
    if isinstance(value, dict) and BLOCKS in value:
        return _NUMBERED.sub("", text_of(Outcome(value=value).blocks()))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def pieces_of(given: Given) -> Iterator[Piece]:
    """Yield the pieces of a result: the values of its fields, of texts the lines."""
    value: JsonValue = given.value
    if isinstance(value, str) or (isinstance(value, dict) and BLOCKS in value):
        text = text_in(value)
        value = _records(text) or text
    asked = tokens(json.dumps(given.arguments, ensure_ascii=False))
    pending: list[tuple[str, JsonValue, frozenset[str], dict[str, JsonValue]]] = [("", value, asked, {})]
    while pending:
        name, one, record, fields = pending.pop()
        if isinstance(one, dict):
            own = record | tokens(" ".join(str(each) for each in one.values() if isinstance(each, str | int | float)))
            pending.extend((str(key), each, own, fields | one) for key, each in reversed(one.items()))
        elif isinstance(one, list):
            pending.extend((name, each, record, fields) for each in reversed(one))
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            yield from _lines(name, str(one), record, fields)


def _records(text: str) -> JsonValue:
    """Return what a text says as JSON, as a list of records in YAML, or as a table; None for other texts.

    Lines with labels are no records: whoever writes one line of a text can write such.
    """
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            found: JsonValue = json.loads(text)
            return found
    if not text.startswith("- ") or len(text) > LONGEST_YAML or _YAML_ALIAS.search(text):
        return _table(text)
    import yaml

    try:
        listed = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # texts only, nothing is made
    except (yaml.YAMLError, RecursionError):
        return None
    return listed if isinstance(listed, list) and all(isinstance(one, dict) for one in listed) else None


def _table(text: str) -> JsonValue:
    """Return the rows of a table with a header, all of as many cells; None for other texts."""
    for delimiter in (",", "\t", ";"):
        if delimiter not in text.partition("\n")[0]:
            continue
        with contextlib.suppress(csv.Error):
            header, *rows = [row for row in csv.reader(text.splitlines(True), delimiter=delimiter, strict=True) if row]
            names = [one.strip() for one in header]
            headed = len({*names}) == len(names) > 1 and all(map(_COLUMN.fullmatch, names))
            if headed and len(rows) > 1 and all(len(row) == len(names) for row in rows):
                return [{name: cell.strip() for name, cell in zip(names, row, strict=True)} for row in rows]
    return None


def _lines(name: str, text: str, record: frozenset[str], fields: Mapping[str, JsonValue]) -> Iterator[Piece]:
    field = name_words(name)
    if "\n" not in text.strip():
        labelled = None if name else _LABELLED.fullmatch(text)
        if labelled is None:
            yield Piece(field, frozenset(), text, record if name else record | tokens(text), whole=True, fields=fields)
            return
    for part in re.split(r"\n\s*\n|\n(?=- )", text):
        beside = record | tokens(part)
        for line in part.splitlines():
            found = _LABELLED.fullmatch(line)
            label = name_words(found["label"]) if found else frozenset()
            yield Piece(field, label, found["text"] if found else line, beside, whole=False, fields=fields)


def tokens(text: str) -> frozenset[str]:
    """Return the words, numbers and codes in a text that have three characters or more."""
    return frozenset(one for one in re.findall(r"[\w@.+-]*\w", fold(text)) if len(one) > 2)


def as_number(value: JsonValue) -> Decimal | None:
    """Return a number, also one that stands in a text alone; None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return as_decimal(value)
    found = number_of(value.strip()) if isinstance(value, str) else None
    return found[0] if found is not None else None


def same(value: str | int | float, text: str) -> bool:
    """Return True if a text says this value and nothing else."""
    number, text = as_number(value), text.strip(" \"'")
    if number is not None:
        return as_number(text) == number
    return fold(str(value)).strip() == fold(text)


def is_only_code(code: str, texts: Iterable[str], known: Callable[[str], bool]) -> bool:
    """Return True if texts hold this code, or name of a file, and no other one that is written like it.

    Args:
        known: of a text, whether it is the user's: those do not count.
    """
    pattern = _code_pattern(code)
    found = {one for text in texts for one in re.findall(r"(?<![\w./-])\w+(?:[-.]\w+)*(?![\w/-])", text)}
    alike = {fold(one) for one in found if _code_pattern(one) == pattern and not known(one)}
    return bool(pattern) and alike == {fold(code).strip()}


def _code_pattern(text: str) -> str:
    """Return how a code or the name of a file is written (`A-99` for `C-17`, `.` for `a.txt`); "" for other texts."""
    if re.fullmatch(r"[\w-]+\.[A-Za-z]\w{0,4}", text):
        return "."
    if not any(map(str.isdigit, text)) or (text.isdecimal() and len(text) < 4):
        return ""
    return re.sub(r"\d", "9", re.sub(r"[^\W\d_]", "A", text))


# -- conditions on records -------------------------------------------------------------------------------------------


def meeting(pieces: Sequence[Piece], tests: Sequence[PlannedTest]) -> list[Piece]:
    """Return the pieces of the records that meet all conditions; what stands in no record meets none."""
    found = [*pieces]
    for test in sorted(tests, key=lambda one: one.test in _EXTREMES):
        if test.test in _EXTREMES:
            best = _EXTREMES[test.test](map(_order, _all_values(found, test.field)), default=None)
            found = [one for one in found if best is not None and best in map(_order, _values(one.fields, test.field))]
        else:
            found = [one for one in found if one.fields and _meets(one.fields, test)]
    return found


def _meets(record: Mapping[str, JsonValue], test: PlannedTest) -> bool:
    values = _values(record, test.field)
    if not values:
        return False
    if test.test == "is":
        return any(_is(one, test.value) for one in values)
    if test.test == "is not":
        return not any(_is(one, test.value) for one in values)
    if test.test == "has":
        return any(_has(one, test.value) for one in values)
    others = _values(record, test.value) if test.value in record else [test.value]
    return any(_COMPARED[test.test](*pair) for one in values for other in others for pair in _pair(one, other))


def _is(value: str, wanted: str) -> bool:
    if DAY.fullmatch(value) and (DAY.fullmatch(wanted) or _NO_YEAR.fullmatch(wanted)):
        return value.removeprefix(value[:5] if _NO_YEAR.fullmatch(wanted) else "").startswith(wanted)
    if not wanted:
        return not value
    return same(wanted, value) or (wanted[0].isupper() and _has(value, wanted))  # a name, of which there may be more


def _has(value: str, wanted: str) -> bool:
    """Return True if a text holds these words, also in a longer form."""
    # Of a word with digits (a class, a number) all counts.
    stems = [min(name_words(one), key=len, default=one) if one.isalpha() else one for one in _words(wanted)]
    words = _words(value)
    return all(one in words or any(word.startswith(one) for word in words if not one.isdecimal()) for one in stems)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", fold(text))


def _pair(one: str, other: str) -> Iterator[tuple[Any, Any]]:
    """Yield two values that can be compared: numbers, or days and times as exactly as the coarser one."""
    if (left := as_number(one)) is not None and (right := as_number(other)) is not None:
        yield left, right
    elif DAY.fullmatch(one) and _NO_YEAR.fullmatch(other):
        yield one[5:10], other
    elif DAY.fullmatch(one) and DAY.fullmatch(other):
        exact = min(len(one), len(other))
        yield one[:exact].replace("T", " "), other[:exact].replace("T", " ")


def _order(value: str) -> tuple[int, Decimal, str]:
    number = as_number(value)
    return (1, number, "") if number is not None else (0, Decimal(), value)


def _all_values(pieces: Iterable[Piece], field: str) -> list[str]:
    return [value for piece in pieces for value in _values(piece.fields, field)]


def _values(record: Mapping[str, JsonValue], field: str) -> list[str]:
    """Return what stands in a field of a record, or of the records inside of it; "" for an empty field."""
    name = field.rpartition(".")[2]
    if name in record:
        return _scalars(record[name])
    inner = [one for value in record.values() for one in (value if isinstance(value, list) else [value])]
    return [text for one in inner if isinstance(one, dict) for text in _values(one, name)]


def _scalars(value: JsonValue) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _scalars(one)] or [""]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _scalars(one)]
    return ["" if value is None else str(value).lower() if isinstance(value, bool) else str(value)]


_EXTREMES: dict[str, Callable[..., Any]] = {"lowest": min, "highest": max}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "below": operator.lt,
    "above": operator.gt,
}

# -- formulas --------------------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_OVER_ALL = ("sum", "count")


def read_formula(text: str) -> ast.expr:
    """Return a formula of fields, numbers, + - * /, `sum(...)` and `count()`; raise ValueError for anything else."""
    try:
        found = ast.parse(text.strip(), mode="eval").body if len(text) <= LONGEST_FORMULA else None
    except (SyntaxError, ValueError, RecursionError):
        found = None
    if found is None or not _is_formula(found):
        raise ValueError(
            f"the formula {text[:LONGEST_FORMULA]!r} is none: give fields, numbers, + - * /, sum(), count()"
        )
    return found


def _is_formula(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATORS and _is_formula(node.left) and _is_formula(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and _is_formula(node.operand)
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id in _OVER_ALL
        return named and not node.keywords and len(node.args) <= 1 and all(map(_is_formula, node.args))
    if isinstance(node, ast.Attribute):
        return _is_formula(node.value)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) in (int, float))


def worked_out(
    formula: str, records: Sequence[Mapping[str, JsonValue]], of_all: Sequence[Mapping[str, JsonValue]]
) -> list[float]:
    """Return what a formula gives for each record that has its fields, or the one sum over all of them."""
    node = read_formula(formula)
    found: list[float] = []
    over_all = any(isinstance(one, ast.Call) for one in ast.walk(node))
    for record in [{}] if over_all else records:
        with contextlib.suppress(KeyError, ZeroDivisionError, OverflowError):
            found.append(_worked(node, record, of_all))
    return found


def _worked(node: ast.expr, record: Mapping[str, JsonValue], records: Sequence[Mapping[str, JsonValue]]) -> float:
    if isinstance(node, ast.Constant):
        return float(str(node.value))
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        number = as_number(record[name])
        if number is None:
            raise KeyError(name)
        return float(number)
    if isinstance(node, ast.Call):
        if not node.args:
            return float(len(records))
        return sum(_worked(node.args[0], one, ()) for one in records)
    if isinstance(node, ast.UnaryOp):
        value = _worked(node.operand, record, records)
        return -value if isinstance(node.op, ast.USub) else value
    assert isinstance(node, ast.BinOp)
    return _OPERATORS[type(node.op)](_worked(node.left, record, records), _worked(node.right, record, records))


def is_rounded(value: Decimal, exact: float) -> bool:
    """Return True if a number is another one, rounded by no more than a hundredth of it or to the next whole number."""
    off = abs(abs(float(value)) - abs(exact))  # what was spent stands in some lists with a minus
    return off <= abs(exact) / 100 or (value == value.to_integral_value() and off < 1)
