"""A report of an evaluation as Markdown, as one HTML file without scripts and requests, and its tables as LaTeX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape

from agentorchestra.evaluation.plan import EvalPlan
from agentorchestra.evaluation.results import (
    ATTEMPTS,
    COSTS,
    CostPoint,
    Table,
    frontier,
    points,
    published_points,
    solved_after,
    tokens,
    usd,
)
from agentorchestra.evaluation.scores import Score

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c1c1c}
table{border-collapse:collapse;display:block;overflow-x:auto}th,td{border:1px solid #c8c8c8;padding:.3rem .6rem;
text-align:left;vertical-align:top;overflow-wrap:anywhere}th{background:#f1f1f1}td:first-child{white-space:nowrap}
p.note{color:#555;max-width:60rem}svg{max-width:100%;height:auto}"""


def markdown(plan: EvalPlan, tables: Sequence[Table]) -> str:
    parts = [f"# Evaluation {plan.name}"]
    for table in tables:
        parts.append(f"## {table.title}")
        lines = [table.head, ("---",) * len(table.head), *table.rows]
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
        parts.append(table.note)
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def html(plan: EvalPlan, tables: Sequence[Table], figures: Mapping[str, Sequence[str]]) -> str:
    """Return a report as one file of HTML that loads nothing, with its figures (see `figures`)."""
    title = escape(f"Evaluation {plan.name}")
    parts = [f"<h1>{title}</h1>"]
    for table in tables:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(_visible(cell))}</td>" for cell in row) + "</tr>" for row in table.rows
        )
        parts.append(f"<h2>{escape(table.title)}</h2><table><thead><tr>{head}</tr></thead>")
        parts.append(f'<tbody>{rows}</tbody></table><p class="note">{escape(table.note)}</p>')
        parts += figures.get(table.title, ())
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _visible(text: str) -> str:
    """Return a text with control characters and marks of direction as escapes: they would change what is shown."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda hit: f"\\u{ord(hit[0]):04x}", text)


_WIDTH, _HEIGHT, _LEFT, _LOW, _TOP = 720, 380, 60, 320, 30
_RIGHT = _WIDTH - 120
_COLOURS = ("#1f5fa8", "#c2571a", "#2f7d32", "#7b3fa0", "#a02c2c", "#5a5a5a", "#008b8b", "#b8860b")


def figures(plan: EvalPlan, scores: Sequence[Score]) -> dict[str, list[str]]:
    """Return the figures of a report as SVG, by the title of the table below which they stand."""
    svgs: dict[str, list[str]] = {}
    if dots := points(plan, scores):
        svgs.setdefault(COSTS, []).append(plot(dots, published_points(plan)))
    if counts := tokens(plan, scores):
        svgs.setdefault(COSTS, []).append(distribution(counts))
    solutions = {arm.name: solved_after(scores, arm.name) for arm in plan.arms}
    if any(number for counter in solutions.values() for number in counter):
        svgs[ATTEMPTS] = [bars(solutions)]
    return svgs


def _across(share: float) -> float:
    return _LEFT + share * (_RIGHT - _LEFT)


def _up(share: float) -> float:
    return _LOW - share * (_LOW - _TOP)


def _svg(label: str, above: str, below: str, marks: Sequence[str]) -> str:
    """Return a figure with its label for those who do not see it, and what its axes are."""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" font-size="13" role="img" aria-label="{label}">'
        f'{"".join(marks)}<text x="{_LEFT}" y="18">{above}</text>'
        f'<text x="{_WIDTH - 20}" y="{_HEIGHT - 14}" text-anchor="end">{below}</text></svg>'
    )


def _scale(most: float, label: Callable[[float], str]) -> list[str]:
    """Return lines for 0 to 100 percent, and 0, half and the whole of the other axis."""
    marks = [
        f'<line x1="{_LEFT}" y1="{_up(share):.1f}" x2="{_WIDTH - 20}" y2="{_up(share):.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 8}" y="{_up(share) + 4:.1f}" text-anchor="end">{100 * share:.0f}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return marks + [
        f'<text x="{_across(share):.1f}" y="{_LOW + 20}" text-anchor="middle">{label(most * share)}</text>'
        for share in (0, 0.5, 1)
    ]


def plot(points: Sequence[CostPoint], rows: Sequence[CostPoint] = ()) -> str:
    """Return accuracy over dollars for an answer as SVG, with intervals (002, fig. 4).

    Args:
        points: the arms; those that nothing beats are joined.
        rows: published ones, as empty circles; they are joined with nothing, as their questions are not ours.
    """
    most = max(point.usd for point in (*points, *rows)) or 1.0
    best = sorted((point for point in points if point.name in frontier(points)), key=lambda point: point.usd)
    path = " ".join(f"{_across(point.usd / most):.1f},{_up(point.share):.1f}" for point in best)
    marks = _scale(most, usd)
    for point in (*rows, *points):
        x, y, name = _across(point.usd / most), _up(point.share), escape(point.name)
        if point.accuracy is not None:
            low, high = _up(point.accuracy.low), _up(point.accuracy.high)
            marks.append(f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="#888"/>')
        look = 'fill="#1f5fa8"' if point.accuracy is not None else 'fill="none" stroke="#888"'
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {look}><title>{name}</title></circle>')
        if point.accuracy is not None:
            marks.append(f'<text x="{x + 9:.1f}" y="{y + 4:.1f}">{name}</text>')
    marks.append(f'<polyline points="{path}" fill="none" stroke="#1f5fa8" stroke-dasharray="4 3"/>')
    below = "dollars for an answer" + (" (empty circles: published)" if rows else "")
    return _svg("Accuracy in percent over dollars for an answer", "accuracy, percent", below, marks)


def distribution(counts: Mapping[str, Sequence[int]]) -> str:
    """Return how many of an arm's answers took at most so many tokens (`counts`, growing), as SVG (003, fig. 3)."""
    most = max(row[-1] for row in counts.values()) or 1
    marks = _scale(most, "{:,.0f}".format)
    for number, (name, row) in enumerate(counts.items()):
        colour, place = _COLOURS[number % len(_COLOURS)], f"{_across(0):.1f},{_up(0):.1f}"
        steps = [place]
        for count, value in enumerate(row, start=1):
            x = _across(value / most)
            steps += [f"{x:.1f},{_up((count - 1) / len(row)):.1f}", f"{x:.1f},{_up(count / len(row)):.1f}"]
        steps.append(f"{_across(1):.1f},{_up(1):.1f}")
        marks.append(f'<polyline points="{" ".join(steps)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        marks.append(f'<text x="{_RIGHT + 10}" y="{_TOP + 40 + 18 * number}" fill="{colour}">{escape(name)}</text>')
    return _svg("Percent of answers over tokens", "answers that took at most so many, percent", "tokens", marks)


def bars(solutions: Mapping[str, Counter[int]]) -> str:
    """Return how many questions were solved after how many agents were asked, as SVG (002, app. C.1)."""
    last = max(number for counter in solutions.values() for number in counter)
    most = max(count for counter in solutions.values() for count in counter.values())
    slot = (_RIGHT - _LEFT) / (last + 1)
    wide = 0.8 * slot / len(solutions)
    marks = [f'<text x="{_LEFT - 8}" y="{_up(end / most) + 4:.1f}" text-anchor="end">{end}</text>' for end in (0, most)]
    for number in range(last + 1):
        middle = _LEFT + (number + 0.4) * slot
        marks.append(f'<text x="{middle:.1f}" y="{_LOW + 20}" text-anchor="middle">{number}</text>')
    for place, (name, counter) in enumerate(solutions.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        marks.append(f'<text x="{_RIGHT + 10}" y="{_TOP + 40 + 18 * place}" fill="{colour}">{escape(name)}</text>')
        for number, count in sorted(counter.items()):
            x, y = _LEFT + number * slot + place * wide, _up(count / most)
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{_LOW - y:.1f}" fill="{colour}">'
                f"<title>{escape(name)}: {count} after {number}</title></rect>"
            )
    return _svg("Solved questions over agents that were asked", "solved questions", "agents that were asked", marks)


def latex(table: Table) -> str:
    """Return a table as LaTeX, for a document that loads booktabs."""
    lines = [" & ".join(map(_escape, row)) + r" \\" for row in (table.head, *table.rows)]
    body = "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])
    return f"% {table.title}. {table.note}\n\\begin{{tabular}}{{{'l' * len(table.head)}}}\n{body}\n\\end{{tabular}}\n"


def _escape(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(char, f"\\{char}" if char in "&%$#_{}" else char) for char in text)
