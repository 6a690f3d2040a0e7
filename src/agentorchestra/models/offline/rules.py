"""The rules of the offline model: what a question asks for, which passage answers it, whether it is arithmetic.

A passage answers a question only if it holds every word of it that says something: names and numbers as they are, other
words up to their endings. That is strict on purpose: among near-duplicates the one that differs in a single word is
wrong, and what is not there is said not to be there.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Literal

from agentorchestra.models.offline.passages import Cell, Passage


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_ENDINGS = _words("s es d ed e ing y ies ied n en t st ned ning ted ting red ring led ling ped ping") | {""}

# Words of asking and of grammar: no document needs to hold these.
_SILENT = _words(
    """
a an the of in on at to for from by with without and or nor but as is are was were be been being am do does did done
has have had having what which who whom whose when where why how many much that this these those there here it its
they them their he him his she her i me my you your we us our will would can could shall should may might must than
then so if into about between under over per not any some each every all both also only very more most less least
after before during within s t please give tell find state list name show explain describe quote cite look search
check answer return write calculate compute use according document documents file files text table tables row rows
column columns value number amount year years date say says said mentioned given called source sources information
data
"""
)


def words_of(text: str) -> list[str]:
    """Return the words of a text for comparison: no case and no accents, numbers without commas between thousands."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return [re.sub(r",(?=\d{3}(?:\D|$))", "", word) for word in _WORD.findall(plain)]


@lru_cache(maxsize=262_144)
def same_word(a: str, b: str) -> bool:
    """Return True if two words are one up to its ending: open, opened."""
    if a == b:
        return True
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    if shared < 3 or not (a.isalpha() and b.isalpha()):
        return False
    ends = a[shared:], b[shared:]
    return _ENDINGS.issuperset(ends) and (shared >= 4 or "" in ends)


# --- questions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A word of the question that an answering passage must hold."""

    text: str
    key: str
    kind: Literal["name", "number", "word"]

    def matches(self, other: str) -> bool:
        return self.key == other or (self.kind == "word" and same_word(self.key, other))


@dataclass(frozen=True)
class ParsedQuestion:
    text: str
    terms: tuple[Term, ...]
    files: tuple[str, ...] = ()  # the files it speaks of, empty for any

    def queries(self) -> list[str]:
        """Return what to search for, in order: all terms, names and numbers, the other words."""
        full = " ".join(term.text for term in self.terms)
        hard = " ".join(term.text for term in self.terms if term.kind != "word")
        soft = " ".join(term.text for term in self.terms if term.kind == "word")
        return [query for query in dict.fromkeys((full, hard, soft)) if query]


_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!](?!\s)[^.!?\n]*)*(?:[.!?\n]|$)")  # takes every character once


def questions(task: str) -> list[str]:
    """Return the sentences of a task that end in a question mark."""
    return [match[0].strip() for match in _SENTENCE.finditer(task) if match[0].endswith("?")]


def parse_question(task: str, files: Sequence[str]) -> ParsedQuestion:
    """Return the question in a task: its longest sentence with a question mark where there is one, else all of it."""
    text = max(questions(task), key=len, default=task)
    # A file of a folder may be named with its folders or without.
    spellings = {name: (name, name.rpartition("/")[2]) for name in files}
    mentions = tuple(name for name in files if any(spelling.lower() in task.lower() for spelling in spellings[name]))
    for spelling in (spelling for name in mentions for spelling in spellings[name]):
        text = re.sub(re.escape(spelling), " ", text, flags=re.IGNORECASE)
    return ParsedQuestion(text.strip(), _terms(text.strip()), mentions)


@lru_cache(maxsize=64)  # of one task it is asked again at each step
def _terms(text: str) -> tuple[Term, ...]:
    terms: dict[str, Term] = {}
    for match in _WORD.finditer(text):
        word, key = match[0], "".join(words_of(match[0]))
        if not key or key in _SILENT:
            continue
        capital = (match.start() > 0 and word[0].isupper()) or any(char.isupper() for char in word[1:])
        terms.setdefault(key, Term(word, key, "number" if word[0].isdigit() else "name" if capital else "word"))
    return tuple(terms.values())


# --- passages -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CitedAnswer:
    answer: str  # a sentence
    value: str  # the bare value, where there is one
    source: str
    place: str
    quote: str
    score: tuple[float, ...] = field(default=(), compare=False)  # for choosing among several


