"""What a run has received, as far as policy asks: addresses, which of them were read, whether anything was private."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind, Mode, Outcome
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.spec import RunManifest
from agentorchestra.trust.addresses import links_within, may_address
from agentorchestra.trust.arguments import leaves

OWN_SEARCH = "search_engine_"
"""How the names of the tools begin behind the framework's own search: the engine chose what they give."""


class Received:
    """What the results of a run held so far, and what was read; the same from its log as while it is driven."""

    def __init__(self, manifest: RunManifest) -> None:
        self._links: set[str] = set()
        self._found: set[str] = set()
        self._followed: set[str] = set()
        self._private = bool(manifest.files or manifest.earlier)

    def result(self, effect: Mapping[str, Any], outcome: Outcome) -> None:
        """Take in a result of a recorded effect."""
        if not outcome.ok:
            return
        tags = effect.get("tags", ())
        if "network" in tags:
            links = links_within(outcome.value)
            self._links |= links
            if str(effect.get("component", "")).startswith(OWN_SEARCH):
                self._found |= links
        self._private = self._private or _is_private(effect, tags, outcome)

    def reading(self, tags: Collection[str], arguments: dict[str, Any]) -> None:
        """Take in the addresses that a network read was allowed to read."""
        if "network" in tags and "read" in tags:
            self._followed |= {
                leaf.value for leaf in leaves(arguments) if isinstance(leaf.value, str) and may_address(leaf.value)
            }

    def seen_by(self, view: PolicyView) -> PolicyView:
        """Return a view of the run with what it has received: at any time as much as there is then."""
        return view.model_copy(
            update={
                "links": lambda: frozenset(self._links),
                "found": lambda: frozenset(self._found),
                "followed": lambda: frozenset(self._followed),
                "private": lambda: self._private,
            }
        )

    def now(self, view: PolicyView) -> PolicyView:
        """Return a view of the run with what it has received up to now, whatever comes later."""
        links, found, followed = frozenset(self._links), frozenset(self._found), frozenset(self._followed)
        private = self._private
        return view.model_copy(
            update={
                "links": lambda: links,
                "found": lambda: found,
                "followed": lambda: followed,
                "private": lambda: private,
            }
        )


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
