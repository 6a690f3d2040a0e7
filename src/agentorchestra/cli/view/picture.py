"""The picture of a run for a terminal: lines that fit its width, and as many as its height has room for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentorchestra.cli.output import clean, dollars, local_time, number, one_line, plural, unknown_cost
from agentorchestra.cli.progress import call_text, describe
from agentorchestra.cli.view.model import AgentView, RunView, Span
from agentorchestra.cli.view.tree import step_line
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.spec import RunStatus

NARROW = 60  # below so many columns what an agent spent gets a line of its own

_STREAM_LINES = 3
_NOTES = 3
_RUNNING = ("running", "interrupted")
_STYLES = {
    "completed": "green",
    "running": "cyan",
    "waiting": "yellow",
    "paused": "yellow",
    "partial": "yellow",
    "blocked": "yellow",
    "cancelled": "yellow",
    "failed": "red",
    "danger": "red",
    "warning": "yellow",
    "told": "cyan",
}

_RUN, _AGENT, _CALL, _NOTE, _PLAN, _STREAM, _PAST, _ENDED_PLAN = range(8)
"""What a line is about, most important first: where a terminal is too low, the last ones go."""


class _Line(NamedTuple):
    """A line of the picture: what it is about, and its text (already of one line)."""

    about: int
    text: Text


def picture(
    view: RunView,
    *,
    now: datetime,  # the time, for what is under way
    width: int,
    height: int | None = None,
    texts: Mapping[str, str] | None = None,  # text that is streamed or said now, by the key of its effect
    encoding: str = "utf-8",  # of the terminal; what it cannot show is escaped
    last: bool = False,  # the result is printed below it: status, figures and questions stand there
) -> list[Text]:
    head = [] if last else _head(view, now, width)
    lines = [*head, *_agents(view, now, width, texts or {}), *_foot(view, last=last)]
    if height is not None:
        lines = _fit(lines, max(1, height))
    return [_cut(line.text, width, encoding) for line in lines]


def _head(view: RunView, now: datetime, width: int) -> list[_Line]:
    budget, usage = view.budget, view.usage
    seconds = view.active_s(now)
    cost, unknown = dollars(usage.cost_usd), unknown_cost(usage)
    parts = [
        view.status.value,
        f"{seconds:.0f} s" + _limit(budget.active_s, " s"),
        f"{view.steps}{_limit(budget.steps)} steps" if budget.steps is not None else plural(view.steps, "step"),
        f"{number(usage.tokens)}{_limit(budget.tokens)} tokens",
        cost + ("" if budget.cost_usd is None else f" of ${budget.cost_usd:g}"),
        *([unknown] if unknown else []),
    ]
    style = f"bold {_STYLES.get(view.status.value, '')}".strip()
    return [_Line(_RUN, Text(line, style=style if not row else "bold")) for row, line in enumerate(_flow(parts, width))]


def _limit(limit: float | None, unit: str = "") -> str:
    return "" if limit is None else f" of {limit:,g}{unit}"


def _flow(parts: Iterable[str], width: int) -> list[str]:
    """Parts side by side, in as many lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 2 + cell_len(part) <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def _agents(view: RunView, now: datetime, width: int, texts: Mapping[str, str]) -> list[_Line]:
    lines: list[_Line] = []
    for child in view.root.children:
        for depth, agent in child.walk():
            lines += _agent(view, agent, "  " * depth, now, width, texts)
    for span in view.root.open.values():
        lines += _call(span, "", now, width, texts)
    return lines


