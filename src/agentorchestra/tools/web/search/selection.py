"""The choice of engines for a question: by rules that are written here, or by a model. Either is in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from agentorchestra.core.errors import OutputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tools.web.search.archive import address_in
from agentorchestra.tools.web.search.types import Query, SearchEngine, Strength

_PAST = timedelta(days=30)  # what was wanted before this counts as the past: engines of today's web know little of it
_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_JAPANESE = re.compile(r"[\u3040-\u30ff]")
_SCHOLARLY = re.compile(
    r"\b(papers?|preprints?|arxiv|doi|journals?|proceedings|theses|thesis|dissertation|et al|peer[- ]reviewed|studies|"
    r"systematic review|meta-analys[ei]s|citations?|theorem)\b|论文|期刊|学术",
    re.IGNORECASE,
)
_YEAR = re.compile(
    r"\b(?:as of|in|on|during|before|until|by|since|around|back in)\s+(?:[a-z]+\.?\s+)?(?:\d{1,2},?\s+)?"
    r"(1[5-9]\d\d|20\d\d)\b|(1[5-9]\d\d|20\d\d)\s*年",
    re.IGNORECASE,
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "engines": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        }
    },
    "required": ["engines"],
}


def language_of(query: Query) -> str:
    """Return the language that a query is in, where its writing says so and nothing else was said."""
    if query.language:
        return query.language
    if _JAPANESE.search(query.text):
        return "ja"
    return "zh" if len(_CHINESE.findall(query.text)) >= 2 else ""


def by_rules(query: Query, ready: Sequence[SearchEngine], *, files: bool, most: int) -> dict[str, str]:
    """Return the engines for a query and why each of them, by the rules of docs/web-search.md.

    What the question calls for comes first (`files`: there are some to search), then engines of the whole web in the
    order of the settings, `most` in all.
    """
    reasons: dict[str, str] = {}

    def take(strength: Strength, reason: str, *, unless: frozenset[str] = frozenset()) -> None:
        for engine in ready:
            if strength in engine.traits.strengths and engine.name not in reasons and engine.name not in unless:
                reasons[engine.name] = reason

    if files:
        take("local", "there are files to search")
    if query.language == "zh":
        take("chinese", "the question is in Chinese")
    if past := _past(query):
        # An archive is asked for pages, not for words.
        take("past", past, unless=frozenset() if address_in(query) else frozenset({"archive"}))
    if match := _SCHOLARLY.search(query.text):
        take("scholarly", f"the question names {match[0].lower()!r}")
    if not query.site or query.site.endswith("wikipedia.org"):
        take("encyclopedia", "an encyclopedia may have an article on it")
    special = [*reasons]
    take("general", f"the whole web{f', of {query.site}' if query.site else ''}")
    # The web has its share even where much else fits.
    general = [name for name in reasons if name not in special]
    names = [*special[: max(1, most - min(2, len(general)))], *general][:most] if special else general[:most]
    return {name: reasons[name] for name in names}


def _past(query: Query) -> str:
    today = query.now.date() if query.now is not None else None
    if query.until is not None and (today is None or query.until < today - _PAST):
        return f"until {query.until} is the past"
    for match in _YEAR.finditer(query.text):
        year = int(match[1] or match[2])
        if today is None or year < today.year:
            return f"the question is about {year}"
    return ""


async def by_model(
    query: Query, ready: Mapping[str, str], ctx: RunContext[Any], *, today: date, most: int
) -> dict[str, str]:
    """Return the engines that the model of the role `search` chooses, with its reasons; ToolError if there are none."""
    outcome = await ctx.ask_model(
        "search_choice",
        role="search",
        query=query.text,
        since=str(query.since or ""),
        until=str(query.until or ""),
        language=query.language,
        site=query.site,
        today=today.isoformat(),
        engines=[{"name": name, "about": about} for name, about in ready.items()],
        most=most,
    )
    if not outcome.ok:
        raise ToolError(f"the model that chooses could not be asked: {outcome.error}")
    try:
        output = read_output(outcome.response.text, _SCHEMA)
    except OutputError as error:
        raise ToolError(f"the model that chooses answered something else: {error}") from None
    assert isinstance(output, dict)
    engines: Any = output["engines"]
    reasons = {engine["name"]: str(engine.get("reason") or "")[:200] for engine in engines if engine["name"] in ready}
    if not reasons:
        raise ToolError("the model that chooses named no engine that there is")
    return dict([*reasons.items()][:most])


def by_call(names: Sequence[str], ready: Mapping[str, SearchEngine], lacking: Mapping[str, str]) -> dict[str, str]:
    """Return the engines that the caller named; ToolError for one that is not there, or lacks something."""
    for name in names:
        if name not in ready:
            choices = ", ".join(sorted(ready)) or "none"
            problem = f"{name} {lacking[name]}" if name in lacking else f"there is no search engine {name[:40]!r}"
            raise ToolError(f"{problem}; those that can be asked: {choices}")
    return dict.fromkeys(names, "it was named in the call")
