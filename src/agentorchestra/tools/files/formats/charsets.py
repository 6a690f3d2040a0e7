"""The encoding of a text that does not say it, or says the wrong one: the one in which its bytes are likeliest.

Each encoding reads the same bytes, so that what they are worth as text can be compared: how often the languages written
in it have these letters, and what never happens in writing (a capital within a word, letters of two scripts side by
side, unassigned codes). Chinese, Japanese and Korean are told by the rows of their national sets, which put the
characters in common use first. The method is naive Bayes over single characters, as in Li and Momoi, "A composite
approach to language/encoding detection" (19th International Unicode Conference, 2001).
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

_ENGLISH = "etaoinsrhldcumfpgwybvkxjzq"
# Encodings of a byte for each character, the most common first, and the letters of the languages that are written in
# them, the most frequent first: English, German, French, Spanish, Portuguese, Italian, Dutch, Swedish, Danish, Finnish,
# Icelandic
_PAGES = {
    "cp1252 iso8859-15 mac-roman cp437 cp850 cp865": f"{_ENGLISH} enisratdhulcgmobwfkzpvüäßjöyxqé "
    "esaitnrulodcpmévqfbghjàxèyêzçwôûùîâëïkœ eaosrnidlctumpbgyívqóhfzjéáñxúükw aeosridntmuclpvgqbfhãzçéáíjxóêõâúàôkwy "
    "eaionltrscdupmvghfbqzòàùìèékjwxy enatirodslghvkmubpwjzcfxyëéqïóö eanrtsildomkgväfhupåöbcyjxéwzq "
    "erntaisdlogmkfvubhpåyøæcjxéwzq aintesloukämvrjhypdögbfcåwzxqšž anriestulðgmkfhvoáþídjbyæöpéúýócx",
    # Polish, Czech, Slovak, Hungarian, Romanian, Croatian, German
    "cp1250 iso8859-2 cp852": "aioezynrwsctkdpmuljłęgąbóhżśfćńźvqx oeantvislrdkmpíuázyjěchbéřýčžšůúťóďňgfxwq "
    "oaeinrsvtkdlmpucháízyjbéýčžšúľťňôŕäďóĺgfxw eatlnskorzigáémydvbhjöpufócőíúüűxwq eiarntulocsdmpăfvîgbşţzhâjxkwyșț "
    "aioenrjstuvkdmlpgzbčcšžhćfđqxyw enisratdhulcgmobwfkzpvüäßjöyxqé",
    # Lithuanian, Latvian, Estonian
    "cp1257 iso8859-13": "iasoretnukmlpvdjgbyėšųžąįčūzęcfhxw aistrenukolmdpājvzgbēcīšķļņģūčžfhŗxwy "
    "aiestlunokrdmvgpjhäbõüfcöyšžwzxq",
    "cp1254": "aeinrlıkdmytusboüşzgğçhvcöpfjâîûxwq",  # Turkish
    # Russian, Ukrainian, Bulgarian, Serbian
    "cp1251 koi8-r koi8-u cp866 iso8859-5 mac-cyrillic": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё "
    "оанитвіреслкмудпязьбгчхйжїшюцєщфґ аиоентрсвлкдпмзгяъубчцйжщхшюфь аоиенрсутјкдлвпмгзбчшцњћжхљђџф",
    "cp1253 iso8859-7": "αοιετσνρκπηυμλάίόέγδήωχθύφβςώξζψϊϋΐΰ",
    "cp1255": "יוהלרבתמאשנעםדקחפסכגטצןזךףץ",
    "cp1256 iso8859-6": "اليمونرتبةعدسفهكقأحجشطصىخإذضغئزثءظؤآ ایردنهومتبسلکيكشزفگعخقجآپحطصضغذظثچژئء",  # Persian
    "cp874": "ารอ่กมน้เงัดีตลบวสยแไทหขิจคปพูะื์ำชใุถฟ็โณซผภึธญษศฐฉๆฯ",
}
# Encodings of two bytes: the national set in whose rows characters stand, as Python encodes it
_WIDE = {"cp932": "euc_jp", "euc_jp": "euc_jp", "gb18030": "gb2312", "cp949": "euc_kr", "big5hkscs": "big5"}
# Rows of these sets, by their first byte: from, to, the share of a text that stands there, and how many characters do
_ROWS = {
    "euc_jp": ((164, 164, 0.45, 83), (176, 207, 0.35, 2965), (161, 168, 0.19, 180), (208, 244, 0.005, 3390)),
    "gb2312": ((176, 215, 0.93, 3755), (161, 163, 0.05, 120), (216, 247, 0.01, 3008), (164, 169, 0.002, 500)),
    "euc_kr": ((176, 200, 0.95, 2350), (161, 163, 0.02, 120), (202, 253, 0.01, 4888), (164, 172, 0.005, 700)),
    "big5": ((164, 198, 0.93, 5401), (161, 161, 0.05, 120), (201, 249, 0.01, 7652), (162, 200, 0.005, 300)),
}
_OPENING, _CLOSING = "„«‘¿¡§©№‚‹", "»”…°›%‰®™"
_SIGNS = "\u00a0\u200c“’–—€£·،؛؟" + _OPENING + _CLOSING
# Names of small sets stand for the larger ones that are in use (WHATWG Encoding).
_MEANT = {
    **dict.fromkeys(("ascii", "utf-16"), ""),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("big5", "cp950"), "big5hkscs"),
    **{"iso8859-1": "cp1252", "iso8859-8": "cp1255", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874"},
    **{"shift_jis": "cp932", "euc_kr": "cp949"},
}
_UNICODE = ("utf-8", "utf-16-le", "utf-16-be")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # half the bytes of UTF-16 are, for most scripts
_SAMPLE = 32_768  # bytes that are weighed
DECLARED = 12.0  # how much likelier the encoding is that a text says it is in; so are the numbers above (nats)
NEAR = 4.0  # an encoding that is less likely than the best by no more than this could as well be right
_TAG = re.compile(rb"<[^<>]{1,300}>")


def known(name: str) -> str:
    """Return Python's name of an encoding of text, "" for one that it does not know."""
    plain = re.sub(r"^x-|-i$", "", name.strip().lower())
    try:
        found = codecs.lookup(re.sub(r"^windows-(?=\d)", "cp", plain))
        b"\xff".decode(found.name, "replace")  # some codecs are none of text
    except (LookupError, UnicodeError):
        return ""
    return found.name


