"""A round as it stands in the report of the run: queries, results, findings, evaluation (000, app. D.3)."""

from __future__ import annotations

from collections.abc import Sequence

from agentorchestra.agents.research.findings import Insight
from agentorchestra.agents.research.queries import ResearchQuery

_GROUPS = {"key": "Key findings", "additional": "Additional", "supplementary": "Supplementary"}


def as_text(queries: Sequence[ResearchQuery], new: Sequence[Insight], *, missing: Sequence[str], complete: bool) -> str:
    """Return a round in Markdown, in which `[1]` is the first of the new findings, the most relevant first."""
    lines = ["**Queries**", ""]
    lines += [f"- {_plain(one.query)}{_days(one)}: {_gave(one)}{_reason(one)}" for one in queries]
    for group, title in _GROUPS.items():
        facts = [(number, one) for number, one in enumerate(new, start=1) if one.group == group]
        if facts:
            lines += ["", f"**{title}**", "", *(f"- {_plain(one.fact)} [{number}]" for number, one in facts)]
    if not new:
        lines += ["", "Nothing new was found."]
    said = "The findings answer the task." if complete else "The findings do not answer all of the task yet."
    lines += ["", f"**Evaluation.** {said}", *(f"- missing: {_plain(one)}" for one in missing)]
    return "\n".join(lines)


def _days(one: ResearchQuery) -> str:
    return "".join(f", {word} {day}" for word, day in (("since", one.since), ("until", one.until)) if day)


def _gave(one: ResearchQuery) -> str:
    return _plain(one.failed) if one.failed else f"{len(one.found)} results"


def _reason(one: ResearchQuery) -> str:
    return f" (in place of: {_plain(one.draft)}; {_plain('; '.join(one.problems))})" if one.draft else ""


def _plain(text: str) -> str:
    """Return a text in one line, without marks of its own."""
    return " ".join(text.split()).replace("[", "(").replace("]", ")")


__all__ = ["as_text"]
