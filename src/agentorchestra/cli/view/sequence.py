"""The messages of agents that write to each other as a sequence: a lifeline for each agent, a row for each exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentorchestra.cli.output import one_line
from agentorchestra.log.conversation import AgentExchange, Conversation

FROM, RIGHT, LEFT, REFUSAL, THREAD, ANSWER = "●►◄✗◇■"
_LIFE, _LINE, _CROSS = "│─┼"

_LANE = (8, 18)  # columns of a lifeline, least and most
_SHARE = 3 / 5  # the part of a terminal's width that the lifelines get at most; the rest is for the words


class LifelineCell(NamedTuple):
    """What one agent's lifeline shows in a row."""

    mark: str  # of who sends, receives, is refused, changes a thread, answers or is lost; "" for none
    alive: bool  # whether the agent is at work
    # `left`, `right`: whether an arrow goes on to that side
    left: bool = False
    right: bool = False


class ExchangeRow(NamedTuple):
    """An exchange with its cells, in the order of the agents, and what it is."""

    exchange: AgentExchange
    cells: tuple[LifelineCell, ...]
    about: str


def agents(talk: Conversation) -> list[str]:
    return [talk.leader, *talk.members]


def rows(talk: Conversation) -> list[ExchangeRow]:
    names, dead, table = agents(talk), set[str](), list[ExchangeRow]()
    for exchange in talk.exchanges:
        (dead.add if exchange.kind == "lost" else dead.discard)(exchange.sender)
        table.append(ExchangeRow(exchange, tuple(_cells(exchange, names, dead)), _about(exchange)))
    return table


def _cells(exchange: AgentExchange, names: list[str], dead: set[str]) -> Iterator[LifelineCell]:
    sender = names.index(exchange.sender) if exchange.sender in names else None
    targets = [names.index(name) for name in exchange.to if name in names] if exchange.kind == "message" else []
    ends = [*targets, *([] if sender is None else [sender])]
    for place, name in enumerate(names):
        mark = ""
        if place == sender:
            mark = {"message": FROM, "submit": ANSWER, "lost": REFUSAL}.get(exchange.kind, THREAD)
            mark = REFUSAL if exchange.refused and not targets else mark
        elif place in targets:
            mark = REFUSAL if exchange.refused else RIGHT if sender is None or place > sender else LEFT
        on_line = bool(targets) and min(ends) <= place <= max(ends)
        yield LifelineCell(mark, name not in dead, on_line and place > min(ends), on_line and place < max(ends))


def _about(exchange: AgentExchange) -> str:
    to, thread = ", ".join(exchange.to), one_line(exchange.thread, 40)
    done = {
        "message": f"[{thread}]" if thread else "",
        "create": f"opens thread {thread} with {to}:",
        "add": f"takes {to} into thread {thread}:",
        "remove": f"takes {to} out of thread {thread}:",
        "close": f"closes thread {thread}:",
        "submit": "submits the answer:",
        "lost": "works no more:",
    }[exchange.kind]
    return f"refused: {done}" if exchange.refused else done


def words_of(row: ExchangeRow, width: int = 160) -> str:
    reason = f"({row.exchange.refused})" if row.exchange.refused else ""
    words = f"{row.about} {row.exchange.content}".strip().removesuffix(":")
    return _shorten(one_line(f"{words} {reason}", 2000), width)


def sequence_lines(talk: Conversation, width: int, encoding: str = "utf-8") -> list[str]:
    """Return the sequence in lines of at most `width` columns; a plain list where that is too narrow for lifelines.

    `encoding` is the terminal's: one that lacks the signs gets the list too.
    """
    names, table = agents(talk), rows(talk)
    digits, clock = len(str(len(table))), max((len(_time(row)) for row in table), default=0)
    left = digits + clock + 4
    longest = max(cell_len(name) for name in names) + 2
    lane = min(longest, _LANE[1], int((width - left) * _SHARE) // len(names))
    if lane < min(longest, _LANE[0]) or not _has_signs(encoding):
        return list_lines(talk)
    room = width - left - lane * len(names) - 2
    heads = "".join(_centre(one_line(name, 100), lane) for name in names)
    lines = [f"{'':{left}}{heads}".rstrip()]
    for row in table:
        lanes = "".join(_lane(cell, lane) for cell in row.cells)
        lines.append(f"{row.exchange.n:>{digits}}  {_time(row):>{clock}}  {lanes}  {words_of(row, room)}".rstrip())
    return lines


def list_lines(talk: Conversation, numbers: Sequence[int] | None = None) -> list[str]:
    digits = len(str(len(talk.exchanges)))
    return [_plain(row, digits) for row in rows(talk) if numbers is None or row.exchange.n in numbers]


def _time(row: ExchangeRow) -> str:
    return f"{row.exchange.seconds:,.1f} s"


def _lane(cell: LifelineCell, lane: int) -> str:
    before = (lane - 1) // 2
    middle = cell.mark or (_CROSS if cell.left and cell.right else _LIFE if cell.alive else " ")
    return (_LINE if cell.left else " ") * before + middle + (_LINE if cell.right else " ") * (lane - 1 - before)


def _centre(name: str, lane: int) -> str:
    """Return a name over its lifeline, shortened to leave a space beside the next one."""
    text = _shorten(name, lane - 1)
    before = max(0, (lane - 1) // 2 - (cell_len(text) - 1) // 2)
    return set_cell_size(" " * before + text, lane)


def _shorten(line: str, width: int) -> str:
    text = Text(line)
    text.truncate(width, overflow="ellipsis")
    return text.plain


def _plain(row: ExchangeRow, digits: int) -> str:
    exchange = row.exchange
    to = f" -> {', '.join(exchange.to)}" if exchange.kind == "message" and exchange.to else ""
    return f"{exchange.n:>{digits}}  {_time(row)}  {one_line(exchange.sender + to)}  {words_of(row)}"


def _has_signs(encoding: str) -> bool:
    try:
        "".join((FROM, RIGHT, LEFT, REFUSAL, THREAD, ANSWER, _LIFE, _LINE, _CROSS, "…")).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
