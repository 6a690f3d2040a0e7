"""Policy over what happened: the recorded effects of a run are judged again by another policy, and no model is asked.

The log holds each effect as the door judged it, with what its branch had seen. What else policy sees of a run (the
user's words, the links that had been received) is put together again, as far as it had come when the effect was judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, JsonValue

from agentorchestra.core.effects import Effect, EffectKind, Outcome
from agentorchestra.core.errors import PolicyFileError
from agentorchestra.core.events import RUN_BRANCH, Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.mail import TOLD, Mail
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.policy import Policy, PolicyView, Reviewing, Verdict
from agentorchestra.core.spec import RunManifest
from agentorchestra.log.ledger import Ledger, parent_key
from agentorchestra.trust.provenance import SeenProvenance, origins
from agentorchestra.trust.received import UNDONE, Received, called
from agentorchestra.trust.review import after_look, review_key

Said = Literal["allowed", "asked", "denied"]
SAID: tuple[Said, ...] = ("allowed", "asked", "denied")
_NOW: dict[str, Said] = {"allow": "allowed", "ask": "asked", "deny": "denied"}

_APPROVAL = ".approval"  # how the branch ends on which the door asks about an effect
_BY_POLICY = "denied: "  # how the outcomes begin of effects that policy has denied,
_REFUSED = "denied: the user has refused this very call"  # or about which nobody was asked a second time


class Judged(BaseModel, frozen=True):
    """One recorded effect under two policies."""

    key: str  # of the effect
    name: str  # of its component
    kind: str  # what sort of effect
    arguments: dict[str, JsonValue]  # as recorded
    was: Said  # what the policy of the run said
    answer: str = ""  # of a human, where it was `asked`: `approved`, `refused`
    said: str = ""  # the question that was asked, or why the effect was denied
    now: Said  # what the other policy says
    reason: str = ""  # its sentence
    # where it would be asked about, for each argument its value, its trust and where it may stem from, as the question
    # would show them
    origins: dict[str, JsonValue] = {}


class RunTrial(BaseModel, frozen=True):
    """A run under another policy."""

    run_id: str  # the run
    effects: tuple[Judged, ...]  # those that came to policy, in the order in which they were judged
    open: int = 0  # calls that a human was asked about and that went no further: the log has the question, not the call


@dataclass
class _Passage:
    """One effect at the policy of the door, as the log shows it."""

    key: EffectKey
    effect: Effect
    verdict: Verdict
    seq: int
    started: bool
    asked: bool
    batch: int
    origins: dict[str, JsonValue]
    outcome: Outcome | None = None

    @property
    def first(self) -> int:
        """The first number of those that were decided together with it."""
        return self.batch or self.key.n


class _Seen:
    """What each branch of a recorded run had seen, as the door has it while it drives one (`runtime/branch.py`).

    `passages` are the effects so far. Which rival was chosen is not taken in: the next request shows what it saw.
    """

    def __init__(self, passages: Mapping[EffectKey, _Passage]) -> None:
        self._passages = passages
        self._branches: dict[str, tuple[SeenProvenance, int]] = {}  # with the number up to which it has taken results

    def before(self, branch: str, first: int) -> SeenProvenance:
        """Return what a branch had seen when the effects from a number on were decided."""
        seen, known = self._branches.get(branch) or (self._opened(branch), 1)
        for n in range(known, first):
            passage = self._passages.get(EffectKey(branch, n))
            if passage is not None and passage.outcome is not None:
                seen.take(passage.effect, passage.outcome, tuple(self._mail(passage.effect, passage.outcome)))
        self._branches[branch] = seen, max(known, first)
        return seen

    def _opened(self, branch: str) -> SeenProvenance:
        owner = parent_key(branch)
        if owner is None:
            return SeenProvenance()
        passage = self._passages.get(owner)
        above = self.before(owner.branch, owner.n if passage is None else passage.first)
        if passage is not None:
            return SeenProvenance(passage.effect.provenance, above)
        rival = SeenProvenance()
        rival.adopt(above)
        return rival

    def _mail(self, effect: Effect, outcome: Outcome) -> Iterator[Mail]:
        """Yield the messages of other agents that a Wait took."""
        value = outcome.value if effect.kind is EffectKind.WAIT and isinstance(outcome.value, dict) else {}
        ids = value.get("messages")
        for one in ids if isinstance(ids, list) else []:
            sent = None if str(one).startswith(TOLD) else self._passages.get(EffectKey.parse(str(one)))
            if sent is not None and sent.outcome is not None:
                said = {name: str(sent.effect.arguments.get(name, "")) for name in ("sender", "content")}
                yield Mail(id=str(one), seq=sent.seq, to=(), trust=sent.outcome.trust, **said)

    def forget(self) -> None:
        """Begin anew: effects of the run were superseded."""
        self._branches.clear()


def judged_again(
    # `run_id`, `manifest`, `events`: of the run
    run_id: str,
    manifest: RunManifest,
    events: Iterable[Event],
    policy: Policy,  # the other policy
    *,
    schemas: Mapping[str, ToolSchema],  # of what can be called, by name; of an environment's action by `NAME_ACTION`
    folder: Path,  # the run's
) -> RunTrial:
    """Judge every effect of a run again that came to policy in it; of a fork those that came after its parent's.

    Raises:
        PolicyFileError: the policy fails.
        EventFormatError: the run was recorded by a later version.
    """
    ledger = Ledger()
    received = Received(manifest)
    passages: list[_Passage] = []
    latest: dict[EffectKey, _Passage] = {}
    asked: dict[EffectKey, PolicyView] = {}  # what policy saw of the run where a question followed
    view: PolicyView | None = None
    branches = _Seen(latest)
    files = tuple(one.name for one in manifest.files)
    for event in events:
        key = EffectKey(event.branch, event.n or 0)
        first = key not in ledger.records
        ledger.apply(event)
        if event.branch == RUN_BRANCH:
            view = None  # the user may have said something
            if event.type == "run_created":
                received = Received(manifest, ledger.begins)
            if event.type in ("forked", "budget_raised"):
                asked.clear()
                branches.forget()
            continue
        record = ledger.records.get(key)
        if record is None:
            continue
        if view is None:
            words = (manifest.task, *manifest.earlier_words, *ledger.own_words())
            view = PolicyView(user_content=words, folder=folder)
        if first:
            seen = received.now(view)
            owner = parent_key(event.branch) if event.branch.endswith(_APPROVAL) else None
            if owner is not None:
                asked[owner] = seen
                continue
            effect = _as_judged(ledger.codec.decode(record.effect), schemas)
            had = branches.before(key.branch, record.batch or key.n)
            look = ledger.records.get(review_key(key))
            known = {"trusted": had.trusted_values, "second_look": look is not None}
            shown = asked.pop(key, seen).model_copy(update=known)
            verdict = _verdict(policy, effect, shown, f"{effect.name} at {key} of run {run_id}")
            wants = verdict.action == "allow" and isinstance(policy, Reviewing) and policy.wants_review(effect, shown)
            if wants and look is not None and look.outcome is not None:
                verdict = after_look(policy, effect, shown, look.outcome)
            question = EffectKey(f"{key.path}{_APPROVAL}", 1) in ledger.records
            passage = _Passage(key, effect, verdict, event.seq, record.started, question, record.batch, {})
            if verdict.action == "ask":
                passage.origins = origins(effect, verdict.arguments, had, shown.user_content, files)
            latest[key] = passage
            passages.append(passage)
            if record.started if record.outcome is None else record.outcome.status not in ("denied", "mistake"):
                received.reading(effect.tags, effect.arguments)
            if record.started if record.outcome is None else record.outcome.status not in UNDONE:
                received.acting(effect.called)
        elif record.outcome is not None and record.outcome.status in UNDONE:
            received.undone(called(record.effect))
        if event.type == "completed" and record.outcome is not None and key in latest:
            latest[key].outcome = record.outcome
            received.result(record.effect, record.outcome)
    own = (one for one in passages if one.seq > ledger.forked_at)
    effects = tuple(found for one in own if (found := _judged(one, ledger)) is not None)
    return RunTrial(run_id=run_id, effects=effects, open=len(asked))


def _as_judged(effect: Effect, schemas: Mapping[str, ToolSchema]) -> Effect:
    """Return a recorded effect with the schema of what it calls, which the log has in another place."""
    name = effect.name
    if effect.kind is EffectKind.INVOKE_ACTION:
        name = f"{name}_{effect.arguments.get('action')}"
    return effect.model_copy(update={"declared": schemas.get(name)})


def _verdict(policy: Policy, effect: Effect, view: PolicyView, which: str) -> Verdict:
    try:
        verdict = policy.decide(effect, view)
    except Exception as exc:  # the user's own code
        raise PolicyFileError(f"the policy failed on {which}: {type(exc).__name__}: {exc}; correct it") from exc
    if not isinstance(verdict, Verdict):
        raise PolicyFileError(
            f"the policy returned a {type(verdict).__name__} for {which}; return a Verdict (docs/security.md)"
        )
    return verdict


def _judged(one: _Passage, ledger: Ledger) -> Judged | None:
    """Return what became of an effect beside what would; None for one that never came to policy."""
    outcome = one.outcome
    was: Said = "allowed"
    answer = said = ""
    if one.asked:
        was = "asked"
        question = ledger.records.get(EffectKey(f"{one.key.path}{_APPROVAL}", 1))
        if question is not None:
            said = str(question.effect.get("arguments", {}).get("question", ""))
            yes = question.outcome is not None and question.outcome.ok and question.outcome.value is True
            answer = "approved" if yes else "refused"
    elif not one.started and outcome is not None:
        if outcome.status in ("mistake", "skipped"):
            return None
        if outcome.status == "denied":
            said = outcome.error or ""
            if not said.startswith(_BY_POLICY):
                return None  # its agent may not call it at all, or a rival may not
            was = "asked" if said.startswith(_REFUSED) else "denied"
            answer = "refused" if was == "asked" else ""
    return Judged(
        key=str(one.key),
        name=one.effect.name,
        kind=one.effect.kind.value,
        arguments=one.effect.arguments,
        was=was,
        answer=answer,
        said=said,
        now=_NOW[one.verdict.action],
        reason=one.verdict.reason,
        origins=one.origins,
    )