def best(question: ParsedQuestion, passages: Iterable[Passage]) -> CitedAnswer | None:
    """Return the passage or cell that answers a question; None when none holds all its terms."""
    answers: list[CitedAnswer] = []
    for passage in passages if question.terms else ():
        if not question.files or passage.ref in question.files:
            answer = _in_row(question, passage) if passage.cells else _in_text(question, passage)
            answers += [answer] if answer is not None else []
    return max(answers, key=lambda answer: answer.score, default=None)


def missing(question: ParsedQuestion, passages: Iterable[Passage]) -> list[str]:
    """Return the question's terms that no passage seen holds, the first twenty."""
    seen = {word for passage in passages for word in words_of(passage.text)}
    return [*islice((term.text for term in question.terms if not any(map(term.matches, seen))), 20)]


def _names_file(term: Term, ref: str) -> bool:
    """Return True if a term is in the name of the file: its subject need not stand in each of its sentences."""
    stem = ref.rpartition("/")[2].rpartition(".")[0]
    return term.kind != "number" and any(map(term.matches, words_of(stem)))


_NUMERIC = re.compile(r"\b(?:when|how many|how much|what share|year|date)\b", re.IGNORECASE)
"""What asks for a number: an answer holds one that the question does not."""


def _in_text(question: ParsedQuestion, passage: Passage) -> CitedAnswer | None:
    words = words_of(passage.text)
    held = [term for term in question.terms if any(map(term.matches, words))]
    others = [term for term in question.terms if term not in held]
    if not held or passage.text.rstrip().endswith("?") or not all(_names_file(term, passage.ref) for term in others):
        return None  # a question, such as a heading of an FAQ, is no answer
    keys = {term.key for term in question.terms}
    new = [word for word in words if word not in keys]
    numbers = [word for word in new if word[0].isdigit()]
    if not numbers and _NUMERIC.search(question.text):
        return None
    quote = passage.text.strip()
    answer = f"According to {passage.ref} ({passage.place}): “{' '.join(quote.split())}”"
    value = numbers[0] if len(numbers) == 1 else ""
    exact = sum(term.key in words for term in held)
    return CitedAnswer(answer, value, passage.ref, passage.place, quote, (exact, -len(new)))


