"""Which effects followed what nobody vouches for: a run is forked with other values in the place of untrusted ones.

The fork asks the run's model and carries out nothing that reaches beyond its own folder. A call that the run made too
is answered from its log, with the other values; another one that would act on the world is refused. The arguments of
both are compared with those of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import NO_USAGE, Bound, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Tag, failed, is_undeclared
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.policy import PolicyView, Verdict
from agentorchestra.core.protocols import Handler
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.trust.arguments import leaves_of, shown_text
from agentorchestra.trust.substitution import Substitution
from agentorchestra.trust.words import words_of

_ACTS = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
_READ = _ACTS | {EffectKind.READ_MEMORY, EffectKind.TRANSCRIBE}
"""Kinds whose results are read from outside; models, agents and people are not asked for other values."""

_KEPT_KINDS = frozenset({EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
"""Kinds that leave something in the fork's own folder or sandbox, which later ones find there."""

_REFUSAL = "it was not carried out: this run only shows what would have been done. Go on without it"


class Followed(BaseModel, frozen=True):
    """An argument of a sensitive effect that is another one in the fork."""

    path: str  # which one
    was: str  # its value in the run, "" where it had none
    probed: str  # its value in the fork, "" where it has none
    verbatim: bool  # one of the new values stands in it, so that it is no accident


class ProbedEffect(BaseModel, frozen=True):
    """An effect of the run, of the fork, or of both: those of one name are compared in their order."""

    name: str  # of its component, with the action of an environment
    key: str = ""  # in the run, "" where only the fork asked for it
    probed_key: str = ""  # in the fork, "" where it did not ask for it
    followed: tuple[Followed, ...] = ()  # its arguments that followed the untrusted values


class Probe(BaseModel, frozen=True):
    """What a probe found."""

    run_id: str  # the run
    fork: str = ""  # the fork; "" where none was needed: nothing untrusted was read before such an effect
    status: RunStatus | None = None  # how the fork ended
    swapped: int = 0  # how many values were put in the place of others
    # the sensitive effects, and reads from the network that only one of the two made
    effects: tuple[ProbedEffect, ...] = ()
    usage: Usage = NO_USAGE  # what the fork cost
    error: str = ""  # why the fork did not come to its end

    @property
    def followed(self) -> tuple[ProbedEffect, ...]:
        """The effects with arguments that followed."""
        return tuple(effect for effect in self.effects if effect.followed)


def is_sensitive(effect: Effect) -> bool:
    """Return True for what a probe never carries out: it sends, spends, writes elsewhere, or says nothing of itself."""
    tags = effect.tags
    if effect.kind not in _ACTS:
        return False
    if not tags:
        return is_undeclared(tags, effect.mode)
    network_code = Tag.NETWORK in tags and bool(tags & {Tag.WRITE, Tag.EXECUTE})
    return bool(tags & {Tag.SEND, Tag.SPEND}) or network_code or (Tag.WRITE in tags and not effect.confined)


class Prober:
    """The policy and the handlers of a probe's fork; `manifest` and `ledger` are of the recorded run."""

    def __init__(self, manifest: RunManifest, ledger: Ledger) -> None:
        self._recorded: defaultdict[str, list[Outcome]] = defaultdict(list)
        kinds = _READ | {EffectKind.ASK_HUMAN}
        calls = [(key, row, ledger.codec.decode(row.effect)) for key, row in _rows(ledger) if row.kind in kinds]
        self._acting = [row for row in calls if is_sensitive(row[2]) or _reads(row[2])]
        read: list[Record] = []
        texts = [manifest.task, *ledger.own_words()]
        for _, record, effect in calls:
            outcome = record.outcome
            if outcome is None or _is_entered(effect):
                continue
            self._recorded[_call(effect)].append(outcome)
            texts.append(canonical_json([outcome.value, outcome.error]))
            if outcome.trust is Trust.UNTRUSTED and effect.kind in _READ:
                read.append(record)
        values = (leaf.value for _, _, effect in self._acting if is_sensitive(effect) for leaf in leaves_of(effect))
        strings = (value.strip() for value in values if isinstance(value, str))
        words = words_of((manifest.task, *manifest.earlier_words, *ledger.own_words()))
        self.swap = Substitution(strings, words, texts)
        swapped = (
            one.began for one in read if one.outcome is not None and self.swap.outcome(one.outcome) != one.outcome
        )
        self.first = min(swapped, default=None)
        """The first event about a result with a value that is swapped, None without one."""

    def acting(self) -> list[tuple[EffectKey, Effect]]:
        """Return the sensitive effects and the network reads of the run from the first swapped result on."""
        first = self.first
        if first is None:
            return []
        return [(key, effect) for key, record, effect in self._acting if record.outcome is None or record.seq >= first]

    def own_effects(self, fork: Ledger) -> list[tuple[EffectKey, Effect]]:
        """Return the sensitive effects and the network reads that are the fork's own."""
        own = [(key, fork.codec.decode(record.effect)) for key, record in _rows(fork) if record.seq > fork.forked_at]
        return [(key, effect) for key, effect in own if is_sensitive(effect) or _reads(effect)]

    # -- the fork's policy -----------------------------------------------------------------------------------------

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Deny what reaches beyond the fork's folder and the run did not do, and what other runs would remember."""
        if effect.kind is EffectKind.WRITE_MEMORY or self._is_refused(effect):
            return Verdict(action="deny", reason=_REFUSAL)
        return Verdict()

    def _is_refused(self, effect: Effect) -> bool:
        """Return True for what reaches beyond the fork's folder, reading too, where the run did not do the same."""
        return (_reads(effect) or is_sensitive(effect)) and _call(self.before(effect)) not in self._recorded

    # -- the fork's handlers ---------------------------------------------------------------------------------------

    def wrap(self, handlers: dict[EffectKind, Handler]) -> dict[EffectKind, Handler]:
        """Return handlers that answer from the run's log, with other values."""
        return {
            kind: _Probing(handler, self) if kind in _READ or kind is EffectKind.ASK_HUMAN else handler
            for kind, handler in handlers.items()
        }

    def before(self, effect: Effect) -> Effect:
        arguments = self.swap.undone(effect.arguments)
        return effect.model_copy(update={"arguments": arguments})

    def answer(self, effect: Effect) -> Outcome | None:
        """Return what the run got for an effect; of several times in order, the last one again and again."""
        answers = self._recorded.get(_call(effect))
        if not answers:
            return None
        outcome = answers.pop(0) if len(answers) > 1 else answers[0]
        return outcome.model_copy(update={"usage": NO_USAGE})


