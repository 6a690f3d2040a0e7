"""The rules of the offline model: what a question asks for, which passage answers it, whether it is arithmetic.

A passage answers a question only if it holds every discriminating word of it: names and numbers as they are, other
words up to their endings. That is strict on purpose: among near-duplicates the one that differs in a single word is
wrong, and what is not there is said not to be there.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import Literal

from agentorchestra.models.offline.vocabulary import ASKING, FUNCTION, IRREGULAR, MONTHS, word_set
from agentorchestra.models.render import RenderedContent

# --- words ----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\w+(?:(?:[-'’.&/](?=\w)|(?<=\d)[,:](?=\d))\w+)*")
_PART = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])|_")
_THOUSANDS = re.compile(r"^\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_NUMBER = re.compile(r"^\d+(?:[.,]\d+)*$")
_HYPHEN = re.compile(r"(\w)[-\u00ad]\n\s*(?=[a-zà-ÿ])")


@lru_cache(maxsize=65_536)
def key(word: str) -> str:
    """Return a word's form for comparison: no case, accents, possessive or separators, thousands closed up."""
    if _THOUSANDS.match(word):
        word = word.replace(",", "")
    if _NUMBER.match(word):
        return word
    plain = unicodedata.normalize("NFKD", word).casefold()
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = re.sub(r"['’]s?$", "", plain)
    return re.sub(r"[^\w]|_", "", plain)


def tokens(text: str) -> list[str]:
    """Return the words of a text as they stand."""
    return _TOKEN.findall(_HYPHEN.sub(r"\1", text))


def keys_of(text: str) -> list[str]:
    """Return the keys of a text's words in order, compound words followed by their parts."""
    keys = []
    for token in tokens(text):
        whole = key(token)
        keys.append(whole)
        parts = [key(part) for piece in _PART.findall(token) for part in _CAMEL.split(piece)]
        if len(parts) > 1:
            keys.extend(part for part in parts if part != whole)
    return keys


_ENDINGS = {"", *word_set("s es ed d e ing y ies ied n en t st ned ning ted ting red ring led ling ped ping ged ging")}


@lru_cache(maxsize=262_144)
def same_word(a: str, b: str) -> bool:
    """Return True if two keys are one word up to its ending (open, opened) or by an irregular form (draw, drew)."""
    if a == b or any({a, b} <= forms for forms in IRREGULAR):
        return True
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    if shared < 3 or not (a.isalpha() and b.isalpha()):
        return False
    ends = a[shared:], b[shared:]
    return _ENDINGS.issuperset(ends) and (shared >= 4 or "" in ends)


# --- questions ------------------------------------------------------------------------------------------------------

TermKind = Literal["name", "number", "word"]


@dataclass(frozen=True)
class Term:
    """A word of the question that an answering passage must hold."""

    text: str
    key: str
    kind: TermKind

    def matches(self, other: str) -> bool:
        if self.key == other:
            return True
        return self.kind == "word" and same_word(self.key, other)


@dataclass(frozen=True)
class ParsedQuestion:
    text: str
    terms: tuple[Term, ...]  # what an answering passage must hold
    wants: Literal["number", "date", "name", ""] = ""  # the sort of answer: a number, a date, a name, or anything
    files: tuple[str, ...] = ()  # the files it speaks of, empty for any

    def queries(self) -> list[str]:
        """Return what to search for, in order: all terms, names and numbers, the other words."""
        full = " ".join(term.text for term in self.terms)
        hard = " ".join(term.text for term in self.terms if term.kind != "word")
        soft = " ".join(term.text for term in self.terms if term.kind == "word")
        return [query for query in dict.fromkeys((full, hard, soft)) if query]


# "according to the report": names the file without its name.
_SOURCE_PHRASE = re.compile(
    r"\b(?:according to|as stated in|as described in) (?:the|this|that|our) [a-z]+(?: in| of)?\s*(?=[,?.]|$)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!](?!\s)[^.!?\n]*)*(?:[.!?\n]|$)")  # takes every character once


def questions(task: str) -> list[str]:
    """Return the sentences of a task that end in a question mark."""
    return [match[0].strip() for match in _SENTENCE.finditer(task) if match[0].endswith("?")]


