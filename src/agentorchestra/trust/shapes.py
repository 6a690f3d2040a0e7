"""How values are written: mailboxes, links, accounts, phone numbers, amounts; what of a kind stands in a result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from agentorchestra.trust.addresses import links_in, plain_links_in
from agentorchestra.trust.records import Piece, as_number
from agentorchestra.trust.roles import name_words
from agentorchestra.trust.words import fold, is_iban, numbers_in

_MAILBOX = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_GROUP = r"(?=[A-Z]*+\d)[A-Z0-9]++"  # possessive: nobody can write a text that takes long to search
_FOUR = r"(?=[A-Z]{0,3}\d)[A-Z0-9]{4}"
_BANK = rf"[A-Z]{{2}}\d\d[ .-]?[A-Z0-9]{{4}}(?:[ .-]?{_FOUR}){{1,6}}(?:[ .-]?(?=[A-Z]{{0,2}}\d)[A-Z0-9]{{1,3}})?"
"""An IBAN: only its second group, of the bank, may be of letters alone."""

_ACCOUNT = re.compile(
    rf"(?<![A-Za-z0-9])(?i:{_BANK})(?![\w@])"
    rf"|(?<![\w@.:/-]){_GROUP}(?:(?: {_GROUP})++|(?:-{_GROUP})++|(?:\.{_FOUR}){{2,}}+)?+(?![\w@])"
)
_PATH = re.compile(r"(?<![\w:/])(?:~|\.{1,2})?/[^\s\"'<>,;]+|[A-Za-z]:\\[^\s\"'<>,;]+")

_PHONE = re.compile(r"(?<![\w+])(?:\+|00)\d(?:[ ()/.-]{0,2}\d){7,13}(?!\w)")
_FILE = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.[A-Za-z]\w{0,4}(?![\w/-]|\.\w)")
_LOCAL_PHONE = re.compile(
    r"(?<![\w+.,-])\(?0\d{2,5}\)?[ /-]{1,3}\d(?:[ /-]?\d){3,9}(?![\w-])|(?<![\w+.,-])0[1-9]\d{7,12}(?![\w-])"
)


# -- in a text ---------------------------------------------------------------------------------------------------------


def places_in(text: str) -> set[str]:
    """Return what in a text leads elsewhere: addresses, mailboxes, phone numbers, accounts."""
    found = {one.rstrip(".,;:!?") for one in links_in(text) | plain_links_in(text)}
    return found | {*_MAILBOX.findall(text), *_PHONE.findall(text), *_LOCAL_PHONE.findall(text)} | accounts_in(text)


def accounts_in(text: str) -> set[str]:
    """Return the account numbers in a text; in small letters those whose check digits are right."""
    return {
        one
        for one in _ACCOUNT.findall(text)
        if sum(map(str.isalnum, one)) >= 12 and (one == one.upper() or is_iban(compact(one)))
    }


def compact(account: str) -> str:
    """Return an account number without what parts its groups."""
    return re.sub(r"[ .-]", "", account).upper()


# -- in a result -------------------------------------------------------------------------------------------------------


_Held = TypeVar("_Held", Piece, "Alike")


class Alike(NamedTuple):
    """A value of the wanted shape in a piece of a result."""

    value: str | Decimal
    field: frozenset[str]
    label: frozenset[str]
    record: frozenset[str]
    whole: bool
    money: bool  # a number with a currency, or with cents


def shape_of(value: str | int | float, *, amount: bool = False) -> str:
    """Return how a value is written: `mailbox`, `link`, `path`, `file`, `phone`, `account`, `number`; else `words`."""
    if amount:
        return "number"
    text = str(value).strip()
    if _MAILBOX.fullmatch(text):
        return "mailbox"
    if not re.search(r"\s", text) and ("://" in text or text.startswith("www.") or text in plain_links_in(text)):
        return "link"
    if _PATH.fullmatch(text):
        return "path"
    if _FILE.fullmatch(text) and as_number(text) is None:
        return "file"
    if _PHONE.fullmatch(text) or _LOCAL_PHONE.fullmatch(text):
        return "phone"
    return "account" if text in accounts_in(text) else "words"


def plain_form(value: str | int | float, shape: str) -> str | Decimal:
    """Return a value in the form in which those of its shape are compared."""
    if shape == "number":
        number = as_number(value)
        return number if number is not None else str(value)
    text = str(value).strip()
    if shape == "account":
        return compact(text)
    if shape == "phone":
        return re.sub(r"\D", "", text)
    return text if shape in ("link", "path", "file") else fold(text)


def written_in(text: str, shape: str) -> Iterable[str]:
    """Return what of a shape stands in a text."""
    if shape == "mailbox":
        return _MAILBOX.findall(text)
    if shape == "link":
        return [one.rstrip(".,;:!?") for one in links_in(text) | plain_links_in(text)]
    if shape == "path":
        return _PATH.findall(text)
    if shape == "file":
        return _FILE.findall(text)
    if shape == "phone":
        return [*_PHONE.findall(text), *_LOCAL_PHONE.findall(text)]
    return accounts_in(text)


def alike_in(piece: Piece, shape: str, value: str) -> Iterator[Alike]:
    """Yield what of a shape stands in a piece; of words, which have none, the line as far as it is not `value`."""
    found: list[tuple[str | Decimal, bool]]
    label = piece.label
    if shape == "number":
        for part in _clauses(piece):
            for number, unit in numbers_in(part.text):
                whole = piece.whole and as_number(piece.text.strip()) == number
                money = bool(unit) or number.as_tuple().exponent == -2
                yield Alike(number, piece.field, part.label, piece.record, whole, money)
        return
    if shape == "words":
        text = piece.text.strip(" \t\"'.")
        before, _, after = text.rpartition(value)
        if before and not after and not piece.whole:
            label, text = label | name_words(before), value
        found = [(plain_form(text, shape), piece.whole)]
        label = label if piece.whole or text == value else name_words(text)
    else:
        texts = written_in(piece.text, shape)
        found = [(plain_form(one, shape), piece.text.strip() == one) for one in texts]
    for known, whole in found:
        yield Alike(known, piece.field, label, piece.record, whole and piece.whole, money=False)


def beside(pool: Sequence[_Held], words: frozenset[str]) -> list[_Held]:
    """Return what stands in a record with one of these words; a word that all of them have tells none from another."""
    common = frozenset.intersection(*(one.record for one in pool)) if len(pool) > 1 else frozenset()
    return [one for one in pool if one.record & (words - common)]


def _clauses(piece: Piece) -> Iterator[Piece]:
    """Yield the clauses of a line without a label of its own, each labelled by its words."""
    if piece.whole or piece.label:
        yield piece
        return
    for text in re.split(r"[.;,](?=\s)", piece.text):
        yield piece._replace(label=name_words(text), text=text)
