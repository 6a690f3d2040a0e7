"""A new text for a variable, from what was said of it: asked for, checked by code, asked for again if refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.forms import TEXT, Inquiry, Questioner, form, limit_status, material
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

    async def run(self, targets: Sequence[Wanted]) -> list[dict[str, Any]]:
        changes: dict[int, dict[str, Any]] = {}
        open_: dict[int, tuple[str, str]] = dict.fromkeys(range(len(targets)), ("", ""))
        for _ in range(self.limits.attempts):
            if not open_:
                break
            questions = [self._question(targets[place], *attempt) for place, attempt in open_.items()]
            replies = await self.questioner.all(questions)
            again: dict[int, tuple[str, str]] = {}
            for place, reply in zip([*open_], replies, strict=True):
                variable = targets[place].variable
                if reply is None:
                    reason = self.questioner.limited or "the model gave no text"
                    self.left.append(f"{variable.key} stays as it is: {reason}.")
                    continue
                text = str(reply["text"])
                problem = await self._problem(variable, text)
                if problem:
                    again[place] = (text, problem)
                elif text.strip() == variable.text.strip():
                    self.left.append(
                        f"{variable.key} stays as it is: {reply.get('reason') or 'nothing is to be changed'}"
                    )
                else:
                    feedback = "\n\n".join(targets[place].feedback)
                    changes[place] = change(variable, text, str(reply.get("reason") or ""), feedback)
            open_ = again
        for place, (_, problem) in open_.items():
            self.left.append(f"{targets[place].variable.key} stays as it is: {problem}")
        return [changes[place] for place in sorted(changes)]

    async def _problem(self, variable: Variable, text: str) -> str:
        """Return what is wrong with a text, "" for nothing."""
        try:
            check_text(variable, text, self.limits)
        except ProposalError as exc:
            return str(exc)
        if self.trial is None or text.strip() == variable.text.strip():
            return ""
        return await self.trial(variable, text)

    def _question(self, target: Wanted, before: str, problem: str) -> Inquiry:
        variable = target.variable
        room = self.limits.chars // 3
        values = {
            "role": variable.role or "text",
            "description": variable.description,
            "code": variable.is_code,
            "required": [f"{{{{ {name} }}}}" for name in required(variable)],
            "guarded": GUARD in variable.text,
            "most": longest(variable, self.limits),
            "again": bool(problem),
            "earlier": bool(variable.past),
        }
        content: list[Block] = [*titled_material("The text as it is now:", variable.text, variable.key)]
        if variable.is_code and variable.source:
            content += titled_material(
                "The file that it stands in, for what it may use:", cut(variable.source, room), variable.key
            )
        for version in variable.past[-3:]:
            head = "An earlier version" + ("" if version.score is None else f", which scored {version.score:g}")
            content += titled_material(f"{head}:", cut(version.text, room // 3), variable.key)
            if version.feedback:
                content += titled_material(
                    "What was said of that version:", cut(version.feedback, room // 3), variable.key
                )
        share = max(1, room // max(1, len(target.feedback)))
        for number, feedback in enumerate(target.feedback, start=1):
            content += titled_material(
                f"What was said of a run and of this text's part in it ({number}):", cut(feedback, share), "feedback"
            )
        if problem:
            content += titled_material("Your last text, which was refused:", cut(before, room), "proposal")
            content += titled_material("Why it was refused:", cut(problem, room), "proposal")
        return Inquiry(STEP, _FORM, values, tuple(content))


def titled_material(head: str, text: str, ref: str) -> list[Block]:
    """Return a heading of ours, and words as material."""
    return [block_from(head, trust=Trust.SYSTEM), material(text or "(empty)", ref)]


def proposal_result(
    questioner: Questioner, report: str, changes: Sequence[dict[str, Any]] = (), *, is_blocked: bool = False
) -> AgentResult:
    """Return the result of an optimiser: its changes, and what was said on the way; `is_blocked`: it never began."""
    status = RunStatus.BLOCKED if is_blocked else RunStatus.COMPLETED
    if questioner.limited:
        status = limit_status(questioner.limited)
        report = f"{report}\n\nThe budget ended it: {questioner.limited}".strip()
    names = ", ".join(f"{row['component']}/{row['variable']}" for row in changes)
    answer = f"Proposed for {names}." if changes else "Nothing is proposed."
    return AgentResult(status=status, answer=answer, output=[*changes], report=report)