def parse_question(task: str, files: Sequence[str]) -> ParsedQuestion:
    """Return the question in a task: its sentence with a question mark where there is one, else all of it."""
    candidates = questions(task)
    text = max(candidates, key=len) if candidates else task
    # A file of a folder may be named with its folders or without.
    spellings = {name: [name, name.rpartition("/")[2]] for name in files}
    mentions = [name for name in files if any(spelling.lower() in task.lower() for spelling in spellings[name])]
    for phrase in sorted({spelling for name in mentions for spelling in spellings[name]}, key=len, reverse=True):
        text = re.sub(re.escape(phrase), " ", text, flags=re.IGNORECASE)
    text = _SOURCE_PHRASE.sub(" ", text)
    return ParsedQuestion(text.strip(), _terms(text), _wants(text), tuple(mentions))


@lru_cache(maxsize=64)  # of one task it is asked again at each step
def _terms(text: str) -> tuple[Term, ...]:
    words = tokens(text)
    capitals = sum(word[:1].isupper() for word in words)
    shouting = capitals > 0.7 * len(words) and len(words) > 4  # Title Case: capitals say nothing
    terms: dict[str, Term] = {}
    for index, word in enumerate(words):
        bare = re.sub(r"['’]s?$", "", word.lower())
        is_month = index > 0 and word[:1].isupper() and bare in MONTHS  # May
        if (bare in FUNCTION or bare in ASKING) and not is_month:
            continue
        kind: TermKind = "word"
        if any(char.isdigit() for char in word):
            kind = "number"
        elif not shouting and ((index > 0 and word[:1].isupper()) or any(char.isupper() for char in word[1:])):
            kind = "name"
        # A hyphenated word without digits counts as its parts: "state-owned", "Rhine-Main".
        pieces = [word] if kind == "number" else [piece for piece in re.split(r"[-/&]", word) if piece]
        for piece in pieces:
            term = Term(re.sub(r"['’]s?$", "", piece), key(piece), kind)
            if term.key and (piece == word or piece.lower() not in FUNCTION):
                terms.setdefault(term.key, term)
    return tuple(terms.values())


def _wants(text: str) -> Literal["number", "date", "name", ""]:
    low = text.lower()
    if re.search(r"\b(?:when|(?:in |on )?(?:which|what) (?:year|date|day))\b", low):
        return "date"
    if re.search(r"\b(?:how many|how much|what (?:number|percentage|share))\b", low):
        return "number"
    return "name" if re.search(r"\b(?:who|whom|whose)\b", low) else ""


# --- passages -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    address: str
    header: str
    value: str


@dataclass(frozen=True)
class CitedAnswer:
    answer: str  # a sentence
    value: str  # the bare value, where there is one
    source: str
    place: str
    quote: str
    score: tuple[float, ...] = field(default=(), compare=False)  # for choosing among several


_CELL_START = re.compile(r"(?:^|(?<=; ))([A-Z]{1,3}\d+) ")
_PLACE_ROW = re.compile(r"^(?:row \d+|[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?)$")


def parse_row(content: RenderedContent) -> list[Cell]:
    """Return the cells of a row as the file tools write it; empty for anything else."""
    if not _PLACE_ROW.match(content.place):
        return []
    starts = list(_CELL_START.finditer(content.text))
    if not starts or starts[0].start() != 0:
        return []
    cells = []
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        piece = content.text[match.end() : following.start() - 2 if following else len(content.text)]
        header, separator, value = piece.partition(": ")
        if separator:
            cells.append(Cell(match[1], header, value))
    return cells


_TABLE_PLACE = re.compile(r"^(.*!)?(?:rows? \d+(?:-\d+)?|[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?)$")
_TABLE_HEAD = re.compile(r"row(?:,[A-Z]{1,3})+\n")


def table_rows(content: RenderedContent) -> list[RenderedContent]:
    """Return the rows of a table that was read, each as a search writes it out; anything else as it is."""
    place = _TABLE_PLACE.match(content.place)
    if place is None or not _TABLE_HEAD.match(content.text):
        return [content]
    letters, *records = csv.reader(io.StringIO(content.text, newline=""))
    rows = [*takewhile(lambda record: record and record[0].isdigit(), records)]
    names = dict(zip(letters[1:], rows[0][1:], strict=False)) if rows and _names_columns(rows[0]) else {}
    prefix, cells = place[1] or "", not content.place.removeprefix(place[1] or "").startswith("row")
    passages = []
    for row, *values in rows[1:] if names else rows:
        pairs = [(letter, value.strip()) for letter, value in zip(letters[1:], values, strict=False) if value.strip()]
        text = "; ".join(f"{letter}{row} {names.get(letter, '').strip() or letter}: {value}" for letter, value in pairs)
        span = f"{letters[1]}{row}:{letters[-1]}{row}" if cells else f"row {row}"
        passages.append(content.model_copy(update={"place": f"{prefix}{span}", "text": text}))
    return passages


