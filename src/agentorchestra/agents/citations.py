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

from agentorchestra.agents.outputs import MOST_RESULT, PROGRAMS, SILENT, Output, outputs, pieces_of, with_points
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

CHECK = "check_quotes"
"""The tool that looks quotes up."""

FOLDER_FILES = "files"
"""The environment that reads what lies in the run's folder."""

SORTED = 2
"""The way of checking (`RunManifest.checks`) from which on each source is held, misquoted or unknown."""

TASK = "task"
"""The source of words that are the user's own."""

JUDGE = "judge"
"""Who judges answers: its words are a source of nothing."""

_MARKS = tuple(f"{kind}:" for kind in get_args(SourceKind))
"""What stands before a name where the product shows content."""


@dataclass
class LookupResult:
    """The sources of an answer by what became of them.

    Of runs that began before (`SORTED`), those in none of these could not be looked up by code.

    Attributes:
        held: those that hold, each as it should stand: with the file's whole name, at the place of its words. Words in
            a picture, which only a model can look up, hold where the run was shown it.
        misquoted: those whose words do not stand there.
        unknown: those that are no source of this run: no file, no page that was read, nothing that was given back.
    """

    held: dict[Citation, Citation] = field(default_factory=dict)
    misquoted: list[Citation] = field(default_factory=list)
    unknown: list[Citation] = field(default_factory=list)

    def corrected(self, result: AgentResult) -> AgentResult:
        sources = tuple(dict.fromkeys(self.held.get(one, one) for one in result.sources))
        return result if sources == result.sources else result.model_copy(update={"sources": sources})


async def look_up(cited: Sequence[Citation], ctx: BranchContext[Any]) -> LookupResult:
    """Look up sources: files of the task, pages that the run read, the run's folder, and what tools and programs gave.

    A quote that stands a line or two from its place, or that has no place and stands once in its file, holds there. One
    with a name that the run does not know holds as a quote of that which gave its words, as far as anything did.
    """
    found = LookupResult()
    shown = outputs(ctx) if cited else []
    quoted: list[tuple[Citation, Citation]] = []
    folder: list[Citation] = []
    for one in dict.fromkeys(cited):
        named, is_file = _named(one, ctx)
        if is_file or is_address(named.source):
            if one.quote and (one.place or ctx.manifest.checks):
                quoted.append((one, named))
            elif is_file and any(output.shows(named.source) for output in shown):
                found.held[one] = named
        elif any(output.name.casefold() == named.source.casefold() for output in shown):
            # In any of them: of a long output the words may have been read in another call.
            stands = not one.quote or any(alike(one.quote, text) for output in shown for text in output.texts)
            if stands:
                found.held[one] = named
            else:
                found.misquoted.append(one)
        elif one.place and one.quote:
            folder.append(one)
    await _in_files(quoted, shown, ctx, found)
    await _in_folder(folder, ctx, found)
    if ctx.manifest.checks >= SORTED:
        sure = {*found.held, *found.misquoted}
        _sort_others([one for one in dict.fromkeys(cited) if one not in sure], ctx, found)
    wrong = (*found.misquoted, *found.unknown) if ctx.manifest.checks >= TURN else ()
    again = {one.model_copy(update={"quote": with_points(one.quote)}): one for one in wrong}
    if again.keys() - {*wrong}:  # their numbers may have another form there
        found.held |= {again[one]: held for one, held in (await look_up([*again], ctx)).held.items()}
        found.misquoted = [one for one in found.misquoted if one not in found.held]
        found.unknown = [one for one in found.unknown if one not in found.held]
    return found


def name_of(source: str) -> str:
    """Return the name of a source, without what the product shows before it (`file:notes.txt`)."""
    name = source.strip()
    for mark in _MARKS:
        name = name.removeprefix(mark)
    return name