def meant(name: str) -> str:
    """Return the encoding that a declaration means, "" where it tells nothing."""
    found = known(name)
    return _MEANT.get(found, found)


def ranked(data: bytes, declared: Sequence[str] = ()) -> list[tuple[float, str]]:
    """Return encodings with how unlikely the bytes are in them (nats), the likeliest first, `declared` favoured."""
    sample = _sample(data)
    single, pairs = Counter(sample), Counter(pair for pair in pairwise(sample) if max(pair) > 127)
    every = " ".join(_PAGES.values())
    pages = {name: (rarity, of) for names, of in _PAGES.items() for rarity, name in enumerate(names.split())}
    pages = {name: (2, every) for name in declared if not name.startswith("utf")} | pages
    costs: dict[str, float] = {}
    for name, (rarity, alphabets) in pages.items():
        signs = bytes(range(256)).decode(name, "replace")
        if len(signs) == 256:
            chars, beside = Counter[str](), Counter[tuple[str, str]]()
            for byte, count in single.items():
                chars[signs[byte]] += count
            for (before, after), count in pairs.items():
                beside[signs[before], signs[after]] += count
            costs[name] = rarity + _cost(chars, beside, alphabets)
    for name, national in _WIDE.items():
        costs[name] = _cost_wide(Counter(sample.decode(name, "replace")), national)
    even = len(sample) % 2 == 0 or len(sample) > 99  # more than a few characters, then the last one is cut
    for name in _UNICODE[: 3 if even and _CONTROLS.search(sample) else 1]:
        text = sample.decode(name, "replace")
        chars = Counter(text)
        plain = _cost(chars, Counter(pairwise(text)), every)
        costs[name] = min(plain, *(_cost_wide(chars, national) for national in _ROWS))
    for name in {*declared} & {*costs}:
        costs[name] -= DECLARED + costs[name] / 10
    return sorted(((cost, name) for name, cost in costs.items()), key=lambda pair: pair[0])  # the common one first


