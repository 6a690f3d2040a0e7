"""The shipped default policy (docs/door.md, "Policy and trust"; docs/security.md).

Allowed whatever their trust: reading, sandboxed execution without network, writing inside the run's folder. Asked when
an argument does not stem from the user: sending, spending, writing outside, network from code. A network read is
allowed if its address stands verbatim in the user's content, in a received link or search result, or its host is
allowed; a composed address asks, since it can carry data out, and so does what else would go with a request.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, Tag, is_undeclared
from agentorchestra.core.policy import PolicyView, Verdict
from agentorchestra.core.settings import PolicySettings
from agentorchestra.trust.addresses import (
    host_of,
    is_site_of,
    is_word,
    may_address,
    named_addresses,
    place_of,
    same_place,
    site_of,
)
from agentorchestra.trust.arguments import Leaf, harmless, leaves_of
from agentorchestra.trust.plan import outside
from agentorchestra.trust.provenance import listed_sources
from agentorchestra.trust.roles import from_trusted_field, stands_for
from agentorchestra.trust.words import Words, words_of

_ALLOWED = Verdict()
_JUDGED = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE, EffectKind.WRITE_MEMORY})
FILES = "files"  # where the task's files lie in a run's folder

MOST_FOLLOWED = 5
"""Links on hosts that the user did not name which a run with private content in view follows without a question."""

_LONGEST_PATH = 4096
_LONGEST_NAME = 255  # bytes of a path and of a name in it that a disk can keep at most; a longer text names no file

_LONGEST_RESOLVED = 16_384
"""Characters of a path that is followed on the disk; a longer one that goes upwards counts as one that leads out."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_ELSEWHERE = re.compile(r"~|[$%]\w|\$\{|[A-Za-z]:[\\/]|\\\\")
"""How a path begins that a tool may take to be outside: a home folder, a variable, a drive, a server."""


class DefaultPolicy:
    """The documented default.

    Args:
        settings: what the workspace opens or closes by name.
        folder: writing inside it needs no question; by default the run's folder.
    """

    def __init__(self, settings: PolicySettings | None = None, *, folder: Path | None = None) -> None:
        self._settings = settings or PolicySettings()
        self._folder = folder

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Allow, ask or deny the effect; the reason names the rule and the arguments."""
        named = self._named(effect)
        if named is not None:
            return named
        leaves = leaves_of(effect)
        rule = self._rule(effect, leaves, view)
        if self._settings.plan == "off":
            view = view.model_copy(update={"plan": lambda: None})
        if rule == "sensitive":
            return _planned(effect, leaves, view) or _sensitive(effect, leaves, words_of(view.user_content), view)
        if rule == "free":
            return _ALLOWED
        verdict = self._network_read(effect, leaves, view)
        if verdict.action == "ask" and (planned := _planned(effect, leaves, view)) is not None:
            return planned if planned.action == "allow" else verdict
        return verdict

    def wants_plan(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if a plan of what the user's words call for decides about this effect."""
        if self._settings.plan == "off" or self._named(effect) is not None:
            return False
        leaves = leaves_of(effect)
        foreign = effect.declared is not None and effect.declared.trust is Trust.UNTRUSTED
        if not effect.called or foreign or any(leaf.site for leaf in leaves):  # a plan says nothing of these
            return False
        rule = self._rule(effect, leaves, view)
        return rule == "sensitive" or (rule == "network" and self._network_read(effect, leaves, view).action == "ask")

    def wants_review(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if a model is to look again at a call that the plan allows, as something untrusted was read."""
        plan = view.plan()
        untrusted = effect.lowest_trust is Trust.UNTRUSTED
        known = plan is not None and effect.called in plan.known and self._settings.plan == "on"
        if self._settings.review == "off" or not (known and untrusted) or self._named(effect) is not None:
            return False
        return self._rule(effect, leaves_of(effect), view) == "sensitive"

    def alone(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if neither the plan nor what others in the run read or do can change that it is allowed."""
        named = self._named(effect)
        if named is not None:
            return named.action == "allow"
        leaves = leaves_of(effect)
        rule = self._rule(effect, leaves, view)
        if rule == "network":
            # How many links were followed after private content is counted over the whole run.
            known = view.model_copy(update={"links": frozenset}) if view.private() else view
            return self._network_read(effect, leaves, known).action == "allow"
        return rule == "free"

    def _named(self, effect: Effect) -> Verdict | None:
        """Return what settings and the author of a tool say of all its calls, None where each is judged."""
        if effect.name in self._settings.deny:
            return Verdict(action="deny", reason=f"{effect.name!r} is denied by the workspace's policy settings")
        if effect.kind not in _JUDGED or effect.name in self._settings.allow:
            return _ALLOWED
        if effect.name in self._settings.ask:
            return Verdict(action="ask", reason=f"the setting policy.ask names {effect.name}")
        if effect.approval == "always":
            return Verdict(action="ask", reason=f"{effect.name} says of itself that every call is asked about")
        return _ALLOWED if effect.approval == "never" else None

    def _rule(self, effect: Effect, leaves: list[Leaf], view: PolicyView) -> Literal["free", "sensitive", "network"]:
        """Return the rule by which a call is judged."""
        if not effect.tags and effect.mode is Mode.PURE:
            return "free"
        if effect.confined and Tag.EXECUTE in effect.tags and not effect.tags & {Tag.SEND, Tag.SPEND}:
            return "free"  # what it reaches besides its own folder are hosts that the settings allow
        # What only reads from the network into its own folder is a network read.
        acting = {Tag.EXECUTE} if effect.confined and Tag.READ in effect.tags else {Tag.EXECUTE, Tag.WRITE}
        network_code = Tag.NETWORK in effect.tags and bool(acting & effect.tags)
        sensitive = bool({Tag.SEND, Tag.SPEND} & effect.tags) or network_code or self._undeclared(effect)
        if not sensitive and not effect.tags & {Tag.WRITE, Tag.NETWORK}:
            return "free"
        outside = Tag.WRITE in effect.tags and not effect.confined
        texts = (leaf.value.strip() for leaf in leaves if isinstance(leaf.value, str))
        if sensitive or (outside and any(text and self._leads_outside(text, view) for text in texts)):
            return "sensitive"
        return "network" if Tag.NETWORK in effect.tags else "free"

    def _undeclared(self, effect: Effect) -> bool:
        """Return True if a tool that does not say what it touches has to be taken for one that sends."""
        if effect.kind is not EffectKind.INVOKE_TOOL or not is_undeclared(effect.tags, effect.mode):
            return False
        foreign = effect.declared is not None and effect.declared.trust is Trust.UNTRUSTED
        return foreign or self._settings.undeclared == "ask"

    def _leads_outside(self, text: str, view: PolicyView) -> bool:
        """Return True if a tool that takes this text for a path or an address would write elsewhere."""
        if text.lower().startswith("file:"):
            text = unquote(text[5:]).replace("//", "/")
        elif _ADDRESS.fullmatch(text):
            return True
        path = Path(text)  # without "." and "//": they can make a path of any length
        if _ELSEWHERE.match(text):
            return _can_be_written(os.path.normpath(path))
        if len(str(path)) > _LONGEST_RESOLVED:
            return ".." in path.parts
        folder = Path(os.path.realpath(self._folder or view.folder or "/?"))
        # As the text says it, and as it is on this disk, where a link on its way may lead out.
        places = {os.path.normpath(folder / path)}
        with contextlib.suppress(ValueError):  # characters that no path has
            places.add(os.path.realpath(folder / path))
        return any(not _lies_in(folder, place) and _can_be_written(place) for place in places)

    def _network_read(self, effect: Effect, leaves: list[Leaf], view: PolicyView) -> Verdict:
        allowed = {host.casefold() for host in (*self._settings.allowed_hosts, *view.allowed_hosts)}
        seen_untrusted = effect.lowest_trust is Trust.UNTRUSTED
        words = words_of(view.user_content)
        free = [leaf for leaf in leaves if not (leaf.default or leaf.choice or leaf.inside or leaf.element)]
        places = [leaf for leaf in free if isinstance(leaf.value, str) and may_address(leaf.value)]
        if not places:
            # An address may be put together from words, where there are several.
            loose = [leaf for leaf in free if isinstance(leaf.value, str) and is_word(leaf.value)]
            loose = [leaf for leaf in loose if not words.hold(leaf.value)]
            return _composed(effect, loose) if seen_untrusted and len(loose) > 1 else _ALLOWED
        named = named_addresses(view.user_content)
        received: frozenset[str] | None = None
        trusted_place = True
        for leaf in places:
            address = str(leaf.value).strip(" \t\r\n")
            if host_of(address) in allowed:
                continue
            if same_place(address, named):
                continue
            trusted_place = False
            received = view.links() if received is None else received
            if same_place(address, received):
                if self._chosen_too_often(address, view, named, allowed):
                    return Verdict(
                        action="ask",
                        reason=(
                            f"{effect.name} would follow a link to {harmless(address, 200)}, on a host that you did "
                            f"not name, after {MOST_FOLLOWED} such links of this run (once it has seen private "
                            "content, which links are followed can carry data out)"
                        ),
                        arguments={leaf.path: effect.lowest_trust},
                    )
            else:
                return Verdict(
                    action="ask",
                    reason=(
                        f"{effect.name} would read {harmless(address, 200)}, which stands neither in your task nor in "
                        "a received link or search result (a composed address can carry data out)"
                    ),
                    arguments={leaf.path: effect.lowest_trust},
                )
        if not seen_untrusted or all(host_of(str(leaf.value)) in allowed for leaf in places):
            return _ALLOWED
        others = [leaf for leaf in free if leaf not in places and not words.hold(leaf.value)]
        if trusted_place:  # how much is to be read of it, and the like
            others = [leaf for leaf in others if isinstance(leaf.value, str)]
        return _composed(effect, others) if others else _ALLOWED

    def _chosen_too_often(self, address: str, view: PolicyView, named: frozenset[str], allowed: set[str]) -> bool:
        """Return True if a followed link is one of too many on hosts that nobody named: their choice tells something.

        What the framework's own search brought was chosen by the search engine.
        """
        if not view.private():
            return False
        found = {place_of(one) for one in view.found()}

        def counts(place: tuple[str, int | None, str] | None) -> bool:
            return (
                place is not None and place not in found and place[0] not in allowed and not is_site_of(place[0], named)
            )

        wanted = place_of(address)
        if not counts(wanted):
            return False
        received = {place_of(one) for one in view.links()}
        followed = {place for one in view.followed() if counts(place := place_of(one)) and place in received}
        return wanted not in followed and len(followed) >= MOST_FOLLOWED


def _lies_in(folder: Path, place: str) -> bool:
    """Return True if a place is below the run's folder; the task's files are links to what other runs read too."""
    path = Path(place)
    return path.is_relative_to(folder) and not path.is_relative_to(folder / FILES)


def _can_be_written(place: str) -> bool:
    data = place.encode("utf-8", "surrogatepass")
    return len(data) <= _LONGEST_PATH and all(len(name) <= _LONGEST_NAME for name in data.split(b"/"))


def _composed(effect: Effect, leaves: list[Leaf]) -> Verdict:
    names = ", ".join(harmless(leaf.path, 60) for leaf in leaves[:5])
    return Verdict(
        action="ask",
        reason=(
            f"{effect.name} would read from the network with {names} not taken from your task "
            "(what goes with a request can carry data out)"
        ),
        arguments={leaf.path: effect.lowest_trust for leaf in leaves},
    )


def _planned(effect: Effect, leaves: list[Leaf], view: PolicyView) -> Verdict | None:
    """Judge a call by what the user's words call for; None where there is no plan, or it knows nothing of the tool."""
    plan = view.plan()
    if plan is None or effect.called not in plan.known or any(leaf.site for leaf in leaves):
        return None
    words, trusted = words_of(view.user_content), [*view.trusted()]
    mine = frozenset(leaf.path for leaf in leaves if of_user(leaf, effect, words, view.user_content))
    genuine = frozenset(leaf.path for leaf in leaves if from_trusted_field(leaf, effect, trusted))
    doubts = outside(plan, effect, leaves, mine, view, genuine)
    if not doubts.call and not doubts.arguments:
        return _ALLOWED
    tags = ", ".join(sorted(tag.value for tag in effect.tags)) or "it does not say what it touches"
    said = [f"{harmless(path, 60)} {wrong}" for path, wrong in doubts.arguments.items()]
    more = f" and {len(said) - 5} more" if len(said) > 5 else ""
    return Verdict(
        action="ask",
        reason=f"{effect.called} ({tags}): {doubts.call or '; '.join(said[:5]) + more}",
        arguments=dict.fromkeys(doubts.arguments, effect.lowest_trust),
    )


def _sensitive(effect: Effect, leaves: list[Leaf], words: Words, view: PolicyView) -> Verdict:
    inherited = effect.lowest_trust
    if inherited is not Trust.UNTRUSTED:
        return _ALLOWED
    doubtful: dict[str, Trust] = {}
    meant = False
    known = _sends_nothing_new(effect, leaves, view)
    for leaf in leaves:
        if leaf.default or leaf.element:
            continue
        if leaf.site:
            if is_site_of(str(leaf.value), named_addresses(view.user_content)):
                meant = True
            else:
                doubtful[leaf.path] = inherited
        elif known or of_user(leaf, effect, words, view.user_content):
            meant = True
        elif not from_trusted_field(leaf, effect, view.trusted()):
            doubtful[leaf.path] = inherited
    if meant and not doubtful:
        return _ALLOWED
    tags = ", ".join(sorted(tag.value for tag in effect.tags)) or "it does not say what it touches"
    listed = [harmless(path, 60) for path in doubtful]
    names = ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
    untrusted = [one for one in effect.provenance if one.trust is Trust.UNTRUSTED]
    sources = listed_sources(untrusted, 3) or "untrusted content"
    what = f"with {names} not taken from your task but" if doubtful else "although nothing in your task names it,"
    return Verdict(
        action="ask", reason=f"{effect.name} ({tags}) would act {what} possibly from {sources}", arguments=doubtful
    )


def _sends_nothing_new(effect: Effect, leaves: list[Leaf], view: PolicyView) -> bool:
    """Return True if a call sends to sites that the user named, and all from outside that was in view came from there.

    Whatever it sends, those sites have already, or it is the user's words.
    """
    sites = [str(leaf.value) for leaf in leaves if leaf.site]
    named = named_addresses(view.user_content)
    if not sites or not all(is_site_of(one, named) for one in sites):
        return False
    theirs = {site_of(site) for site in sites}

    def is_theirs(one: Provenance) -> bool:
        # What the environment says in its own words (an action that failed) tells nothing of another site.
        own = one.kind == "environment" and (one.ref == effect.name or one.ref.startswith(f"{effect.name}_"))
        return own or (one.kind == "web" and site_of(one.ref) in theirs)

    return all(is_theirs(one) for one in effect.provenance if one.trust is Trust.UNTRUSTED)


def of_user(leaf: Leaf, effect: Effect, words: Words, content: tuple[str, ...]) -> bool:
    """Return True if a value stands in the user's words, and for this argument. A yes or no stands nowhere."""
    if isinstance(leaf.value, bool):
        return False
    if words.hold(leaf.value):
        return stands_for(leaf, effect, content)
    text = leaf.value if isinstance(leaf.value, str) else ""
    return "://" in text and same_place(text, named_addresses(content))


class AllowAll:
    """Allows everything: for tests and trusted batch work; the log still records every effect."""

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        return _ALLOWED

    def alone(self, effect: Effect, view: PolicyView) -> bool:
        return True
