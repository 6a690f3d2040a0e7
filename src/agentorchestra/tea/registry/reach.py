"""The reach of a change in a recorded run: the first effect that another version of a component could have changed.

Up to there both versions do the same, so a fork at that place loses nothing (docs/fork.md). Where the log cannot tell,
an earlier effect is named rather than a later one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Ledger
from agentorchestra.tea.prompts.prompt import literals
from agentorchestra.tea.registry.history import Version
from agentorchestra.tea.retrieval.discovery import OPENING

_CALLS = {
    "tool": (EffectKind.INVOKE_TOOL,),
    "environment": (EffectKind.INVOKE_ACTION,),
    "agent": (EffectKind.INVOKE_AGENT, EffectKind.SPAWN),
}
_MEMORY = (EffectKind.READ_MEMORY, EffectKind.WRITE_MEMORY)


class Affected(NamedTuple):
    """The first effect that a change can touch."""

    key: str  # of the effect
    at: int  # the last event before it: `Workspace.fork(run, at=at)` begins it anew


def first_affected(
    ledger: Ledger, before: Version, after: Version, *, template: str = "", peers: Iterable[str] = ()
) -> Affected | None:
    """Return the first effect that one version of a component can change against another, None for no effect.

    Code of a tool acts when it is invoked, its words when a request shows them; a prompt when something was rendered
    from it; an agent when it is invoked; a memory system when it is read or written; an environment when an agent acts
    on it or looks at it.

    Args:
        before: the version that the run had.
        after: the other one.
        template: of a prompt, as the run had it.
        peers: the templates of the run's other prompts.
    """
    touches = [*_tests(before, after, template, peers)]
    hits = [
        (record.began or record.seq, key)
        for key, record in ledger.records.items()
        if touches and any(test(ledger.codec.decode(record.effect)) for test in touches)
    ]
    if not hits:
        return None
    seq, key = min(hits, key=lambda hit: (hit[0], hit[1]))
    return Affected(str(EffectKey(key.branch, key.n)), seq - 1)


def _tests(before: Version, after: Version, template: str, peers: Iterable[str]) -> Iterator[Callable[[Effect], bool]]:
    old, new = before.config, after.config
    kind, name = old.kind, old.name
    if before.version == after.version:
        return
    if kind == "prompt":
        lines = _only_here(template, peers)
        yield lambda effect: any(line in text for text in _texts(effect) for line in lines)
        return
    if kind == "memory":
        yield lambda effect: effect.kind in _MEMORY or effect.purpose == "memory"
        return
    if (old.description, old.rules, old.operations) != (new.description, new.rules, new.operations):
        names = {name, *(f"{name}_{operation.name}" for operation in (*old.operations, *new.operations))}
        yield lambda effect: _shows(effect, names)
    if _code(before) != _code(after):
        yield lambda effect: effect.kind in _CALLS[kind] and effect.name == name


def _code(version: Version) -> Any:
    """Return what a version is made of besides its words."""
    maker = version.maker
    if maker is None:
        return version.config.content_hash, ""
    if maker.how == "given":
        return maker.base, version.source
    return version.source, {key: value for key, value in maker.fields.items() if key != "description"}


def _shows(effect: Effect, names: set[str]) -> bool:
    """Return True for a request that shows one of these names, or where searches choose what is shown."""
    if effect.request is None:
        return False
    tool_names = {tool.name for tool in effect.request.tools}
    if tool_names & (names | OPENING):
        return True
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")
    return any(words.search(text) for text in _texts(effect))


def _texts(effect: Effect) -> Iterator[str]:
    if effect.request is not None:
        for message in effect.request.messages:
            yield " ".join(message.text.split())
    waiting: list[Any] = [effect.arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield " ".join(value.split())
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _only_here(template: str, peers: Iterable[str]) -> Sequence[str]:
    """Return lines that stand in every text rendered from a template, if there are any in no other template's."""
    lines = literals(template)
    shared = {line for other in peers for line in literals(other)}
    return [line for line in lines if line not in shared] or lines or ("",)  # "" stands in every text
