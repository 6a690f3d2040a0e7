"""A new text for a variable, from what was said of it: asked for, checked by code, asked for again if refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.forms import TEXT, Question, Questioner, form, limit_status, material
from agentorchestra.agents.optimiser.constraints import GUARD, check_text, longest, required
from agentorchestra.agents.optimiser.evidence import Limits, Variable, change, cut
from agentorchestra.core.content import Block, Trust, block_from
from agentorchestra.core.errors import ProposalError
from agentorchestra.core.spec import AgentResult, RunStatus

STEP = "optimiser_step"

_FORM = form(["text"], reason=TEXT, text=TEXT)

Trial = Callable[[Variable, str], Awaitable[str]]  # tries a new text, and returns what is wrong with it, "" for nothing


@dataclass(frozen=True)
class Wanted:
    """A variable that is to be changed, and what was said of it: one text for each run."""

    variable: Variable
    feedback: tuple[str, ...]


@dataclass
class Revision:
    questioner: Questioner  # of the optimiser
    limits: Limits  # within which a text is changed
    trial: Trial | None = None  # tries what passed the constraints; None for no trial
    left: list[str] = field(default_factory=list)  # sentences on variables that stay as they are

    async def run(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        open_: dict[int, tuple[str, str]] = dict.fromkeys(range(len(wanted)), ("", ""))
        for _ in range(self.limits.attempts):
            if not open_:
                break
            asked = [self._question(wanted[place], *tried) for place, tried in open_.items()]
            replies = await self.questioner.all(asked)
            again: dict[int, tuple[str, str]] = {}
            for place, reply in zip([*open_], replies, strict=True):
                one = wanted[place].variable
                if reply is None:
                    why = self.questioner.limited or "the model gave no text"
                    self.left.append(f"{one.key} stays as it is: {why}.")
                    continue
                text = str(reply["text"])
                problem = await self._problem(one, text)
                if problem:
                    again[place] = (text, problem)
                elif text.strip() == one.text.strip():
                    self.left.append(f"{one.key} stays as it is: {reply.get('reason') or 'nothing is to be changed'}")
                else:
                    said = "\n\n".join(wanted[place].feedback)
                    found[place] = change(one, text, str(reply.get("reason") or ""), said)
            open_ = again
        for place, (_, problem) in open_.items():
            self.left.append(f"{wanted[place].variable.key} stays as it is: {problem}")
        return [found[place] for place in sorted(found)]

    async def _problem(self, variable: Variable, text: str) -> str:
        """Return what is wrong with a text, "" for nothing."""
        try:
            check_text(variable, text, self.limits)
        except ProposalError as exc:
            return str(exc)
        if self.trial is None or text.strip() == variable.text.strip():
            return ""
        return await self.trial(variable, text)

    def _question(self, wanted: Wanted, before: str, problem: str) -> Question:
        one = wanted.variable
        room = self.limits.chars // 3
        values = {
            "role": one.role or "text",
            "description": one.description,
            "code": one.is_code,
            "required": [f"{{{{ {name} }}}}" for name in required(one)],
            "guarded": GUARD in one.text,
            "most": longest(one, self.limits),
            "again": bool(problem),
            "earlier": bool(one.past),
        }
        content: list[Block] = [*shown("The text as it is now:", one.text, one.key)]
        if one.is_code and one.source:
            content += shown("The file that it stands in, for what it may use:", cut(one.source, room), one.key)
        for each in one.past[-3:]:
            head = "An earlier version" + ("" if each.score is None else f", which scored {each.score:g}")
            content += shown(f"{head}:", cut(each.text, room // 3), one.key)
            if each.feedback:
                content += shown("What was said of that version:", cut(each.feedback, room // 3), one.key)
        share = max(1, room // max(1, len(wanted.feedback)))
        for number, said in enumerate(wanted.feedback, start=1):
            content += shown(
                f"What was said of a run and of this text's part in it ({number}):", cut(said, share), "feedback"
            )
        if problem:
            content += shown("Your last text, which was refused:", cut(before, room), "proposal")
            content += shown("Why it was refused:", cut(problem, room), "proposal")
        return Question(STEP, _FORM, values, tuple(content))


def shown(head: str, text: str, ref: str) -> list[Block]:
    """Return a heading of ours, and words as material."""
    return [block_from(head, trust=Trust.SYSTEM), material(text or "(empty)", ref)]


def proposed(
    questioner: Questioner, report: str, changes: Sequence[dict[str, Any]] = (), *, blocked: bool = False
) -> AgentResult:
    """Return the result of an optimiser: its changes, and what was said on the way; `blocked`: it could not begin."""
    status = RunStatus.BLOCKED if blocked else RunStatus.COMPLETED
    if questioner.limited:
        status = limit_status(questioner.limited)
        report = f"{report}\n\nThe budget ended it: {questioner.limited}".strip()
    names = ", ".join(f"{one['component']}/{one['variable']}" for one in changes)
    answer = f"Proposed for {names}." if changes else "Nothing is proposed."
    return AgentResult(status=status, answer=answer, output=[*changes], report=report)
