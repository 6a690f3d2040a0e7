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

_END_STATUSES = frozenset({*RunStatus} - {RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})
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
    if status not in _END_STATUSES:
        raise EvidenceError(f"{events[0].run} is {status.value}; an optimiser works with runs that have ended")
    manifest = created.manifest
    endings = [event.data for event in events if event.type == "run_ended"]
    last = endings[-1] if endings else None
    result = last.result if isinstance(last, RunEnded) else {}
    notes = [data for event in events if event.type == "noted" and isinstance(data := event.data, Noted)]
    graph = _Graph(Ledger.of(events), {event.span or "": event.actor for event in events if event.actor})
    graph.build()
    keys = graph.nearest(nodes)
    room = max(200, min(4_000, chars // (2 * max(1, len(keys)))))
    return Evidence(
        run=events[0].run,
        task=cut(manifest.task, chars // 8),
        status=status.value,
        answer=cut(str(result.get("answer") or ""), chars // 8),
        error=cut((last.error or "") if isinstance(last, RunEnded) else "", chars // 8),
        failed_checks=tuple(cut(note.message, 500) for note in notes if note.level != "info")[-_WARNINGS:],
        score=score,
        labels=manifest.labels,
        nodes=tuple(graph.node(key, variables, room) for key in keys),
        edges=tuple((str(a), str(b)) for a, b in graph.edges_between(keys)),
        left_out=len(graph.records) - len(keys),
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
        kinds = _CALLS | {EffectKind.REQUEST_MODEL}
        every = self.ledger.records.items()
        # The end of the run stands apart: its top agent, and the calls by which agents finish.
        for key, record in sorted(every, key=lambda entry: entry[1].seq):
            if record.effect and record.kind in kinds and record.outcome is not None:
                finishes = record.effect.get("purpose") == FINISH and record.outcome.ok
                if not finishes and not (key.branch == "/" and record.kind in OF_AGENTS):
                    self.records[key], self.after[key] = record, []
                    self.pieces[key] = [text.strip()[:200].strip() for text in _texts(record)]
        for key, record in self.records.items():
            is_request = record.kind is EffectKind.REQUEST_MODEL
            request = self.ledger.codec.decode(record.effect).request if is_request else None
            if request is not None:
                self.requests[key] = request
        deliveries: set[tuple[EffectKey, str]] = set()
        for key in self.records:
            if key in self.requests:
                self._into_request(key, deliveries)
            else:
                self._into_call(key)
        self._out_of_branches()

    def _into_request(self, key: EffectKey, deliveries: set[tuple[EffectKey, str]]) -> None:
        before = self._before(key)
        digests = {message.digest for message in self.requests[before].messages} if before is not None else set()
        messages = [message for message in self.requests[key].messages if message.role != "system"]
        new = [message for message in messages if message.digest not in digests]
        call_ids = {call.id for message in new for call in message.tool_calls}
        text, began = "\n".join(message.text for message in new), self.records[key].began
        self.fresh[key] = text
        for other, record in self.records.items():
            if record.seq > began or other == key or (other, key.branch) in deliveries or self._is_carried(other, key):
                continue
            near = other.branch == key.branch and (before is None or other >= before)
            is_reply = other in self.requests and _outcome(record).ok
            ids = {call.id for call in _outcome(record).response.tool_calls} if is_reply else set()
            if ids & call_ids or self._stands(other, text, near=near):
                deliveries.add((other, key.branch))
                self.after[other].append(key)

    def _into_call(self, key: EffectKey) -> None:
        """Add the edge of the request that decided a call, and of calls whose output stands in its arguments."""
        before = self._before(key)
        if before is not None:
            self.after[before].append(key)
        arguments = "\n".join(_leaves(self.records[key].effect.get("arguments", {})))
        for other, record in self.records.items():
            if record.seq > self.records[key].began or other in (key, before) or other in self.requests:
                continue
            if not self._is_carried(other, key) and self._stands(other, arguments):
                self.after[other].append(key)

    def _out_of_branches(self) -> None:
        """Add the edges from the last effects of a branch to whoever owns it, and from the run's own to its end."""
        for key in [source for source, targets in self.after.items() if not targets]:
            owner = parent_key(key.branch)
            while owner is not None and owner not in self.records:
                owner = parent_key(owner.branch)
            self.after[key].append(OUTCOME if owner is None else owner)

    def _is_carried(self, key: EffectKey, later: EffectKey) -> bool:
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
        earlier = (other for other in self.requests if other.branch == key.branch and other.n < key.n)
        return max((other for other in earlier if self.records[other].seq <= began), default=None)

    def _stands(self, key: EffectKey, text: str, *, near: bool = False) -> bool:
        """Return True if an output stands in a text; `near`: where it is expected, however short it is."""
        least = 1 if near else _TELLING
        return any(len(piece) >= least and piece in text for piece in self.pieces[key])

    def nearest(self, most: int) -> list[EffectKey]:
        return [*self.records][-most:]

    def edges_between(self, keys: Sequence[EffectKey]) -> Iterator[tuple[EffectKey, EffectKey | str]]:
        inside = {*keys}
        for key in keys:
            for target in dict.fromkeys(self.after[key]):
                if target == OUTCOME or target in inside:
                    yield key, target

    def node(self, key: EffectKey, variables: Sequence[Variable], room: int) -> Node:
        record, outcome = self.records[key], _outcome(self.records[key])
        arguments = record.effect.get("arguments", {})
        request = self.requests.get(key)
        text = self.fresh[key] if request is not None else canonical_json(arguments)
        whole = record.kind is EffectKind.INVOKE_TOOL and len(canonical_json(arguments)) <= room
        return Node(
            key=str(key),
            kind=record.kind.value,
            component=str(record.effect.get("component", "")),
            actor=self.actors.get(str(key), ""),
            given=cut(text, room),
            gave=cut(_gave(record, outcome), room),
            arguments=arguments if whole else None,
            error="" if outcome.ok else cut(outcome.error or outcome.status, room),
            cost_usd=outcome.usage.cost_usd,
            trust=outcome.trust,
            uses=tuple(variable.key for variable in variables if takes_part(variable, record, request)),
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
    tools = {tool.name for tool in request.tools}
    if kind == "tool" or (kind == "agent" and variable.role == "description"):
        if name in tools:
            return True
    elif kind == "environment" and any(tool.startswith(f"{name}_") for tool in tools):
        return True
    words = [line.strip() for line in _TAG.sub("\n", variable.text).splitlines()]
    telling = [line for line in words if len(line) >= _TELLING] or [line for line in words if line]
    text = "\n".join([*(message.text for message in request.messages), *(tool.description for tool in request.tools)])
    length = sum(len(line) for line in telling if line in text)
    return bool(telling) and length >= _SHARE * sum(map(len, telling))


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
        for call in reply.tool_calls:
            yield from _leaves(call.arguments)
    else:
        yield text_of(outcome.blocks())
        yield from _leaves(outcome.value)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)


def _gave(record: Record, outcome: Outcome) -> str:
    if record.kind is not EffectKind.REQUEST_MODEL:
        return text_of(outcome.blocks())
    if not outcome.ok:
        return ""
    calls = [f"calls {call.name}({canonical_json(call.arguments)})" for call in outcome.response.tool_calls]
    return "\n".join([*([outcome.response.text] if outcome.response.text else []), *calls])
