"""Evidence from the log: the graph of a run's own effects, its end, and where each variable took part.

    request ─> call ─> request ─> ... ─> outcome
       └──────────────────^
An edge says that the output of one effect stands in the input of another. A request's conversation is a hash chain in
the log, so what is new in it, against the request before on its branch, is known: the reply before, results of calls,
answers of sub-agents. Across branches words decide; what an agent did inside reaches its caller as the agent's answer.
The truth of a question is in no log, so it never stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.optimiser.evidence import OUTCOME, Evidence, Node, Variable, cut
from agentorchestra.core.content import text_of
from agentorchestra.core.effects import FINISH, OF_AGENTS, EffectKind, Outcome
from agentorchestra.core.errors import EvidenceError
from agentorchestra.core.events import Event, Noted, RunCreated, RunEnded
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger, Record, parent_key, status_of, within

CHARS, NODES = 60_000, 60  # characters of a run's evidence, and effects in it

_ENDED = frozenset({*RunStatus} - {RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})
_MEMORY = frozenset({EffectKind.READ_MEMORY, EffectKind.WRITE_MEMORY})
_CALLS = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE, *OF_AGENTS, *_MEMORY})
_CARRIERS: Mapping[str, frozenset[EffectKind]] = {
    "tool": frozenset({EffectKind.INVOKE_TOOL}),
    "environment": frozenset({EffectKind.INVOKE_ACTION}),
    "agent": OF_AGENTS,
    "memory": _MEMORY,
    "prompt": frozenset(),
}
"""The kinds of effect that execute the code of a component."""

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_TELLING = 20  # characters that words need to be known again elsewhere
_WARNINGS = 20  # warnings of a run that are told
_SHARE = 0.3  # part of a template's words that stand in a request which was rendered from it; conditions leave some out


def evidence_of(
    events: Sequence[Event],
    variables: Sequence[Variable],
    *,
    score: float | None = None,
    chars: int = CHARS,
    nodes: int = NODES,
) -> Evidence:
    """Return the evidence of one run.

    Args:
        events: the whole log of the run, as `Workspace.events` gives it; what was redacted there is redacted here.
        variables: what may be changed; each node names those that took part in it.
        score: 0 to 1, where the evaluation scored the run.
        chars: of all texts together, about.
        nodes: effects at most, the last ones.

    Raises:
        EvidenceError: the run has not ended.
    """
    created = events[0].data
    assert isinstance(created, RunCreated)
    status = status_of(events)
    if status not in _ENDED:
        raise EvidenceError(f"{events[0].run} is {status.value}; an optimiser works with runs that have ended")
    manifest = created.manifest
    ended = [one.data for one in events if one.type == "run_ended"]
    last = ended[-1] if ended else None
    result = last.result if isinstance(last, RunEnded) else {}
    notes = [data for one in events if one.type == "noted" and isinstance(data := one.data, Noted)]
    graph = _Graph(Ledger.of(events), {one.span or "": one.actor for one in events if one.actor})
    graph.build()
    kept = graph.nearest(nodes)
    room = max(200, min(4_000, chars // (2 * max(1, len(kept)))))
    return Evidence(
        run=events[0].run,
        task=cut(manifest.task, chars // 8),
        status=status.value,
        answer=cut(str(result.get("answer") or ""), chars // 8),
        error=cut((last.error or "") if isinstance(last, RunEnded) else "", chars // 8),
        failed_checks=tuple(cut(one.message, 500) for one in notes if one.level != "info")[-_WARNINGS:],
        score=score,
        labels=manifest.labels,
        nodes=tuple(graph.node(key, variables, room) for key in kept),
        edges=tuple((str(a), str(b)) for a, b in graph.edges_between(kept)),
        left_out=len(graph.records) - len(kept),
    )


@dataclass
class _Graph:
    """The effects of a run that matter, and which output went where."""

    ledger: Ledger
    actors: Mapping[str, str]
    records: dict[EffectKey, Record] = field(default_factory=dict, init=False)
    after: dict[EffectKey, list[EffectKey | str]] = field(default_factory=dict, init=False)
    requests: dict[EffectKey, ModelRequest] = field(default_factory=dict, init=False)
    pieces: dict[EffectKey, list[str]] = field(default_factory=dict, init=False)  # words of each output
    fresh: dict[EffectKey, str] = field(default_factory=dict, init=False)  # what is new in each request, as text

    def build(self) -> None:
        wanted = _CALLS | {EffectKind.REQUEST_MODEL}
        every = self.ledger.records.items()
        found = [(key, one) for key, one in every if one.effect and one.kind in wanted and one.outcome is not None]
        # The end of the run stands apart: its top agent, and the calls by which agents finish.
        found = [(key, one) for key, one in found if not (key.branch == "/" and one.kind in OF_AGENTS)]
        found = [(key, one) for key, one in found if one.effect.get("purpose") != FINISH or not _outcome(one).ok]
        self.records = dict(sorted(found, key=lambda each: each[1].seq))
        self.pieces = {key: [text.strip()[:200].strip() for text in _texts(one)] for key, one in found}
        self.after = {key: [] for key in self.records}
        for key, one in self.records.items():
            request = self.ledger.codec.decode(one.effect).request if one.kind is EffectKind.REQUEST_MODEL else None
            if request is not None:
                self.requests[key] = request
        delivered: set[tuple[EffectKey, str]] = set()
        for key in self.records:
            if key in self.requests:
                self._into_request(key, delivered)
            else:
                self._into_call(key)
        self._out_of_branches()

    def _into_request(self, key: EffectKey, delivered: set[tuple[EffectKey, str]]) -> None:
        before = self._before(key)
        known = {one.digest for one in self.requests[before].messages} if before is not None else set()
        new = [one for one in self.requests[key].messages if one.digest not in known and one.role != "system"]
        called = {call.id for one in new for call in one.tool_calls}
        text = self.fresh[key] = "\n".join(one.text for one in new)
        for other, record in self.records.items():
            if record.seq > self.records[key].began or other == key or (other, key.branch) in delivered:
                continue
            if self._carried(other, key):
                continue
            near = other.branch == key.branch and (before is None or other >= before)
            replied = other in self.requests and _outcome(record).ok
            ids = {one.id for one in _outcome(record).response.tool_calls} if replied else set()
            if ids & called or self._stands(other, text, near=near):
                delivered.add((other, key.branch))
                self.after[other].append(key)

    def _into_call(self, key: EffectKey) -> None:
        """Add the edge of the request that decided a call, and of calls whose output stands in its arguments."""
        before = self._before(key)
        if before is not None:
            self.after[before].append(key)
        asked = "\n".join(_leaves(self.records[key].effect.get("arguments", {})))
        for other, record in self.records.items():
            if record.seq > self.records[key].began or other in (key, before) or other in self.requests:
                continue
            if self._carried(other, key):
                continue
            if self._stands(other, asked):
                self.after[other].append(key)

    def _out_of_branches(self) -> None:
        """Add the edges from the last effects of a branch to whoever owns it, and from the run's own to its end."""
        for key in [one for one, targets in self.after.items() if not targets]:
            owner = parent_key(key.branch)
            while owner is not None and owner not in self.records:
                owner = parent_key(owner.branch)
            self.after[key].append(OUTCOME if owner is None else owner)

    def _carried(self, key: EffectKey, later: EffectKey) -> bool:
        """Return True if an output came to a later effect as that of an agent or tool which it was done for."""
        owner = None if key.branch == later.branch else parent_key(key.branch)
        while owner is not None:
            record = self.records.get(owner)
            if record is not None and not within(later.branch, owner.path) and record.seq <= self.records[later].began:
                return True
            owner = parent_key(owner.branch)
        return False

    def _before(self, key: EffectKey) -> EffectKey | None:
        """Return the last request on an effect's branch that was answered before it began."""
        began = self.records[key].began
        asked = (one for one in self.requests if one.branch == key.branch and one.n < key.n)
        return max((one for one in asked if self.records[one].seq <= began), default=None)

    def _stands(self, key: EffectKey, text: str, *, near: bool = False) -> bool:
        """Return True if an output stands in a text; `near`: where it is expected, however short it is."""
        least = 1 if near else _TELLING
        return any(len(piece) >= least and piece in text for piece in self.pieces[key])

    def nearest(self, most: int) -> list[EffectKey]:
        return [*self.records][-most:]

    def edges_between(self, kept: Sequence[EffectKey]) -> Iterator[tuple[EffectKey, EffectKey | str]]:
        inside = {*kept}
        for key in kept:
            for target in dict.fromkeys(self.after[key]):
                if target == OUTCOME or target in inside:
                    yield key, target

    def node(self, key: EffectKey, variables: Sequence[Variable], room: int) -> Node:
        record, outcome = self.records[key], _outcome(self.records[key])
        arguments = record.effect.get("arguments", {})
        request = self.requests.get(key)
        given = self.fresh[key] if request is not None else canonical_json(arguments)
        whole = record.kind is EffectKind.INVOKE_TOOL and len(canonical_json(arguments)) <= room
        return Node(
            key=str(key),
            kind=record.kind.value,
            component=str(record.effect.get("component", "")),
            actor=self.actors.get(str(key), ""),
            given=cut(given, room),
            gave=cut(_gave(record, outcome), room),
            arguments=arguments if whole else None,
            error="" if outcome.ok else cut(outcome.error or outcome.status, room),
            cost_usd=outcome.usage.cost_usd,
            trust=outcome.trust,
            uses=tuple(one.key for one in variables if takes_part(one, record, request)),
        )