def _names_columns(record: Sequence[str]) -> bool:
    """Return True if a table's first row names its columns, by the rule by which files are read."""
    numbers = [cell for cell in record[1:] if re.match(r"^[+-]?[\d.,\s]*\d%?$", cell.strip())]
    return (
        record[0] == "1"
        and len(numbers) < len(record) - 1
        and all(re.match(r"^[12]\d{3}$", cell.strip()) for cell in numbers)
    )


def best(question: ParsedQuestion, contents: Iterable[RenderedContent]) -> CitedAnswer | None:
    """Return the passage or cell that answers a question; None when none holds all its terms."""
    if not question.terms:
        return None
    answers: list[CitedAnswer] = []
    for order, content in enumerate(row for passage in contents for row in table_rows(passage)):
        if question.files and content.ref not in question.files:
            continue
        cells = parse_row(content)
        if cells:
            candidates = [_in_row(question, content, cells)]
        else:
            candidates = [_in_text(question, piece) for piece in _pieces(content)]
        answers.extend(replace(answer, score=(*answer.score, -order)) for answer in candidates if answer is not None)
    return max(answers, key=lambda answer: answer.score, default=None)


_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-ZÀ-Þ0-9•])|\n\s*\n")


def _pieces(content: RenderedContent) -> list[RenderedContent]:
    """Return a long piece of reading as its sentences, each verbatim; a short one as it is."""
    if len(content.text) <= 600:
        return [content]
    bounds = [0, *(match.end() for match in _SENTENCE_END.finditer(content.text)), len(content.text)]
    texts = (content.text[start:end].strip() for start, end in pairwise(bounds))
    return [content.model_copy(update={"text": text}) for text in texts if text]


_MOST_MISSING = 20


def missing(question: ParsedQuestion, contents: Iterable[RenderedContent]) -> list[str]:
    """Return the question's terms that no passage seen holds, the first ones."""
    seen = {word for content in contents for word in keys_of(content.text)}
    absent = (term.text for term in question.terms if not any(term.matches(word) for word in seen))
    return [*islice(absent, _MOST_MISSING)]


def _names_file(term: Term, ref: str) -> bool:
    """Return True if a term is in the name of the file: its subject need not stand in each of its sentences."""
    stem = ref.rpartition("/")[2].rpartition(".")[0]
    return term.kind != "number" and any(term.matches(word) for word in keys_of(stem.replace("_", " ")))


def _in_text(question: ParsedQuestion, content: RenderedContent) -> CitedAnswer | None:
    if content.text.rstrip().endswith("?"):
        return None  # a question, such as a heading of an FAQ, is no answer
    words = keys_of(content.text)
    positions: list[int] = []
    exact = 0
    for term in question.terms:
        index = next((i for i, word in enumerate(words) if word == term.key), -1)
        exact += index >= 0
        if index < 0:
            index = next((i for i, word in enumerate(words) if term.matches(word)), -1)
        if index >= 0:
            positions.append(index)
        elif not _names_file(term, content.ref):
            return None
    if not positions:
        return None
    keys = {term.key for term in question.terms}
    new = [word for word in words if word not in keys]
    numbers = [word for word in new if word[:1].isdigit()]
    if question.wants == "date" and not (numbers or any(word in MONTHS for word in new)):
        return None
    if question.wants == "number" and not numbers:
        return None
    # Terms that follow one another in the question do so in the right passage: who did what to whom.
    order = sum(1 for a, b in pairwise(positions) if 0 < b - a <= 3)
    quote = content.text.strip()
    excerpt = " ".join(quote.split())
    answer = f"According to {content.ref} ({content.place}): “{excerpt}”"
    value = numbers[0] if len(numbers) == 1 else ""
    return CitedAnswer(answer, value, content.ref, content.place, quote, (exact, order, -len(new)))


def _header_words(header: str) -> list[str]:
    return [word for word in keys_of(_CAMEL.sub(" ", header)) if word not in FUNCTION]


