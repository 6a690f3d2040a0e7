"""The reporter: writes the report from what the team found; its references are made by code (000, app. D.7).

What it writes from are the results of the agents that its caller asked, and the items of the run's report, to which
agents add while they work. Its text is the model's; the marks in it, the list of references and the file are code's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.forms import material
from agentorchestra.agents.planning.evidence import TeamResult, citations, evidence_block, is_last, results_before
from agentorchestra.agents.reporting.pieces import act_on_report, add_to_report, has_report, without_report
from agentorchestra.agents.reporting.references import MARK, address_of, check_marks, make_report, struck_out
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, text_of
from agentorchestra.core.effects import Outcome
from agentorchestra.core.spec import AgentResult, AgentSpec, Citation, FileRef, RunStatus
from agentorchestra.environments.report import REPORT
from agentorchestra.environments.report.addresses import key_of
from agentorchestra.environments.report.parser import MOST_REFERENCES
from agentorchestra.environments.report.references import CollectedReferences, Listed, ReportPiece
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tools.files.quotes import squeeze

NAME, MARKS = "reporter", "reporter_marks"

MOST_SHOWN = 40_000
"""Characters of the report's items that are shown besides their titles, and of their sources; of long items the
beginning."""

_QUOTE_CHARS = 300  # characters of a quote that are shown with its source
_MOST_NAMED = 30  # marks that the author is told of

_FILE = re.compile(
    r"\b(?:to|in|into|as|at|under|named|called|nach|als|unter)\s+(?:the\s+file\s+|a\s+file\s+(?:named|called)\s+|der\s+Datei\s+)?"
    r"[`'\"“]?((?:[\w.-]{1,80}/){0,6}[\w-][\w.-]{0,80}\.(?:md|markdown))\b(?!/)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Material:
    results: Sequence[TeamResult]  # what the agents said that were asked
    pieces: Sequence[ReportPiece]  # the items of the report as far as they say more, in `quoted`
    evidence: tuple[Citation, ...]  # every citation of both; the first is E1
    marks: dict[str, int]  # by the report's own names of quotes, `2.1`

    def blocks(self) -> tuple[Block, ...]:
        count = len(citations(self.results))
        if not self.pieces and len(self.evidence) == count:
            return (evidence_block(self.results),)
        share = MOST_SHOWN // max(1, len(self.pieces))
        lines = []
        for piece in self.pieces:
            text = re.sub(r"\[(\d{1,4}(?:\.\d{1,4})?)\]", self._mark, piece.quoted)
            cut = f"\n(cut: {len(text):,} characters)" if len(text) > share else ""
            lines.append(f"{piece.title or 'Item'} (by {piece.by}):\n{text[:share]}{cut}")
        sources = [_source_line(number, cite) for number, cite in enumerate(self.evidence[count:], start=count + 1)]
        texts = [*_fitting(lines, "items", 2 * MOST_SHOWN), *_fitting(sources, "sources", MOST_SHOWN)]
        items = material("\n\n".join(texts), REPORT, "environment")
        return (evidence_block(self.results), items) if self.results else (items,)

    def _mark(self, match: re.Match[str]) -> str:
        number = self.marks.get(match[1] if "." in match[1] else f"{match[1]}.1")
        return f"[E{number}]" if number else match[0]


def _source_line(number: int, source: Citation) -> str:
    words = f"{source.quote[:_QUOTE_CHARS]}…" if len(source.quote) > _QUOTE_CHARS else source.quote
    return f"[E{number}] {source.source}{f', {source.place}' if source.place else ''}{f': “{words}”' if words else ''}"


def _fitting(lines: Sequence[str], kind: str, room: int) -> list[str]:
    """Return the first of these that there is room for, and how many are not shown."""
    count = 0
    for line in lines:
        room -= len(line)
        if room < 0 and count:
            break
        count += 1
    more = len(lines) - count
    return [*lines[:count], *([f"(and {more:,} more {kind}, which are not shown)"] if more else [])]


async def report(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Show what there is, let the model write, number its marks, write the file."""
    caller = ctx.parent
    results = results_before(caller, upto=ctx.decided_n) if caller is not None else []
    material = await _gather(results, ctx)
    author_spec = spec.model_copy(update={"context": (*spec.context, *material.blocks())})
    check = MarkCheck(kit.prompts.get(MARKS), material.evidence)
    # Its sources are those of its marks, which code sets.
    result = await run_agent(without_report(author_spec), ctx, kit, prompt=NAME, observe=(check,), checked=True)
    draft = make_report(result.answer, material.evidence, ctx.manifest.files)
    text, unknown = check_marks(result.answer, material.evidence)
    result = result.model_copy(update={"answer": draft.text, "sources": draft.sources})
    if not has_report(ctx):
        return result.model_copy(update={"report": _lines(result.report, *draft.notes)})
    result, note = await _completed(result, text, spec, material, ctx)
    return result.model_copy(update={"report": _lines(result.report, struck_out(unknown) if unknown else "", note)})


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