def takes_part(variable: Variable, record: Record, request: ModelRequest | None) -> bool:
    """Return True if a variable took part in an effect: its code was executed, or its words stood in a request."""
    kind, _, name = variable.component.partition(":")
    if request is None:
        component = str(record.effect.get("component", "")).rpartition("@")[0]
        return variable.is_code and record.kind in _CARRIERS[kind] and component == name
    if variable.is_code:
        return False
    # The words of what is offered stand in its schema.
    offered = {tool.name for tool in request.tools}
    if kind == "tool" or (kind == "agent" and variable.role == "description"):
        if name in offered:
            return True
    elif kind == "environment" and any(one.startswith(f"{name}_") for one in offered):
        return True
    words = [line.strip() for line in _TAG.sub("\n", variable.text).splitlines()]
    telling = [one for one in words if len(one) >= _TELLING] or [one for one in words if one]
    shown = "\n".join([*(one.text for one in request.messages), *(tool.description for tool in request.tools)])
    found = sum(len(one) for one in telling if one in shown)
    return bool(telling) and found >= _SHARE * sum(map(len, telling))


def _outcome(record: Record) -> Outcome:
    assert record.outcome is not None
    return record.outcome


def _texts(record: Record) -> Iterator[str]:
    outcome = _outcome(record)
    if not outcome.ok and outcome.error:
        yield outcome.error
    if record.kind is EffectKind.REQUEST_MODEL:
        if not outcome.ok:
            return
        reply = outcome.response
        yield reply.text
        with suppress(ValueError):
            yield from _leaves(json.loads(reply.text))
        for one in reply.tool_calls:
            yield from _leaves(one.arguments)
    else:
        yield text_of(outcome.blocks())
        yield from _leaves(outcome.value)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def _gave(record: Record, outcome: Outcome) -> str:
    if record.kind is not EffectKind.REQUEST_MODEL:
        return text_of(outcome.blocks())
    if not outcome.ok:
        return ""
    calls = [f"calls {one.name}({canonical_json(one.arguments)})" for one in outcome.response.tool_calls]
    return "\n".join([*([outcome.response.text] if outcome.response.text else []), *calls])
