"""The sources of an answer, looked up by code: quotes in files and pages, results of tools and programs, pictures.

Nothing here asks a model. What is looked up in files goes through the door, and what tools gave is read from the log: a
resume and a replay come to the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from agentorchestra.agents.outputs import MOST_RESULT, PROGRAMS, SILENT, ToolOutput, outputs, pieces_of, with_points
from agentorchestra.core.content import Source, SourceKind, TextBlock, Trust, without_numbers
from agentorchestra.core.effects import FINISH, EffectKind
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.spec import TURN, AgentResult, Citation
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.programs.handler import NAME as PROGRAM
from agentorchestra.tools.files.common import file_named
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import FEW_WORDS, alike, lines_of, stands_in_blocks
from agentorchestra.tools.web.pages import is_address

CHECK = "check_quotes"  # the tool that looks quotes up

FOLDER_FILES = "files"  # the environment that reads what lies in the run's folder

SORTING = 2  # the way of checking (`RunManifest.checks`) from which on each source holds, is misquoted or unknown

TASK = "task"
"""The source of words that are the user's own."""

JUDGE = "judge"
"""Who judges answers: its words are a source of nothing."""

_MARKS = tuple(f"{kind}:" for kind in get_args(SourceKind))
"""What stands before a name where the product shows content."""


@dataclass
class LookupResult:
    """The sources of an answer by what became of them.

    Of runs that began before (`SORTING`), those in none of these could not be looked up by code.

    Attributes:
        matches: those that hold, each as it should stand: with the file's whole name, at the place of its words. Words
            in a picture, which only a model can look up, hold where the run was shown it.
        misquoted: those whose words do not stand there.
        unknown: those that are no source of this run: no file, no page that was read, nothing that was given back.
    """

    matches: dict[Citation, Citation] = field(default_factory=dict)
    misquoted: list[Citation] = field(default_factory=list)
    unknown: list[Citation] = field(default_factory=list)

    def correct(self, result: AgentResult) -> AgentResult:
        sources = tuple(dict.fromkeys(self.matches.get(source, source) for source in result.sources))
        return result if sources == result.sources else result.model_copy(update={"sources": sources})


async def look_up(citations: Sequence[Citation], ctx: BranchContext[Any]) -> LookupResult:
    """Look up sources: files of the task, pages that the run read, the run's folder, and what tools and programs gave.

    A quote that stands a line or two from its place, or that has no place and stands once in its file, holds there. One
    with a name that the run does not know holds as a quote of that which gave its words, as far as anything did.
    """
    lookup = LookupResult()
    calls = outputs(ctx) if citations else []
    pairs: list[tuple[Citation, Citation]] = []
    folder: list[Citation] = []
    for citation in dict.fromkeys(citations):
        target, is_file = _target(citation, ctx)
        if is_file or is_address(target.source):
            if citation.quote and (citation.place or ctx.manifest.checks):
                pairs.append((citation, target))
            elif is_file and any(output.shows(target.source) for output in calls):
                lookup.matches[citation] = target
        elif any(output.name.casefold() == target.source.casefold() for output in calls):
            # In any of them: of a long output the words may have been read in another call.
            stands = not citation.quote or any(alike(citation.quote, text) for output in calls for text in output.texts)
            if stands:
                lookup.matches[citation] = target
            else:
                lookup.misquoted.append(citation)
        elif citation.place and citation.quote:
            folder.append(citation)
    await _in_files(pairs, calls, ctx, lookup)
    await _in_folder(folder, ctx, lookup)
    if ctx.manifest.checks >= SORTING:
        sure = {*lookup.matches, *lookup.misquoted}
        _sort_others([citation for citation in dict.fromkeys(citations) if citation not in sure], ctx, lookup)
    wrong = (*lookup.misquoted, *lookup.unknown) if ctx.manifest.checks >= TURN else ()
    again = {citation.model_copy(update={"quote": with_points(citation.quote)}): citation for citation in wrong}
    if again.keys() - {*wrong}:  # their numbers may have another form there
        lookup.matches |= {again[cite]: source for cite, source in (await look_up([*again], ctx)).matches.items()}
        lookup.misquoted = [citation for citation in lookup.misquoted if citation not in lookup.matches]
        lookup.unknown = [citation for citation in lookup.unknown if citation not in lookup.matches]
    return lookup


def name_of(source: str) -> str:
    """Return the name of a source, without what the product shows before it (`file:notes.txt`)."""
    name = source.strip()
    for mark in _MARKS:
        name = name.removeprefix(mark)
    return name


