"""The outputs of tools, actions and programs that the agents of a branch were given, as the log has them.

They are what an answer rests on besides quotes: a computation is a source by its program and what that printed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.agents.conversation import conversation
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust, lowest, without_numbers
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.messages import ToolCall
from agentorchestra.core.spec import CHECKS, PAGES_ONCE, TURN
from agentorchestra.environments.report import REPORT
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.log.ledger import Record
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.programs.handler import NAME as PROGRAM
from agentorchestra.tea.retrieval.discovery import OPENING
from agentorchestra.tools.files.quotes import alike

PROGRAMS = frozenset({"python", "bash", "terminal_run", PROGRAM})
"""Tools that compute: their outputs are results, not material that was read."""

SEARCH = "search"  # the tool whose results are pages, each with its words
SILENT = frozenset({"done", "todo", "check_quotes", *OPENING})  # tools whose outputs say nothing about the world

_CALLS = (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE, EffectKind.INVOKE_AGENT)

MOST_RESULT = 4_000  # characters of an output that is a result; in a longer one any number may be found
SHORT_ANSWER = 12  # words of an answer that may be settled by its figures: a longer one may say more than they do
MOST_ASKED = 2_000  # characters of a program, or of the arguments of a call, that are shown with its output


@dataclass(frozen=True)
class ToolOutput:
    asker: str
    n: int  # the number, on the branch that was looked at, of the effect that the call belongs to
    name: str  # of the tool, the action (`terminal_run`) or PROGRAM
    request: str  # the program, or the arguments as JSON
    text: str  # what came back, without the numbers beside lines
    trust: Trust
    media: frozenset[str] = frozenset()  # names of the pictures and recordings that came with it
    pieces: tuple[tuple[Source, str], ...] = ()  # what came back block by block, each with where it is from

    @property
    def texts(self) -> tuple[str, str]:
        """Return the texts that may be quoted: what came back, and the program."""
        return self.text, self.request

    @property
    def result(self) -> str:
        """Return what it gave of its own, with what it was asked: no words of files and pages, which are quoted."""
        own = [text for source, text in self.pieces if source.kind not in ("file", "web")]
        return "\n".join([self.request, *own]) if own else ""

    def without(self, sources: Collection[str]) -> ToolOutput | None:
        """Return it without what came from some files and pages; None where that is all, or it was asked for these."""
        if any(self.shows(name) for name in sources):
            return None
        addresses = [name for name in sources if "://" in name]
        pieces = tuple(
            (origin, text)
            for origin, text in self.pieces
            if normalised_address(origin.ref) not in sources and not any(name in text for name in addresses)
        )
        if len(pieces) == len(self.pieces):
            return self
        return replace(self, text="\n".join(text for _, text in pieces), pieces=pieces) if pieces else None

    def shows(self, name: str) -> bool:
        """Return True if a model was shown this picture or recording, or asked about it."""
        is_subject = self.name not in PROGRAMS and (f'"{name}"' in self.request or f'"{name}!' in self.request)
        return is_subject or name in self.media


def ended_on(ctx: BranchContext[Any], kinds: Collection[EffectKind], *, after: int = 0) -> Iterator[tuple[int, Record]]:
    """Yield what a branch performed of these kinds and came to an end, by its numbers, in order."""
    for n in range(after + 1, ctx.last_n + 1):
        record = ctx.run.ledger.records.get(EffectKey(ctx.branch, n))
        if record is not None and record.outcome is not None and record.effect.get("kind") in kinds:
            yield n, record


def outputs(ctx: BranchContext[Any]) -> list[ToolOutput]:
    """Return what calls gave a branch's agent so far, in earlier turns too, and the agents that it asked, in order."""
    records: dict[str, list[tuple[int, Record]]] = {}
    for key, record in ctx.run.ledger.records.items():
        if record.outcome is not None and record.effect.get("kind") in _CALLS:
            records.setdefault(key.branch, []).append((key.n, record))
    return [*_before(ctx), *_on(records, ctx.branch, ctx.actor, upto=ctx.last_n)]


def _before(ctx: BranchContext[Any]) -> Iterator[ToolOutput]:
    """Yield what calls gave in earlier turns of the session, as far as it stands in the conversation."""
    by_id: dict[str, ToolCall] = {}
    for message in conversation(ctx, native=True):
        by_id |= {call.id: call for call in message.tool_calls}
        call = by_id.get(message.tool_call_id or "")
        if call is not None and not message.is_error and call.name not in SILENT:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            yield _from_blocks(ctx.actor, 0, call.name, arguments, message.content)


