"""What the user said, and whether a value stands in it: the ground on which a call is taken for the user's own.

A value counts as the user's only as a whole: `10` does not stand in `100`, nor `corp.example` in `corp.example.org`,
nor `smith@x.org` in `ann.smith@x.org`. What means the same counts as the same where nobody could mean something else:
numbers by value (`1,000.50`, `1.000,50`, `1000.5`), dates and times in other forms, upper and lower case, addresses
with a name around them. Letters that only look alike are other letters.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache

_SPACE = re.compile("[ \\t\\r\\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_EDGES = " .,;:!?\"'()[]{}<>«»„“”‘’‚。，、；：？！「」『』（）《》"
_APART = frozenset(' \t\r\n"()[]{}<>;|*`~«»„“”‚‹›—…·•。，、；：？！「」『』（）《》【】€$£¥')
"""Signs that never belong to what stands beside them."""

_PAUSES = frozenset(".:!?…")
_MOST_STRIPPED = 2
_LONGEST_LABEL = 64
_LABEL = re.compile(rf"(?:^|\s)[\w-]{{0,{_LONGEST_LABEL}}}\Z")
_MOST_TRIES = 10_000
_ELISIONS = frozenset({"l", "d", "j", "m", "n", "s", "t", "c", "qu"})
_PARTICLES = frozenset("给向发付为和与跟把被对请让到从在的是了将由及或等叫找问")
"""Words of one Chinese character that stand beside names: the script has no spaces."""

_MAILBOX = re.compile(r"[^\s<>,;]+@[^\s<>,;]+")
_NAMED = re.compile(r"\s*(?P<name>[^<>]*?)\s*<\s*(?P<mailbox>[^\s<>]+)\s*>\s*")
_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Z0-9])")


def fold(text: str) -> str:
    """Return a text for comparison: one form of each letter (NFC), lower case, white space as single spaces."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text).lower()).replace("’", "'")


def exact(text: str) -> str:
    """Return a text for comparison where upper and lower case differ: paths and addresses."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text))


def stands_in(wanted: str, text: str) -> bool:
    """Return True if a value stands in a text as a whole; both in the same form (`fold` or `exact`)."""
    if not wanted:
        return False
    at = text.find(wanted)
    for _ in range(_MOST_TRIES):  # a value that stands as a whole nowhere among so many places is asked about
        if at < 0:
            return False
        if _begins(text, at, wanted) and _ends(text, at + len(wanted), wanted):
            return True
        at = text.find(wanted, at + 1)
    return False


class _Text:
    """One text of the user's: what stands in it, and what means the same."""

    def __init__(self, text: str) -> None:
        self._text = text
        # A value is looked for in what the user wrote and in its plain form, never the other way round: a value with
        # full-width or other compatible letters is not what the user wrote in plain ones.
        self._forms = (text, unicodedata.normalize("NFKC", text))

    @cached_property
    def _folded(self) -> tuple[str, ...]:
        return tuple(map(fold, self._forms))

    @cached_property
    def _exact(self) -> tuple[str, ...]:
        return tuple(map(exact, self._forms))

    @cached_property
    def _numbers(self) -> frozenset[tuple[Decimal, str]]:
        return frozenset(numbers_in(exact(self._text)))

    @cached_property
    def _dates(self) -> frozenset[date]:
        return frozenset(dates_in(self._text))

    @cached_property
    def _times(self) -> frozenset[time]:
        return frozenset(times_in(self._text))

    @cached_property
    def _accounts(self) -> frozenset[str]:
        return frozenset(_ibans(self._text))

    def holds(self, value: str | int | float) -> bool:
        """Return True if a value stands in the text, or means the same as something there."""
        if isinstance(value, int | float):
            number = as_decimal(value)
            return number is not None and any(number == known for known, _ in self._numbers)
        text = _SPACE.sub(" ", value).strip(" ")  # not `strip()`: control characters are no white space here
        if len(text) > 2 * len(self._text) + 16:  # also in another form it could not stand there
            return False
        return self._stands(text) or self._means(text)

    def _stands(self, text: str) -> bool:
        places = "/" in text or "\\" in text
        known, form = (self._exact, exact) if places else (self._folded, fold)
        wanted = [form(text)]
        bare = text.strip(_EDGES)
        cut = text.find(bare)
        if bare and not places and cut <= _MOST_STRIPPED and len(text) - cut - len(bare) <= _MOST_STRIPPED:
            wanted.append(form(bare))
        return any(stands_in(one, content) for one in wanted for content in known)

    def _means(self, text: str) -> bool:
        """Return True if a value says the same as something in the text in another form."""
        if text in CURRENCIES:  # a currency by its sign or its name, beside a number
            return any(unit == text for _, unit in self._numbers)
        if number := number_of(text):
            amount, currency = number
            return any(amount == known and currency in ("", unit) for known, unit in self._numbers)
        if len(text) <= 64:
            if (day := date_of(text)) is not None:
                return day in self._dates
            if (moment := time_of(text)) is not None:
                return moment in self._times
            if both := re.fullmatch(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::00)?)", text):
                return self.holds(both[1]) and self.holds(both[2])
            if accounts := set(_ibans(text)):
                return len(text.replace(" ", "")) == len(next(iter(accounts))) and accounts <= self._accounts
        if named := _NAMED.fullmatch(text):
            name = named["name"].strip().strip('"')
            return self.holds(named["mailbox"]) and (not name or self.holds(name))
        parts = [one.strip() for one in re.split(r"[,;\n]", text) if one.strip()]
        addresses = len(parts) > 1 and all(_MAILBOX.fullmatch(one) or _NAMED.fullmatch(one) for one in parts)
        return addresses and all(map(self.holds, parts))


