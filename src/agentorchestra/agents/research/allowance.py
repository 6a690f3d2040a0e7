"""The time and the tokens of a research. After that nothing is begun but the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agentorchestra.agents.forms import Questioner
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.runtime.context import BranchContext

_MOST_NAMED = 20
_LONGEST_NAME = 200


@dataclass
class ResearchAllowance:
    """Time and tokens of one research.

    Time passes by the recorded ends of its effects, so that a resume and a replay stop where the run did. What has
    begun may end. What was not begun any more is `left_out`, in words.
    """

    ctx: BranchContext[Any]
    limits: ResearchSettings
    questioner: Questioner
    left_out: list[str] = field(default_factory=list, init=False)
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.ctx.now
        self.questioner.over = lambda: bool(self.used_up)
        if self.limits.seconds:
            self.questioner.begin_by = self._began + timedelta(seconds=self.limits.seconds)

    @property
    def used_up(self) -> str:
        """Return why nothing more is begun, "" while something may."""
        if self.limits.tokens and self.questioner.tokens >= self.limits.tokens:
            return f"The search ended after {self.questioner.tokens:,} tokens."
        elapsed = (self.ctx.now - self._began).total_seconds()
        if self.limits.seconds and elapsed >= self.limits.seconds:
            return f"The search ended after {elapsed:.0f} s."
        return ""

    def ends(self, subject: str, names: Sequence[str] = ()) -> bool:
        """Return True if it is used up; note that these are left out then (`what`: `not read`)."""
        if not self.used_up:
            return False
        self.leave(subject, names)
        return True

    def leave(self, subject: str, names: Sequence[str] = ()) -> None:
        self.left_out += [f"{subject}: {name[:_LONGEST_NAME]}" for name in names] or [subject]

    def sentence(self) -> str:
        """Return what was left out, a sentence for the report; "" for nothing."""
        more = len(self.left_out) - _MOST_NAMED
        names_text = "; ".join(self.left_out[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        return f"Left out for it: {names_text}." if names_text else ""