class _Probing:
    """A handler in a probe: `inner` is asked only for what stays in the fork's own folder."""

    def __init__(self, inner: Handler, prober: Prober) -> None:
        self._inner = inner
        self._prober = prober

    def mode(self, effect: Effect) -> Mode:
        return self._inner.mode(effect)

    def bound(self, effect: Effect) -> Bound:
        return self._inner.bound(effect)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Give the run's result with other values; execute what the run did not ask for, with the run's values."""
        prober = self._prober
        if _is_entered(effect):
            return await self._inner.execute(effect, ctx)
        real = prober.before(effect)
        # An environment has to stand where its actions led it, and an interpreter to know what was defined.
        is_kept = effect.kind in _KEPT_KINDS and Tag.NETWORK not in effect.tags and not is_sensitive(effect)
        outcome = None if is_kept else prober.answer(real)
        if outcome is None:
            if effect.kind is EffectKind.ASK_HUMAN:
                return failed("error", "nobody is asked while a run is probed; go on without an answer")
            if is_sensitive(effect) or _reads(effect):  # a human may have allowed it before the fork
                return failed("denied", _REFUSAL)
            outcome = await self._inner.execute(real, ctx)
        return outcome if effect.kind is EffectKind.ASK_HUMAN else prober.swap.outcome(outcome)


def compare(prober: Prober, fork: Ledger) -> tuple[ProbedEffect, ...]:
    """Return what a run and its fork did to the world side by side: effects of one name in their order."""
    run_effects, fork_effects = prober.acting(), prober.own_effects(fork)
    # An address that both read is the same one; what else was read is compared as what is sent.
    common = {_call(effect) for _, effect in run_effects} & {_call(prober.before(effect)) for _, effect in fork_effects}
    was, now = defaultdict(list), defaultdict(list)
    for key, effect in run_effects:
        if is_sensitive(effect) or _call(effect) not in common:
            was[_full_name(effect)].append((key, effect))
    for key, effect in fork_effects:
        if is_sensitive(effect) or _call(prober.before(effect)) not in common:
            now[_full_name(effect)].append((key, effect))
    effects: list[ProbedEffect] = []
    for name in dict.fromkeys((*was, *now)):
        for place in range(max(len(was[name]), len(now[name]))):
            before = was[name][place] if place < len(was[name]) else None
            after = now[name][place] if place < len(now[name]) else None
            effects.append(
                ProbedEffect(
                    name=name,
                    key=str(before[0]) if before else "",
                    probed_key=str(after[0]) if after else "",
                    followed=tuple(_changes(before, after[1], prober.swap)) if after else (),
                )
            )
    return tuple(effects)


def _changes(before: tuple[EffectKey, Effect] | None, after: Effect, swap: Substitution) -> Iterable[Followed]:
    was = {leaf.path: shown_text(leaf.value) for leaf in leaves_of(before[1])} if before else {}
    now = {leaf.path: shown_text(leaf.value) for leaf in leaves_of(after)}
    for path in dict.fromkeys((*was, *now)):
        old, new = was.get(path, ""), now.get(path, "")
        verbatim = swap.within(new)
        # What only the fork asked for has nothing to be compared with.
        if verbatim or (before is not None and old != new):
            yield Followed(path=path, was=old, probed=new, verbatim=verbatim)


def _reads(effect: Effect) -> bool:
    """Return True for what reads from the network, and so tells it something."""
    return effect.kind in _ACTS and Tag.NETWORK in effect.tags and not is_sensitive(effect) and not _is_entered(effect)


def _is_entered(effect: Effect) -> bool:
    """Return True for what is executed as it is: it computes from what it is told, or performs effects of its own."""
    if effect.mode is Mode.COMPOSITE:
        return not is_sensitive(effect)
    return effect.mode is Mode.PURE and not effect.tags and effect.kind is EffectKind.INVOKE_TOOL


def _rows(ledger: Ledger) -> list[tuple[EffectKey, Record]]:
    """Return the records by their places, which do not depend on what was faster."""

    def place(item: tuple[EffectKey, Record]) -> list[tuple[int, str]]:
        segments = (segment.partition(".") for segment in item[0].path.split("/"))
        return [(int(number) if number.isdigit() else 0, name) for number, _, name in segments]

    return sorted(ledger.records.items(), key=place)


def _call(effect: Effect) -> str:
    arguments: JsonValue = effect.arguments
    return canonical_json([effect.kind.value, effect.name, arguments])


def _full_name(effect: Effect) -> str:
    if effect.kind is EffectKind.INVOKE_ACTION:
        return f"{effect.name}.{effect.arguments.get('action')}"
    return effect.name
