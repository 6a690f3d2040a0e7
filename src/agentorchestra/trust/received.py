"""What a run has received and done, as far as policy asks: addresses, which of them were read, results, its plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import BLOCKS, EffectKind, Mode, Outcome, called_as
from agentorchestra.core.policy import PLAN, Given, Plan, PolicyView
from agentorchestra.core.spec import RunManifest
from agentorchestra.core.turns import TurnState
from agentorchestra.trust.addresses import links_within, may_address
from agentorchestra.trust.arguments import leaves
from agentorchestra.trust.plan import read_plan

OWN_SEARCH = "search_engine_"
"""How the names of the tools begin behind the framework's own search: the engine chose what they give."""


class Received:
    """What the results of a run held so far, and what was read; the same from its log as while it is driven."""

    def __init__(self, manifest: RunManifest, begins: TurnState | None = None) -> None:
        self._links: set[str] = {*begins.links} if begins is not None else set()
        self._found: set[str] = {*begins.found} if begins is not None else set()
        self._followed: set[str] = {*begins.followed} if begins is not None else set()
        self._private = bool(manifest.files or manifest.earlier or manifest.previous)
        self._files = frozenset(one.name for one in manifest.files)
        self._planned = manifest.policy_plan == "on"  # nobody else looks results up
        self._results: defaultdict[str, list[Given]] = defaultdict(list)
        self._acted: Counter[str] = Counter()
        self._plan: Plan | None = None

    @property
    def addresses(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return the addresses that results named, that the own search found, and that were read."""
        return frozenset(self._links), frozenset(self._found), frozenset(self._followed)

    def recorded(self, effect: Mapping[str, Any], outcome: Outcome | None, *, started: bool) -> None:
        """Take in what a log has of an effect: its outcome, None where it has none."""
        if outcome is not None:
            self.result(effect, outcome)
        if outcome.status not in ("denied", "mistake") if outcome is not None else started:
            self.reading(effect.get("tags", ()), effect.get("arguments", {}))
        if outcome.status not in UNDONE if outcome is not None else started:
            self.acting(called(effect))

    def result(self, effect: Mapping[str, Any], outcome: Outcome) -> None:
        """Take in a result of a recorded effect."""
        if effect.get("purpose") == PLAN:
            found = read_plan(effect, outcome)
            self._plan = found if isinstance(found, Plan) else None
            return
        if not outcome.ok:
            return
        tags = effect.get("tags", ())
        if self._planned and (name := called(effect)):
            arguments = effect.get("arguments", {})
            if effect.get("kind") == EffectKind.INVOKE_ACTION:
                arguments = arguments.get("arguments") or {}
            given = Given(
                arguments, outcome.value, outcome.trust is Trust.UNTRUSTED, self._is_private(tags, arguments, outcome)
            )
            self._results[name].append(given)
        links = links_within(outcome.value) if "network" in tags else _links_at(outcome)
        self._links |= links
        if str(effect.get("component", "")).startswith(OWN_SEARCH):
            self._found |= links
        self._private = self._private or _is_private(effect, tags, outcome)

    def _is_private(self, tags: Collection[str], arguments: Mapping[str, Any], outcome: Outcome) -> bool:
        """Return True unless everybody can read it, or the user gave it with the task."""
        if {"read", "network"} <= set(tags) or any(str(one) in self._files for one in arguments.values()):
            return False
        blocks = outcome.blocks() if isinstance(outcome.value, dict) and BLOCKS in outcome.value else ()
        return not blocks or any(one.source is None or one.source.ref not in self._files for one in blocks)

    def reading(self, tags: Collection[str], arguments: dict[str, Any]) -> None:
        """Take in the addresses that a network read was allowed to read."""
        if "network" in tags and "read" in tags:
            self._followed |= {
                leaf.value for leaf in leaves(arguments) if isinstance(leaf.value, str) and may_address(leaf.value)
            }

    def acting(self, name: str) -> None:
        """Count a call that is let through."""
        self._acted[name] += 1

    def undone(self, name: str) -> None:
        """Count a call no more that came to nothing."""
        self._acted[name] -= 1

    def seen_by(self, view: PolicyView) -> PolicyView:
        """Return a view of the run with what it has received: at any time as much as there is then."""
        return view.model_copy(
            update={
                "links": lambda: frozenset(self._links),
                "found": lambda: frozenset(self._found),
                "followed": lambda: frozenset(self._followed),
                "private": lambda: self._private,
                "plan": lambda: self._plan,
                "results": lambda: self._results,
                "acted": lambda name: self._acted[name],
            }
        )

    def now(self, view: PolicyView) -> PolicyView:
        """Return a view of the run with what it has received up to now, whatever comes later."""
        links, found, followed = frozenset(self._links), frozenset(self._found), frozenset(self._followed)
        private, plan = self._private, self._plan
        counts = {name: len(given) for name, given in self._results.items()}
        acted = self._acted.copy()
        return view.model_copy(
            update={
                "links": lambda: links,
                "found": lambda: found,
                "followed": lambda: followed,
                "private": lambda: private,
                "plan": lambda: plan,
                "results": lambda: {name: self._results[name][:count] for name, count in counts.items()},
                "acted": lambda name: acted[name],
            }
        )


UNDONE = frozenset({"error", "mistake", "denied", "skipped", "limited"})  # how calls end that do not count as done


def called(effect: Mapping[str, Any]) -> str:
    """Return the name under which a model calls what a recorded effect called; "" for other kinds of effects."""
    component = str(effect.get("component", ""))
    return called_as(str(effect.get("kind")), component.rpartition("@")[0] or component, effect.get("arguments", {}))


def _links_at(outcome: Outcome) -> set[str]:
    """Return the addresses that a tool names in its result as received."""
    links: set[str] = set()
    for path in outcome.links:
        value: JsonValue = outcome.value
        for step in path:
            if isinstance(value, list):
                value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            links.add(value)
    return links


def _is_private(effect: Mapping[str, Any], tags: Collection[str], outcome: Outcome) -> bool:
    """Return True for a result from outside that no network read brought."""
    if outcome.trust is not Trust.UNTRUSTED or outcome.value in (None, "", [], {}):
        return False
    if effect.get("kind") == EffectKind.READ_MEMORY:
        return True
    if effect.get("kind") not in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION):
        return False
    # What a composite gives back was read by its own effects.
    return not {"read", "network"} <= set(tags) and (
        bool(tags) or effect.get("mode") not in (Mode.PURE, Mode.COMPOSITE)
    )
