"""A text becomes an item: its citations are found, each gets the number of its reference. Code, no model's word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.ids import canonical_json
from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.addresses import escaped, key_of, trimmed, usable_address
from agentorchestra.environments.report.items import Reference, Where, from_citations, nowhere, reference
from agentorchestra.environments.report.marks import (
    CITATION,
    closed_up,
    mark_name,
    marks_in,
    outside_code,
    without_list,
)

MOST_REFERENCES = 2_000  # of one item; further addresses stay words of the text
_TEXTS = ("content", "text", "report", "answer", "body", "result")
_LISTS = ("references", "sources", "citations")
_ADDRESSES = ("url", "address", "source", "link", "href", "path")
_WORDS = ("description", "title", "name", "text")


@dataclass(frozen=True)
class Read:
    """A text as Markdown with `[1](address)` behind what reference 1 says, without its own list of references."""

    content: str
    references: tuple[Reference, ...]
    struck: tuple[str, ...] = ()  # marks that name nothing and were taken out


@dataclass
class _Parser:
    where: Where
    references: list[Reference]
    marks: dict[str, int] = field(default_factory=dict)
    struck: list[str] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)

    def number(self, source: str, description: str = "") -> int:
        """Return the number of a source, a new one for a new source; 0 where there are too many."""
        made = reference(len(self.references) + 1, source, description, where=self.where)
        key = key_of(made.url, made.description)
        if key not in self.known:
            if len(self.references) >= MOST_REFERENCES:
                return 0
            self.references.append(made)
            self.known[key] = made.id
        at = self.known[key] - 1
        if not self.references[at].description and made.description:
            self.references[at] = self.references[at].model_copy(update={"description": made.description})
        return at + 1

    def linked(self, number: int) -> str:
        address = self.references[number - 1].url
        return f"[{number}]({escaped(address)})" if address else f"[{number}]"

    def replaced(self, found: re.Match[str]) -> str:
        if found["mark"] is not None:
            return self._of_marks(found["mark"], found[0])
        if found["address"] is not None:
            return self._of_link(found["text"], found["address"], found["title"] or "", found[0])
        written = found["auto"] or found["bare"] or found["doi"]
        address = written if found["auto"] else trimmed(written)
        number = self.number(address) if usable_address(address) else 0
        return self.linked(number) + written[len(address) :] if number else found[0]

    def _of_link(self, text: str, address: str, title: str, whole: str) -> str:
        if address.startswith("#"):  # a place in the text itself, which the report does not have
            name = mark_name(text)
            return self.linked(self.marks[name]) if name in self.marks else text
        if not usable_address(address) and not self.where(address):
            return text if re.match(r"[a-z][\w+.-]*:", address, re.IGNORECASE) else whole
        is_mark = re.fullmatch(r"\^?E?\d{1,3}", text.strip()) is not None
        if not (number := self.number(address, title or ("" if is_mark else text))):
            return text
        if is_mark:
            self.marks.setdefault(mark_name(text), number)
            return self.linked(number)
        said = text.strip()
        bare = not said or usable_address(said) == self.references[number - 1].url
        return self.linked(number) if bare else f"{said} {self.linked(number)}"

    def _of_marks(self, written: str, whole: str) -> str:
        names = marks_in(written)
        numbers = [self.marks[mark_name(one)] for one in names if mark_name(one) in self.marks]
        if len(numbers) < len(names):
            if not numbers and not re.fullmatch(r"\^?E?\d+(?:\D+\d+)*|\^[\w-]+", written):
                return whole
            self.struck += [f"[{one}]" for one in names if mark_name(one) not in self.marks]
        return "".join(self.linked(one) for one in dict.fromkeys(numbers))


def read_text(
    text: str, citations: Sequence[Citation] = (), *, where: Where = nowhere, given: Sequence[tuple[str, str, str]] = ()
) -> Read:
    """Find the citations of a text: links, addresses, DOIs, footnotes, and marks.

    What a mark means says a list at its end, `given` (mark, source, description), or the `citations`, `[1]` the first.
    """
    references = [*from_citations(citations, where)]
    reading = _Parser(where, references)
    for one in references:
        reading.known.setdefault(key_of(one.url, one.description), one.id)
        reading.marks[str(one.id)] = one.id
    body, entries = without_list(text)
    for mark, source, description in given:
        number = reading.number(source, description)
        if mark and number:
            reading.marks[mark_name(mark)] = number
    for entry in entries:
        number = reading.number(entry.address, entry.description) if entry.address or entry.description else 0
        if entry.mark and number:
            reading.marks[entry.mark] = number
    # Marks that are links say what the bare ones mean, wherever they stand: they are read first.
    for found in CITATION.finditer(body):
        if found["address"] and re.fullmatch(r"\^?E?\d{1,3}", found["text"].strip()):
            reading.replaced(found)
    content = outside_code(body, lambda part: CITATION.sub(reading.replaced, part))
    if reading.struck:
        content = outside_code(content, closed_up)
    return Read(content.strip(), tuple(reading.references), tuple(dict.fromkeys(reading.struck)))


def read_object(value: Mapping[str, JsonValue], citations: Sequence[Citation], *, where: Where = nowhere) -> Read:
    """Find the text, the title and the references of a JSON object; what else it holds is written as a list."""
    name = next((one for one in _TEXTS if isinstance(value.get(one), str)), "")
    given = []
    taken = {name, "title", "summary"}
    for key in _LISTS:
        entries = value.get(key)
        if isinstance(entries, list):
            taken.add(key)
            given += [found for one in entries if (found := _given(one)) is not None]
    rest = {key: one for key, one in value.items() if key not in taken}
    parts = [str(value[name]) if name else "", *_as_list(rest)]
    return read_text("\n".join(part for part in parts if part), citations, where=where, given=given)


def _given(entry: JsonValue) -> tuple[str, str, str] | None:
    if isinstance(entry, str):
        return ("", entry, "") if usable_address(entry) else ("", "", entry)
    if not isinstance(entry, dict):
        return None
    source = next((str(entry[one]) for one in _ADDRESSES if entry.get(one)), "")
    words = next((str(entry[one]) for one in _WORDS if entry.get(one)), "")
    return (str(entry.get("id") or entry.get("number") or ""), source, words) if source or words else None


def _as_list(value: Mapping[str, JsonValue], depth: int = 0) -> list[str]:
    lines: list[str] = []
    for key, one in value.items():
        head = f"{'  ' * depth}- {key}:"
        if isinstance(one, dict) and one and depth < 6:
            lines += [head, *_as_list(one, depth + 1)]
        elif isinstance(one, list) and one and depth < 6:
            lines.append(head)
            lines += [f"{'  ' * (depth + 1)}- {_said(each)}" for each in one]
        else:
            lines.append(f"{head} {_said(one)}")
    return lines


def _said(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def summary_of(content: str, most: int = 320) -> str:
    """Return the first sentences of a text, at most three, without marks: where no model made a summary."""
    lines = [line for line in content[:8_000].split("\n") if not line.lstrip().startswith(("#", "```", "|", ">"))]
    plain = CITATION.sub(lambda one: "" if (one["text"] or "0").isdigit() else one["text"], "\n".join(lines))
    plain = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(plain.split()))
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ0-9“\"])", plain)
    said = ""
    for sentence in sentences[:3]:
        if said and len(said) + len(sentence) > most:
            break
        said = f"{said} {sentence}".strip()
    return said if len(said) <= most else f"{said[:most].rsplit(' ', 1)[0]}…"
