"""Whether a planner's answer is taken: its sources, its figures, another agent's word, a judge's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.evidence import (
    MOST_CHECKS,
    Found,
    citations,
    evidence_block,
    figures,
    is_last,
    listed,
    misquoted,
    results_before,
    unfound,
    without,
)
from agentorchestra.agents.kit import Kit, ask_model, window_of
from agentorchestra.agents.leading.revising import told_in
from agentorchestra.agents.leading.verifying import Doubt, Verifier
from agentorchestra.agents.showing import files_shown
from agentorchestra.core.content import Block, Source, TextBlock, Trust, text_of
from agentorchestra.core.errors import OutputError
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.loop import State
from agentorchestra.models.prices import CHARS_PER_TOKEN
from agentorchestra.models.render import render_block
from agentorchestra.runtime.session import Session
from agentorchestra.tea.structured import read_output

VERDICT = {
    "type": "object",
    "properties": {"supported": {"type": "boolean"}, "problem": {"type": "string"}},
    "required": ["supported"],
}
"""What the judge is asked to reply (prompt `verify`)."""

ENDED = (RunStatus.COMPLETED, RunStatus.PARTIAL)

EVIDENCE_SHARE = 0.5
"""Part of the judge's window that what was found may take."""


@dataclass
class Check:
    """An `observe` part: an answer is taken when it holds; else the planner hears what is wrong with it.

    Attributes:
        task: the user's.
        kit: see Kit.
        verifier: asks another agent about what one agent alone found on the web; None where nobody is to be asked.
        material: the files that stand in the planner's own prompt: it may answer from them itself.
        sent_back: how many answers were.
        doubt: what is still wrong with the answer that was taken.
        told: what the user added.
    """

    task: str
    kit: Kit
    verifier: Verifier | None = None
    material: tuple[Block, ...] = ()
    sent_back: int = field(default=0, init=False)
    doubt: str = field(default="", init=False)
    told: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, state: State, session: Session[Any]) -> State:
        """The state; without its result where the answer has to be corrected, without sources that do not hold."""
        result, self.told = state.result, told_in(state)
        if result is None:
            return state
        found = results_before(session, upto=session.asked + 1)
        prompt = self.kit.prompts.get("verification")
        bad = await misquoted(result.sources, session)
        if found:
            looked_up = files_shown(self.material)  # by code, word for word
            strangers = unfound([one for one in result.sources if one.source not in looked_up], citations(found))
            bad += [one for one in strangers if one not in bad]
        strange, doubt = [], Doubt()
        # What an agent found for the task as it was is no proof that it answers the one that it has become.
        plain = bool(found) and evident(result, found) and not self.told
        if found and result.status in ENDED:
            # Figures are a matter of a look; what remains of them after that is the judge's to decide.
            judged = result.status is RunStatus.COMPLETED and not plain
            strange = self._strange(result, state, session) if judged and self.sent_back == 0 else []
            if not bad and not strange and state.limited is None:
                doubt = await self.doubted(result, session, found, judged=judged)
        if (bad or strange or doubt.text) and self.sent_back < MOST_CHECKS and not is_last(state):
            self.sent_back += 1
            problem = prompt.render(unsupported=listed(bad), figures=strange, doubt=doubt.text, left_out=[])
            return state.model_copy(
                update={"result": None, "problem": problem, "messages": (*state.messages, *doubt.messages)}
            )
        self.doubt = doubt.said
        return state.model_copy(update={"result": without(result, bad, prompt)})

    async def doubted(
        self, result: AgentResult, session: Session[Any], found: Sequence[Found], *, judged: bool
    ) -> Doubt:
        """What another agent has against the answer, or the judge where there is none who could say.

        Args:
            result: the answer.
            session: the planner's.
            found: what the agents gave back so far.
            judged: whether the judge is asked though nothing had to be verified.
        """
        said = None
        if self.verifier is not None and self.verifier.wanted(result, found):
            said = await self.verifier(result, session, found, told=self.told)
            judged = said is None  # nobody could say: the judge decides by what was found
        if said is not None:
            return said
        problem = await self._judge(result, session, found) if judged else ""
        if not problem:
            return Doubt()
        text = "A judge, who was shown the answer and what the team found, does not take it; its words stand above."
        return Doubt.of(text, problem, "judge", Trust.UNTRUSTED)

    def _strange(self, result: AgentResult, state: State, session: Session[Any]) -> list[str]:
        """Figures of the answer that neither the user nor an agent gave, nor the files that the planner was shown."""
        given = [self.task, *self.told, text_of(self.material)]
        given += [message.text for message in state.messages if message.role == "tool" and message.name == "python"]
        given += [f"{one.task}\n{one.answer}" for one in session.manifest.earlier]
        for _, one, _ in results_before(session, upto=session.asked + 1):
            given += [one.answer, one.report, *(f"{cited.place}\n{cited.quote}" for cited in one.sources)]
        known = figures("\n".join(given))
        return [written for form, written in figures(result.answer).items() if form not in known]

    async def _judge(self, result: AgentResult, session: Session[Any], found: Sequence[Found]) -> str:
        """What is wrong with an answer, "" where nothing is."""
        prompt = self.kit.prompts.get("verify")
        room = int(window_of(judge_of(session), session, self.kit) * CHARS_PER_TOKEN * EVIDENCE_SHARE)
        values: dict[str, Any] = {
            "task": self.task,
            "told": list(self.told),
            "answer": result.answer,
            "cited": render_block(_cited(result)),
            "sources": [one.model_dump(mode="json") for one in result.sources],
            "evidence": "\n".join(map(render_block, (evidence_block(found, most=room), *self.material))),
        }
        if "told" not in prompt.variables:
            values["task"] = "\n".join((self.task, *self.told))
        # A copy of the prompt, or a run that is pinned to it, may be from before it had one of them.
        asked = prompt.render(**{name: one for name, one in values.items() if name in prompt.variables})
        said = await ask_model(
            "judge", asked, session, self.kit, purpose="judge", trust=Trust.UNTRUSTED, output_schema=VERDICT
        )
        try:
            verdict = read_output(said, VERDICT)
        except OutputError:
            return ""  # a judge that says nothing readable doubts nothing
        if not isinstance(verdict, dict) or verdict.get("supported") is not False:
            return ""
        return str(verdict.get("problem") or "it does not follow from what was found")


def judge_of(session: Session[Any]) -> str:
    """The model that judges."""
    role = session.manifest.roles.get("judge")
    return (role.model if role is not None else "") or session.model


def _cited(result: AgentResult) -> Block:
    """The sources of an answer as material: their words are those of pages and files."""
    lines = [f"- {one['source']} ({one['place']}): {one['quote']}" for one in listed(result.sources)]
    source = Source(kind="agent", ref="planner")
    return TextBlock(text="\n".join(lines) or "nothing", source=source, trust=Trust.UNTRUSTED)


def evident(result: AgentResult, found: Sequence[Found]) -> bool:
    """Whether an answer is word for word what one agent found and could prove: then nobody need judge it."""
    answer = plain(result.answer)
    return any(
        one.status is RunStatus.COMPLETED
        and one.sources
        and answer
        and answer in (plain(one.answer), plain(one.report))
        for _, one, _ in found
    )


def plain(text: str) -> str:
    """For comparison: without regard to white space and case."""
    return " ".join(text.split()).casefold()


__all__ = ["ENDED", "VERDICT", "Check", "evident", "plain"]
