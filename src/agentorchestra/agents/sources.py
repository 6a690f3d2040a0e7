"""The sources of an answer, looked up by code: quotes in files and pages, results of tools and programs, pictures.

Nothing here asks a model. What is looked up in files goes through the door, and what tools gave is read from the log: a
resume and a replay come to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.outputs import Output, outputs
from agentorchestra.core.errors import ToolError
from agentorchestra.core.spec import AgentResult, Citation
from agentorchestra.runtime.session import Session
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tools.files.common import file_named
from agentorchestra.tools.files.quotes import alike, stands_in_blocks
from agentorchestra.tools.web.pages import is_address

CHECK = "check_quotes"
"""The tool that looks quotes up."""

FOLDER_FILES = "files"
"""The environment that reads what lies in the run's folder."""

_MARKS = ("file:", "web:", "tool:", "environment:", "agent:")
"""What stands before a name where the product shows content."""


@dataclass
class LookupResult:
    """The sources of an answer by what became of them; those in neither could not be looked up by code.

    Attributes:
        held: those that hold, each as it should stand: with the file's whole name, at the place of its words.
        misquoted: those whose words do not stand there.
    """

    held: dict[Citation, Citation] = field(default_factory=dict)
    misquoted: list[Citation] = field(default_factory=list)

    def corrected(self, result: AgentResult) -> AgentResult:
        """Return the result with its sources as they should stand."""
        sources = tuple(dict.fromkeys(self.held.get(one, one) for one in result.sources))
        return result if sources == result.sources else result.model_copy(update={"sources": sources})


async def look_up(cited: Sequence[Citation], session: Session[Any]) -> LookupResult:
    """Look up sources: files of the task, pages that the run read, the run's folder, and what tools and programs gave.

    A quote that stands a line or two from its place, or that has no place and stands once in its file, holds there.
    """
    found = LookupResult()
    shown = outputs(session) if cited else []
    quoted: list[tuple[Citation, Citation]] = []
    folder: list[Citation] = []
    for one in dict.fromkeys(cited):
        named, is_file = _named(one, session)
        if is_file or is_address(named.source):
            if one.quote and (one.place or session.manifest.checks):
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
    await _in_files(quoted, shown, session, found)
    await _in_folder(folder, session, found)
    return found


def name_of(source: str) -> str:
    """Return the name of a source, without what the product shows before it (`file:notes.txt`)."""
    name = source.strip()
    for mark in _MARKS:
        name = name.removeprefix(mark)
    return name


def _named(one: Citation, session: Session[Any]) -> tuple[Citation, bool]:
    """Return a citation with its source's name as the run has it, and whether that is a file of the task."""
    source = name_of(one.source)
    is_file = any(ref.name == source for ref in session.manifest.files)
    # In the run's folder a name with folders may be another file's.
    if not is_file and not is_address(source) and not ("/" in source and _holds(session, FOLDER_FILES)):
        with suppress(ToolError):
            source, is_file = file_named(session, source).name, True
    return (one if source == one.source else one.model_copy(update={"source": source})), is_file


async def _in_files(
    quoted: Sequence[tuple[Citation, Citation]], shown: Sequence[Output], session: Session[Any], found: LookupResult
) -> None:
    """Look up those from files of the task and from pages, by the tool."""
    if not quoted or not _holds(session, CHECK):
        return
    outcome = await session.call_tool(CHECK, quotes=[named.model_dump(mode="json") for _, named in quoted])
    stands = outcome.value if outcome.ok and isinstance(outcome.value, list) else []
    for (one, named), place in zip(quoted, stands, strict=False):
        if place is False:
            found.misquoted.append(one)
        elif place is not None:
            found.held[one] = named.model_copy(update={"place": place}) if isinstance(place, str) else named
        elif any(output.shows(named.source) for output in shown):
            found.held[one] = named  # words in a picture: nobody but a model can look them up


async def _in_folder(asked: Sequence[Citation], session: Session[Any], found: LookupResult) -> None:
    """Read those from files in the run's folder at their places."""
    make = session.run.services.environments.get(FOLDER_FILES)
    if make is None or not _holds(session, FOLDER_FILES):
        return
    # Workers name the tools and actions that said it: these are no files.
    named = {*session.manifest.tools, *session.manifest.agents}
    actions = tuple(f"{name}_" for name in session.run.services.environments)
    asked = [one for one in asked if one.source not in named and not one.source.startswith(actions)]
    files = make()
    outcomes = await session.perform_all(
        [action_effect(files, "read", {"path": one.source, "part": one.place}, role=session.role) for one in asked]
    )
    for one, outcome in zip(asked, outcomes, strict=True):
        if outcome.ok and stands_in_blocks(one.quote, outcome.blocks()):
            found.held[one] = one
        else:
            found.misquoted.append(one)


def _holds(session: Session[Any], name: str) -> bool:
    return session.capabilities is None or name in session.capabilities


async def misquoted(cited: Sequence[Citation], session: Session[Any]) -> list[Citation]:
    """Return the citations whose words do not stand where they say, as far as code can look them up."""
    return (await look_up(cited, session)).misquoted