class Words:
    """The user's own words: the task, answers, what was told; never the contents of files."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = tuple(map(_Text, texts))

    def where(self, value: str | int | float) -> int | None:
        """Return the number of the text a value stands in, None where it stands in none."""
        return next((index for index, text in enumerate(self._texts) if text.holds(value)), None)

    def hold(self, value: str | int | float) -> bool:
        """Return True if a value is the user's."""
        return self.where(value) is not None


@lru_cache(maxsize=64)
def words_of(texts: tuple[str, ...]) -> Words:
    """Return the words of a run, read once."""
    return Words(texts)


# -- where a value begins and ends -------------------------------------------------------------------------------------


def _word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char) in ("Mn", "Mc", "Cf", "Cc")


def _script(char: str) -> str:
    code = ord(char)
    if 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x3134F or code == 0x3005:
        return "han"
    if 0x3040 <= code <= 0x309F:
        return "hiragana"
    if 0x30A0 <= code <= 0x30FF:
        return "katakana"
    return "hangul" if 0xAC00 <= code <= 0xD7A3 else ""


def _parted(inside: str, outside: str, wanted: str) -> bool:
    """Return True if two letters beside each other belong to different words: scripts without spaces."""
    one, other = _script(inside), _script(outside)
    if one != other:
        return not (inside.isdigit() and outside in _TIMES)
    return one == "han" and len(wanted) > 1 and outside in _PARTICLES


def _begins(text: str, at: int, wanted: str) -> bool:
    if at == 0:
        return True
    before, first = text[at - 1], wanted[0]
    further = text[at - 2] if at > 1 else " "
    if before in _APART:
        return True
    if before == ",":
        return not (first.isdigit() and further.isdigit())
    if before == "'":
        if not _word(further):
            return True
        word = re.search(r"(?<!\w)(\w+)'$", text[max(0, at - 4) : at])
        return word is not None and word[1] in _ELISIONS and "@" not in wanted
    if _word(before):
        return _word(first) and _parted(first, before, wanted)
    if before in "@#":
        return further in _APART or further == ","
    if before in ":=":
        label = _LABEL.search(text[max(0, at - 2 - _LONGEST_LABEL) : at - 1])
        return label is not None and not (first.isdigit() and further.isdigit())
    if before == "-":
        return further in _APART and not first.isdigit()
    if before in _PAUSES:
        back = at - 1
        while back >= 0 and text[back] in _PAUSES:
            back -= 1
        return back < 0 or text[back] in _APART
    return unicodedata.category(before) in ("So", "Sc")


