"""The messages of agents that write to each other as a sequence: a lifeline for each agent, a row for each exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentorchestra.cli.output import one_line
from agentorchestra.log.conversation import AgentExchange, Conversation

FROM, RIGHT, LEFT, REFUSED, THREAD, ANSWER = "●►◄✗◇■"
_LIFE, _LINE, _CROSSED = "│─┼"

_LANE = (8, 18)  # columns of a lifeline, least and most
_DRAWN = 3 / 5  # the part of a terminal's width that the lifelines get at most; the rest is for the words


class Cell(NamedTuple):
    """What one agent's lifeline shows in a row."""

    mark: str  # of who sends, receives, is refused, changes a thread, answers or is lost; "" for none
    alive: bool  # whether the agent is at work
    # `left`, `right`: whether an arrow goes on to that side
    left: bool = False
    right: bool = False


class Row(NamedTuple):
    """An exchange with its cells, in the order of the agents, and what it is."""

    exchange: AgentExchange
    cells: tuple[Cell, ...]
    about: str


def agents(talk: Conversation) -> list[str]:
    return [talk.leader, *talk.members]


def rows(talk: Conversation) -> list[Row]:
    names, gone, found = agents(talk), set[str](), list[Row]()
    for exchange in talk.exchanges:
        (gone.add if exchange.kind == "lost" else gone.discard)(exchange.sender)
        found.append(Row(exchange, tuple(_cells(exchange, names, gone)), _about(exchange)))
    return found


def _cells(exchange: AgentExchange, names: list[str], gone: set[str]) -> Iterator[Cell]:
    sender = names.index(exchange.sender) if exchange.sender in names else None
    reached = [names.index(name) for name in exchange.to if name in names] if exchange.kind == "message" else []
    ends = [*reached, *([] if sender is None else [sender])]
    for place, name in enumerate(names):
        mark = ""
        if place == sender:
            mark = {"message": FROM, "submit": ANSWER, "lost": REFUSED}.get(exchange.kind, THREAD)
            mark = REFUSED if exchange.refused and not reached else mark
        elif place in reached:
            mark = REFUSED if exchange.refused else RIGHT if sender is None or place > sender else LEFT
        drawn = bool(reached) and min(ends) <= place <= max(ends)
        yield Cell(mark, name not in gone, drawn and place > min(ends), drawn and place < max(ends))


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


def said(row: Row, width: int = 160) -> str:
    why = f"({row.exchange.refused})" if row.exchange.refused else ""
    words = f"{row.about} {row.exchange.content}".strip().removesuffix(":")
    return _shortened(one_line(f"{words} {why}", 2000), width)


def sequence_lines(talk: Conversation, width: int, encoding: str = "utf-8") -> list[str]:
    """Return the sequence in lines of at most `width` columns; a plain list where that is too narrow for lifelines.

    `encoding` is the terminal's: one that lacks the signs gets the list too.
    """
    names, shown = agents(talk), rows(talk)
    digits, clock = len(str(len(shown))), max((len(_time(row)) for row in shown), default=0)
    left = digits + clock + 4
    longest = max(cell_len(name) for name in names) + 2
    lane = min(longest, _LANE[1], int((width - left) * _DRAWN) // len(names))
    if lane < min(longest, _LANE[0]) or not _has_signs(encoding):
        return list_lines(talk)
    room = width - left - lane * len(names) - 2
    heads = "".join(_centred(one_line(name, 100), lane) for name in names)
    lines = [f"{'':{left}}{heads}".rstrip()]
    for row in shown:
        drawn = "".join(_drawn(cell, lane) for cell in row.cells)
        lines.append(f"{row.exchange.n:>{digits}}  {_time(row):>{clock}}  {drawn}  {said(row, room)}".rstrip())
    return lines


def list_lines(talk: Conversation, numbers: Sequence[int] | None = None) -> list[str]:
    digits = len(str(len(talk.exchanges)))
    return [_plain(row, digits) for row in rows(talk) if numbers is None or row.exchange.n in numbers]


def _time(row: Row) -> str:
    return f"{row.exchange.seconds:,.1f} s"


def _drawn(cell: Cell, lane: int) -> str:
    before = (lane - 1) // 2
    middle = cell.mark or (_CROSSED if cell.left and cell.right else _LIFE if cell.alive else " ")
    return (_LINE if cell.left else " ") * before + middle + (_LINE if cell.right else " ") * (lane - 1 - before)


def _centred(name: str, lane: int) -> str:
    """Return a name over its lifeline, shortened to leave a space beside the next one."""
    shown = _shortened(name, lane - 1)
    before = max(0, (lane - 1) // 2 - (cell_len(shown) - 1) // 2)
    return set_cell_size(" " * before + shown, lane)


def _shortened(line: str, width: int) -> str:
    text = Text(line)
    text.truncate(width, overflow="ellipsis")
    return text.plain


def _plain(row: Row, digits: int) -> str:
    one = row.exchange
    to = f" -> {', '.join(one.to)}" if one.kind == "message" and one.to else ""
    return f"{one.n:>{digits}}  {_time(row)}  {one_line(one.sender + to)}  {said(row)}"


def _has_signs(encoding: str) -> bool:
    try:
        "".join((FROM, RIGHT, LEFT, REFUSED, THREAD, ANSWER, _LIFE, _LINE, _CROSSED, "…")).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