def _on(
    records: dict[str, list[tuple[int, Record]]], branch: str, asker: str, *, upto: int | None = None, number: int = 0
) -> Iterator[ToolOutput]:
    for n, record in sorted(records.get(branch, ()), key=lambda row: row[0]):
        if upto is not None and n > upto:
            continue  # a replay's log holds later things too
        name = str(record.effect.get("component", "")).partition("@")[0]
        if record.effect.get("kind") == EffectKind.INVOKE_AGENT:
            head = f"{EffectKey(branch, n).path}."
            agent = str(record.effect.get("arguments", {}).get("name", "agent"))
            for below in (branch for branch in records if branch.startswith(head) and "/" not in branch[len(head) :]):
                yield from _on(records, below, agent, number=number or n)
            continue
        if record.effect.get("kind") == EffectKind.RUN_CODE and name == PROGRAM:
            yield from _on(records, f"{EffectKey(branch, n).path}.{PROGRAM}", asker, number=number or n)
        if record.effect.get("kind") == EffectKind.INVOKE_ACTION:
            name = f"{name}_{record.effect.get('arguments', {}).get('action', '')}"
        if name not in SILENT and not name.endswith("_state") and not name.startswith(f"{REPORT}_"):
            assert record.outcome is not None
            if record.outcome.ok:
                yield _output(asker, number or n, name, record.effect, record.outcome)


def _output(asker: str, n: int, name: str, effect: dict[str, Any], outcome: Outcome) -> ToolOutput:
    arguments = effect.get("arguments", {})
    if effect.get("kind") == EffectKind.INVOKE_ACTION:
        arguments = arguments.get("arguments", {})
    return _from_blocks(asker, n, name, arguments, outcome.blocks(), pieces_of(name, outcome), outcome.trust)


def _from_blocks(
    asker: str,
    n: int,
    name: str,
    arguments: dict[str, Any],
    blocks: Sequence[Block],
    pieces: tuple[tuple[Source, str], ...] | None = None,
    trust: Trust = Trust.SYSTEM,
) -> ToolOutput:
    program = [value for key in ("code", "command") if isinstance(value := arguments.get(key), str)]
    request = program[0] if program and name in PROGRAMS else canonical_json(arguments)
    pictures = [block for block in blocks if isinstance(block, MediaBlock)]
    media = {image.name for image in pictures} | {image.source.ref for image in pictures if image.source is not None}
    trust = lowest(trust, *(block.trust for block in blocks))
    if pieces is None:
        origin = Source(kind="tool", ref=name)
        pieces = tuple((block.source or origin, without_numbers(block)) for block in blocks)
    text = "\n".join(map(without_numbers, blocks))
    return ToolOutput(asker, n, name, request, text, trust, frozenset(media), pieces)


def pieces_of(name: str, outcome: Outcome) -> tuple[tuple[Source, str], ...]:
    """Return what a call gave, with where each piece is from: what a search lists is from the pages it lists."""
    results = outcome.value.get("results") if name == SEARCH and isinstance(outcome.value, dict) else None
    if isinstance(results, list):
        hits = [{key: str(value) for key, value in row.items()} for row in results if isinstance(row, dict)]
        return tuple((Source(kind="web", ref=hit.get("address", "")), "\n".join(hit.values())) for hit in hits)
    origin = Source(kind="tool", ref=name)
    return tuple((block.source or origin, without_numbers(block)) for block in outcome.blocks(origin))


# -- figures -----------------------------------------------------------------------------------------------------------

_FIGURE = re.compile(r"(?<![\w.,])\d(?:[\d,.]|[ \u00a0\u202f](?=\d{3}\b))*")


def figures(text: str, *, digits: int = 2) -> dict[str, str]:
    """Return the numbers of a text that have so many digits, as they stand, by a form for comparison."""
    by_form = {}
    for match in _FIGURE.finditer(text):
        digits_text = match[0].rstrip(".,")
        form = re.sub(r"[, \u00a0\u202f]|\.(?=\d{3}(?!\d))", "", digits_text).lstrip("0") or "0"
        if sum(char.isdigit() for char in form) >= digits:
            by_form[form.rstrip("0").rstrip(".") if "." in form else form] = digits_text
    return by_form


def is_among(form: str, forms: Collection[str]) -> bool:
    """Return True if a number, as `figures` gives it, stands among known ones, or is one of them rounded."""
    if form in forms:
        return True
    places = len(form.partition(".")[2])
    finer = (number for number in forms if number.count(".") == 1 and len(number.partition(".")[2]) > places)
    return form.count(".") < 2 and any(abs(float(number) - float(form)) <= 0.5001 / 10**places for number in finer)


_GROUPS, _DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), re.compile(r"(?<=\d),(?=\d+(?![\d,]))")