def _ends(text: str, end: int, wanted: str) -> bool:
    if end >= len(text):
        return True
    after, last = text[end], wanted[-1]
    further = text[end + 1] if end + 1 < len(text) else " "
    if after in _APART:
        return True
    if after == ",":
        return not (last.isdigit() and further.isdigit())
    if after == "'":
        genitive = further == "s" and not (end + 2 < len(text) and _word(text[end + 2]))
        return not _word(further) or (genitive and "@" not in wanted)
    if _word(after):
        return _word(last) and _parted(last, after, wanted)
    if after in _PAUSES:
        ahead = end
        while ahead < len(text) and text[ahead] in _PAUSES:
            ahead += 1
        follows = text[ahead] if ahead < len(text) else " "
        return follows in _APART or follows in "'," or _script(follows) != ""
    if after in "-/":
        return further in _APART
    return unicodedata.category(after) in ("So", "Sc")


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbered(names: str) -> dict[str, int]:
    """Return the numbers that words stand for: groups of words, counted from 1."""
    return {word: number for number, words in enumerate(names.split(","), start=1) for word in words.split()}


_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
CURRENCIES = frozenset(re.findall(r"\w+", "EUR USD GBP JPY CHF CNY SEK NOK DKK PLN CZK HUF INR AUD CAD BRL KRW TRY"))
_CURRENCY_WORDS = {
    **dict.fromkeys(("euro", "euros"), "EUR"),
    **dict.fromkeys(("dollar", "dollars"), "USD"),
    **dict.fromkeys(("pound", "pounds", "pfund", "livres"), "GBP"),
    **dict.fromkeys(("yen", "円"), "JPY"),
    **dict.fromkeys(("franken", "rappen"), "CHF"),
    **dict.fromkeys(("yuan", "元"), "CNY"),
}
_TIMES: dict[str, int] = {
    **dict.fromkeys(("k", "tsd", "thousand", "tausend", "mille", "千"), 1_000),
    **dict.fromkeys(("mio", "million", "millions", "millionen"), 1_000_000),
    **dict.fromkeys(("bn", "billion", "billions", "mrd", "milliarde", "milliarden", "milliard", "milliards"), 10**9),
    **dict.fromkeys(("百", "hundred", "hundert", "cent"), 100),
    **dict.fromkeys(("万", "萬"), 10_000),
    **dict.fromkeys(("亿", "億"), 10**8),
}
_UNITS = frozenset(["kg", "g", "km", "cm", "mm", "ml", "h", "min", "gb", "mb", "kb", "px"])
_NARROW = "[ \u00a0\u202f]?"
_IN_GROUPS = r"\d{1,3}(?: \d{3}){1,8}"
_NUMBER = re.compile(
    rf"(?:(?P<before>[€$£¥]|\b[A-Z]{{3}}){_NARROW})?"
    rf"(?P<number>{_IN_GROUPS}[.,]\d{{1,2}}(?!\d)"
    # Groups with plain spaces between them are one number only where a currency says so.
    rf"|{_IN_GROUPS}(?={_NARROW}(?:[€$£¥]|EUR|USD|GBP|CHF|[eE]uros?\b))"
    r"|\d+(?:[.,'’\u00a0\u202f\u2009]\d+)*)"
    rf"(?P<after>{_NARROW}(?:%|[€$£¥元円]|[^\W\d_]+))?(?:(?= (?P<beyond>[^\W\d_]+|[€$£¥]))|)"
)
SPELT = _numbered(
    "one uno, two zwei deux dos, three drei trois tres, four vier quatre cuatro, five fünf cinq cinco, "
    "six sechs seis, seven sieben sept siete, eight acht huit ocho, nine neun neuf nueve, ten zehn dix diez, "
    "eleven elf onze, twelve zwölf douze doce"
)


def currency_of(word: str) -> str:
    """Return the currency that a word or sign stands for, "" for none."""
    return _SIGNS.get(word) or _CURRENCY_WORDS.get(word) or (word.upper() if word.upper() in CURRENCIES else "")


def as_decimal(value: int | float) -> Decimal | None:
    """Return a number by value; None for what nobody writes down."""
    if isinstance(value, int) and value.bit_length() > 128:
        return None
    try:
        return Decimal(repr(value))
    except (InvalidOperation, ValueError):
        return None


