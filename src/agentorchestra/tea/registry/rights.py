"""The rights of a component: a candidate has no more of them than the version that it is to replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentorchestra.core.errors import CandidateError

TOUCHES = "what it touches"
MODE = "mode"
EVOLVABLE = "what may be optimised"
INVOKERS = "who may invoke it:"

Rights = Mapping[str, Any]
"""The rights of a component by name: a set of what it may touch or use, a limit that it keeps (None for none), or a
property that must stay as it is."""


def check_rights(what: str, before: Rights, after: Rights) -> None:
    """Raise CandidateError, which names the right, where `after` allows more than `before`.

    Args:
        what: the component, for the sentence.
        before, after: of the version that is replaced, and of the candidate.
    """
    for name, had in before.items():
        has = after.get(name)
        if isinstance(had, frozenset) and isinstance(has, frozenset):
            more = sorted(has - had)
            if more:
                raise _refused(what, name, f"{', '.join(more)} too; now it has {_listed(had)}")
        elif isinstance(had, float) and isinstance(has, float):
            if has > had:
                raise _refused(what, name, f"{has:g}; now it has {had:g}")
        elif had != has:
            raise _refused(what, name, f"{has}; now it has {had}")


def _refused(what: str, right: str, how: str) -> CandidateError:
    return CandidateError(
        f"the candidate for {what} would have other rights: {right} {how}. A candidate has the rights of what it "
        "replaces; give more by registering the component yourself"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
