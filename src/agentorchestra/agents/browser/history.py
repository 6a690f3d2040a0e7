"""The pages and actions of a browser use agent, from the log of its branch: a replay comes to the same.

From it come the result of an agent that did not say one itself, the sources of an answer, and the log of the
conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.citations import SORTING, LookupResult, look_up, stands_on_page
from agentorchestra.agents.planning.evidence import SourceCheck
from agentorchestra.agents.viewed_pages import Look, looks, records_of
from agentorchestra.core.content import text_of
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.spec import AgentResult, Citation, RunStatus
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.worlds import STATE_ACTION
from agentorchestra.tea.calling.replies import decision_fields
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tools.web.pages import is_address

EXTRACTING = "extract_content"  # the action that reads a page for a goal
LOGGED_CHARS = 4_000  # of one text in the log of the conversation
QUOTED_CHARS = 300  # of an answer that is quoted from a page as a whole


# -- result ------------------------------------------------------------------------------------------------------------


def actions_of(ctx: BranchContext[Any], environment: str) -> list[tuple[str, Outcome]]:
    """Return the actions on an environment that came to an end, with their outcomes, in order."""
    actions = []
    for _, record in records_of(ctx):
        about = record.effect
        if record.outcome is None or about.get("kind") != EffectKind.INVOKE_ACTION:
            continue
        action = str(about.get("arguments", {}).get("action", ""))
        if str(about.get("component", "")).partition("@")[0] == environment and action != STATE_ACTION:
            actions.append((action, record.outcome))
    return actions


def best_result(result: AgentResult, ctx: BranchContext[Any], environment: str) -> AgentResult:
    """Return the result, with an answer wherever anything was found (000, app. D.5).

    Without one of the agent's it is what was extracted from pages, its last words, what the last action gave.
    """
    if result.answer and (result.status is RunStatus.COMPLETED or _is_done(ctx)):
        return result
    done = actions_of(ctx, environment)
    extracts = [text_of(outcome.blocks()).strip() for action, outcome in done if action == EXTRACTING and outcome.ok]
    last = [text_of(outcome.blocks()).strip() for _, outcome in done if outcome.ok][-1:]
    if any(extracts):
        answer, origin = "\n\n".join(filter(None, extracts)), "what it extracted from pages"
    elif result.answer:
        answer, origin = result.answer, "what it last said"
    elif any(last):
        answer, origin = last[0], "what its last action gave"
    else:
        return result
    report = "\n\n".join(filter(None, (result.report, f"The agent did not finish; the answer is {origin}.")))
    status = RunStatus.PARTIAL if result.status is RunStatus.COMPLETED else result.status
    return result.model_copy(update={"answer": answer[:LOGGED_CHARS], "report": report, "status": status})


def _is_done(ctx: BranchContext[Any]) -> bool:
    """Return True if `done` was called and taken: partial and blocked are answers of its own."""
    return any(
        record.outcome is not None
        and record.outcome.ok
        and record.effect.get("kind") == EffectKind.INVOKE_TOOL
        and str(record.effect.get("component", "")).partition("@")[0] == "done"
        for _, record in records_of(ctx)
    )


# -- sources -----------------------------------------------------------------------------------------------------------


def strangers(citations: Sequence[Citation], pages: Sequence[Look]) -> list[Citation]:
    """Citations of pages that were not seen, or whose words did not stand there as they were seen."""
    texts: dict[str, list[str]] = {}
    for look in pages:
        texts.setdefault(normalised_address(look.address), []).append(look.text)
    bad = []
    for citation in citations:
        if not is_address(citation.source):
            continue  # files of the run's folder are looked up there
        views = texts.get(normalised_address(citation.source), ())
        if not any(stands_on_page(citation.quote, text) for text in views):
            bad.append(citation)
    return bad


def with_sources(result: AgentResult, pages: Sequence[Look]) -> AgentResult:
    """Return the result with the page that its answer stands on, where the agent named none.

    That is the last page on which the answer stands word for word, with these words; else the last page it was on.
    """
    if result.sources or not pages or not result.answer:
        return result
    verbatim = [page for page in pages if stands_on_page(result.answer, page.text)]
    quote = result.answer if verbatim and len(result.answer) <= QUOTED_CHARS else ""
    page = (verbatim or list(pages))[-1]
    return result.model_copy(update={"sources": (Citation(source=page.address, quote=quote),)})


def page_check(prompt: Prompt) -> SourceCheck:
    """Return the check that pages an answer cites were seen, with these words."""

    async def look(citations: Sequence[Citation], ctx: BranchContext[Any]) -> LookupResult:
        bad = strangers(citations, looks(ctx))
        if ctx.manifest.checks < SORTING:
            return LookupResult(misquoted=bad)
        pages = {citation: citation for citation in citations if is_address(citation.source) and citation not in bad}
        lookup = await look_up([citation for citation in citations if not is_address(citation.source)], ctx)
        return replace(lookup, matches={**pages, **lookup.matches}, misquoted=[*bad, *lookup.misquoted])

    return SourceCheck(prompt, look)


# -- log ---------------------------------------------------------------------------------------------------------------


def conversation(ctx: BranchContext[Any], task: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the conversation, an entry for each decision and each call, as the log has them: redacted.

    Version 1: `task`; `decision` with the four fields of the reasoning and the calls; `state` with the address of the
    page that was shown; `call` with arguments, status and result; `asked` with what a model said to an action of it.
    """
    yield {"v": 1, "type": "task", "branch": ctx.branch, "task": task[:LOGGED_CHARS]}
    for key, record in records_of(ctx):
        outcome, about = record.outcome, record.effect
        if outcome is None:
            continue
        at: dict[str, JsonValue] = {"key": str(key), "ended_at": str(outcome.ended_at or "")}
        if about.get("kind") == EffectKind.REQUEST_MODEL:
            if about.get("purpose") in _DECIDING:
                yield {"type": "decision", **at, **_decision(outcome)}
            else:
                text = outcome.response.text if outcome.ok else outcome.error or outcome.status
                yield {"type": "asked", **at, "text": text[:LOGGED_CHARS]}
            continue
        raw = about.get("arguments")
        arguments = dict(raw) if isinstance(raw, dict) else {}
        blocks = outcome.blocks()
        addresses = [block.source.ref for block in blocks if block.source is not None and block.source.kind == "web"]
        at["address"] = addresses[-1] if addresses else ""
        if arguments.get("action") == STATE_ACTION:
            yield {"type": "state", **at}
        elif about.get("kind") in (EffectKind.INVOKE_ACTION, EffectKind.INVOKE_TOOL, EffectKind.INVOKE_AGENT):
            name = str(about.get("component", "")).partition("@")[0]
            if about.get("kind") == EffectKind.INVOKE_ACTION:
                name, inner = f"{name}_{arguments.get('action', '')}", arguments.get("arguments")
                arguments = dict(inner) if isinstance(inner, dict) else {}
            text = text_of(blocks)[:LOGGED_CHARS]
            yield {"type": "call", **at, "name": name, "arguments": arguments, "status": outcome.status, "result": text}


def _decision(outcome: Outcome) -> dict[str, JsonValue]:
    if not outcome.ok:
        return {"error": outcome.error or outcome.status}
    response = outcome.response
    fields = decision_fields(response.text) or {}
    entry: dict[str, JsonValue] = {name: str(fields.get(name) or "") for name in _REASONING}
    if not any(entry.values()):
        entry["text"] = response.text[:LOGGED_CHARS]
    entry["calls"] = [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls]
    return entry


_DECIDING = ("decision", "final")
_REASONING = ("thinking", "evaluation_previous_goal", "memory", "next_goal")