def _target(citation: Citation, ctx: BranchContext[Any]) -> tuple[Citation, bool]:
    """Return a citation with its source's name as the run has it, and whether that is a file of the task."""
    source = name_of(citation.source)
    is_file = any(ref.name == source for ref in ctx.manifest.files)
    # In the run's folder a name with folders may be another file's.
    if not is_file and not is_address(source) and not ("/" in source and _holds(ctx, FOLDER_FILES)):
        with suppress(ToolError):
            source, is_file = file_named(ctx, source).name, True
    if not is_file and ctx.manifest.checks >= SORTING:  # "sales.csv, row 3"
        inside = [ref.name for ref in ctx.manifest.files if f" {ref.name}," in f" {source},"]
        if len(inside) == 1:
            rest = source.partition(inside[0])[2].strip(" ,")
            place = citation.place or (rest if parse_place(rest) is not None else "")
            return citation.model_copy(update={"source": inside[0], "place": place}), True
    return (citation if source == citation.source else citation.model_copy(update={"source": source})), is_file


async def _in_files(
    pairs: Sequence[tuple[Citation, Citation]],
    calls: Sequence[ToolOutput],
    ctx: BranchContext[Any],
    lookup: LookupResult,
) -> None:
    """Look up those from files of the task and from pages, by the tool."""
    if not pairs or not _holds(ctx, CHECK):
        return
    outcome = await ctx.call_tool(CHECK, quotes=[target.model_dump(mode="json") for _, target in pairs])
    stands = outcome.value if outcome.ok and isinstance(outcome.value, list) else []
    for (citation, target), place in zip(pairs, stands, strict=False):
        if place is False:
            lookup.misquoted.append(citation)
        elif place is not None:
            lookup.matches[citation] = target.model_copy(update={"place": place}) if isinstance(place, str) else target
        elif any(output.shows(target.source) for output in calls):
            lookup.matches[citation] = target  # words in a picture: nobody but a model can look them up


async def _in_folder(citations: Sequence[Citation], ctx: BranchContext[Any], lookup: LookupResult) -> None:
    make = ctx.run.services.environments.get(FOLDER_FILES)
    if make is None or not _holds(ctx, FOLDER_FILES):
        return
    # Workers name the tools and actions that said it: these are no files.
    names = {*ctx.manifest.tools, *ctx.manifest.agents}
    actions = tuple(f"{name}_" for name in ctx.run.services.environments)
    citations = [claim for claim in citations if claim.source not in names and not claim.source.startswith(actions)]
    files = make()
    outcomes = await ctx.perform_all(
        [action_effect(files, "read", {"path": row.source, "part": row.place}, role=ctx.role) for row in citations]
    )
    for citation, outcome in zip(citations, outcomes, strict=True):
        if outcome.ok and stands_in_blocks(citation.quote, outcome.blocks()):
            lookup.matches[citation] = citation
        elif outcome.ok or ctx.manifest.checks < SORTING:
            lookup.misquoted.append(citation)


class _Piece(NamedTuple):
    """A text that the agent, or one that it asked, was given or shown.

    Attributes:
        origin: what it is from; its `ref` is the name by which it is cited.
        names: all names by which it may be.
        call: the program, or the arguments, of the call that gave it.
        brief: whether it is the result of a program, in which a few characters say something.
    """

    origin: Source
    names: frozenset[str]
    text: str
    call: str = ""
    brief: bool = False

    def read_by_program(self, name: str) -> bool:
        """Return True if its program names a file; what could be a variable of it is none."""
        return not name.isidentifier() and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", self.call) is not None


def _pieces(ctx: BranchContext[Any]) -> list[_Piece]:
    """Return what was given and shown, without what the agent itself and the framework say."""
    pieces = []
    results = ctx.seen.results
    silent = {*SILENT, JUDGE, *(effect.name for effect, _ in results if effect.purpose == FINISH)}
    for output in outputs(ctx):
        brief = output.name in PROGRAMS and len(output.text) <= MOST_RESULT
        # A program of an agent that acts by programs may hold the very answer that is checked.
        program = output.request if output.name in PROGRAMS - {PROGRAM} else ""
        for origin, text in output.pieces if output.name not in silent else ():
            pieces.append(_Piece(origin, frozenset({output.name, origin.ref}), text, program, brief))
    for effect, outcome in results:
        if not outcome.ok or effect.name in silent:
            continue
        if effect.kind is EffectKind.INVOKE_AGENT:
            name = str(effect.arguments.get("name", effect.name))
            result = AgentResult.model_validate(outcome.value)
            texts = [result.answer, result.report, canonical_json(result.output)]
            texts += [source.quote for source in result.sources]
            pieces += [_Piece(Source(kind="agent", ref=name), frozenset({name, effect.name}), text) for text in texts]
            continue
        source_name = effect.called or effect.name
        for origin, text in pieces_of(source_name, outcome):
            pieces.append(_Piece(origin, frozenset({origin.ref, source_name, effect.name}), text))
    for block in ctx.seen.shown:
        place = block.source
        if place is None or place.kind == "prompt" or block.trust is Trust.SYSTEM or place.ref in silent:
            continue
        pieces.append(_Piece(place, frozenset({place.ref, place.kind}), without_numbers(block)))
    return pieces


