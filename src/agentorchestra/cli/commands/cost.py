"""`agentorchestra cost`: what runs cost, added up from their logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import WORDS, json_option, option, workspace_option
from agentorchestra.cli.output import emit_either, number, one_line, plural, say, table, unknown_cost
from agentorchestra.cli.view.model import PARTS, Charge, RunView
from agentorchestra.cli.workspaces import exists, find_run, opening
from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import UnknownRunError
from agentorchestra.core.protocols import RunHead
from agentorchestra.core.query import LogQuery
from agentorchestra.log.codec import EffectCodec
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.token_sources import SourceTokens, tokens_by_source
from agentorchestra.workspace import Workspace

_NO_MODEL = "(no model)"
_NO_LABEL = "(no label)"


@dataclass
class CostRow:
    """What belongs to one label, model, agent, part, day or run."""

    usage: Usage = field(default_factory=Usage)  # its dollars are None if a price is unknown
    known_usd: float = 0.0  # the dollars of what has a price
    unpriced: int = 0  # charges whose price is unknown
    runs: set[str] = field(default_factory=set)  # the runs it comes from

    def add(self, run: str, usage: Usage) -> None:
        self.usage = self.usage + usage
        self.known_usd += usage.cost_usd or 0.0
        self.unpriced += usage.cost_usd is None
        self.runs.add(run)

    def as_json(self) -> dict[str, Any]:
        return {
            "runs": len(self.runs),
            **self.usage.model_dump(mode="json"),
            "known_cost_usd": round(self.known_usd, 12),
            "unpriced": self.unpriced,
        }


_NAMES: dict[str, Callable[[RunHead, Charge], Iterable[tuple[str, ...]]]] = {
    "model": lambda record, charge: [(charge.model or _NO_MODEL,)],
    "agent": lambda record, charge: [(charge.agent,)],
    "part": lambda record, charge: [(charge.part, charge.model or _NO_MODEL)],
    "label": lambda record, charge: [(f"{n}={v}",) for n, v in record.manifest.labels.items()] or [(_NO_LABEL,)],
    "day": lambda record, charge: [(f"{charge.at.astimezone():%Y-%m-%d}",)],
    "run": lambda record, charge: [(record.id,)],
}
"""What the rows of a charge are called: one word each, or a part and a model."""


@async_command(
    epilog="""\b
Examples:
  agentorchestra cost
  agentorchestra cost --by day --json
  agentorchestra cost last --by part
  agentorchestra cost last --by source

