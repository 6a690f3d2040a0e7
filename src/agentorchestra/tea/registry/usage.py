"""How often components were called, and in which runs: read from the log, nothing is counted beside it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from agentorchestra.core.ids import PART
from agentorchestra.core.protocols import Store
from agentorchestra.tea.registry.history import History
from agentorchestra.tea.retrieval.finder import Called, calls_in


class Use(BaseModel, frozen=True):
    """The use that was made of a component."""

    kind: str
    name: str
    calls: int = 0  # that are over; `succeeded`: of these, those that gave a result
    succeeded: int = 0
    runs: int = 0  # in which it was called
    reused: int = 0  # of these, runs other than the one it was made in
    generated: bool = False  # whether an agent made it
    made_in: str = ""  # the run that it was made in, "" for none


async def uses(store: Store, histories: Iterable[History]) -> list[Use]:
    """Return how these components were used in all runs there are, the most used first."""
    calls: dict[tuple[str, str], list[Called]] = {}
    for call in await calls_in(store, [run.id for run in await store.run_states() if not run.id.startswith(PART)]):
        calls.setdefault((call.kind, call.name), []).append(call)
    rows = []
    for history in histories:
        own_calls = calls.get((history.kind, history.name), [])
        version = history.version() if history.current is not None else history.all()[-1]
        runs = {call.run for call in own_calls}
        rows.append(
            Use(
                kind=history.kind,
                name=history.name,
                calls=len(own_calls),
                succeeded=sum(call.ok for call in own_calls),
                runs=len(runs),
                reused=len(runs - {version.run}),
                generated=version.config.metadata.get("generated") is True,
                made_in=version.run,
            )
        )
    return sorted(rows, key=lambda use: (-use.calls, use.name))