def _header_words(header: str) -> list[str]:
    return words_of(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", header))


def _names_column(term: Term, header: str) -> bool:
    """Return True if a term is a word of a column's name; columns are often cut short: pop, lifeExp."""
    for word in _header_words(header):
        if same_word(word, term.key) or (len(word) >= 3 and word.isalpha() and term.key.startswith(word)):
            return True
    return False


def _in_row(question: ParsedQuestion, passage: Passage) -> CitedAnswer | None:
    """Return the cell of a row that its terms ask for: some pick the row by its values, others name the column."""
    cells = passage.cells
    values = [words_of(cell.value) for cell in cells]
    keys: Counter[int] = Counter()  # the columns whose values pick the row
    naming: list[list[int]] = []
    exact = 0
    for term in question.terms:
        at = [i for i, words in enumerate(values) if any(map(term.matches, words))]
        columns = [i for i, cell in enumerate(cells) if _names_column(term, cell.header)]
        exact += any(term.key in values[i] for i in at)
        if at and (not columns or term.kind != "word"):
            keys.update(at)
        elif columns:  # a word that names a column is read as its name
            naming.append(columns)
        elif not at and not _names_file(term, passage.ref):
            return None
    if not keys:
        return None
    coverage = sum(count / max(1, len(set(values[i]))) for i, count in keys.items())
    target = _target(question, cells, keys, naming)
    if target is None:
        return None
    if target < 0:
        answer = f"{passage.text} ({passage.place} of {passage.ref})"
        return CitedAnswer(answer, "", passage.ref, passage.place, passage.text, (exact, coverage, 0))
    cell = cells[target]
    about = ", ".join(f"{cells[i].header} {cells[i].value}" for i in sorted(keys) if i != target)
    answer = f"{cell.value} ({cell.header} for {about}; {passage.ref}, cell {cell.address})"
    return CitedAnswer(answer, cell.value, passage.ref, cell.address, cell.value, (exact, coverage, 1))


def _target(
    question: ParsedQuestion, cells: Sequence[Cell], keys: Counter[int], naming: Sequence[Sequence[int]]
) -> int | None:
    """Return the column asked for: -1 for the whole row, None when the row does not answer."""
    free = [i for i in range(len(cells)) if i not in keys]
    # "In what year did it invest 40.29?" names the column of its own key: that asks for nothing.
    asking = [columns for columns in naming if not keys.keys() >= {*columns}]
    counts = Counter(i for columns in asking for i in columns if i in free)
    if counts:
        target = counts.most_common(1)[0][0]
        # Each word that names a column has to name this one or one that picks the row.
        return target if all(target in columns or keys.keys() & {*columns} for columns in asking) else None
    silent = set(words_of(question.text)) & _SILENT  # year, date
    spoken = [i for i in free if silent.intersection(_header_words(cells[i].header))]
    return (spoken or (free if len(free) == 1 else [-1]))[0]


# --- two values and an operation ------------------------------------------------------------------------------------

Operation = Literal["difference", "sum", "both"]

_DIFFERENCE = re.compile(
    r"\bdifference between\b|\bhow (?:much|many) (?:more|less|fewer|higher|lower|larger|smaller)\b"
)
_SUM = re.compile(r"\b(?:sum|total) of\b|\b(?:in total|together|combined)\b")
_OPERATION_WORDS = _words("difference sum total together combined fewer higher lower larger smaller")


def split_question(question: ParsedQuestion) -> tuple[Operation, ParsedQuestion, ParsedQuestion] | None:
    """Return a question about two values as operation and two questions, else None; names need an operation."""
    low = question.text.lower()
    operation: Operation = "difference" if _DIFFERENCE.search(low) else "sum" if _SUM.search(low) else "both"
    terms = [term for term in question.terms if term.key not in _OPERATION_WORDS]
    numbers = [(term,) for term in terms if term.kind == "number"]
    # The words of one name follow each other: General Electric.
    runs = re.findall(r"(?:(?<=\s)[A-ZÀ-Þ][\w.'’-]*[^\S\n]?)+", question.text[:_LONGEST])
    by_text = {term.text: term for term in terms if term.kind == "name"}
    names = [tuple(by_text[word] for word in _WORD.findall(run) if word in by_text) for run in runs]
    pairs: list[list[tuple[Term, ...]]] = [[*numbers], [name for name in names if name] if operation != "both" else []]
    pair = next((pair for pair in pairs if len(pair) == 2), None)
    if pair is None or set(pair[0]) & set(pair[1]):
        return None
    left, right = (replace(question, terms=tuple(t for t in terms if t not in other)) for other in (pair[1], pair[0]))
    return operation, left, right


def operate(operation: Operation, a: str, b: str) -> str | None:
    """Return the expression for two values; None when one is not a number."""
    left, right = plain_number(a), plain_number(b)
    if operation == "both" or left is None or right is None:
        return None
    body = f"abs({left} - {right})" if operation == "difference" else f"{left} + {right}"
    return f"round({body}, 10)" if "." in body else body


def plain_number(text: str) -> str | None:
    """Return the number that a value holds, as Python writes it; None when it is not one."""
    match = re.fullmatch(r"[^\d+-]{0,3}([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)[^\d]{0,12}", text.strip())
    return match[1].replace(",", "") if match else None


# --- arithmetic -----------------------------------------------------------------------------------------------------

_LONGEST = 2_000  # characters that are looked at
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s*of\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_EXPRESSION = re.compile(r"[-+(]*\d[\d\s.()+*/%-]*[\d)]")


def arithmetic(task: str) -> str | None:
    """Return the Python expression of a task that is nothing but arithmetic in signs; None for any other."""
    if len(task) > _LONGEST:
        return None
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", task).replace("^", "**").replace("×", "*")
    text = _SHARE.sub(r"(\2 * \1 / 100)", text)
    expression = max(_EXPRESSION.findall(text), key=len, default="").strip()
    rest = re.findall(r"\w+", text.replace(expression, " ", 1).lower())
    if {*rest} - {"what", "s", "is", "how", "much", "calculate", "compute"} or not re.search(r"[*/%+-]", expression):
        return None
    try:
        ast.parse(expression, mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        return None
    return expression


def number_text(value: float) -> str:
    """Return a number as people write it: no exponent for common sizes, no trailing `.0`."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(round(value, 10))