def numbers_in(text: str) -> Iterator[tuple[Decimal, str]]:
    """Yield the numbers that stand in a text by value, each with its currency or "".

    A form that two people could read differently (`1.000`, `1,000`) is read as thousands only.
    """
    for match in _NUMBER.finditer(text):
        begin, end = match.span("number")
        number = _reading(match["number"])
        before, after = match["before"] or "", (match["after"] or "").strip()
        negative = begin > 0 and text[begin - 1] in "-−" and (begin < 2 or text[begin - 2] in _APART)
        if number is None or not (before or negative or _begins(text, begin, match["number"])):
            continue
        attached = bool(match["after"]) and not match["after"][0].isspace() and match["after"][0] not in "\u00a0\u202f"
        sign = next((s for s in _SIGNS if s in (before, after)), "")
        unit = _SIGNS.get(sign) or _CURRENCY_WORDS.get(after.lower(), "")
        unit = unit or next((code for code in (before, after) if code in CURRENCIES), "")
        factor = _TIMES.get(after.lower()) or (_TIMES.get(after[0]) if after and _script(after[0]) else None)
        if factor is not None and (len(after) > 1 or attached):
            number *= factor
            beyond = match["beyond"] or ""
            unit = (
                unit
                or _SIGNS.get(beyond)
                or _CURRENCY_WORDS.get(beyond.lower(), beyond if beyond in CURRENCIES else "")
            )
        elif attached and after not in "%€$£¥元円" and not unit:
            if after.lower() not in _UNITS and _script(after[0]) == "":
                continue  # part of a name: 3rd, 4G, 100k
        elif not match["after"] and not _ends(text, end, match["number"]):
            continue
        yield (-number if negative else number), unit
    for word in re.findall(r"[^\W\d_]+", text.lower()):
        if word in SPELT:
            yield Decimal(SPELT[word]), ""


def number_of(text: str) -> tuple[Decimal, str] | None:
    """Return the number that a whole value is, with its currency or ""; None where it is none."""
    if len(text) > 40 or not any(char.isdigit() for char in text):
        return None
    match = _NUMBER.fullmatch(text)
    if match is None or (match["before"] or "") not in ("", *_SIGNS, *CURRENCIES):
        return None
    after = (match["after"] or "").strip()
    if after and after not in _SIGNS and after not in CURRENCIES and after.lower() not in _CURRENCY_WORDS:
        return None
    return next(iter(numbers_in(text)), None)


def _reading(written: str) -> Decimal | None:
    """Return the value of a written number, None for what is none (`21.11.2026`, `007`)."""
    text = re.sub("[ '’\u00a0\u202f\u2009]", "\0", written)
    groups = text.split("\0")
    if len(groups) > 1:
        head, rest = groups[0], groups[1:]
        whole = re.match(r"\d+", rest[-1])
        if not (len(head) <= 3 and all(len(one) == 3 for one in rest[:-1]) and whole and len(whole[0]) == 3):
            return None
        text = "".join(groups)
    marks = [char for char in text if char in ".,"]
    if len(set(marks)) == 2:
        decimal = marks[-1]
        head, _, tail = text.rpartition(decimal)
        if decimal in head or not _grouped(head, marks[0]):
            return None
        text = re.sub("[.,]", "", head) + "." + tail
    elif len(marks) > 1 or (marks and len(groups) == 1 and re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", text)):
        if not _grouped(text, marks[0]):
            return None
        text = re.sub("[.,]", "", text)
    text = text.replace(",", ".")
    if re.match(r"0\d", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _grouped(text: str, mark: str) -> bool:
    """Return True if a number is written in groups of thousands (or as in India, of hundreds before the last)."""
    head, *rest = text.split(mark)
    if not rest or not 1 <= len(head) <= 3 or len(rest[-1]) != 3:
        return False
    return all(len(one) == 3 for one in rest) or (mark == "," and all(len(one) == 2 for one in rest[:-1]))


# -- dates, times, accounts --------------------------------------------------------------------------------------------

MONTHS = _numbered(
    "january januar janvier jan, february februar février feb, march märz mars mar, april avril apr, may mai, "
    "june juni juin jun, july juli juillet jul, august août aug, september septembre sep sept, "
    "october oktober octobre oct okt, november novembre nov, december dezember décembre dec dez"
)
_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"(?<![\w.-])(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?![\w-])"),
    re.compile(r"(?<![\w./-])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})(?![\w-])"),
    re.compile(
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?(?P<n>{_NAMES})\.?,?\s+(?P<y>\d{{4}})(?!\w)"
    ),
    re.compile(rf"(?<!\w)(?P<n>{_NAMES})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}})(?!\w)"),
    re.compile(r"(?<!\d)(?P<y>\d{4})\s?年\s?(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})\s?日"),
)
_DAYS = (
    re.compile(
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?(?P<n>{_NAMES})(?!\w|\.?,?\s+\d{{4}}(?!\w))"
    ),
    re.compile(rf"(?<!\w)(?P<n>{_NAMES})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|,?\s+\d{{4}}(?!\w))"),
)
DAYS_OF_WEEK = (
    "monday montag lundi lunes",
    "tuesday dienstag mardi martes",
    "wednesday mittwoch mercredi miércoles",
    "thursday donnerstag jeudi jueves",
    "friday freitag vendredi viernes",
    "saturday samstag samedi sábado",
    "sunday sonntag dimanche domingo",
)
_SLASHED = re.compile(r"(?<![\w/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>\d{4})(?![\w/])")
_CLOCK = re.compile(
    r"(?<![\w:.])(?P<h>\d{1,2})(?:(?::|(?=\.\d\d\s?uhr)\.|(?<=\d)h)(?P<m>\d{2}))?(?::00)?\s?"
    r"(?P<half>am|pm|a\.m\.|p\.m\.|uhr|h)?(?![\w:])"
)


