"""The encoding of a text that does not say it, or says the wrong one: the one in which its bytes are likeliest.

The same bytes are read in each, so that likelihoods can be compared: how often the languages written in it have these
letters, and what never happens in writing (a capital within a word, letters of two scripts side by side). Chinese,
Japanese and Korean are told by the rows of their national sets, which put the characters in common use first. It is
naive Bayes over single characters, as in Li and Momoi, "A composite approach to language/encoding detection" (2001).
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
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
    "cp1258": "nhtcigaumo\u0323\u0301\u0300lđrưvàsypơbôkâd\u0309áêqăxíó\u0303éúùèfwjz",  # Vietnamese, its marks apart
    "cp1254": "aeinrlıkdmytusboüşzgğçhvcöpfjâîûxwq",  # Turkish
    # Russian, Ukrainian, Bulgarian, Serbian
    "cp1251 koi8-r koi8-u cp866 iso8859-5 mac-cyrillic": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё "
    "оанитвіреслкмудпязьбгчхйжїшюцєщфґ аиоентрсвлкдпмзгяъубчцйжщхшюфь аоиенрсутјкдлвпмгзбчшцњћжхљђџф",
    "cp1253 iso8859-7": "αοιετσνρκπηυμλάίόέγδήωχθύφβςώξζψϊϋΐΰ",
    "cp1255": "יוהלרבתמאשנעםדקחפסכגטצןזךףץ",
    "cp1256 iso8859-6": "اليمونرتبةعدسفهكقأحجشطصىخإذضغئزثءظؤآ ایردنهومتبسلکيكشزفگعخقجآپحطصضغذظثچژئء",  # Persian
    "cp874": "ารอ่กมน้เงัดีตลบวสยแไทหขิจคปพูะื์ำชใุถฟ็โณซผภึธญษศฐฉๆฯ",
    # Of two bytes: the national set in whose rows their characters stand
    "cp932 euc_jp": "euc_jp",
    "gb18030": "gb2312",
    "cp949": "euc_kr",
    "big5hkscs": "big5",
}
# Rows of these sets, by their first byte: from, to, the share of a text that stands there, and how many characters do
_ROWS = {
    "euc_jp": ((164, 164, 0.45, 83), (176, 207, 0.35, 2965), (161, 168, 0.19, 180), (208, 244, 0.005, 3390)),
    "gb2312": ((176, 215, 0.93, 3755), (161, 163, 0.05, 120), (216, 247, 0.01, 3008), (164, 169, 0.002, 500)),
    "euc_kr": ((176, 200, 0.95, 2350), (161, 163, 0.02, 120), (202, 253, 0.01, 4888), (164, 172, 0.005, 700)),
    "big5": ((164, 198, 0.93, 5401), (161, 161, 0.05, 120), (201, 249, 0.01, 7652), (162, 200, 0.005, 300)),
}
WIDE = frozenset(name for names, of in _PAGES.items() if of in _ROWS for name in names.split())
_OPENING, _CLOSING = "„«‘¿¡§©№‚‹", "»”…°›%‰®™"
_SIGNS = "\u00a0\u200c\u0300\u0301\u0303\u0309\u0323“’–—€£·،؛؟" + _OPENING + _CLOSING
# Names of small sets stand for the larger ones that are in use (WHATWG Encoding).
_SMALL = "ascii utf-16 iso8859-1 iso8859-8 iso8859-9 iso8859-11 tis-620 gb2312 gbk big5 cp950 shift_jis euc_kr"
_LARGE = "cp1252 cp1255 cp1254 cp874 cp874 gb18030 gb18030 big5hkscs big5hkscs cp932 cp949"  # none for the first two
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # half the bytes of UTF-16 are, for most scripts
_SAMPLE = 8_192  # bytes that are weighed
DECLARATION = 12.0  # how much likelier the encoding is that a text says it is in; so are the numbers above (nats)
FAR = 60.0  # one of two bytes that it says it is in, and in which its bytes are valid, is overruled by more than this
NEAR = 4.0  # an encoding that is less likely than the best by no more than this could as well be right


def codec_name(name: str) -> str:
    """Return Python's name of an encoding of text, "" for one that it does not know."""
    plain = re.sub(r"^x-|-i$", "", name.strip().lower())
    try:
        codec = codecs.lookup(re.sub(r"^windows-(?=\d)", "cp", plain))
        b"\xff".decode(codec.name, "replace")  # some codecs are none of text
    except (LookupError, UnicodeError):
        return ""
    return codec.name


def declared_codec(name: str) -> str:
    """Return the encoding that a declaration means, "" where it tells nothing."""
    codec = codec_name(name)
    return dict(zip(_SMALL.split(), ["", "", *_LARGE.split()], strict=True)).get(codec, codec)


