"""Whether what the user wrote stands for this argument of this tool, where it stands in the user's words at all.

A specific value (an address, a path, a whole date, quoted words, a phrase) is meant wherever it stands. A short number
or a single word is meant for an argument only where the words around it say so: they name the argument or what it is
(`file 13`, `4 people`, `50 euros`), the call's own verb takes it (`book a table`), or a preposition gives it its part
(`to Bob`). A word that names the argument or the tool itself is no value, nor is one that fits everything (`all`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from agentorchestra.core.effects import Effect, Tag
from agentorchestra.trust.addresses import may_address
from agentorchestra.trust.arguments import KEY, Leaf
from agentorchestra.trust.words import (
    CURRENCIES,
    DAYS_OF_WEEK,
    MONTHS,
    SPELT,
    as_decimal,
    currency_of,
    date_of,
    number_of,
    numbers_in,
    time_of,
)

_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[^\w\s]|\n")
_ABBREVIATED = re.compile(r"\b(no|nr|num)\.(?=\s?\d)", re.IGNORECASE)
_OPEN, _CLOSE = frozenset("\"'“„”«»‘’`‚‹›「『*"), frozenset("\"'“”»«’‘`›‹」』*")
_ENDS = frozenset(".!?;\n")
_CODE = re.compile(r"(?=.*\d.*\d)(?=.*[^\W\d])[\w-]{4,}")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|er|e|ste|te)?", re.IGNORECASE)
_SHORT = 6
_LONG = 1_000  # whole numbers from here on are rarely written by chance; years are


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ARTICLES = _words(
    "the a an my our his her their its this that der die das den dem des ein eine einen einem einer mein meine meinen "
    "meinem meiner unser unsere le la les l un une mon ma mes notre nos du des el los las una mi mis nuestro nuestra"
)
_LINKS = _words(
    "is are be to as of : = # no nr number numero número numéro nummer n ° with and or , & und oder et ou y o ist sei "
    "auf est sur es por de von id - – * ` ( in into set"
)
_EMPTY = _ARTICLES | _words(
    "all any every everything each both none nothing some many more most other new old yes no true false on off it me "
    "you us them he she we they i who what which where when now here there and or not but if in at by for from of to "
    "with as is are be do please alle alles jede jeder jedes beide keine nichts einige mehr neu alt ja nein an aus bei "
    "mit nach von zu und oder nicht für bitte ich du wir sie tout tous toute toutes chaque aucun rien oui non et ou à "
    "de en pour avec sur todo todos toda todas cada ninguno nada sí y o para con por al public private default "
    "never always none first last öffentlich public privé público"
)
"""Words that say nothing by themselves, or fit everything."""

WEEKDAYS = _words(f"{' '.join(DAYS_OF_WEEK)} today tomorrow heute morgen demain aujourd hui hoy mañana")
_GERMAN = _words("der das und eine einen einem für ich bitte mit von zu dem den auf meine mein ist nicht vom zum")


class _Kind(NamedTuple):
    """What arguments may be: the words that name such an argument, and those that come before its value."""

    names: frozenset[str]
    before: frozenset[str] = frozenset()
    verb: bool = False  # whether the verb of a sentence may take it directly
    article: bool = False  # whether an article may come before it


_KINDS = {
    "amount": _Kind(
        _words(
            "amount price sum total cost costs value fee budget betrag preis summe kosten montant prix somme importe "
            "precio suma cantidad"
        ),
        _words("of über de por"),
        verb=True,
    ),
    "people": _Kind(
        _words(
            "people person persons guests guest seats attendees adults personen gäste leute plätze personnes personne "
            "invités couverts personas invitados comensales"
        ),
        _words("for für pour para"),
    ),
    "receiver": _Kind(
        _words(
            "to recipient recipients receiver receivers payee cc bcc user contact whom attendee participant member "
            "beneficiary benutzer utilisateur usuario empfänger an destinataire destinatario"
        ),
        _words("to an à a al au aux for für pour para tell ask invite notify cc copy with mit avec con"),
        verb=True,
    ),
    "name": _Kind(
        _words(
            "name title label named called titled namen titel nom titre nombre título titulado llamado nommé namens"
        ),
        _words("named called titled namens nommé llamado llamada it"),
    ),
    "place": _Kind(
        _words(
            "place location city town folder directory origin destination where channel ort stadt ordner lieu ville"
        ),
        _words("in at from into near nach aus à en dans desde hasta to"),
    ),
    "day": _Kind(
        _words(
            "day date month weekday when start end due deadline until since tag datum monat jour mois día fecha mes"
        ),
        _words("on by until since am bis le el"),
    ),
    "object": _Kind(
        _words("what item thing product object service query topic article was artikel produkt produit producto"),
        verb=True,
        article=True,
    ),
    "quantity": _Kind(_words("count quantity copies number times limit pages anzahl menge quantité cantidad")),
    "currency": _Kind(_words("currency währung devise moneda")),
}


class _Place(NamedTuple):
    """An occurrence in the user's words: the words before it, the nearest last, and those behind it, in lower case."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    written: tuple[str, ...]


