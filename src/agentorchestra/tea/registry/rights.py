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


def check_rights(label: str, before: Rights, after: Rights) -> None:
    """Raise CandidateError, which names the right, where `after` allows more than `before`.

    Args:
        what: the component, for the sentence.
        before, after: of the version that is replaced, and of the candidate.
    """
    for name, earlier in before.items():
        later = after.get(name)
        if isinstance(earlier, frozenset) and isinstance(later, frozenset):
            more = sorted(later - earlier)
            if more:
                raise _refusal(label, name, f"{', '.join(more)} too; now it has {_join(earlier)}")
        elif isinstance(earlier, float) and isinstance(later, float):
            if later > earlier:
                raise _refusal(label, name, f"{later:g}; now it has {earlier:g}")
        elif earlier != later:
            raise _refusal(label, name, f"{later}; now it has {earlier}")


def _refusal(label: str, right: str, extent: str) -> CandidateError:
    return CandidateError(
        f"the candidate for {label} would have other rights: {right} {extent}. A candidate has the rights of what it "
        "replaces; give more by registering the component yourself"
    )


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