def with_points(text: str) -> str:
    """Return a text whose numbers have points alone: 1,234 is 1234, and 35,25 is 35.25."""
    return _DECIMAL_COMMA.sub(".", _GROUPS.sub("", text))


def missing(answer: str, text: str, other_forms: Collection[str] = (), *, checks: int = CHECKS) -> list[str]:
    """Return the figures of an answer that a text does not have, by their values; it has `other_forms` too."""
    points = with_points if checks >= TURN else str
    forms = {*other_forms, *figures(text, digits=1), *figures(points(text), digits=1)}
    amounts = figures(answer).items()
    return [text for form, text in amounts if not any(is_among(key, forms) for key in (form, *figures(points(text))))]


def unproven(answer: str, basis: Sequence[str], calls: Sequence[ToolOutput], *, checks: int = CHECKS) -> list[str]:
    """Return the figures of an answer that are nowhere known; they may be rounded.

    Args:
        basis: the task, and what the answer cites.
        shown: what the run was given. A result of a program or a tool proves a figure.
            What was read does so only in a long answer, which is an account of it: a short one has to cite it.
        checks: of the run. From COUNTED on figures with a blank between them may be two, as programs print them.
    """
    account = len(answer.split()) > SHORT_ANSWER
    texts = [f"{call.request}\n{call.text}" if account else call.result for call in calls]
    text = "\n".join([*basis, *texts])
    forms = figures(text.replace(",", ", "), digits=1)  # "1999,41" may be two cells
    forms |= figures(re.sub(r"[ \u00a0\u202f]", "\n", text), digits=1) if checks >= PAGES_ONCE else {}
    return missing(answer, text, forms, checks=checks)


def is_computed(answer: str, task: str, calls: Sequence[ToolOutput], computing: Collection[str] = PROGRAMS) -> bool:
    """Return True if one program or tool gave an answer: its words, or its numbers that the task has not."""
    task_figures = figures(task, digits=1)
    novel = [form for form in figures(answer, digits=1) if form not in task_figures]
    for call in calls:
        if call.name not in computing or len(call.text) > MOST_RESULT:
            continue
        forms = {*figures(f"{call.request}\n{call.text}", digits=1)}
        numbers = {*figures(call.text, digits=1)}
        if alike(answer, call.text) or (
            novel and all(is_among(form, forms) for form in novel) and any(is_among(form, numbers) for form in novel)
        ):
            return True
    return False


# -- for a judge -------------------------------------------------------------------------------------------------------


def without_repeats(calls: Sequence[ToolOutput]) -> Iterator[ToolOutput]:
    """Give outputs without those parts of files and pages that earlier ones gave."""
    seen: set[tuple[Source, str]] = set()
    for call in calls:
        read = {piece for piece in call.pieces if piece[0].place}
        pieces = tuple(piece for piece in call.pieces if piece not in seen)
        if read - seen or not read:
            yield replace(call, text="\n".join(text for _, text in pieces), pieces=pieces) if read & seen else call
        seen |= read


def output_blocks(calls: Sequence[ToolOutput], answer: str, most: int) -> list[TextBlock]:
    """Return the outputs that an answer may rest on, those with its figures and words first, in so many characters."""
    marks = {*figures(answer, digits=1).values(), *re.findall(r"[^\W\d_]{4,}", answer.casefold())}
    unlike = {(call.name, call.request, call.text): call for call in calls}
    rows = [(sum(mark in call.text.casefold() for mark in marks), call) for call in unlike.values()]
    ranking = sorted(rows, key=lambda row: (row[1].name not in PROGRAMS, -row[0]))
    excerpts: dict[int, str] = {}
    for count, call in ranking:
        room = most - sum(map(len, excerpts.values()))
        if (count or call.name in PROGRAMS) and room > 0:
            excerpts[id(call)] = _excerpt(call, marks, min(room, max(most // 2, 200)))
    return [
        TextBlock(text=excerpts[id(call)], source=Source(kind="tool", ref=call.name), trust=call.trust)
        for call in unlike.values()
        if id(call) in excerpts
    ]


def _excerpt(output: ToolOutput, marks: Collection[str], most: int) -> str:
    request = output.request if len(output.request) <= MOST_ASKED else f"{output.request[:MOST_ASKED]}…"
    head = f"{output.asker} called {output.name}: {request}\nIt gave: "[:most]
    room = most - len(head)
    if len(output.text) <= room:
        return head + output.text
    lines = [line for line in output.text.splitlines() if any(mark in line.casefold() for mark in marks)]
    excerpt = "\n… ".join(lines) or output.text
    return f"{head}… {excerpt[: max(0, room - 4)]} …"
