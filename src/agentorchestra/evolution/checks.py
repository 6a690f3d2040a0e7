"""Checks by code of what an optimiser proposes, before anything is registered or spent on it.

Each text is checked against the one that it replaces (`agents/optimiser/constraints.py`). Besides, no text may hold
words of the questions and answers that are held apart. These never stand in an optimiser's request; that they are not
in its proposal either is the second net, for texts that a model knows from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pydantic import BaseModel

from agentorchestra.agents.optimiser.constraints import check_text
from agentorchestra.agents.optimiser.evidence import Limits, Variable
from agentorchestra.core.errors import OverlapError, ProposalError
from agentorchestra.core.ids import sha256_text
from agentorchestra.evolution.optimiser import TextChange

WORDS = 8  # words in a row that no text has by chance
SHORTEST = 4  # characters of a short answer below which it says nothing that it stands in a text

_COMMON = frozenset({"true", "false", "none", "null", "unknown"})


class HeldApart(BaseModel, frozen=True, extra="forbid"):
    """Texts that no proposal may hold words of, as SHA-256 of their words in a row, by how many these are.

    Make it with `of`. Nobody can read the texts in it.
    """

    hashes: dict[int, frozenset[str]] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> HeldApart:
        """Return it for questions and answers; of a text with at most `WORDS` words the whole of it counts."""
        hashes: dict[int, set[str]] = {}
        for text in texts:
            words = _words(text)
            short = " ".join(words)
            if len(short) < SHORTEST or short in _COMMON:
                continue
            size = min(WORDS, len(words))
            hashes.setdefault(size, set()).update(_hashes(words, size))
        return cls(hashes={size: frozenset(sums) for size, sums in sorted(hashes.items())})

    def stands_in(self, text: str, *, before: str = "") -> bool:
        """Return True if a text holds words of them that the text before did not hold."""
        words, old = _words(text), _words(before)
        return any((set(_hashes(words, size)) & sums) - set(_hashes(old, size)) for size, sums in self.hashes.items())


def check_changes(
    variables: Sequence[Variable],  # that may change, with their present texts
    changes: Sequence[TextChange],  # as an optimiser lists them
    *,
    limits: Limits | None = None,  # within which texts change
    apart: HeldApart | None = None,  # the questions and answers of the validation
) -> None:
    """Check what is proposed.

    Raises:
        ProposalError: a change of what may not change, or two of one variable; its subclasses as `check_text` raises
            them; OverlapError, which does not tell the words.
    """
    by_key = {variable.key: variable for variable in variables}
    seen: set[str] = set()
    for change in changes:
        key = f"{change.component}/{change.variable}"
        if key not in by_key:
            raise ProposalError(f"a change of {key} is proposed, which may not change; {', '.join(by_key)} may")
        if key in seen:
            raise ProposalError(f"two changes of {key} are proposed; one is taken, so propose one")
        seen.add(key)
        check_text(by_key[key], change.text, limits or Limits())
        if apart is not None and apart.stands_in(change.text, before=by_key[key].text):
            raise OverlapError(
                f"the new text for {key} holds words of a question or an answer that is held apart; write what helps "
                "with every task"
            )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _hashes(words: Sequence[str], size: int) -> Iterator[str]:
    for at in range(len(words) - size + 1):
        yield sha256_text(" ".join(words[at : at + size]))