\b
Exit codes: 0, also for a workspace without runs; 1 if it cannot be read;
2 if there is no such run."""
)
@click.argument("runs", metavar="[RUN]...", type=WORDS, nargs=-1)
@option(
    "--by",
    type=click.Choice([*_NAMES, "source"]),
    default="model",
    help="A row for each of these. A run with several labels is in several rows; the total counts it once. "
    "By part: what the decisions of the run's top agent cost (orchestrator), those of all other agents (children), "
    "and all else that was paid, such as reviews, summaries and tools that ask models (helpers), each by model. "
    "By source: where the input tokens came from.",
)
@json_option("one object with the rows and the total")
@workspace_option
async def cost(runs: tuple[str, ...], by: str, as_json: bool, folder: Path) -> int:
    """Add up what the RUNs cost, all runs of the workspace without any: requests, tokens by class, US dollars.

    Where a model has no known price the cost says so and is never taken for zero. What attempts cost that reached
    the provider and brought no answer nobody knows: it stands apart, as "unknown, at most ...".
    """
    costs: list[tuple[RunHead, list[Charge]]] = []
    sources: list[SourceTokens] = []
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            records = [await find_run(workspace, name) for name in runs] if runs else await workspace.runs.list()
            views = {record.id: (record, list[Charge]()) for record in records}
            # Of all runs no list of ids: a database takes 32,766 parameters at most.
            async for view in _views(workspace, tuple(views) if runs else None, paid=by != "source"):
                if view.run_id in views:  # else it began since
                    views[view.run_id][1].extend(view.charges)
                    sources += tokens_by_source(view.ledger) if by == "source" else ()
            costs = [*views.values()]
    elif runs:
        raise UnknownRunError(f"there is no run {runs[0]!r}: {folder} holds no workspace yet")
    if by == "source":
        _print_sources(sources, len(costs), as_json=as_json)
    else:
        _print_costs(costs, by, as_json=as_json)
    if not costs and not as_json:
        say(f'no runs in {folder} yet; start one with `agentorchestra run "..."`')
    return 0


class _Unread(EffectCodec):
    def learn(self, body: dict[str, Any]) -> None:
        """Take no note: no cost depends on what a model was asked."""


async def _views(workspace: Workspace[Any], runs: tuple[str, ...] | None, *, paid: bool) -> AsyncIterator[RunView]:
    """Yield the view of each run that began: one log after the other, without what no cost depends on."""
    view = RunView()
    async for event in workspace.log.select(LogQuery(runs=runs, first=2, paid=paid)):
        if event.run != view.run_id:
            if view.run_id:
                yield view
            view = RunView()
            view.run_id, view.ledger = event.run, Ledger(_Unread() if paid else None)
        view.apply(event)
    if view.run_id:
        yield view


def _print_costs(costs: list[tuple[RunHead, list[Charge]]], by: str, *, as_json: bool) -> None:
    rows: dict[tuple[str, ...], CostRow] = {}
    total = CostRow()
    for record, charges in costs:
        for charge in charges:
            total.add(record.id, charge.usage)
            for name in _NAMES[by](record, charge):
                rows.setdefault(name, CostRow()).add(record.id, charge.usage)

    def place(name: tuple[str, ...]) -> tuple[str, float, tuple[str, ...]]:
        """Days and parts in their order; everything else by what it cost."""
        first = name[0] if by == "day" else str(PARTS.index(name[0])) if by == "part" else ""
        return first, -rows[name].known_usd, name

    names = sorted(rows, key=place)
    more = ("model",) if by == "part" else ()
    entries = [{**dict(zip(("name", *more), name, strict=True)), **rows[name].as_json()} for name in names]
    head = [by, *more, "requests", "input", "cached", "output", "cost"]
    lines = [[*(one_line(word, 60) for word in name), *_figures(rows[name])] for name in names]
    lines.append([f"total of {plural(len(costs), 'run')}", *("" for _ in more), *_figures(total)])
    about = {"by": by, "rows": entries, "total": total.as_json() | {"runs": len(costs)}}
    emit_either(as_json, about, table(head, lines, words=1 + len(more)))


def _figures(row: CostRow) -> list[str]:
    usage = row.usage
    cost = f"${row.known_usd:.4f}"
    if row.unpriced:
        cost = f"{cost} and {plural(row.unpriced, 'request')} of unknown price" if row.known_usd else "unknown price"
    if unknown := unknown_cost(usage):
        cost = f"{cost}, {unknown}"
    tokens = (usage.requests, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    return [*(number(count) for count in tokens), cost]


def _print_sources(sources: list[SourceTokens], runs: int, *, as_json: bool) -> None:
    by_source: dict[str, SourceTokens] = {}
    for source in sources:
        before = by_source.get(source.source, SourceTokens(source=source.source, requests=0, tokens=0, largest=0))
        by_source[source.source] = SourceTokens(
            source=source.source,
            requests=before.requests + source.requests,
            tokens=before.tokens + source.tokens,
            largest=max(before.largest, source.largest),
        )
    rows = sorted(by_source.values(), key=lambda row: (-row.tokens, row.source))
    total = sum(row.tokens for row in rows)
    head = ["source", "requests", "input", "largest"]
    lines = [[one_line(r.source, 60), number(r.requests), number(r.tokens), number(r.largest)] for r in rows]
    lines.append([f"total of {plural(runs, 'run')}", "", number(total), ""])
    emit_either(as_json, {"by": "source", "rows": rows, "total": {"runs": runs, "tokens": total}}, table(head, lines))
