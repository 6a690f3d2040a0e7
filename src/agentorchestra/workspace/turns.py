"""The state that a turn of a session left, from its log: what the next turn begins with (docs/sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.conversation import converses
from agentorchestra.agents.trace import CALLED_BY_CODE
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.effects import FINISH, Effect, EffectKind, Outcome, Provenance, failed, provenance_of, union
from agentorchestra.core.events import Event, RunEnded
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import Message, ModelResponse, ToolCall
from agentorchestra.core.spec import FINAL, RunManifest, RunStatus
from agentorchestra.core.turns import TurnState
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.loop import TASK, Decision, State, opened_by
from agentorchestra.runtime.branch import segment
from agentorchestra.runtime.state import CURSORS, KEPT, PRIVATE, PROGRAMS
from agentorchestra.runtime.worlds import ENV_STATE, final_snapshot
from agentorchestra.trust.received import Received

_DECISIONS = frozenset({"decision", "final"})
_BESIDE = frozenset({EffectKind.REQUEST_MODEL, EffectKind.RECEIVE, EffectKind.READ_MEMORY, EffectKind.WRITE_MEMORY})

LOST_ANSWER = (
    "This call did not come to its end, because the turn stopped; it may have happened. Look before you call it again."
)


def state_after(manifest: RunManifest, events: Sequence[Event], agents: Mapping[str, Any]) -> TurnState:
    """Return how a run ended, whatever became of it, as its session goes on from it.

    Args:
        manifest, events: the run's.
        agents: the workspace's agents by name.
    """
    ledger = Ledger.of(events)
    begins = ledger.begins or TurnState()
    top = EffectKey("/", 1)
    branch = f"{top.path}.{segment(manifest.system)}"
    own = [row for key, row in sorted(ledger.records.items()) if key.branch == branch]
    record = ledger.records.get(top)
    trust = record.outcome.trust if record is not None and record.outcome is not None else Trust.UNTRUSTED
    history = _history(ledger, own, branch) if converses(manifest.system, agents) else None
    messages, native = history or (_words_only(manifest, begins, ledger.read_mail()), begins.native)
    messages = (*messages, *_end(messages, events, manifest.system, trust))
    receipts = Received(manifest, begins)
    for row in ledger.records.values():
        receipts.recorded(row.effect, row.outcome, started=row.started)
    links, found_addresses, followed_addresses = (tuple(sorted(address)) for address in receipts.addresses)
    refs = [ref for record in ledger.records.values() if record.outcome is not None for ref in record.outcome.artifacts]
    seen = [Provenance.model_validate(source) for row in own for source in row.effect.get("provenance", ())]
    return TurnState(
        messages=messages,
        native=native,
        sources=union(
            begins.sources,
            seen,
            provenance_of([block for message in messages for block in message.content]),
            [Provenance(kind="agent", ref=manifest.system, trust=trust)],
        ),
        opened=tuple(dict.fromkeys((*begins.opened, *_opened_names(ledger, own)))),
        vars=_vars(ledger, begins, own),
        artifacts=tuple({ref.name: ref for ref in (*begins.artifacts, *refs)}.values()),
        links=links,
        found=found_addresses,
        followed=followed_addresses,
    )


def taken_over(manifest: RunManifest, agents: Mapping[str, Any]) -> str:
    """Return what a turn takes over that does not go on with the conversation, "" for one that does."""
    if manifest.previous is None:
        return ""
    if manifest.memory:
        return (
            "this turn takes over the session's files and folder; of its earlier turns the memory system "
            f"{manifest.memory} says what is told"
        )
    if converses(manifest.system, agents):
        return ""
    return f"{manifest.system} takes over the session's files, folder and last answers, not its conversation"


# -- the conversation --------------------------------------------------------------------------------------------------


def _history(ledger: Ledger, own: Sequence[Record], branch: str) -> tuple[tuple[Message, ...], bool] | None:
    """Return the top agent's messages up to its last decision and what came of that, and whether its calls are native.

    None where the log does not have them as one line: nothing was asked, or rivals took the steps.
    """
    rivals = (key.branch.removeprefix(f"{branch}/").split(".") for key in ledger.records if key.branch != branch)
    if any(len(rival) == 2 and rival[0].isdigit() and rival[1].isdigit() for rival in rivals):
        return None
    asks = [row for row in own if row.kind is EffectKind.REQUEST_MODEL and row.effect.get("purpose") in _DECISIONS]
    request = ledger.codec.decode(asks[-1].effect).request if asks else None
    if request is None or request.messages[0].role != "system":
        return None
    native, outcome = bool(request.tools), asks[-1].outcome
    state = State(messages=request.messages[:-1])  # the last one is of this step only
    if outcome is None or not outcome.ok:
        return state.messages, native
    behind = own[next(place for place, row in enumerate(own) if row is asks[-1]) + 1 :]
    after = [row for row in behind if row.kind not in _BESIDE]
    done = [row for row in after if row is after[0] or 0 < row.batch == after[0].batch]
    effects = [ledger.codec.decode(row.effect) for row in done]
    effects = effects if effects and effects[0].name not in CALLED_BY_CODE else []
    calls = _calls(outcome.response, effects) if native or effects else ()
    text = TextBlock(
        text=outcome.response.text, source=Source(kind="agent", ref=branch.rpartition(".")[2]), trust=outcome.trust
    )
    message = Message(
        role="assistant",
        content=(text,) if outcome.response.text else (),
        tool_calls=calls if native else (),
        thoughts=outcome.response.thoughts,
    )
    results = [_result(effect, row.outcome) for effect, row in zip(effects, done, strict=False)]
    decision = Decision(message=message, tool_calls=calls, calls=tuple(effects), native=native)
    return state.add(decision, results).messages, native


def _calls(response: ModelResponse, effects: Sequence[Effect]) -> tuple[ToolCall, ...]:
    """Return the calls that were performed, with ids of their own: as the model wrote them, where that is these."""
    wrote = response.tool_calls
    if len(wrote) == len(effects) and len({call.id for call in wrote if call.id}) == len(wrote):
        return wrote
    return tuple(
        ToolCall(id=f"call_{number}", name=effect.called, arguments=dict(effect.arguments))
        for number, effect in enumerate(effects)
    )


def _result(effect: Effect, outcome: Outcome | None) -> Outcome:
    if outcome is None:
        return failed("error", LOST_ANSWER, own_words=True)
    if outcome.ok and effect.purpose == FINISH:  # what it holds stands in the call
        return Outcome(value="The answer was given to the user.", trust=Trust.SYSTEM)
    return outcome


def _words_only(manifest: RunManifest, begins: TurnState, messages: Sequence[str]) -> tuple[Message, ...]:
    """Return the conversation with the user's words alone, for a system that had none."""
    order, *later = (TextBlock(text=text, trust=Trust.USER) for text in (manifest.task, *messages))
    task = Message(role="user", name=TASK if begins.messages else None, content=(order,))
    return (*begins.messages, task, *(Message(role="user", content=(words,)) for words in later))


