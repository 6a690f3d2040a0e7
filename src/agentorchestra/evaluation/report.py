"""A report of an evaluation as Markdown, as one HTML file without scripts and requests, and its tables as LaTeX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape

from agentorchestra.evaluation.plan import Plan
from agentorchestra.evaluation.results import (
    ATTEMPTS,
    SPENT,
    Point,
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


def markdown(plan: Plan, tables: Sequence[Table]) -> str:
    parts = [f"# Evaluation {plan.name}"]
    for one in tables:
        parts.append(f"## {one.title}")
        lines = [one.head, ("---",) * len(one.head), *one.rows]
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
        parts.append(one.note)
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def html(plan: Plan, tables: Sequence[Table], figures: Mapping[str, Sequence[str]]) -> str:
    """Return a report as one file of HTML that loads nothing, with its figures (see `figures`)."""
    title = escape(f"Evaluation {plan.name}")
    parts = [f"<h1>{title}</h1>"]
    for one in tables:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in one.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(_visible(cell))}</td>" for cell in row) + "</tr>" for row in one.rows
        )
        parts.append(f"<h2>{escape(one.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
        parts.append(f'<p class="note">{escape(one.note)}</p>')
        parts += figures.get(one.title, ())
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _visible(text: str) -> str:
    """Return a text with control characters and marks of direction as escapes: they would change what is shown."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda one: f"\\u{ord(one[0]):04x}", text)


# --- figures: SVG, without scripts ----------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _LOW, _TOP = 720, 380, 60, 320, 30
_RIGHT = _WIDTH - 120
_COLOURS = ("#1f5fa8", "#c2571a", "#2f7d32", "#7b3fa0", "#a02c2c", "#5a5a5a", "#008b8b", "#b8860b")


def figures(plan: Plan, scores: Sequence[Score]) -> dict[str, list[str]]:
    """Return the figures of a report as SVG, by the title of the table below which they stand."""
    found: dict[str, list[str]] = {}
    if dots := points(plan, scores):
        found.setdefault(SPENT, []).append(plot(dots, published_points(plan)))
    if spent := tokens(plan, scores):
        found.setdefault(SPENT, []).append(distribution(spent))
    asked = {arm.name: solved_after(scores, arm.name) for arm in plan.arms}
    if any(number for one in asked.values() for number in one):
        found[ATTEMPTS] = [bars(asked)]
    return found


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


def _scale(most: float, said: Callable[[float], str]) -> list[str]:
    """Return lines for 0 to 100 percent, and 0, half and the whole of the other axis."""
    marks = [
        f'<line x1="{_LEFT}" y1="{_up(one):.1f}" x2="{_WIDTH - 20}" y2="{_up(one):.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 8}" y="{_up(one) + 4:.1f}" text-anchor="end">{100 * one:.0f}</text>'
        for one in (0, 0.25, 0.5, 0.75, 1)
    ]
    return marks + [
        f'<text x="{_across(one):.1f}" y="{_LOW + 20}" text-anchor="middle">{said(most * one)}</text>'
        for one in (0, 0.5, 1)
    ]


def plot(points: Sequence[Point], others: Sequence[Point] = ()) -> str:
    """Return accuracy over dollars for an answer as SVG, with intervals (002, fig. 4).

    Args:
        points: the arms; those that nothing beats are joined.
        others: published rows, as empty circles; they are joined with nothing, as their questions are not ours.
    """
    most = max(one.usd for one in (*points, *others)) or 1.0
    best = sorted((one for one in points if one.name in frontier(points)), key=lambda one: one.usd)
    path = " ".join(f"{_across(one.usd / most):.1f},{_up(one.share):.1f}" for one in best)
    marks = _scale(most, usd)
    for one in (*others, *points):
        x, y, name = _across(one.usd / most), _up(one.share), escape(one.name)
        if one.accuracy is not None:
            low, high = _up(one.accuracy.low), _up(one.accuracy.high)
            marks.append(f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="#888"/>')
        look = 'fill="#1f5fa8"' if one.accuracy is not None else 'fill="none" stroke="#888"'
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {look}><title>{name}</title></circle>')
        if one.accuracy is not None:
            marks.append(f'<text x="{x + 9:.1f}" y="{y + 4:.1f}">{name}</text>')
    marks.append(f'<polyline points="{path}" fill="none" stroke="#1f5fa8" stroke-dasharray="4 3"/>')
    below = "dollars for an answer" + (" (empty circles: published)" if others else "")
    return _svg("Accuracy in percent over dollars for an answer", "accuracy, percent", below, marks)


def distribution(found: Mapping[str, Sequence[int]]) -> str:
    """Return how many of an arm's answers took at most so many tokens (`found`, growing), as SVG (003, fig. 3)."""
    most = max(each[-1] for each in found.values()) or 1
    marks = _scale(most, "{:,.0f}".format)
    for number, (name, each) in enumerate(found.items()):
        colour, place = _COLOURS[number % len(_COLOURS)], f"{_across(0):.1f},{_up(0):.1f}"
        steps = [place]
        for count, one in enumerate(each, start=1):
            x = _across(one / most)
            steps += [f"{x:.1f},{_up((count - 1) / len(each)):.1f}", f"{x:.1f},{_up(count / len(each)):.1f}"]
        steps.append(f"{_across(1):.1f},{_up(1):.1f}")
        marks.append(f'<polyline points="{" ".join(steps)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        marks.append(f'<text x="{_RIGHT + 10}" y="{_TOP + 40 + 18 * number}" fill="{colour}">{escape(name)}</text>')
    return _svg("Percent of answers over tokens", "answers that took at most so many, percent", "tokens", marks)


def bars(found: Mapping[str, Counter[int]]) -> str:
    """Return how many questions were solved after how many agents were asked, as SVG (002, app. C.1)."""
    last = max(number for one in found.values() for number in one)
    most = max(count for one in found.values() for count in one.values())
    slot = (_RIGHT - _LEFT) / (last + 1)
    wide = 0.8 * slot / len(found)
    marks = [f'<text x="{_LEFT - 8}" y="{_up(one / most) + 4:.1f}" text-anchor="end">{one}</text>' for one in (0, most)]
    for number in range(last + 1):
        middle = _LEFT + (number + 0.4) * slot
        marks.append(f'<text x="{middle:.1f}" y="{_LOW + 20}" text-anchor="middle">{number}</text>')
    for place, (name, one) in enumerate(found.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        marks.append(f'<text x="{_RIGHT + 10}" y="{_TOP + 40 + 18 * place}" fill="{colour}">{escape(name)}</text>')
        for number, count in sorted(one.items()):
            x, y = _LEFT + number * slot + place * wide, _up(count / most)
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{_LOW - y:.1f}" fill="{colour}">'
                f"<title>{escape(name)}: {count} after {number}</title></rect>"
            )
    return _svg("Solved questions over agents that were asked", "solved questions", "agents that were asked", marks)


def latex(table: Table) -> str:
    """Return a table as LaTeX, for a document that loads booktabs."""
    lines = [" & ".join(map(_escaped, row)) + r" \\" for row in (table.head, *table.rows)]
    body = "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])
    return f"% {table.title}. {table.note}\n\\begin{{tabular}}{{{'l' * len(table.head)}}}\n{body}\n\\end{{tabular}}\n"


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(one, f"\\{one}" if one in "&%$#_{}" else one) for one in text)