def stands_for(leaf: Leaf, effect: Effect, texts: tuple[str, ...]) -> bool:
    """Return True if a value that stands in the user's words stands there for this argument of this call."""
    if leaf.path.endswith(KEY):
        return True
    value = leaf.value
    number = _number(value)
    if number is None and isinstance(value, str) and _specific(value, leaf, effect, texts):
        return True
    argument = _argument(leaf, effect)
    if _KINDS["currency"] in argument.kinds and value in CURRENCIES:
        return True  # it stands beside a number, or the user wrote it
    if number is not None:
        return any(_number_meant(number, text, argument, effect) for text in texts)
    return any(
        _word_meant(str(value), place, argument, effect) for text in texts for place in _places(str(value), text)
    )


def from_trusted_field(leaf: Leaf, effect: Effect, trusted: Iterable[tuple[str, str | int | float]]) -> bool:
    """Return True if a value came from a trusted field of a result.

    A short number or a single short word has to come from a field whose name is the argument's, or a word for it.
    """
    if isinstance(leaf.value, bool):
        return False
    number = _number(leaf.value)
    wanted = number if number is not None else str(leaf.value).strip()
    argument = _argument(leaf, effect)
    for name, value in trusted:
        known = _number(value)
        if wanted != (known if known is not None else str(value).strip()):
            continue
        if abs(number) >= _LONG if number is not None else len(str(wanted)) >= _SHORT:
            return True
        if not {_stem(one) for one in _parts(name)}.isdisjoint(argument.words):
            return True
    return False


def name_words(name: str) -> frozenset[str]:
    """Return the words in the name of an argument or a field, each without the ending of its plural."""
    return frozenset(_stem(one) for one in _parts(name))


def kinds_of(leaf: Leaf, effect: Effect) -> frozenset[str]:
    """Return the kinds that an argument is of by its name: `amount`, `receiver`, `day`, ...; none for others."""
    kinds = _argument(leaf, effect).kinds
    return frozenset(name for name, kind in _KINDS.items() if kind in kinds)


def kind_words(leaf: Leaf, effect: Effect) -> frozenset[str]:
    """Return the words that name an argument, or what it is of its kind: `recipient`, `payee`, `to`."""
    return _argument(leaf, effect).words


def says_nothing(word: str) -> bool:
    """Return True for a word that fits everything."""
    return word in _EMPTY


class _Argument(NamedTuple):
    """What is known of an argument: its words, its kinds, whether it is a plain name of a thing (`id`)."""

    words: frozenset[str]
    kinds: tuple[_Kind, ...]
    identifies: bool


def _argument(leaf: Leaf, effect: Effect) -> _Argument:
    words = {_stem(one) for one in _parts(leaf.path)}
    kinds = tuple(kind for kind in _KINDS.values() if any(_stem(one) in words for one in kind.names))
    words |= {_stem(one) for kind in kinds for one in kind.names}
    identifies = bool(words & {"id", "key", "ref", "index", "nr", "no", "uid"}) or not kinds
    return _Argument(frozenset(words), kinds, identifies)


def _specific(value: str, leaf: Leaf, effect: Effect, texts: tuple[str, ...]) -> bool:
    """Return True if a text is one that nobody writes without meaning it."""
    text = value.strip()
    if any(may_address(piece) for piece in text.split()) or (text.endswith(".") and len(text.split()) > 2):
        return True
    if date_of(text) is not None or time_of(text) is not None:
        return True
    if _CODE.fullmatch(text) and not _ORDINAL.fullmatch(text):
        return True
    tokens = _tokens(text)
    names = {_stem(one) for one in (*_parts(leaf.path), *_parts(effect.name))}
    content = [one for one in tokens if one[0].isalnum() and one not in _EMPTY and _stem(one) not in names]
    if len(content) > 1 and not _only_calendar(content):
        return True
    if any(unicodedata.category(char) == "Lo" for char in text):
        return len(text) > 1  # scripts without capitals and, most of them, without spaces
    places = [place for one in texts for place in _places(text, one)]
    return any(_quoted(place) or (len(tokens) > 1 and place.before[-1:] == (":",)) for place in places)


def _only_calendar(words: list[str]) -> bool:
    """Return True for a part of a date (`June 13`)."""
    return all(one in MONTHS or one in WEEKDAYS or one.isdigit() for one in words)


def _quoted(place: _Place) -> bool:
    before, after = place.before[-1:], next((one for one in place.after if one not in ".,;:!?"), "")
    return bool(before) and before[0] in _OPEN and after in _CLOSE


# -- numbers -----------------------------------------------------------------------------------------------------------


def _number(value: str | int | float) -> Decimal | None:
    if isinstance(value, int | float):
        return as_decimal(value)
    found = number_of(value.strip())
    return found[0] if found is not None else None