def _names_column(term: Term, header: str) -> bool:
    """Return True if a term is a word of a column's name; columns are often cut short: pop, lifeExp."""
    for word in _header_words(header):
        if word == term.key or same_word(word, term.key):
            return True
        if len(word) >= 3 and term.kind != "number" and not word.isdigit() and term.key.startswith(word):
            return True
    return False


def _in_row(question: ParsedQuestion, content: RenderedContent, cells: list[Cell]) -> CitedAnswer | None:
    values = [keys_of(cell.value) for cell in cells]
    row_keys: dict[int, set[str]] = {}
    naming: dict[str, list[int]] = {}
    exact = 0
    for term in question.terms:
        at = [i for i, words in enumerate(values) if any(term.matches(word) for word in words)]
        columns = [i for i, cell in enumerate(cells) if _names_column(term, cell.header)]
        if not at and not columns:
            if _names_file(term, content.ref):
                continue
            return None
        exact += any(term.key in values[i] for i in at)
        # A word that names a column is read as its name, unless only a value holds it.
        if columns:
            naming[term.key] = columns
        for i in at if not columns or term.kind != "word" else []:
            row_keys.setdefault(i, set()).add(term.key)
    if not row_keys:
        return None
    # A name that a column's title happens to hold is the key of the row; a title such as "1990" is a column.
    naming = {
        term: columns for term, columns in naming.items() if not any(term in terms for terms in row_keys.values())
    }
    target = _target(question, cells, row_keys, naming)
    if target is None:
        return None
    coverage = sum(len(terms) / max(1, len(set(values[i]))) for i, terms in row_keys.items())
    if target < 0:
        answer = f"{content.text} ({content.place} of {content.ref})"
        return CitedAnswer(answer, "", content.ref, content.place, content.text, (exact, coverage, 0))
    cell = cells[target]
    about = ", ".join(f"{cells[i].header} {cells[i].value}" for i in sorted(row_keys) if i != target)
    answer = f"{cell.value} ({cell.header} for {about}; {content.ref}, cell {cell.address})"
    return CitedAnswer(answer, cell.value, content.ref, cell.address, cell.value, (exact, coverage, 1))


def _target(
    question: ParsedQuestion, cells: list[Cell], row_keys: dict[int, set[str]], naming: dict[str, list[int]]
) -> int | None:
    """Return the column asked for: -1 for the whole row, None when the row does not answer."""
    free = [i for i in range(len(cells)) if i not in row_keys]
    # "In what year did it invest 40.29?" names the column of its own key: that asks for nothing.
    naming = {term: columns for term, columns in naming.items() if not all(i in row_keys for i in columns)}
    counts = Counter(i for columns in naming.values() for i in columns if i in free)
    if counts:
        target = counts.most_common(1)[0][0]
        # Every word that names a column must name this one or one that picks the row: "gold output" is not in
        # "gold reserves" and "copper output".
        strays = [cs for cs in naming.values() if target not in cs and not any(i in row_keys for i in cs)]
        return None if strays else target
    if naming:
        return None
    headers = {"date": {"year", "date", "day"}, "name": {"name", "person", "by"}}.get(question.wants, set())
    fitting = [i for i in free if headers.intersection(_header_words(cells[i].header))]
    return fitting[0] if fitting else free[0] if len(free) == 1 else -1


# --- two values and an operation ------------------------------------------------------------------------------------

Operation = Literal["difference", "sum", "both"]

_OPERATIONS: tuple[tuple[Operation, str], ...] = (
    (
        "difference",
        r"\bdifference between\b|\bhow (?:much|many) (?:more|less|fewer|higher|lower|larger|smaller|greater|longer"
        r"|shorter|taller|older|further|bigger)\b",
    ),
    ("sum", r"\b(?:sum|total) of\b|\bcombined\b|\bin total\b|\btogether\b"),
)
_OPERATION_WORDS = word_set(
    "difference sum total combined together more less fewer higher lower larger smaller greater longer shorter taller "
    "older further bigger than"
)
_MOST_JOINTS = 100  # joining words of a question that are looked at
_NEAR = 300  # characters beside a joining word in which its two values stand
_JOINT = re.compile(r"\b(?:and|than|versus|vs\.?|to)\b", re.IGNORECASE)


