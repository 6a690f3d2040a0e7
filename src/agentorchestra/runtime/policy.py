"""The shipped default policy (docs/door.md, "Policy and trust").

Allowed whatever their trust: reading, sandboxed execution without network, writing inside the run's folder. Asked when
an argument does not stem from the user: sending, spending, writing outside, network from code. A network read is
allowed if its address stands verbatim in the user's content, in a received link or search result, or its host is
allowed; a composed address asks, since it can carry data out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Tag
from agentorchestra.core.policy import PolicyView, Verdict
from agentorchestra.core.settings import PolicySettings

URL = re.compile(r"\b(?:https?|ftp|file)://[^\s<>\"'`\\]+", re.IGNORECASE)
_HOST = re.compile(
    r"(?://)?(?:[\w.~%-]+@)?(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:[/?#]\S*)?|//\S+|\d+(?:\.\d+){3}\S*", re.IGNORECASE
)
_TRAILING = ".,;:!?)]}'\""
_ALLOWED = Verdict()
_JUDGED = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE, EffectKind.WRITE_MEMORY})


def normalise(text: str) -> str:
    """Text for comparison: NFKC, case folded, white space and surrounding punctuation dropped."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", text).strip(" .,;:!?\"'()[]{}")


def links_in(text: str) -> set[str]:
    """The addresses that stand verbatim in a text."""
    return {match.group().rstrip(_TRAILING) for match in URL.finditer(text)}


def _stands_in(wanted: str, content: str) -> bool:
    """Whether a value stands in a text as a whole: 10 does not stand in 100, nor B in Bob."""
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", content) is not None


def addresses(text: str) -> set[str]:
    """What a value of an argument may address: links, and names of hosts without a scheme."""
    found = links_in(text)
    bare = text.strip()
    if not found and _HOST.fullmatch(bare):
        found.add(bare)
    return found


def leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of every string and number inside an argument."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not str(key).isidentifier():  # names of fields are the tool's, other keys are the caller's data
                yield f"{path} key", str(key)
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, str(value)


class DefaultPolicy:
    """The documented default.

    Args:
        settings: what the workspace opens or closes by name.
        folder: the run's folder: writing inside it needs no question.
    """

    def __init__(self, settings: PolicySettings | None = None, *, folder: Path | None = None) -> None:
        self._settings = settings or PolicySettings()
        self._folder = folder

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Allow, ask or deny the effect; the reason names the rule and the arguments."""
        if effect.name in self._settings.deny:
            return Verdict(action="deny", reason=f"{effect.name!r} is denied by the workspace's policy settings")
        if effect.kind not in _JUDGED or effect.name in self._settings.allow:
            return _ALLOWED
        outside = list(self._outside(effect)) if Tag.WRITE in effect.tags else []
        network_code = Tag.NETWORK in effect.tags and bool({Tag.EXECUTE, Tag.WRITE} & effect.tags)
        sensitive = bool({Tag.SEND, Tag.SPEND} & effect.tags) or network_code or bool(outside)
        if sensitive:
            return self._sensitive(effect, view)
        if Tag.NETWORK in effect.tags:
            return self._network_read(effect, view)
        return _ALLOWED

    def _outside(self, effect: Effect) -> Iterator[str]:
        for path, text in leaves(dict(effect.arguments)):
            if "://" in text or "\n" in text or len(text) > 4096:
                continue
            candidate = Path(text)
            if not candidate.is_absolute() and ".." not in candidate.parts and not text.startswith("~"):
                continue
            if self._folder is not None and candidate.is_absolute():
                try:
                    if candidate.resolve().is_relative_to(self._folder.resolve()):
                        continue
                except OSError:
                    pass  # not a path this machine can resolve: treat it as outside
            yield path

    def _sensitive(self, effect: Effect, view: PolicyView) -> Verdict:
        known = [normalise(text) for text in view.user_content]
        inherited = effect.lowest_trust
        doubtful: dict[str, Trust] = {}
        for path, text in leaves(dict(effect.arguments)):
            wanted = normalise(text)
            if wanted and inherited is Trust.UNTRUSTED and not any(_stands_in(wanted, content) for content in known):
                doubtful[path] = inherited
        if not doubtful:
            return Verdict()
        tags = ", ".join(sorted(tag.value for tag in effect.tags))
        names = ", ".join(doubtful)
        sources = sorted({f"{p.kind} {p.ref}".strip() for p in effect.provenance if p.trust is Trust.UNTRUSTED})
        return Verdict(
            action="ask",
            reason=(
                f"{effect.name} ({tags}) would act with {names} not taken from your task "
                f"but possibly from {', '.join(sources[:3]) or 'untrusted content'}"
            ),
            arguments=doubtful,
        )

    def _network_read(self, effect: Effect, view: PolicyView) -> Verdict:
        allowed = {host.casefold() for host in (*self._settings.allowed_hosts, *view.allowed_hosts)}
        known: set[str] | None = None
        # An address without a scheme is known if it stands as it is in the user's words.
        named = view.user_content
        for path, text in leaves(dict(effect.arguments)):
            for address in addresses(text):
                whole = address if "://" in address else f"https://{address.removeprefix('//')}"
                host = (urlsplit(whole).hostname or "").casefold()
                if host in allowed:
                    continue
                if known is None:
                    known = {link for content in view.user_content for link in links_in(content)} | view.links()
                bare = "" if "://" in address else normalise(address.removeprefix("//"))
                if address not in known and not (bare and any(_stands_in(bare, normalise(one)) for one in named)):
                    return Verdict(
                        action="ask",
                        reason=(
                            f"{effect.name} would read {address}, which stands neither in your task nor in a received "
                            "link or search result (a composed address can carry data out)"
                        ),
                        arguments={path: effect.lowest_trust},
                    )
        return Verdict()


class AllowAll:
    """Allows everything: for tests and trusted batch work; the log still records every effect."""

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Allow."""
        return _ALLOWED