def _named(one: Citation, ctx: BranchContext[Any]) -> tuple[Citation, bool]:
    """Return a citation with its source's name as the run has it, and whether that is a file of the task."""
    source = name_of(one.source)
    is_file = any(ref.name == source for ref in ctx.manifest.files)
    # In the run's folder a name with folders may be another file's.
    if not is_file and not is_address(source) and not ("/" in source and _holds(ctx, FOLDER_FILES)):
        with suppress(ToolError):
            source, is_file = file_named(ctx, source).name, True
    if not is_file and ctx.manifest.checks >= SORTED:  # "sales.csv, row 3"
        inside = [ref.name for ref in ctx.manifest.files if f" {ref.name}," in f" {source},"]
        if len(inside) == 1:
            rest = source.partition(inside[0])[2].strip(" ,")
            place = one.place or (rest if parse_place(rest) is not None else "")
            return one.model_copy(update={"source": inside[0], "place": place}), True
    return (one if source == one.source else one.model_copy(update={"source": source})), is_file


async def _in_files(
    quoted: Sequence[tuple[Citation, Citation]], shown: Sequence[Output], ctx: BranchContext[Any], found: LookupResult
) -> None:
    """Look up those from files of the task and from pages, by the tool."""
    if not quoted or not _holds(ctx, CHECK):
        return
    outcome = await ctx.call_tool(CHECK, quotes=[named.model_dump(mode="json") for _, named in quoted])
    stands = outcome.value if outcome.ok and isinstance(outcome.value, list) else []
    for (one, named), place in zip(quoted, stands, strict=False):
        if place is False:
            found.misquoted.append(one)
        elif place is not None:
            found.held[one] = named.model_copy(update={"place": place}) if isinstance(place, str) else named
        elif any(output.shows(named.source) for output in shown):
            found.held[one] = named  # words in a picture: nobody but a model can look them up


async def _in_folder(asked: Sequence[Citation], ctx: BranchContext[Any], found: LookupResult) -> None:
    make = ctx.run.services.environments.get(FOLDER_FILES)
    if make is None or not _holds(ctx, FOLDER_FILES):
        return
    # Workers name the tools and actions that said it: these are no files.
    named = {*ctx.manifest.tools, *ctx.manifest.agents}
    actions = tuple(f"{name}_" for name in ctx.run.services.environments)
    asked = [one for one in asked if one.source not in named and not one.source.startswith(actions)]
    files = make()
    outcomes = await ctx.perform_all(
        [action_effect(files, "read", {"path": one.source, "part": one.place}, role=ctx.role) for one in asked]
    )
    for one, outcome in zip(asked, outcomes, strict=True):
        if outcome.ok and stands_in_blocks(one.quote, outcome.blocks()):
            found.held[one] = one
        elif outcome.ok or ctx.manifest.checks < SORTED:
            found.misquoted.append(one)