def _sample(data: bytes) -> bytes:
    """Return the lines that have bytes beyond ASCII, without markup; no encoding has a newline inside a character."""
    if _CONTROLS.search(data[:_SAMPLE]):
        return data[:_SAMPLE]
    data = _TAG.sub(b" ", data[: 64 * _SAMPLE])
    if len(data) <= _SAMPLE:
        return data
    found = bytearray()
    for line in data.splitlines(keepends=True):
        found += b"" if line.isascii() or len(found) > _SAMPLE else line
    return bytes(found[:_SAMPLE]) or data[:_SAMPLE]


@lru_cache(maxsize=64)
def _frequencies(alphabet: str) -> dict[str, float]:
    """Return how unlikely each letter is: frequencies fall by about the same ratio from one to the next."""
    weights = [math.exp(-4 * rank / len(alphabet)) + 0.004 for rank in range(len(alphabet))]
    own = {letter: -math.log(weight / sum(weights)) for letter, weight in zip(alphabet, weights, strict=True)}
    # Texts in other scripts hold English names and words.
    return own if alphabet[0].isascii() else {one: cost + 1 for one, cost in _frequencies(_ENGLISH).items()} | own


def _cost(chars: Mapping[str, int], beside: Mapping[tuple[str, str], int], alphabets: str) -> float:
    """Return how unlikely a text is, in the language that it fits best."""
    cost = sum(_beside(*pair) * count for pair, count in beside.items())
    letters = Counter[str]()
    for char, count in chars.items():
        small = char.lower()
        letters[small if len(small) == 1 else char] += count
        cost += 1.5 * count if char > "\x7f" and char.isupper() else 0
    languages = map(_frequencies, alphabets.split())
    return cost + min(
        sum((of[one] if one in of else _sign(one)) * count for one, count in letters.items()) for of in languages
    )


@lru_cache(maxsize=65_536)
def _beside(before: str, after: str) -> float:
    """Return what it costs that two characters stand side by side."""
    first, second = before.isalpha(), after.isalpha()
    if first and second:
        mixed = max(before, after) >= "\u0250" and ord(before) >> 8 != ord(after) >> 8
        return (5 if before.islower() and after.isupper() else 0) + (4 if mixed else 0)
    if first and after > "\x7f":
        return 6 if after in _OPENING else 0 if after in _SIGNS else 3
    if second and before > "\x7f":
        return 6 if before in _CLOSING else 0 if before in _SIGNS else 3
    return 0


@lru_cache(maxsize=65_536)
def _sign(char: str) -> float:
    """Return what a character costs that is no letter of the language."""
    if char < "\x80":
        return 12 if (char < " " and char not in "\t\n\r\x0c\x1b") or char == "\x7f" or char.isalpha() else 0
    if unicodedata.category(char) in ("Cn", "Co", "Cc") or char == "\ufffd":
        return 15
    return 5 if char in _SIGNS else 12


def _cost_wide(chars: Mapping[str, int], national: str) -> float:
    """Return how unlikely a text is in a language of one of the national sets."""
    return sum(_wide(char, national) * count for char, count in chars.items())


@lru_cache(maxsize=65_536)
def _wide(char: str, national: str) -> float:
    """Return how unlikely a character is in a text of Chinese, Japanese or Korean."""
    if char < "\x80":
        return _frequencies(_ENGLISH)[char.lower()] + 1 if char.isalpha() else _sign(char)
    code = char.encode(national, "ignore")
    for first, last, share, count in _ROWS[national]:
        if len(code) == 2 and first <= code[0] <= last:
            return -math.log(share / count)
    return max(15.0, _sign(char))