def _sort_others(citations: Sequence[Citation], ctx: BranchContext[Any], lookup: LookupResult) -> None:
    """Sort those that neither the tool nor the folder could tell of, by what the run was given and shown."""
    if not citations:
        return
    calls, pieces = outputs(ctx), _pieces(ctx)
    refs = {_key(ref) for ref in ctx.seen.refs if ref}
    user = [ctx.manifest.task, *(turn.task for turn in ctx.manifest.earlier)]
    user += [piece.text for piece in pieces if piece.origin.kind == "human"]
    for citation in citations:
        target, is_file = _target(citation, ctx)
        quote, key = citation.quote.strip(), _key(target.source)
        matches = [piece for piece in pieces if key in map(_key, piece.names)]
        # A file that was only listed was not read: what is read has a place.
        texts = [piece.text for piece in matches if piece.origin.place or piece.origin.kind != "file"]
        read = [piece for piece in pieces if piece.read_by_program(target.source)]
        seen = bool(texts or read) or (key in refs and not is_file)
        if is_file or is_address(target.source):
            seen = seen or any(output.shows(target.source) for output in calls)
        if seen and texts and quote and not is_file:
            seen = any(stands_in_blocks(quote, [TextBlock(text=text)]) or stands_on_page(quote, text) for text in texts)
            if not seen and not read:
                lookup.misquoted.append(citation)
                continue
        if seen and read and quote and not is_file:
            seen = any(alike(quote, text) for piece in read for text in (piece.text, piece.call))
        support = target if seen else _by_words(quote, user, pieces)
        if support is None:
            lookup.unknown.append(citation)
        else:
            lookup.matches[citation] = support


def _by_words(quote: str, user: Sequence[str], pieces: Sequence[_Piece]) -> Citation | None:
    """Return the source that has given these words, None where none has: an agent may call it as it likes."""
    if not quote:
        return None
    if any(alike(quote, text) for text in user):
        return Citation(source=TASK, quote=quote)
    long = len(quote.split()) >= FEW_WORDS
    # What an agent said, or remembers, is no source by itself.
    fits = (part for part in pieces if part.origin.kind in _GIVING and (part.brief or long) and alike(quote, part.text))
    source = next(fits, None)
    return None if source is None else Citation(source=source.origin.ref, quote=quote)


_GIVING = ("file", "web", "tool", "environment")


def _key(name: str) -> str:
    return normalised_address(name) if is_address(name) else name.casefold()


_NOT_WORDS = re.compile(r'^\s*- (?:\[[^\]\n]*\] )?/?[a-z]+\b|(?<=") \([^()\n]*\)|\[[^\]\n]*\]', re.MULTILINE)
"""What a browser's view writes around a page's words: dash, reference and role, and what it knows of the element."""


def stands_on_page(words: str, text: str) -> bool:
    """Return True if words stand on a page, whatever a browser's view writes between them."""
    return alike(_NOT_WORDS.sub(" ", words), _NOT_WORDS.sub(" ", text))


def whole_lines(citations: Sequence[Citation], ctx: BranchContext[Any]) -> list[str]:
    """Return the lines and rows, whole, in which quotes stand, as far as an agent was given them."""
    texts: dict[str, list[str]] = {}
    for output in outputs(ctx):
        for source, text in output.pieces:
            texts.setdefault(source.ref, []).append(text)
    passages = []
    for citation in citations:
        for text in texts.get(citation.source, ()) if citation.quote else ():
            lines = text.split("\n")
            passages += ["\n".join(lines[first - 1 : last]) for first, last in lines_of(citation.quote, text)]
    return passages


def _holds(ctx: BranchContext[Any], name: str) -> bool:
    return ctx.capabilities is None or name in ctx.capabilities
