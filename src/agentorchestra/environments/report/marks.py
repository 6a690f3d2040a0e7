"""Citations in Markdown: links, marks, addresses and lists of references, found by code (000, app. D.7).

Every pattern here takes time that is linear in the text: it comes from pages and models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentorchestra.environments.report.addresses import address_in, trim, without_address

# A link, a mark such as `[2]`, `[1, 3]`, `[E4]`, `[^5]`, `[^note]`, an address, a DOI.
CITATION = re.compile(
    r"(?<!\\)!?\[(?P<text>(?:\\[^\n]|[^\[\]\\\n]){0,400})\]\("
    r"\s{0,3}<?(?P<address>[^\s()<>]{1,2000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,5})>?"
    r"(?:\s{1,3}[\"'(](?P<title>[^\"\n]{0,300})[\"')])?\s{0,3}\)"
    r"|(?<![\w\\])\[(?P<mark>[\^E]?\d{1,3}(?:\s?[,;–-]\s?[\^E]?\d{1,3}){0,20}|\^[\w-]{1,40})\](?![(:])"
    r"|<(?P<auto>https?://[^\s<>]{1,2000})>"
    r"|(?P<bare>\bhttps?://[^\s<>\"`\[\]{}|\\^]{1,2000})"
    r"|(?P<doi>\bdoi:\s{0,3}10\.\d{4,9}/[^\s\"<>\[\]]{1,300})",
    re.IGNORECASE,
)
_BETWEEN = r"(?:\s?(?:[,;/&+–—-]|to|bis)|,?\s?(?:and|und))"
_MARKS = rf"\^?E\s?\d{{1,4}}(?:{_BETWEEN}\s?\^?(?:E\s?)?\d{{1,4}}|\s?\^?E\d{{1,4}}){{0,20}}"
_EVIDENCE = re.compile(
    rf"\\?[\[【]{{1,2}}\s?(?:see |cf\. )?(?P<square>{_MARKS})(?:\s?[,:;]\s[^\[\]【】\n]{{0,200}})?\s?\\?[\]】]{{1,2}}"
    r"(?:\([^()\s]{1,2000}\))?"
    rf"|\((?:see |cf\. )?(?P<round>{_MARKS})\)",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"(\d{1,4})(?:\s?(?:[–—-]|to|bis)\s?\^?(?:E\s?)?(\d{1,4}))?", re.IGNORECASE)

_IN_WORDS = re.compile(
    r"\((?:see |cf\. )?[A-ZÄÖÜ][\w.&’'-]{1,40}(?:[ ,]{1,2}[\w.&’'-]{1,40}){0,8}[ ,]{1,2}(?:1[5-9]|20)\d\d[a-z]?\b"
    r"[^()\n]{0,40}\)"
)

_CODE = re.compile(r"^(?:```|~~~)[^\n]*$|`[^`\n]{1,2000}`", re.MULTILINE)
_HEADING = re.compile(
    r"^(?:#{1,6}\s{1,4}|\*\*|__)?(?:references|sources|bibliography|works cited|citations|footnotes|notes|"
    r"quellen|quellenverzeichnis|literatur|literaturverzeichnis|einzelnachweise|références|bibliographie|fuentes|"
    r"referencias|bibliografía)\s{0,3}:?(?:\*\*|__)?\s{0,3}#{0,6}\s*$",
    re.IGNORECASE,
)
_ANY_HEADING = re.compile(r"^#{1,6}\s")
_ENTRY = re.compile(
    r"^\s{0,8}(?:[-*+]\s{1,3})?(?:\[\^?(?P<id>\w{1,40})\]:?|(?P<number>\d{1,3})[.)])\s{1,4}(?P<rest>\S.*)$"
)
_PLAIN_ENTRY = re.compile(r"^\s{0,8}[-*+]\s{1,3}(?P<rest>\S.*)$")
_FOOTNOTE = re.compile(r"^\s{0,3}\[(?P<id>\^[\w-]{1,40}|\d{1,3})\]:\s{1,4}(?P<rest>\S.*)$")


@dataclass(frozen=True)
class ReferenceEntry:
    mark: str  # by which the text names it, "" for none
    description: str  # in words
    address: str  # "" for none


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return the text with all but its code changed."""
    return "".join(part if code else change(part) for part, code in _parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is code; an unclosed fence leads to the end."""
    at, fence = 0, ""
    for match in _CODE.finditer(text):
        line = match[0]
        if not fence:
            yield text[at : match.start()], False
            if line.startswith(("```", "~~~")):
                fence, at = line[:3], match.start()
            else:
                yield line, True
                at = match.end()
        elif line.startswith(fence) and not line.strip("`~ "):
            yield text[at : match.end()], True
            fence, at = "", match.end()
    yield text[at:], bool(fence)


def closed_up(text: str) -> str:
    return re.sub(r"(?<=\S)[ \t]{1,3}(?=[.,;:!?](?:\s|\Z)|\n)", "", text)


def marks_in(text: str) -> list[str]:
    """Return the marks that one pair of brackets names: `1, 3-5` are four."""
    marks: list[str] = []
    for part in re.split(r"\s?[,;]\s?", text):
        first, dash, last = (side.strip() for side in re.sub(r"[–]", "-", part).partition("-"))
        ends = [first.lstrip("^Ee"), last.lstrip("^Ee")]
        if dash and all(end.isdigit() for end in ends) and 0 < int(ends[1]) - int(ends[0]) < 100:
            marks += [str(number) for number in range(int(ends[0]), int(ends[1]) + 1)]
        else:
            marks.append(part.strip())
    return marks


def evidence_marks(text: str, most: int) -> str:
    """Return the text with its marks of evidence 1 to `most` in one form, as `[E1][E3]`; its code stays as it is.

    Models write `[E1, E3]`, `[E1-E3]`, `[[E1]]`, `[E1, p. 3]`, `[E1](address)`, `(E2)`, `(E1; E2)`. In parentheses,
    where cells and roads have such names too, only marks that there are count.
    """

    def marks(bracket: re.Match[str]) -> str:
        numbers: dict[int, None] = {}
        for match in _NUMBERS.finditer(bracket["square"] or bracket["round"]):
            first, last = int(match[1]), int(match[2] or match[1])
            numbers |= dict.fromkeys(range(first, last + 1) if 0 <= last - first < 100 else (first, last))
        if bracket["round"] and not all(0 < number <= most for number in numbers):
            return bracket[0]
        return "".join(f"[E{number}]" for number in numbers)

    return outside_code(text, lambda part: _EVIDENCE.sub(marks, part))


def numbered_marks(text: str, most: int) -> str:
    """Return the text with `[3]` in the place of its mark of evidence 3, in whatever form that is written."""
    return outside_code(evidence_marks(text, most), lambda part: re.sub(r"\[E(\d{1,4})\]", r"[\1]", part))


def named_in_words(text: str) -> bool:
    """Return whether a text seems to cite in words, such as `(Miller 2020)` or `(Miller et al., 2020, p. 3)`."""
    return _IN_WORDS.search(text) is not None


def mark_name(mark: str) -> str:
    """Return a mark in the one form by which it is looked up: `^2`, `E2` and `2` are one."""
    name = mark.strip().lower().removeprefix("^")
    return name.removeprefix("e") if name.removeprefix("e").isdigit() else name


def without_list(text: str) -> tuple[str, list[ReferenceEntry]]:
    """Return the text without footnotes and lists of references (a heading and mostly entries), and what they held."""
    lines = text.split("\n")
    body: list[str] = []
    entries: list[ReferenceEntry] = []
    index, in_code = 0, False
    while index < len(lines):
        line = lines[index]
        in_code ^= line.startswith(("```", "~~~"))
        if not in_code and len(line) < 100 and _HEADING.match(line):
            end = next((n for n in range(index + 1, len(lines)) if _ANY_HEADING.match(lines[n])), len(lines))
            section = [entry for line in lines[index + 1 : end] if (entry := _entry(line)) is not None]
            size = sum(1 for line in lines[index + 1 : end] if line.strip())
            if section and 2 * len(section) >= size:
                entries += section
                index = end
                continue
        footnote = None if in_code else _FOOTNOTE.match(line[:4_000])
        if footnote is not None:
            entries.append(_footnote_entry(footnote["id"], footnote["rest"]))
        else:
            body.append(line)
        index += 1
    return "\n".join(body), entries


def _entry(line: str) -> ReferenceEntry | None:
    if (match := _ENTRY.match(line[:4_000])) is not None:
        return _footnote_entry(match["id"] or match["number"], match["rest"])
    if (plain := _PLAIN_ENTRY.match(line[:4_000])) is not None:
        return _footnote_entry("", plain["rest"])
    return _footnote_entry("", line[:4_000]) if address_in(line[:4_000]) else None


def _footnote_entry(mark: str, rest: str) -> ReferenceEntry:
    link = next((match for match in CITATION.finditer(rest) if match["address"]), None)
    address = link["address"] if link is not None else address_in(rest)
    words = CITATION.sub(lambda match: (match["text"] or "") if match["address"] else "", rest)
    return ReferenceEntry(mark_name(mark), without_address(words.replace("\\", "")), trim(address))