def _end(messages: Sequence[Message], events: Sequence[Event], system: str, trust: Trust) -> tuple[Message, ...]:
    """Return what the conversation does not say yet of how a turn ended: its answer, or that there is none."""
    end = next((e.data for e in reversed(events) if e.type == "run_ended"), None)
    answer = str(end.result.get("answer") or "").strip() if isinstance(end, RunEnded) else ""
    status = end.status if isinstance(end, RunEnded) else RunStatus.CANCELLED.value
    last = next((message for message in reversed(messages) if message.role in ("assistant", "user")), None)
    stands = last is not None and last.role == "assistant" and answer in (last.text, *_answers(last))
    additions: list[Message] = []
    if answer and not stands:
        text = TextBlock(text=answer, source=Source(kind="agent", ref=system), trust=trust)
        additions.append(Message(role="assistant", content=(text,)))
    if status not in FINAL:
        stopped = TextBlock(text=f"The work on this task stopped here ({status}).", trust=Trust.SYSTEM)
        additions.append(Message(role="user", content=(stopped,)))
    return tuple(additions)


def _answers(message: Message) -> list[str]:
    inputs = [call.arguments for call in message.tool_calls if isinstance(call.arguments, dict)]
    return [str(arguments.get("answer", "")).strip() for arguments in inputs]


# -- what else goes on -------------------------------------------------------------------------------------------------


def _opened_names(ledger: Ledger, own: Sequence[Record]) -> list[str]:
    calls = [row for row in own if row.kind is EffectKind.INVOKE_TOOL and row.outcome is not None]
    return [
        name for call in calls if call.outcome for name in opened_by(ledger.codec.decode(call.effect), call.outcome)
    ]


def _vars(ledger: Ledger, begins: TurnState, own: Sequence[Record]) -> dict[str, JsonValue]:
    """Return the run's state: what it began with and its top agent left; one that was cut off as far as it came."""
    state, top = dict(begins.vars), ledger.records.get(EffectKey("/", 1))
    for row in own:
        state |= row.outcome.writes if row.outcome is not None else {}
    state |= top.outcome.writes if top is not None and top.outcome is not None else {}
    for name in {name for record in ledger.records.values() if record.outcome for name in record.outcome.writes}:
        if name.startswith(ENV_STATE):  # an agent that was at work in it may not have handed it back
            state[name] = final_snapshot(ledger, name.removeprefix(ENV_STATE))
    return {name: value for name, value in state.items() if value is not None and _goes_on(name)}


def _goes_on(name: str) -> bool:
    own = name.startswith(PRIVATE) and name not in PROGRAMS
    return not own and not name.startswith((*CURSORS, KEPT))