def _agent(
    view: RunView, agent: AgentView, indent: str, now: datetime, width: int, texts: Mapping[str, str]
) -> list[_Line]:
    status = agent.status
    if status == "running" and not view.is_driven:
        status = "interrupted"
    over = status not in _RUNNING
    about = _PAST if over else _AGENT
    label = agent.name if agent.role in ("agent", agent.name) else f"{agent.name} ({agent.role})"
    title = Text(indent)
    title.append(label, style="bold")
    title.append(f" {status}", style=_STYLES.get(status, ""))
    title.append(f"  {one_line(agent.task, 500)}", style="dim" if over else "")
    sums = f"{plural(agent.total_steps, 'step')}, {number(agent.total.tokens)} tokens, {dollars(agent.total.cost_usd)}"
    if width >= NARROW:
        title.truncate(width - cell_len(sums) - 2, overflow="ellipsis", pad=True)
        title.append(f"  {sums}", style="dim")
        lines = [_Line(about, title)]
    else:
        lines = [_Line(about, title), _Line(_PAST if over else _PLAN, Text(f"{indent}  {sums}", style="dim"))]
    inner = f"{indent}  "
    if agent.plan is not None:
        for step in agent.plan.steps:
            style = "green" if step.status == "completed" else "red" if step.status == "blocked" else ""
            lines.append(_Line(_ENDED_PLAN if over else _PLAN, Text(f"{inner}{step_line(step)}", style=style)))
    for span in agent.open.values():
        lines += _call(span, inner, now, width, texts)
    if status == "running":
        for key, call in agent.decided.items():
            if key not in view.spans:
                lines.append(_Line(_CALL, Text(f"{inner}> {one_line(call_text(call.name, call.arguments), 500)}")))
                # A pure effect says something before the log has its key.
                words = texts.get(str(key), "")
                if words.strip():
                    lines.append(_Line(_STREAM, Text(f"{inner}| {one_line(words, 300)}", style="dim italic")))
    return lines


def _call(span: Span, indent: str, now: datetime, width: int, texts: Mapping[str, str]) -> list[_Line]:
    seconds = max(0.0, (now - span.opened).total_seconds()) if span.opened is not None else 0.0
    if span.kind is EffectKind.ASK_HUMAN:
        return [_Line(_AGENT, Text(f"{indent}? {describe(span.effect, 500)}", style="bold yellow"))]
    tail = f"  {seconds:.0f} s"
    text = Text(f"{indent}> {describe(span.effect, 500, call_name=span.called)}")
    text.truncate(max(1, width - len(tail)), overflow="ellipsis")
    text.append(tail, style="dim")
    lines = [_Line(_CALL, text)]
    if span.failures:
        last = span.failures[-1]
        again = "" if last.retry_in_s is None else f"again after {last.retry_in_s:g} s: "
        by = f"{last.target}: " if last.target else ""
        failed = f"{indent}  attempt {last.number} failed, {again}{by}{one_line(last.error, 300)}"
        lines.append(_Line(_CALL, Text(failed, style="yellow")))
    for piece in _last_lines(texts.get(str(span.key), ""), width - cell_len(indent) - 2):
        lines.append(_Line(_STREAM, Text(f"{indent}| {piece}", style="dim italic")))
    return lines


def _last_lines(text: str, width: int) -> list[str]:
    if width < 1:
        return []
    lines: list[str] = []
    for paragraph in clean(text.expandtabs(2)).splitlines():
        rest = paragraph
        while cell_len(rest) > width:
            part = set_cell_size(rest, width).rstrip() or rest[:width]
            lines.append(part)
            rest = rest[len(part) :]
        lines.append(rest)
    return [line for line in lines if line.strip()][-_STREAM_LINES:]


def _foot(view: RunView, *, last: bool) -> list[_Line]:
    lines = [
        _Line(_NOTE, Text(f"{note.level}: {one_line(note.text, 500)}", style=_STYLES.get(note.level, "")))
        for note in view.notes[-_NOTES:]
    ]
    if view.status in (RunStatus.WAITING, RunStatus.PAUSED) and not last:
        lines += [_Line(_NOTE, Text(f"? {one_line(ask.question, 500)}", style="bold yellow")) for ask in view.questions]
        if view.until is not None and view.status is RunStatus.WAITING:
            lines.append(_Line(_NOTE, Text(f"waits until {local_time(view.until)}", style="yellow")))
    return lines


def _fit(lines: list[_Line], height: int) -> list[_Line]:
    """Return the most important lines, in their order; the last one says how many are left out."""
    if len(lines) <= height:
        return lines
    by_weight = sorted(range(len(lines)), key=lambda index: (lines[index].about, -index))
    indices = sorted(by_weight[: height - 1])
    more = _Line(_RUN, Text(f"... {plural(len(lines) - len(indices), 'line')} more", style="dim"))
    return [*(lines[index] for index in indices), more]


def _cut(text: Text, width: int, encoding: str) -> Text:
    plain = clean(text.plain).encode(encoding, "backslashreplace").decode(encoding)
    if plain != text.plain:
        text = Text(plain, style=text.style)
    # An ellipsis is not in every character set.
    if cell_len(text.plain) > width:
        text.truncate(max(0, width - 3), overflow="crop")
        text.append("..."[: max(0, min(3, width))])
    text.no_wrap = True
    return text
