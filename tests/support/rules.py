"""How questions are answered by general rules: calculations, tables, sentences, functions that fail their tests.

Only what Python brings: the solver runs this very text in the sandbox, where the files are. Nothing here knows a task;
what is asked for is taken from the words of the question, and what is found from files and pages.
"""

import ast
import copy
import csv
import io
import itertools
import operator
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping

Found = tuple[str, list[tuple[str, str]]]
"""An answer, and what it rests on: the name of a text and words of it."""
Rows = list[dict[str, str]]

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
SMALL = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4}
STOP = {"according", "does", "have", "many", "much", "than", "that", "what", "which", "with", "from", "where", "when"}


def answer(question: str, texts: dict[str, str]) -> Found | None:
    """Return what answers a question: from texts where there are any, else by calculation."""
    if not texts:
        value = calculated(question)
        return None if value is None else (value, [])
    return compared(question, texts) or from_tables(question, texts) or stated(question, texts)


def asked_in(question: str) -> str:
    """Return the sentence that asks."""
    sentences = sentences_of(question)
    return next((one for one in sentences if one.endswith("?")), question)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text; lines without a stop are sentences too."""
    return [one.strip() for one in re.split(r"(?<=[.?!])\s+|\n\s*\n|\n(?=[#*|-])", text) if one.strip()]


def number(text: str) -> float:
    """Return a number as it is written."""
    return float(text.replace(",", ""))


def written(value: float) -> str:
    """Return a number without places that say nothing."""
    return str(int(value)) if value == int(value) else str(value)


# -- calculations ------------------------------------------------------------------------------------------------------


def calculated(question: str) -> str | None:
    """Return a value that the question alone gives: powers and digits, interest, journeys."""
    power = re.search(rf"({NUMBER}) to the power of ({NUMBER})", question)
    if power is not None:
        value = int(number(power[1])) ** int(number(power[2]))
        return str(sum(map(int, str(value))) if "sum of the digits" in question else value)
    percent = re.search(rf"({NUMBER}) ?(?:%|percent)", question)
    years = re.search(rf"({NUMBER}) years", question)
    money = re.search(rf"({NUMBER}) (?:euros|dollars|pounds)", question)
    if percent and years and money:
        value = number(money[1]) * (1 + number(percent[1]) / 100) ** number(years[1])
        places = re.search(r"(\w+) decimal places", question)
        return f"{value:.{SMALL[places[1]]}f}" if places else str(value)
    start = re.search(r"\b(\d\d?):(\d\d)\b", question)
    way = re.search(rf"({NUMBER}) km(?! per)", question)
    speed = re.search(rf"({NUMBER}) km (?:per|an) hour", question)
    if start and way and speed:
        stops = sum(number(one) for one in re.findall(rf"({NUMBER}) minutes", question))
        minutes = int(start[1]) * 60 + int(start[2]) + round(60 * number(way[1]) / number(speed[1]) + stops)
        return f"{minutes // 60 % 24:02}:{minutes % 60:02}"
    return None


# -- tables ------------------------------------------------------------------------------------------------------------


def tables_of(texts: dict[str, str]) -> Iterator[tuple[str, Rows]]:
    """Give the tables in texts: CSV, and rows of cells between bars."""
    for name, text in texts.items():
        bars = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in text.splitlines()
            if line.count("|") > 1
        ]
        rows = [cells for cells in bars if not all(set(cell) <= {"-", ":", " "} for cell in cells)]
        if name.endswith(".csv"):
            rows = [cells for cells in csv.reader(io.StringIO(text)) if cells]
        if len(rows) > 1:
            yield name, [dict(zip(rows[0], cells, strict=False)) for cells in rows[1:]]


def from_tables(question: str, texts: dict[str, str]) -> Found | None:
    """Return a total under a condition, or a cell, which may lie in another table than what it is asked of."""
    tables = list(tables_of(texts))
    condition = re.search(r"total of (?:the column )?(\w+)\b.*?\b(?:whose|where) (?:the )?(\w+) is (\w+)", question)
    if condition is not None:
        for name, rows in tables:
            held = [row for row in rows if row.get(condition[2]) == condition[3]]
            if held and condition[1] in held[0]:
                return written(sum(number(row[condition[1]]) for row in held)), [(name, condition[3])]
        return None
    asked = asked_in(question)
    words = set(re.findall(r"\w+", asked))
    wanted = re.search(r"(?:which|what) (\w+)", asked, re.IGNORECASE)
    for name, rows in tables:
        for row in rows:
            if not any(value in words for value in row.values() if not value.isdigit()):
                continue
            there = row if wanted is None or wanted[1] in row else joined(row, tables)
            if wanted is not None and wanted[1] in there:
                return there[wanted[1]], [(name, next(iter(row.values())))]
            for column, value in row.items():
                if column in words and value not in words:
                    return value, [(name, value)]
    return None


def joined(row: dict[str, str], tables: list[tuple[str, Rows]]) -> dict[str, str]:
    """Return a row with the cells of the rows of other tables that share a cell with it."""
    whole = dict(row)
    for _, rows in tables:
        for other in rows:
            if any(column in row and row[column] == value for column, value in other.items()):
                whole = {**other, **whole}
    return whole


# -- pieces of work ----------------------------------------------------------------------------------------------------

UNKNOWN = "unknown"
MOST = ("largest", "latest", "fastest")


def pieces(question: str) -> list[str]:
    """Return the pieces of work of a question, which begin with "First" and "Then"; else all of it as the one."""
    return [one for one in sentences_of(question) if re.match(r"(?:First|Then) ", one)] or [question]


def broken(text: str, reply: str) -> str:
    """Return the sentences of a text whose condition the tables of a reply break, "" where they keep them all."""
    rows = [row for _, table in tables_of({"": reply}) for row in table]
    cells = [value for row in rows for value in row.values()]
    wrong = []
    for one in sentences_of(text):
        limit, measure = re.search(r"\bbefore (\d{4})\b", one), re.search(r"\bin (\w+) (per \w+)\b", one)
        gaps = "may be unknown" in one and UNKNOWN in cells
        late = limit is not None and any(re.fullmatch(r"\d{4}", cell) and cell >= limit[1] for cell in cells)
        other = measure is not None and any(
            column.endswith(f" {measure[2]}") and column != f"{measure[1]} {measure[2]}"
            for row in rows
            for column in row
        )
        wrong += [one] if gaps or late or other else []
    return " ".join(dict.fromkeys(wrong))


def carried_out(order: str, texts: dict[str, str]) -> list[str]:
    """Return the lines that a piece of work gives: a list, what there is of each per day, the first or last, a sum.

    The rows are those of the first table; what they lack is looked up in the others. Conditions in the order are kept.
    """
    verb = re.match(r"(?:First|Then) (list|work out|name|add up)\b", order)
    tables = [rows for _, rows in tables_of(texts)]
    if verb is None or not tables:
        return []
    main, *columns = tables[0][0]
    rows = []
    for row in tables[0]:
        same = [other for table in tables for other in table if other.get(main) == row[main]]
        rows.append({name: value for one in reversed(same) for name, value in one.items() if value != UNKNOWN})
    limit = re.search(r"\bbefore (\d{4})\b", order)
    if limit is not None:
        rows = [row for row in rows if not any(re.fullmatch(r"\d{4}", one) and one >= limit[1] for one in row.values())]
    measure = re.search(r"\bin (\w+ per \w+)\b", order)
    if verb[1] == "list":
        words = set(re.findall(r"\b[A-Z]\w+", order))
        shown = [main, *(one for one in columns if one in order)]
        return lines_of(shown, [row for row in rows if words & {*row.values()}] or rows)
    if verb[1] == "work out":
        per = re.search(r"\bper (\w+)", order)
        below = f"{per[1]}s" if per else ""
        above = measure[1].split()[0] if measure else next(one for one in columns if one != below)
        rate = f"{above} per {per[1]}" if per else ""
        held = [row for row in rows if above in row and below in row]
        return lines_of(
            [main, rate], [{main: row[main], rate: f"{number(row[above]) / number(row[below]):.1f}"} for row in held]
        )
    if verb[1] == "add up":
        added = [number(row[one]) for row in rows for one in row if one in order and re.fullmatch(NUMBER, row[one])]
        return [written(sum(added))]
    last = columns[-1]
    held = [row for row in rows if last in row]
    if not held or (measure is not None and measure[1] != last):
        return []
    best = max if any(one in order for one in MOST) else min
    return [best(held, key=lambda row: (number(row[last]) if re.fullmatch(NUMBER, row[last]) else 0, row[last]))[main]]


def lines_of(columns: list[str], rows: Rows) -> list[str]:
    """Return a table with cells between bars."""
    cells = [columns, ["---"] * len(columns), *([row.get(one, UNKNOWN) for one in columns] for row in rows)]
    return [f"| {' | '.join(one)} |" for one in cells]


# -- sentences ---------------------------------------------------------------------------------------------------------


def stated(question: str, texts: dict[str, str]) -> Found | None:
    """Return the name or number of the sentence that says what is asked for.

    The sentence has all names of the question and most of its other words.
    """
    asked = asked_in(question)
    plain = re.sub(r"\S+\.\w{2,4}\b", "", asked)
    given = re.findall(r"\w+", plain)
    proper = {one for one in given[1:] if one[0].isupper()}
    words = {one.lower() for one in given if len(one) > 3 and one not in proper} - STOP
    counts = re.search(r"how (?:many|much|\w+)", asked, re.IGNORECASE)
    pattern = NUMBER if counts else r"[A-Z]\w+(?: [A-Z]\w+)*"
    ranked = []
    for name, text in texts.items():
        for sentence in sentences_of(text):
            there = re.findall(r"\w+", sentence)
            shared = words & {one.lower() for one in there}
            if not proper <= set(there) or len(shared) < 0.7 * len(words):
                continue
            last = max((sentence.lower().rfind(one.lower()) for one in (shared or proper)), default=0)
            candidates = [
                (abs(one.start() - last), one[0])
                for one in re.finditer(pattern, sentence)
                if not set(one[0].split()) & set(given) and (counts or one.start() > 0)
            ]
            if candidates:
                ranked.append((-len(shared), min(candidates)[1].rstrip(","), name, sentence))
    if not ranked:
        return None
    _, value, name, sentence = min(ranked, key=lambda one: one[0])
    return value, [(name, sentence)]


def compared(question: str, texts: dict[str, str]) -> Found | None:
    """Return which of two has more or fewer of something, if the texts say it of both."""
    asked = re.search(r"(more|fewer|less) (\w+), (?:the )?(\w+) or (?:the )?(\w+)", asked_in(question))
    if asked is None:
        return None
    counts, sources = {}, []
    for one in (asked[3], asked[4]):
        found = stated(f"How many {asked[2]} has {one}?", texts)
        if found is None:
            return None
        counts[one] = number(found[0])
        sources += found[1]
    best = max if asked[1] == "more" else min
    return best(counts, key=lambda one: counts[one]), sources


# -- functions that fail their tests -----------------------------------------------------------------------------------

COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def mended(question: str, files: dict[str, str]) -> tuple[str, str, str] | None:
    """Return the name, the new text and the change of a module with which its tests pass."""
    named = [one for one in re.findall(r"[\w/]+\.py\b", question) if one in files]
    tests = [files[one] for one in named if "test" in one]
    for name in named:
        if "test" in name or not tests:
            continue
        tree = ast.parse(files[name])
        for changed, said in itertools.chain(changes(tree), written_anew(tree, tests)):
            if holds(changed, tests):
                return name, ast.unparse(changed) + "\n", said
    return None


def examples(tests: Iterable[str]) -> list[tuple[ast.Call, object]]:
    """Return the calls in tests and what they should give."""
    found = []
    for node in itertools.chain.from_iterable(ast.walk(ast.parse(text)) for text in tests):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "assertEqual":
            call, value = node.args[:2]
            if isinstance(call, ast.Call):
                found.append((call, ast.literal_eval(value)))
    return found


def holds(tree: ast.Module, tests: list[str]) -> bool:
    """Return whether a module gives what its tests expect."""
    space: dict[str, object] = {}
    try:
        exec(compile(ast.fix_missing_locations(tree), "module", "exec"), space)
        # What runs here is a module of the sandbox or of a test, changed in one place.
        return all(eval(ast.unparse(call), space) == value for call, value in examples(tests))  # noqa: S307
    except Exception:
        return False


def changes(tree: ast.Module) -> Iterator[tuple[ast.Module, str]]:
    """Give the module with one small change each: an operator, a name, a number, an order."""
    for index, node in enumerate(ast.walk(tree)):
        for other in others(node, tree):
            copied = copy.deepcopy(tree)
            place = next(itertools.islice(ast.walk(copied), index, None))
            before = ast.unparse(place) if isinstance(place, ast.expr) else ""
            for field, value in other.items():
                setattr(place, field, value)
            yield copied, f"{before} became {ast.unparse(place)}"


def others(node: ast.AST, tree: ast.Module) -> Iterator[Mapping[str, object]]:
    """Give what a node could have in place of what it has."""
    if isinstance(node, ast.Compare):
        yield from ({"ops": [one()]} for one in COMPARISONS)
    elif isinstance(node, ast.BinOp):
        yield from ({"op": one()} for one in OPERATORS)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from ({"value": node.value + step} for step in (-1, 1))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        names = {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)}
        names |= {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        yield from ({"id": one} for one in sorted(names - {node.id}))
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("sorted", "sort")):
        kept = [one for one in node.keywords if one.arg != "reverse"]
        turned = [] if len(kept) < len(node.keywords) else [ast.keyword("reverse", ast.Constant(value=True))]
        yield {"keywords": [*kept, *turned]}


def written_anew(tree: ast.Module, tests: list[str]) -> Iterator[tuple[ast.Module, str]]:
    """Give the module with a body for a function that has none: a sum of products of what its docstring names."""
    for index, node in enumerate(tree.body):
        if not isinstance(node, ast.FunctionDef) or not isinstance(node.body[-1], ast.Raise):
            continue
        cases = [([ast.literal_eval(arg) for arg in call.args], value) for call, value in examples(tests)]
        target = tuple(value for _, value in cases)
        known: dict[tuple[object, ...], str] = {}
        for position, arg in enumerate(node.args.args):
            known[tuple(given[position] for given, _ in cases)] = arg.arg
        for digits in re.findall(r"\d+", ast.get_docstring(node) or ""):
            known.setdefault((int(digits),) * len(cases), digits)
        products = combined(known, known, ("*",))
        sums = combined({**known, **products}, {**known, **products}, ("+", "-"))
        for values, text in itertools.chain(sums.items(), combined(sums, {**known, **products}, ("+", "-")).items()):
            if values == target:
                copied = copy.deepcopy(tree)
                body = copied.body[index]
                assert isinstance(body, ast.FunctionDef)
                body.body[-1] = ast.parse(f"return {text}").body[0]
                yield copied, f"it returns {text}"


def combined(
    left: dict[tuple[object, ...], str], right: dict[tuple[object, ...], str], signs: tuple[str, ...]
) -> dict[tuple[object, ...], str]:
    """Return the expressions that join one of each, by their values in the cases."""
    found: dict[tuple[object, ...], str] = {}
    for (a, x), (b, y), sign in itertools.product(left.items(), right.items(), signs):
        values = tuple(map(SIGNS[sign], a, b))
        found.setdefault(values, f"{x} {sign} {y}")
    return found


# -- in the folder of a program ----------------------------------------------------------------------------------------


def files_below(folder: str) -> dict[str, str]:
    """Return the texts in a folder and in those below it, by their names."""
    found: dict[str, str] = {}
    for place, _, names in os.walk(folder, followlinks=True):
        for name in sorted(names):
            if not name.startswith(".") and name not in found:
                try:
                    with open(os.path.join(place, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                        found[name] = file.read()
                except (OSError, UnicodeDecodeError):
                    continue
    return found


def solved(question: str, files: dict[str, str], tables: str = "") -> Found | None:
    """Return what answers a question or is a piece of work, from tables that are known and from files."""
    named = sorted((name for name in files if name in question), key=question.find)
    lines = carried_out(question, {"": tables} | {name: files[name] for name in named})
    return ("\n".join(lines), []) if lines else answer(question, {name: files[name] for name in named})


def work(question: str, tables: str = "") -> None:
    """Answer from the files of the working folder, and print the answer; mend what is to be mended there."""
    files = files_below(".")
    named = {name: text for name, text in files.items() if name in question}
    change = mended(question, files)
    if change is not None:
        name, text, said = change
        for one in named:
            if os.path.islink(one) or not os.path.exists(one):  # noqa: PTH110, PTH114
                if os.path.islink(one):  # noqa: PTH114
                    os.unlink(one)  # noqa: PTH108
                with open(one, "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(files[one])
        with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        tests = [one.removesuffix(".py") for one in named if "test" in one]
        ran = subprocess.run([sys.executable, "-m", "unittest", *tests], capture_output=True, text=True, check=False)
        print(f"found: {said}" if ran.returncode == 0 else f"the tests fail: {ran.stderr[-300:]}")
        return
    value = solved(question, files, tables)
    print("\n".join(f"found: {one}" for one in value[0].splitlines()) if value is not None else "nothing was found")
