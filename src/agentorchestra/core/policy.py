"""The types of policy: what is asked of it and what it says. The shipped default lives in trust/policy.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect


class PolicyView(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """The view of policy besides the effect.

    Attributes:
        user_content: the user's own words in this run: the task, answers, what was told (never files' contents).
        links: lazily, the addresses seen verbatim in user content, received results and search results.
        found: lazily, those of `links` that the framework's own search brought.
        followed: lazily, the addresses that network reads of the run were allowed to read so far.
        private: lazily, whether the run has seen content that is not from the network: files of the task, memory,
            earlier tasks of the session, results of tools that are no network reads.
        trusted: lazily, what trusted fields of results hold that the branch of the effect has seen: name of the field
            and value.
        allowed_hosts: hosts the settings open for reading.
        folder: the run's folder; None outside of runs.
    """

    user_content: tuple[str, ...] = ()
    links: Callable[[], frozenset[str]] = frozenset
    found: Callable[[], frozenset[str]] = frozenset
    followed: Callable[[], frozenset[str]] = frozenset
    private: Callable[[], bool] = bool
    trusted: Callable[[], Iterable[tuple[str, str | int | float]]] = tuple
    allowed_hosts: frozenset[str] = frozenset()
    folder: Path | None = None


class Verdict(BaseModel, frozen=True):
    """Policy's word on one effect.

    Attributes:
        action: `allow`, `ask` a human, `deny`.
        reason: one sentence that names the rule and the argument.
        arguments: for `ask`: argument -> where it came from (trust), for the question.
    """

    action: Literal["allow", "ask", "deny"] = "allow"
    reason: str = ""
    arguments: dict[str, Trust] = {}


class Policy(Protocol):
    """Decides before anything is reserved or done (docs/security.md, "A policy of your own").

    `decide` reads no clock, no file and no network, so that a run that goes on decides as before.
    """

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Allow, ask or deny this effect."""
