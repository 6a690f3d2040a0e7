"""Debate: a manager invites experts, who argue in rounds and answer each other; it concludes (000, app. G.2).

The workflow is code: who is invited, whose turn it is, what is passed on, when it ends, and whether a conclusion says
what was said. Each turn is an InvokeAgent and each question of the manager's a request, so a resume goes on where the
debate was, and nothing that was said is asked or paid twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from agentorchestra.agents.agent import Agent, Delegate, agent_effect, is_top
from agentorchestra.agents.citations import SORTING, look_up
from agentorchestra.agents.debate.conclusion import ClaimCheck, Conclusion, conclusion_schema, report
from agentorchestra.agents.debate.experts import DEBATE, GUEST
from agentorchestra.agents.debate.invitation import (
    MOST_ROUNDS,
    candidates,
    candidates_block,
    check_options,
    named_experts,
    named_in,
    seat,
)
from agentorchestra.agents.debate.statements import LONGEST, DebateTurn, Expert, said_so_far, turn_of, turn_schema
from agentorchestra.agents.forms import FLAG, TEXT, TEXTS, Inquiry, Limited, Questioner, form, limit_status, material
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Trust, lowest, text_of
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.errors import UsageError
from agentorchestra.core.settings import DebateSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State, inbox
from agentorchestra.runtime.context import BranchContext

NAME = DEBATE
ROLE = "debate"
TURN = "turn"  # how the purpose of a turn's InvokeAgent begins; the letter of the expert follows
MOST_ARGUMENTS = 3  # that an expert brings in one turn
FAILURES = 2  # turns in a row without a word after which an expert is asked no more

PLAN = form(["issues"], issues=TEXTS)
INVITATION = form(["issues"], issues=TEXTS, experts=TEXTS)
JUDGEMENT = form(["summary", "agreed", "new"], summary=TEXT, agreed=FLAG, new=FLAG, focus=TEXT)
_ENDS = (RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT)


@dataclass
class _Debate:
    spec: AgentSpec
    ctx: BranchContext[Any]
    kit: Kit
    limits: DebateSettings
    rounds: int
    questioner: Questioner
    topic: str = ""
    experts: dict[str, Expert] = field(default_factory=dict)
    issues: list[str] = field(default_factory=list)
    turns: list[DebateTurn] = field(default_factory=list)
    silent: dict[str, int] = field(default_factory=dict)
    focus: str = ""
    rounds_held: int = 0
    limited: str = ""
    notes: list[str] = field(default_factory=list)

    async def run(self, names: Sequence[str]) -> AgentResult:
        delegates = {delegate.agent.name: delegate for delegate in self.kit.delegates(self.ctx, leader=NAME)}
        topic, task_names = named_in(self.spec.instruction)
        self.topic = topic
        try:
            experts = named_experts(names or task_names, delegates)
        except UsageError as exc:  # a caller's words; a run's options were looked at before anything was spent
            return self._refusal(str(exc))
        await self._plan(experts, delegates)
        if len(self.experts) < 2:
            return self._refusal("a debate needs two experts, and this run has fewer")
        await self._round([*self.experts.values()], 0, delegates, together=True)
        while self._goes_on():
            self.rounds_held += 1
            before = len(self.turns)
            await self._round(self._order(), self.rounds_held, delegates)
            if not any(turn.says for turn in self.turns[before:]):
                self.notes.append(f"It ended after round {self.rounds_held}, which brought nothing new.")
                break
            if self.rounds_held < self.rounds and self._goes_on() and not await self._worth_another():
                break
        return await self._conclude()

    # -- invitation ----------------------------------------------------------------------------------------------------

    async def _plan(self, experts: Sequence[Expert], delegates: Mapping[str, Delegate]) -> None:
        """Ask what is at issue, and whom to invite where nobody was named."""
        fitting = [delegates[expert.name] for expert in experts if expert.name in delegates]
        if not experts:
            fitting = await candidates(self.topic, [*delegates.values()], self.ctx, self.kit)
        values = {"topic": self.topic, "invited": [expert.name for expert in experts], "seats": self.limits.experts}
        content = (candidates_block(fitting, [expert for expert in experts if expert.guest]), *self.spec.context)
        schema = PLAN if experts else INVITATION
        reply = await self.questioner.one(Inquiry("debate_plan", schema, values, content, decides=True))
        self._hear_limit()
        issues = [" ".join(str(issue).split())[:LONGEST] for issue in (reply or {}).get("issues", ())]
        self.issues = [issue for issue in issues if issue][:10]
        if not experts:
            wishes = [str(name) for name in (reply or {}).get("experts", ())]
            agents = {delegate.agent.name: delegate.agent for delegate in fitting}
            seats = [agents[name] for name in dict.fromkeys(wishes) if name in agents][: self.limits.experts]
            # Where the manager names too few, those that fit best.
            seats += [agent for agent in agents.values() if agent not in seats][: max(0, 2 - len(seats))]
            experts = seat(seats)
        self.experts = {expert.letter: expert for expert in experts}

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        return not self.limited and self.rounds_held < self.rounds and len(self._present()) > 1

    def _present(self) -> list[Expert]:
        return [expert for letter, expert in self.experts.items() if self.silent.get(letter, 0) < FAILURES]

    def _spoke(self, expert: Expert) -> bool:
        return any(turn.letter == expert.letter for turn in self.turns)

    def _order(self) -> list[Expert]:
        """Return whose turn it is, one after the other; another one begins in each round."""
        present = self._present()
        first = (self.rounds_held - 1) % len(present)
        return present[first:] + present[:first]

    async def _round(
        self, order: Sequence[Expert], number: int, delegates: Mapping[str, Delegate], *, together: bool = False
    ) -> None:
        """Let everybody speak: all at the same time, or one after the other, so that each hears those before."""
        await self._listen()
        for group in [order] if together else [[expert] for expert in order]:
            if self.limited:
                return
            marks = {argument.mark for turn in self.turns for argument in turn.arguments}
            outcomes = await self.ctx.perform_all([self._turn(expert, number, delegates) for expert in group])
            before = len(self.turns)
            for expert, outcome in zip(group, outcomes, strict=True):
                self._take(expert, number, outcome, marks)
            await self._look_up(before)
            # If the budget ends before the conclusion, this report is the result.
            interim = report(self.topic, self.experts, self.turns, Conclusion())
            self.ctx.partial = {"steps": self.rounds_held, "report": interim}

    async def _listen(self) -> None:
        """Add what the user said meanwhile (`tell`) to the topic."""
        if is_top(self.ctx):
            news = await inbox(State(messages=(), max_steps=1), self.ctx)
            for block in news.blocks if news is not None else ():
                self.topic = f"{self.topic}\nThe user adds: {text_of([block])}"

    def _turn(self, expert: Expert, number: int, delegates: Mapping[str, Delegate]) -> Effect:
        """Return the InvokeAgent of a turn. The expert has no memory of the debate: it is shown all that was said."""
        delegate = delegates.get(GUEST if expert.guest else expert.name)
        assert delegate is not None  # named_experts and seated take no others
        own = [turn for turn in self.turns if turn.letter == expert.letter]
        instruction = self.kit.prompts.get("debate_turn").render(
            topic=self.topic,
            name=expert.name,
            letter=expert.letter,
            description=expert.description if expert.guest else "",
            others=[
                {"letter": other.letter, "name": other.name, "silent": number > 0 and not self._spoke(other)}
                for other in self.experts.values()
                if other != expert
            ],
            unheard=number > 0 and not own,
            round=number,
            rounds=self.rounds,
            issues=self.issues,
            # Words that come from what somebody read are no part of an order: they stand in what is shown.
            focus=self.focus if self._trust is not Trust.UNTRUSTED else "",
            position=own[-1].position if own and own[-1].trust is not Trust.UNTRUSTED else "",
            most=MOST_ARGUMENTS,
        )
        spec = delegate.agent.spec(
            instruction,
            name=expert.name,
            context=(*self.spec.context, *said_so_far(self.turns, self.experts), *self._manager_question()),
            tools=delegate.tools,
            model=self.spec.model,
            output_schema=turn_schema(MOST_ARGUMENTS),
            looked_up=self.ctx.manifest.checks >= SORTING,
        )
        return agent_effect(spec, self.ctx).model_copy(update={"purpose": f"{TURN} {expert.letter}"})

    def _take(self, expert: Expert, number: int, outcome: Outcome, marks_shown: Collection[str]) -> None:
        """Take what an expert said. One that fails does not end the debate."""
        result = AgentResult.model_validate(outcome.value) if outcome.ok else None
        if outcome.status == "limited":
            self.limited = outcome.error or "the budget has no room for more"
        elif result is not None and result.status in _ENDS:
            self.limited = result.report or f"the budget of {expert.name} is used up"
        spoke = result is not None and result.status is not RunStatus.BLOCKED
        before = sum(len(turn.arguments) for turn in self.turns if turn.letter == expert.letter)
        turn = None
        if result is not None and spoke:
            turn = turn_of(result, expert.letter, number, before=before, known_marks=marks_shown, trust=outcome.trust)
        if turn is None:
            reason = outcome.error or (result.report or result.answer if result is not None else "") or "without a word"
            when = "the opening" if number == 0 else f"round {number}"
            self.notes.append(f"{expert.name} did not speak in {when}: {' '.join(reason.split())[:500]}")
            self.silent[expert.letter] = self.silent.get(expert.letter, 0) + 1
            return
        self.silent[expert.letter] = 0
        self.turns.append(turn)
        if turn.strange:
            marks = ", ".join(f"[{mark}]" for mark in turn.strange)
            self.notes.append(f"Struck out of what {expert.name} said in round {number}, no such argument: {marks}.")

    async def _look_up(self, before: int) -> None:
        """Look the sources of the newest turns up: the others are told of those that do not hold."""
        new = self.turns[before:]
        lookup = await look_up([source for turn in new for source in turn.sources], self.ctx)
        bad = [*lookup.misquoted, *lookup.unknown]
        if bad:
            self.turns[before:] = [
                replace(turn, unfounded=tuple(source for source in dict.fromkeys(turn.sources) if source in bad))
                for turn in new
            ]

    async def _worth_another(self) -> bool:
        values = {"topic": self.topic, "issues": self.issues, "round": self.rounds_held, "rounds": self.rounds}
        reply = await self.questioner.one(
            Inquiry("debate_round", JUDGEMENT, values, said_so_far(self.turns, self.experts), decides=True)
        )
        self._hear_limit()
        if reply is None:
            return not self.limited
        self.focus = " ".join(str(reply.get("focus") or "").split())[:LONGEST]
        if reply["agreed"] or not reply["new"]:
            reason = "the experts agree" if reply["agreed"] else "nothing new was said"
            self.notes.append(f"It ended after round {self.rounds_held} of {self.rounds}: {reason}.")
            return False
        return True

    @property
    def _trust(self) -> Trust:
        """Return how far the manager's words are trusted: no further than what it was shown."""
        return lowest(Trust.AGENT, *(turn.trust for turn in self.turns))

    def _manager_question(self) -> tuple[Block, ...]:
        """Return what the manager asks, where that may come from what an expert read."""
        if not self.focus or self._trust is not Trust.UNTRUSTED:
            return ()
        return (material(f"The manager asks: {self.focus}", NAME),)

    def _hear_limit(self) -> None:
        self.limited = self.limited or self.questioner.limited

    # -- conclusion ----------------------------------------------------------------------------------------------------

    async def _conclude(self) -> AgentResult:
        if not self.turns:
            return self._refusal("Nobody said anything. " + " ".join(self.notes))
        schema = self.spec.output_schema
        values = {
            "topic": self.topic,
            "issues": self.issues,
            "experts": [
                {"letter": expert.letter, "name": expert.name, "silent": not self._spoke(expert)}
                for expert in self.experts.values()
            ],
            "limited": bool(self.limited),
            "output_schema": schema or "",
        }
        question = Inquiry(
            "debate_conclusion",
            conclusion_schema(schema),
            values,
            said_so_far(self.turns, self.experts),
            bool(self.limited),
        )
        reply = await self.questioner.one(question)
        self._hear_limit()
        conclusion = ClaimCheck(self.turns, self.experts).conclusion(reply) if reply is not None else Conclusion()
        if reply is None:
            self.notes.append("Nobody concluded: the positions stand as they were taken.")
        status = RunStatus.COMPLETED if reply is not None else RunStatus.PARTIAL
        if self.limited:
            status = limit_status(self.limited)
            self.notes.append(self.limited)
        notes = (*self.notes, *conclusion.notes)
        sources = dict.fromkeys(cite for turn in self.turns for cite in turn.sources if cite not in turn.unfounded)
        return AgentResult(
            status=status,
            answer=conclusion.text
            or "\n".join(f"{expert.name}: {self._position(expert)}" for expert in self.experts.values()),
            output=self._record(conclusion, notes) if schema is None else (reply or {}).get("answer"),
            report="\n\n".join((report(self.topic, self.experts, self.turns, conclusion), *notes)),
            sources=tuple(sources),
            steps=self.rounds_held,
        )

    def _position(self, expert: Expert) -> str:
        own = [turn.position for turn in self.turns if turn.letter == expert.letter]
        return own[-1] if own else "said nothing"

    def _record(self, conclusion: Conclusion, notes: Sequence[str]) -> JsonValue:
        record: JsonValue = to_jsonable_python(
            {
                "topic": self.topic,
                "rounds": self.rounds_held,
                "experts": [
                    {"letter": expert.letter, "name": expert.name, "position": self._position(expert)}
                    for expert in self.experts.values()
                ],
                "turns": [asdict(turn) | {"name": self.experts[turn.letter].name} for turn in self.turns],
                "conclusion": conclusion.text,
                "agreements": [asdict(point) for point in conclusion.agreements],
                "disagreements": [asdict(split) for split in conclusion.disagreements],
                "open_questions": conclusion.open_questions,
                "notes": notes,
            }
        )
        return record

    def _refusal(self, reason: str) -> AgentResult:
        status = limit_status(self.limited) if self.limited else RunStatus.BLOCKED
        return AgentResult(status=status, report=f"No debate: {reason}", steps=self.rounds_held)