@dataclass
class MarkCheck:
    """An `observe` part: the author of a report is told once which of its marks no evidence stands behind."""

    prompt: Prompt
    evidence: Sequence[Citation]
    sent_back: bool = field(default=False, init=False)

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state; without its result the first time."""
        result = state.result
        if result is None or not result.answer or self.sent_back or is_last(state):
            return state
        text, unknown = check_marks(result.answer, self.evidence)
        bare = bool(self.evidence) and MARK.search(text) is None
        if not unknown and not bare:
            return state
        self.sent_back = True
        problem = self.prompt.render(unknown=[*unknown][:_MOST_NAMED], bare=bare)
        return state.model_copy(update={"result": None, "problem": problem})


async def _gather(results: Sequence[TeamResult], ctx: BranchContext[Any]) -> _Material:
    """Gather what was found and the items of the run's report, which gets what agents did not add themselves."""
    team_citations = citations(results)
    if not has_report(ctx):
        return _Material(results, (), team_citations, {})
    before = await _collection(ctx)
    for name, result, _ in results:
        if name not in {piece.by for piece in before.pieces}:
            await add_to_report(ctx, result.answer or result.report, title=name, citations=result.sources)
    answers = _bare("\n".join(result.answer for _, result, _ in results))
    more = [_further(pieces, answers) for pieces in before.pieces if pieces.by != NAME]
    additions = tuple(piece for piece in more if piece.quoted)
    evidence, marks = number_evidence(team_citations, before.references, ctx.manifest.files)
    return _Material(results, additions, evidence, marks)


def _further(piece: ReportPiece, answers: str) -> ReportPiece:
    """Return an item without the paragraphs that stand in the answers already."""
    paragraphs = re.split(r"\n\s*\n", piece.quoted or piece.content)
    return piece.model_copy(update={"quoted": "\n\n".join(text for text in paragraphs if _bare(text) not in answers)})


def _bare(text: str) -> str:
    """Return the words of a text without marks of sources, for comparison."""
    return re.sub(r"\s+([.,;:!?])", r"\1", squeeze(re.sub(r"\[[E\d.]{1,9}\](?:\([^()\s]*\))?", "", text)))


def number_evidence(
    team_citations: Sequence[Citation], references: Sequence[Listed], files: Sequence[FileRef]
) -> tuple[tuple[Citation, ...], dict[str, int]]:
    """Return all evidence, each quote once, and its numbers by the names of a report's quotes (`2.1`)."""
    by_name = {ref.name: ref for ref in files}
    evidence: list[Citation] = []
    numbers: dict[tuple[str, str], int] = {}  # by what the spellings of a source have in common, and by the quote
    first: dict[str, int] = {}  # the first evidence of a source

    def number_of(key: str, citation: Citation) -> int:
        quote = squeeze(citation.quote)
        same = numbers.get((key, quote), 0) if quote else first.get(key, 0)
        if not same:
            evidence.append(citation)
            same = numbers[key, quote] = len(evidence)
            first.setdefault(key, same)
        return same

    for citation in team_citations:
        address = address_of(citation.source, by_name)
        key = key_of(address if "://" in address else "", address)
        evidence.append(citation)  # as the agents' results list them
        numbers.setdefault((key, squeeze(citation.quote)), len(evidence))
        first.setdefault(key, len(evidence))
    marks = {
        f"{ref.number}.{index}": number_of(key_of(ref.url, ref.description), citation)
        for ref in references
        for index, citation in enumerate(ref.cited or (Citation(source=ref.url or ref.description),), start=1)
    }
    return tuple(evidence), marks


async def _collection(ctx: BranchContext[Any]) -> CollectedReferences:
    outcome = await act_on_report(ctx, "collect", {})
    if not outcome.ok or not outcome.artifacts:
        return CollectedReferences()
    return CollectedReferences.model_validate_json(await ctx.read_artifact(outcome.artifacts[0]))


async def _completed(
    result: AgentResult, text: str, spec: AgentSpec, material: _Material, ctx: BranchContext[Any]
) -> tuple[AgentResult, str]:
    """Write the file with the report; where the model wrote none, the items are the answer too."""
    if not result.answer and not (material.results or material.pieces):
        return result, ""
    arguments: dict[str, JsonValue] = {"path": wanted_file(spec, ctx), "text": text}
    if result.answer:
        references: list[JsonValue] = [
            citation.model_dump(mode="json", exclude_defaults=True) for citation in material.evidence[:MOST_REFERENCES]
        ]
        outcome = await act_on_report(ctx, "complete", {**arguments, "only_cited": True, "citations": references})
    else:  # no model is asked once more
        outcome = await act_on_report(ctx, "write", arguments)
    if not outcome.ok or not outcome.artifacts:
        return result, _outcome_note(outcome)
    file_text = (await ctx.read_artifact(outcome.artifacts[0])).decode("utf-8", "replace").strip()
    if result.answer:
        return result.model_copy(update={"answer": file_text}), _outcome_note(outcome)
    status = RunStatus.PARTIAL if result.status is RunStatus.BLOCKED else result.status
    result_with_file = result.model_copy(update={"answer": file_text, "sources": material.evidence, "status": status})
    return result_with_file, f"{_outcome_note(outcome)} No model wrote it: the items stand one after the other."


def _outcome_note(outcome: Outcome) -> str:
    return text_of(outcome.blocks()) if outcome.ok else f"The report could not be written to a file: {outcome.error}"


def wanted_file(spec: AgentSpec, ctx: BranchContext[Any]) -> str:
    """Return the file that the task wants the report in; "" where it names none, or one given with it."""
    task_files = {ref.name for ref in ctx.manifest.files}
    for text in (spec.instruction, ctx.manifest.task):
        for name in _FILE.findall(text[:20_000]):
            if name not in task_files and ".." not in name:
                return str(name)
    return ""


REPORTER = Agent(
    name=NAME,
    description=(
        "Writes a report from everything the agents have found, with numbered references, into a file. Ask it at the "
        "end, where a report or a longer text is wanted."
    ),
    tools=(),
    prompt=NAME,
    role="reporter",
    max_steps=3,
    environments=(REPORT,),
    drive=report,
)
