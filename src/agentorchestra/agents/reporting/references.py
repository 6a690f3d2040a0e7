"""References of a report: marks in the text become numbers, sources get one address. Code, not the model's word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentorchestra.core.spec import Citation, FileRef
from agentorchestra.environments.report.addresses import address_of_file, escape, normalised_address, usable_address
from agentorchestra.environments.report.marks import closed_up, evidence_marks, outside_code
from agentorchestra.environments.report.references import NO_ADDRESS, deduplicate, plain

MARK = re.compile(r"\[E(\d{1,4})\]")  # a mark as `evidence_marks` writes it

_ANY_MARK = re.compile(r"\[E(?:\d[^\]\n]{0,20}|[nxNX?#]|[^\w\]\n]{0,3})\]")
_LINK = re.compile(r"!?\[(?P<text>[^\]\n]*)\]\((?P<address>[^()\s]+)[^()\n]*\)")


@dataclass(frozen=True)
class ReferencedReport:
    text: str  # Markdown with `[n](address)` behind the claims and the list of references at the end
    sources: tuple[Citation, ...]  # the citations that are used, in the order of their numbers and places
    notes: tuple[str, ...]  # what was struck out or left unused, a sentence each


def address_of(source: str, files: Mapping[str, FileRef]) -> str:
    """Return where a source is found: its address, or for a file of the task where it came from."""
    ref = files.get(source)
    return address_of_file(ref) if ref is not None else usable_address(source) or normalised_address(source)


def make_report(
    text: str, evidence: Sequence[Citation], files: Sequence[FileRef], titles: Mapping[str, str] | None = None
) -> ReferencedReport:
    """Number the marks `[E1]` of a text by first use, and add the references; `titles` are by the sources' names."""
    marked_text, unknown = check_marks(text, evidence)
    numbering = _Numbering(evidence, {ref.name: ref for ref in files})
    body = outside_code(marked_text, lambda part: MARK.sub(numbering.number, part))
    body = deduplicate(body)  # two pieces of evidence from one source behind a claim are one reference
    lines = [numbering.line(address, titles or {}) for address in numbering.used]
    references = "\n\n## References\n\n" + "\n".join(lines) if lines else ""
    notes = []
    if unknown:
        notes.append(struck_out(unknown))
    sources = tuple(citation for places in numbering.used.values() for citation in places)
    spare = [plain(cite.source) + (f", {cite.place}" if cite.place else "") for cite in evidence if cite not in sources]
    if spare:
        notes.append(f"Not used: {'; '.join(dict.fromkeys(spare))}.")
    return ReferencedReport(re.sub(r"[ \t]+\n", "\n", body).strip() + references, sources, tuple(notes))


def struck_out(unknown: Sequence[str]) -> str:
    """Return a sentence on marks and links that no evidence stands behind."""
    return f"Struck out, no such evidence: {', '.join(unknown)}."


def check_marks(text: str, evidence: Sequence[Citation]) -> tuple[str, tuple[str, ...]]:
    """Return a text with those marks alone that evidence stands behind, and what was struck out, each once.

    A link of the model's own becomes the mark of the evidence from that address, or its words alone.
    """
    unknown: list[str] = []
    first: dict[str, int] = {}
    for number, citation in enumerate(evidence, start=1):
        first.setdefault(normalised_address(citation.source), number)

    def unlink(match: re.Match[str]) -> str:
        number = first.get(normalised_address(match["address"]))
        if number:
            return f"{match['text']} [E{number}]"
        unknown.append(match["address"])
        return match["text"]

    def checked_mark(match: re.Match[str]) -> str:
        mark = MARK.fullmatch(match[0])
        if mark is not None and 0 < int(mark[1]) <= len(evidence):
            return match[0]
        unknown.append(match[0])
        return ""

    body = evidence_marks(text, len(evidence))
    body = outside_code(body, lambda part: _ANY_MARK.sub(checked_mark, _LINK.sub(unlink, part)))
    return (closed_up(body) if unknown else body), tuple(dict.fromkeys(unknown))


@dataclass
class _Numbering:
    """Numbers sources by first use; `used` is what is cited, by address, or by name where there is none."""

    evidence: Sequence[Citation]
    files: Mapping[str, FileRef]
    used: dict[str, list[Citation]] = field(default_factory=dict)

    def line(self, address: str, titles: Mapping[str, str]) -> str:
        """Return a line of the list of references: title, link, places and quotes."""
        citations = self.used[address]
        name = next((titles[cite.source] for cite in citations if titles.get(cite.source)), citations[0].source)
        quotes = "; ".join(_quotation(citation) for citation in citations)
        link = self._link(address)
        entry = plain(name) if link == NO_ADDRESS else f"[{plain(name)}]({link})"
        return f"{[*self.used].index(address) + 1}. {entry}{': ' + quotes if quotes else ''}"

    def number(self, match: re.Match[str]) -> str:
        citation = self.evidence[int(match[1]) - 1]
        address = address_of(citation.source, self.files)
        places = self.used.setdefault(address, [])
        if citation not in places:
            places.append(citation)
        return f"[{[*self.used].index(address) + 1}]({self._link(address)})"

    def _link(self, address: str) -> str:
        """Return where a mark leads: to the list for a source without an address, such as a calculation."""
        return escape(address) if re.match(r"[a-z][a-z0-9+.-]*:", address) else NO_ADDRESS


def _quotation(citation: Citation) -> str:
    words = " ".join(citation.quote.split())
    words = f"“{plain(words[:200])}{'…' if len(words) > 200 else ''}”" if words else ""
    return " ".join(part for part in (citation.place, words) if part)