def _number_meant(number: Decimal, text: str, argument: _Argument, effect: Effect) -> bool:
    of_money = Tag.SPEND in effect.tags and not argument.identifies
    of_money = of_money or _KINDS["amount"] in argument.kinds
    if of_money and any(known == number and unit for known, unit in numbers_in(text)):
        return True
    if abs(number) >= _LONG and not 1900 <= number < 2100 and any(known == number for known, _ in numbers_in(text)):
        return True
    things = {_stem(one) for one in _parts(effect.name)[1:]} if argument.identifies else set()
    for place in _number_places(number, text):
        near = _label(place.before)
        behind = next(iter(place.after), "")
        if near and _stem(near) in argument.words | things:
            return True
        if behind and _stem(behind) in argument.words:
            return True
        if behind in MONTHS or near in MONTHS or currency_of(behind):
            continue
        last = place.before[-1] if place.before else ""
        begins = len(place.before) == 1 or (len(place.before) > 1 and place.before[-2] in _ENDS)
        for kind in argument.kinds:
            if last in kind.before and not (behind.isalpha() and behind not in _EMPTY):
                return True
            if kind.verb and last.isalpha() and begins:
                return True
    return False


def _number_places(number: Decimal, text: str) -> Iterator[_Place]:
    tokens = _tokens(text)
    for at, token in enumerate(tokens):
        found = number_of(token)
        if (found is not None and found[0] == number) or (token in SPELT and SPELT[token] == number):
            yield _Place(tokens[max(0, at - 8) : at], tokens[at + 1 : at + 3], (token,))


def _label(before: tuple[str, ...]) -> str:
    """Return the word that what follows belongs to, over articles, signs and further numbers of a list."""
    for word in reversed(before):
        if word in _LINKS or word in _ARTICLES or word[0].isdigit() or word in SPELT:
            continue
        return word if word[0].isalpha() else ""
    return ""


# -- words -------------------------------------------------------------------------------------------------------------


def _word_meant(value: str, place: _Place, argument: _Argument, effect: Effect) -> bool:
    word = value.strip().lower()
    own = {_stem(one) for one in (*_parts(effect.name),)} | argument.words
    near = _label(place.before)
    behind = next(iter(place.after), "")
    labelled = bool(near) and _stem(near) in argument.words
    if labelled and place.before[-1] in (":", "=", *_OPEN):
        return True
    if _stem(word) in own:
        return near in _KINDS["name"].before and place.before[-1] not in _ARTICLES
    if word in _EMPTY:
        return False
    if word in MONTHS or word in WEEKDAYS:
        return _KINDS["day"] in argument.kinds
    if labelled or (behind and _stem(behind) in argument.words and _stem(behind) not in _EMPTY):
        return True
    if _is_name(place):
        return True
    back = [one for one in place.before if one != "*"]
    articles = _ARTICLES - {"an"} if _is_german(place) else _ARTICLES
    article = bool(back) and back[-1] in articles
    while back and back[-1] in articles:
        back.pop()
    last = back[-1] if back else ""
    begins = len(back) == 1 or (len(back) > 1 and back[-2] in _ENDS)
    verbs = {_stem(one) for one in _parts(effect.name)}
    for kind in argument.kinds:
        if last in kind.before or (kind.article and article):
            return True
        if kind.verb and last.isalpha() and ((begins and not article) or _stem(last) in verbs):
            return True
    return False


def _is_name(place: _Place) -> bool:
    """Return True for a word with a capital where only names have one."""
    first = place.written[0]
    begins = not place.before or place.before[-1] in _ENDS or place.before[-1] in (":", "-", "–", "*")
    return first[:1].isupper() and not begins and not _is_german(place)


def _is_german(place: _Place) -> bool:
    """Return True where every noun has a capital."""
    return not _GERMAN.isdisjoint((*place.before, *place.after))


@lru_cache(maxsize=512)
def _split(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(_ABBREVIATED.sub(r"\1", unicodedata.normalize("NFKC", text))))


@lru_cache(maxsize=512)
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(one.lower() for one in _split(text))


def _places(value: str, text: str) -> Iterator[_Place]:
    wanted, tokens, written = _tokens(value), _tokens(text), _split(text)
    while wanted and wanted[-1] in ".,;:!?":
        wanted = wanted[:-1]
    for at in range(len(tokens) - len(wanted) + 1) if wanted else ():
        end = at + len(wanted)
        if tokens[at:end] == wanted:
            yield _Place(tokens[max(0, at - 12) : at], tokens[end : end + 12], written[at:end])


def _parts(name: str) -> list[str]:
    """Return the words of a name: `file_id`, `fileId`, `mail.to[1]`."""
    return [one.lower() for one in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+", name)]


def _stem(word: str) -> str:
    """Return a word without the ending of its plural."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    for ending in ("en", "es", "s", "n", "e"):
        if len(word) - len(ending) >= 3 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word