def ranking(data: bytes, declarations: Sequence[str] = ()) -> list[tuple[float, str]]:
    """Return encodings with how unlikely the bytes are in them (nats), the likeliest first, `declarations` favoured."""
    sample = _sample(data)
    pages = {name: (rarity, of) for names, of in _PAGES.items() for rarity, name in enumerate(names.split())}
    even = len(sample) % 2 == 0 or len(sample) > 99  # more than a few characters, then the last one is cut
    wide = ("utf-16-le", "utf-16-be") if even and _CONTROLS.search(sample) else ()
    candidates = ("utf-8", *wide, *(name for name in declarations if not name.startswith("utf")))
    pages = dict.fromkeys(candidates, (0, " ".join(_PAGES.values()))) | pages
    costs = {name: rarity + _cost(sample.decode(name, "replace"), of) for name, (rarity, of) in pages.items()}
    for name in {*declarations} & {*costs} - {"utf-8"}:  # bytes that are not valid UTF-8 speak against it
        costs[name] -= DECLARATION + costs[name] / 10
    common = sorted(costs, key=lambda name: pages[name][0])
    return [(costs[name], name) for name in sorted(common, key=costs.__getitem__)]


def _sample(data: bytes) -> bytes:
    """Return the lines that have bytes beyond ASCII; no encoding but UTF-16 has a newline inside a character."""
    if len(data) <= _SAMPLE or _CONTROLS.search(data[:_SAMPLE]):
        return data[:_SAMPLE]
    lines = data[: 256 * _SAMPLE].splitlines(keepends=True)
    return b"".join(line for line in lines if not line.isascii())[:_SAMPLE] or data[:_SAMPLE]


@lru_cache(maxsize=64)
def _frequencies(alphabet: str) -> dict[str, float]:
    """Return how unlikely each letter is: frequencies fall by about the same ratio from one to the next."""
    weights = [math.exp(-4 * rank / len(alphabet)) + 0.004 for rank in range(len(alphabet))]
    own = {letter: -math.log(weight / sum(weights)) for letter, weight in zip(alphabet, weights, strict=True)}
    # Texts in other scripts hold English names and words.
    return own if alphabet[0].isascii() else {letter: cost + 1 for letter, cost in _frequencies(_ENGLISH).items()} | own


def _cost(text: str, languages: str) -> float:
    """Return how unlikely a text is, in the language that it fits best."""
    cost = sum(_beside(*pair) * count for pair, count in Counter(pairwise(text)).items())
    letters = Counter[str]()
    for char, count in Counter(text).items():
        small = char.lower()
        letters[small if len(small) == 1 else char] += count
        cost += 1.5 * count if char > "\x7f" and char.isupper() else 0
    return cost + min(sum(_char(letter, of) * count for letter, count in letters.items()) for of in languages.split())


@lru_cache(maxsize=65_536)
def _beside(before: str, after: str) -> float:
    """Return what it costs that two characters stand side by side."""
    first, second = before.isalpha(), after.isalpha()
    if max(before, after) >= "\u2e80":  # Chinese, Japanese, Korean
        return 0
    if first and second:
        two_scripts = max(before, after) >= "\u0250" and ord(before) >> 8 != ord(after) >> 8
        return (5 if before.islower() and after.isupper() else 0) + (4 if two_scripts else 0)
    sign, odd = (after, _OPENING) if first else (before, _CLOSING)
    if sign < "\x80" or not (first or second):
        return 0
    return 6 if sign in odd else 0 if sign in _SIGNS else 3


@lru_cache(maxsize=65_536)
def _sign(char: str) -> float:
    """Return what a character costs that is no letter of the language."""
    if char < "\x80":
        return 12 if (char < " " and char not in "\t\n\r\x0c\x1b") or char == "\x7f" or char.isalpha() else 0
    if unicodedata.category(char) in ("Cn", "Co", "Cc") or char == "\ufffd":
        return 15
    return 5 if char in _SIGNS else 12


@lru_cache(maxsize=65_536)
def _char(char: str, language: str) -> float:
    """Return how unlikely a character is in a language: of an alphabet, or of a national set."""
    if language not in _ROWS:
        return _frequencies(language).get(char) or _sign(char)
    if char < "\x80":
        return _frequencies(_ENGLISH)[char] + 1 if char.isalpha() else _sign(char)
    code = char.encode(language, "ignore")
    for first, last, share, count in _ROWS[language]:
        if len(code) == 2 and first <= code[0] <= last:
            return -math.log(share / count)
    return max(15.0, _sign(char))