def dates_in(text: str) -> Iterator[date]:
    """Yield the dates with a year in a text; `03/04/2026`, which two people read differently, is none."""
    text = fold(text)
    written: list[tuple[int, int, int]] = []
    for pattern in _DATES:
        for match in pattern.finditer(text):
            found = match.groupdict()
            month = MONTHS[found["n"]] if found.get("n") else int(found["m"])
            written.append((int(found["y"]), month, int(found["d"])))
    for match in _SLASHED.finditer(text):
        a, b, year = int(match["a"]), int(match["b"]), int(match["y"])
        if a > 12 or b > 12 or a == b:
            written.append((year, b, a) if a > 12 else (year, a, b))
    for day in written:
        with contextlib.suppress(ValueError):
            yield date(*day)


def days_in(text: str) -> frozenset[tuple[int, int]]:
    """Return the months and days of the dates without a year in a text."""
    found = (match.groupdict() for pattern in _DAYS for match in pattern.finditer(fold(text)))
    return frozenset((MONTHS[one["n"]], int(one["d"])) for one in found)


def is_day_of_week(day: date, text: str) -> bool:
    """Return True if a text says a date as a day of the week and of the month: "Friday the 19th"."""
    named = "|".join(DAYS_OF_WEEK[day.weekday()].split())
    said = rf"(?<!\w)(?:{named}),? (?:the |den |le |el )?0?{day.day}(?:st|nd|rd|th|\.)?(?!\w|[.,:]\d)"
    return re.search(said, fold(text)) is not None


def date_of(text: str) -> date | None:
    """Return the date that a whole value is."""
    if not re.fullmatch(r"[\w./, 年月日-]{6,40}", text):
        return None
    found = list(dates_in(text))
    whole = any(pattern.fullmatch(fold(text)) for pattern in (*_DATES, _SLASHED))
    return found[0] if whole and found else None


def times_in(text: str) -> Iterator[time]:
    """Yield the times of day that stand in a text."""
    for match in _CLOCK.finditer(fold(text)):
        hour, minute, half = int(match["h"]), match["m"], (match["half"] or "").replace(".", "")
        if minute is None and not half:
            continue
        if half in ("am", "pm"):
            if not 1 <= hour <= 12:
                continue
            hour = hour % 12 + (12 if half == "pm" else 0)
        if hour < 24 and int(minute or 0) < 60:
            yield time(hour, int(minute or 0))


def time_of(text: str) -> time | None:
    """Return the time of day that a whole value is."""
    match = re.fullmatch(r"(\d{2}):(\d{2})(?::00)?", text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        return None
    return time(int(match[1]), int(match[2]))


def _ibans(text: str) -> Iterator[str]:
    """Yield account numbers whose check digits are right, however they are spaced."""
    for match in _IBAN.finditer(text):
        number = match.group().replace(" ", "")
        if is_iban(number):
            yield number


def is_iban(number: str) -> bool:
    """Return True if the check digits of an account number in capitals without spaces are right."""
    turned = number[4:] + number[:4]
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1