class DebateDriver(Limited[DebateSettings]):
    """Drives the manager; the system `debate`."""

    def check_options(self, options: Mapping[str, JsonValue], agents: Collection[str], model: str) -> None:
        check_options(options, agents, model)

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        options: Mapping[str, Any] = ctx.manifest.options if is_top(ctx) else {}
        questioner = Questioner(ctx, kit, ROLE, spec.model)
        rounds = int(options.get("rounds") or self.limits.rounds)
        debate = _Debate(spec, ctx, kit, self.limits, min(rounds, MOST_ROUNDS), questioner)
        return await debate.run([str(name) for name in options.get("experts") or ()])


def debate(limits: DebateSettings | None = None, *, tools: tuple[str, ...] = ()) -> Agent:
    """Return the manager as an agent, for teams and as a tool (`a2t`); `tools` are the user's, for its experts."""
    return Agent(
        name=NAME,
        description=(
            "Lets experts of several fields debate a question on which there is more than one view, in rounds of "
            "arguments and rebuttals. It gives a conclusion with agreements, disagreements and open questions. A line "
            '"Experts: NAME, NAME" in the task names the experts; else those that fit are invited.'
        ),
        tools=(*PACKAGED_TOOLS, *tools),
        prompt="debate_plan",
        role=ROLE,
        max_steps=MOST_ROUNDS,
        drive=DebateDriver(limits or DebateSettings()),
        within=(NAME,),
    )


PACKAGED_TOOLS = (
    "python",
    "search",
    "fetch",
    "search_files",
    "read_file",
    "read_artifact",
    "ask_media",
    "describe_files",
    "files_in_view",
    "analyze_file",
    "check_quotes",
)
"""What packaged agents use that may be experts."""