# -- what the run was given and shown ----------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A text that the agent, or one that it asked, was given or shown.

    Attributes:
        origin: what it is from; its `ref` is the name by which it is cited.
        names: all names by which it may be.
        asked: the program, or the arguments, of the call that gave it.
        brief: whether it is the result of a program, in which a few characters say something.
    """

    origin: Source
    names: frozenset[str]
    text: str
    asked: str = ""
    brief: bool = False

    def read_by_program(self, name: str) -> bool:
        """Return True if its program names a file; what could be a variable of it is none."""
        return not name.isidentifier() and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", self.asked) is not None


def _pieces(ctx: BranchContext[Any]) -> list[_Piece]:
    """Return what was given and shown, without what the agent itself and the framework say."""
    found = []
    results = ctx.seen.results
    silent = {*SILENT, JUDGE, *(effect.name for effect, _ in results if effect.purpose == FINISH)}
    for one in outputs(ctx):
        brief = one.name in PROGRAMS and len(one.text) <= MOST_RESULT
        # A program of an agent that acts by programs may hold the very answer that is checked.
        asked = one.asked if one.name in PROGRAMS - {PROGRAM} else ""
        for origin, text in one.pieces if one.name not in silent else ():
            found.append(_Piece(origin, frozenset({one.name, origin.ref}), text, asked, brief))
    for effect, outcome in results:
        if not outcome.ok or effect.name in silent:
            continue
        if effect.kind is EffectKind.INVOKE_AGENT:
            name = str(effect.arguments.get("name", effect.name))
            result = AgentResult.model_validate(outcome.value)
            texts = [result.answer, result.report, canonical_json(result.output)]
            texts += [one.quote for one in result.sources]
            found += [_Piece(Source(kind="agent", ref=name), frozenset({name, effect.name}), text) for text in texts]
            continue
        called = effect.called or effect.name
        for origin, text in pieces_of(called, outcome):
            found.append(_Piece(origin, frozenset({origin.ref, called, effect.name}), text))
    for block in ctx.seen.shown:
        shown = block.source
        if shown is None or shown.kind == "prompt" or block.trust is Trust.SYSTEM or shown.ref in silent:
            continue
        found.append(_Piece(shown, frozenset({shown.ref, shown.kind}), without_numbers(block)))
    return found


def _sort_others(others: Sequence[Citation], ctx: BranchContext[Any], found: LookupResult) -> None:
    """Sort those that neither the tool nor the folder could tell of, by what the run was given and shown."""
    if not others:
        return
    shown, pieces = outputs(ctx), _pieces(ctx)
    told = {_key(one) for one in ctx.seen.refs if one}
    user = [ctx.manifest.task, *(one.task for one in ctx.manifest.earlier)]
    user += [piece.text for piece in pieces if piece.origin.kind == "human"]
    for one in others:
        named, is_file = _named(one, ctx)
        quote, key = one.quote.strip(), _key(named.source)
        there = [piece for piece in pieces if key in map(_key, piece.names)]
        # A file that was only listed was not read: what is read has a place.
        texts = [piece.text for piece in there if piece.origin.place or piece.origin.kind != "file"]
        read = [piece for piece in pieces if piece.read_by_program(named.source)]
        seen = bool(texts or read) or (key in told and not is_file)
        if is_file or is_address(named.source):
            seen = seen or any(output.shows(named.source) for output in shown)
        if seen and texts and quote and not is_file:
            seen = any(stands_in_blocks(quote, [TextBlock(text=one)]) or stands_on_page(quote, one) for one in texts)
            if not seen and not read:
                found.misquoted.append(one)
                continue
        if seen and read and quote and not is_file:
            seen = any(alike(quote, text) for piece in read for text in (piece.text, piece.asked))
        held = named if seen else _by_words(quote, user, pieces)
        if held is None:
            found.unknown.append(one)
        else:
            found.held[one] = held


def _by_words(quote: str, user: Sequence[str], pieces: Sequence[_Piece]) -> Citation | None:
    """Return the source that has given these words, None where none has: an agent may call it as it likes."""
    if not quote:
        return None
    if any(alike(quote, text) for text in user):
        return Citation(source=TASK, quote=quote)
    long = len(quote.split()) >= FEW_WORDS
    # What an agent said, or remembers, is no source by itself.
    there = (one for one in pieces if one.origin.kind in _GIVING and (one.brief or long) and alike(quote, one.text))
    source = next(there, None)
    return None if source is None else Citation(source=source.origin.ref, quote=quote)


_GIVING = ("file", "web", "tool", "environment")


def _key(name: str) -> str:
    return normalised_address(name) if is_address(name) else name.casefold()


_NOT_WORDS = re.compile(r'^\s*- (?:\[[^\]\n]*\] )?/?[a-z]+\b|(?<=") \([^()\n]*\)|\[[^\]\n]*\]', re.MULTILINE)
"""What a browser's view writes around a page's words: dash, reference and role, and what it knows of the element."""


def stands_on_page(words: str, text: str) -> bool:
    """Return True if words stand on a page, whatever a browser's view writes between them."""
    return alike(_NOT_WORDS.sub(" ", words), _NOT_WORDS.sub(" ", text))


def whole_lines(held: Sequence[Citation], ctx: BranchContext[Any]) -> list[str]:
    """Return the lines and rows, whole, in which quotes stand, as far as an agent was given them."""
    texts: dict[str, list[str]] = {}
    for output in outputs(ctx):
        for source, text in output.pieces:
            texts.setdefault(source.ref, []).append(text)
    found = []
    for one in held:
        for text in texts.get(one.source, ()) if one.quote else ():
            lines = text.split("\n")
            found += ["\n".join(lines[first - 1 : last]) for first, last in lines_of(one.quote, text)]
    return found


def _holds(ctx: BranchContext[Any], name: str) -> bool:
    return ctx.capabilities is None or name in ctx.capabilities