def split_question(question: ParsedQuestion) -> tuple[Operation, ParsedQuestion, ParsedQuestion] | None:
    """Return a question about two values as operation and two questions, else None; names need an operation."""
    low = question.text.lower()
    operation = next((name for name, pattern in _OPERATIONS if re.search(pattern, low)), None)
    terms = [term for term in question.terms if term.key not in _OPERATION_WORDS]
    for joint in islice(_JOINT.finditer(question.text), _MOST_JOINTS):
        start, end = joint.span()
        before = [key(word) for word in tokens(question.text[max(0, start - _NEAR) : start])]
        after = [key(word) for word in tokens(question.text[end : end + _NEAR])]
        left, right = _alternatives(before, after, terms)
        if left and right and (operation or left[0].kind == "number"):
            return (
                operation or "both",
                replace(question, terms=tuple(t for t in terms if t not in right), wants=""),
                replace(question, terms=tuple(t for t in terms if t not in left), wants=""),
            )
    return None


def _alternatives(before: list[str], after: list[str], terms: list[Term]) -> tuple[list[Term], list[Term]]:
    """Return the numbers, or else the names, directly on both sides of a joining word."""
    by_key = {term.key: term for term in terms}

    def run(words: list[str]) -> list[Term]:
        operands: list[Term] = []
        skipped = 0
        for word in words:
            term = by_key.get(word)
            if term is not None and term.kind != "word" and (not operands or term.kind == operands[0].kind):
                operands.append(term)
                if term.kind == "number":
                    break
            elif operands or skipped >= 2 or term is not None:
                break
            else:
                skipped += 1
        return operands

    left, right = run(before[::-1]), run(after)
    if not left or not right or left[0].kind != right[0].kind or set(left) & set(right):
        return [], []
    return left, right


def operate(operation: Operation, a: str, b: str) -> str | None:
    """Return the expression for two values; None when one is not a number."""
    left, right = plain_number(a), plain_number(b)
    if operation == "both" or left is None or right is None:
        return None
    body = f"abs({left} - {right})" if operation == "difference" else f"{left} + {right}"
    return body if left.lstrip("+-").isdigit() and right.lstrip("+-").isdigit() else f"round({body}, 10)"


def plain_number(text: str) -> str | None:
    """Return the number that a value holds, as Python writes it; None when it is not one."""
    match = re.fullmatch(r"[^\d+-]{0,3}([+-]?\d[\d,]*(?:\.\d+)?)\s*[^\d]{0,12}", text.strip())
    if not match:
        return None
    digits = match[1]
    return digits.replace(",", "") if _THOUSANDS.match(digits.lstrip("+-")) or "," not in digits else None


# --- arithmetic -----------------------------------------------------------------------------------------------------

_LONGEST_ARITHMETIC = 2_000  # characters
_NUM = r"[+-]?\d+(?:\.\d+)?"
_WORD_OPERATORS = (
    (r"\bmultiplied by\b|\btimes\b|×|·|(?<=\d)\s*[xX]\s*(?=\d)", "*"),
    (r"\bdivided by\b|÷", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b|−|–", "-"),
    (r"\bto the power of\b|\^", "**"),
)
_ARITHMETIC_WORDS = word_set(
    "what is the a of and by with how much please can you me give tell calculate compute work out result"
)


def arithmetic(task: str) -> str | None:
    """Return the Python expression of a task that is nothing but arithmetic; None for any other, and a long one."""
    if len(task) > _LONGEST_ARITHMETIC:
        return None
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", task)
    text = re.sub(r"(?<=\w)['’]s\b", " is", text).strip().rstrip("?!.= \n")
    for pattern, sign in _WORD_OPERATORS:
        text = re.sub(pattern, f" {sign} ", text, flags=re.IGNORECASE)
    share = rf"({_NUM})\s*(?:%|percent)\s*of\s*({_NUM})"
    text = re.sub(share, r"(\2 * \1 / 100)", text, flags=re.IGNORECASE)
    if not _ARITHMETIC_WORDS.issuperset(re.findall(r"[^\W\d_]+", text.lower())):
        return None
    longest = max(re.findall(r"[-+(]*[\d(][\d\s.()+*/%-]*[\d)]", text), key=len, default="").strip()
    expression = re.sub(r"\s+", " ", longest)
    if not re.search(r"[\d)]\s*(?:\*\*|[-+*/%])\s*[-+(]*\d", expression):
        return None
    try:
        ast.parse(expression, mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        return None
    return None if re.search(r"\d", text.replace(longest, " ", 1)) else expression


def number_text(value: float) -> str:
    """Return a number as people write it: no exponent for common sizes, no trailing `.0`."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(round(value, 10))
