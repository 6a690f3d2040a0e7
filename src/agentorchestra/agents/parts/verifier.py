"""The verifier: ranks rival steps and runs, and looks back on a step that was scored low (004, sec. 3.2.3 and 9.4).

Each chooser is a `loop.Choose`: rivals in, the best first. A rival that ended without an answer comes last whatever the
verifier says; ties go to the earlier rival; where no reply can be had or read, the order stays as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.agents.compaction import shorten, steps_as_blocks
from agentorchestra.agents.forms import INTEGER, NUMBER, TEXT, Form, Inquiry, Questioner, form
from agentorchestra.agents.requests import role_of, window_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from, lowest
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message
from agentorchestra.core.spec import AgentSpec
from agentorchestra.loop import Choose, Rival
from agentorchestra.runtime.context import BranchContext
from agentorchestra.trust.words import date_of, number_of

REWARD, OUTCOME, CHOICE = "parts_reward", "parts_outcome", "parts_choice"
REFLECTION, LESSONS = "parts_reflection", "parts_lessons"

ROLE = "verifier"  # the role whose model is asked; without one it is the agent's own (004 uses one model for both)
DISCOUNT = 0.9  # how much less each later step counts in the sum of rewards (004, eq. 8, which leaves the number open)
HIGHEST = 10  # the highest reward (004, sec. 9.4)
_SHARE = 0.5  # part of the verifier's window that the rivals may take

_SCORE = form(["score"], analysis=TEXT, score=Form(NUMBER, {**NUMBER, "minimum": 0, "maximum": HIGHEST}))
_REFLECTION = form(["experience_summary"], experience_summary=TEXT, confidence_assessment=TEXT, lessons_learned=TEXT)


def total_reward(rewards: Sequence[float]) -> float:
    """Return the discounted sum of rewards by the sum of the discounts: 0 to 10, whatever the number of steps.

    The sum alone (004, eq. 8) would put a rival that ended early behind any that goes on.
    """
    weights = [DISCOUNT**place for place in range(len(rewards))]
    return (
        sum(weight * reward for weight, reward in zip(weights, rewards, strict=True)) / sum(weights) if rewards else 0.0
    )


@dataclass(frozen=True)
class Verifier:
    """Asks about the rivals of one agent, at temperature 0 unless the role has another."""

    spec: AgentSpec
    kit: Kit

    async def scores(self, prompt: str, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> list[Rival]:
        """Return the rivals with a further reward each; without one where no number from 0 to 10 came."""
        whole = prompt == OUTCOME
        questions = [
            self._question(
                prompt,
                _SCORE,
                self._content([rival], ctx, whole=whole),
                **({"ended": rival.state.is_over} if whole else {}),
            )
            for rival in rivals
        ]
        replies = await self.ask(ctx, questions)
        return [
            rival if reply is None else _with_reward(rival, float(reply["score"]))
            for rival, reply in zip(rivals, replies, strict=True)
        ]

    async def best(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> int:
        return (await self.bests([rivals], ctx))[0]

    async def bests(self, groups: Sequence[Sequence[Rival]], ctx: BranchContext[Any]) -> list[int]:
        """Return the place of the best rival of each group, asked at the same time; see `best`."""
        questions = []
        for rivals in groups:
            index = Form(INTEGER, {**INTEGER, "minimum": 1, "maximum": len(rivals)})
            content = self._content(rivals, ctx, whole=True)
            schema = form(["index"], analysis=TEXT, index=index)
            questions.append(self._question(CHOICE, schema, content, count=len(rivals)))
        replies = await self.ask(ctx, questions)
        return [0 if reply is None else int(reply["index"]) - 1 for reply in replies]

    async def reflections(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> list[Rival]:
        questions = [
            self._question(REFLECTION, _REFLECTION, self._content([rival], ctx), score=f"{rival.state.rewards[-1]:g}")
            for rival in rivals
        ]
        replies = await self.ask(ctx, questions)
        return [
            rival if reply is None else replace(rival, lessons=self._lessons(reply, rival.ctx))
            for rival, reply in zip(rivals, replies, strict=True)
        ]

    async def ask(self, ctx: BranchContext[Any], questions: Sequence[Inquiry]) -> list[dict[str, Any] | None]:
        """Return the replies; None where none that fits could be had, asked twice."""
        model = "" if role_of(ROLE, ctx).model else self.spec.model
        return await Questioner(ctx, self.kit, ROLE, model, temperature=0.0).all(questions)

    def _question(self, prompt: str, schema: Form, content: tuple[Block, ...], **values: Any) -> Inquiry:
        return Inquiry(prompt, schema, {"task": self.spec.instruction, **values}, content, beside=True)

    def _content(self, rivals: Sequence[Rival], ctx: BranchContext[Any], *, whole: bool = False) -> tuple[Block, ...]:
        """Return rivals as material, `whole` or with their last step apart from the others, cut to fit evenly."""
        model = role_of(ROLE, ctx).model or self.spec.model or ctx.model
        room = int(window_of(model, ctx, self.kit) * _SHARE) // len(rivals)
        blocks: list[Block] = []
        for number, rival in enumerate(rivals, start=1):
            steps = [*shorten([*rival.state.messages[rival.state.steps_at :]], room)]
            done = rival.before.messages[rival.before.steps_at :]
            last = 0 if whole else min(len(done), max(0, len(steps) - 1))
            heads = (f"Candidate {number}:",) if whole else ("Earlier steps:", "The step:")
            for head, part in zip(heads, (steps[last:],) if whole else (steps[:last], steps[last:]), strict=True):
                blocks += [block_from(head, trust=Trust.SYSTEM), *(steps_as_blocks(part) or _EMPTY)]
            if rival.state.result is not None:
                answer = TextBlock(text=rival.state.result.answer or "(empty)", source=_AGENT, trust=Trust.UNTRUSTED)
                blocks += [block_from(f"Its answer ({rival.state.result.status.value}):", trust=Trust.SYSTEM), answer]
        return tuple(blocks)

    def _lessons(self, reply: dict[str, Any], ctx: BranchContext[Any]) -> tuple[Message, ...]:
        head = TextBlock(text=self.kit.prompts.get(LESSONS).render(), source=Source(kind="prompt"), trust=Trust.SYSTEM)
        lines = [
            f"{title}: {reply[name].strip()}"
            for title, name in (
                ("Experience", "experience_summary"),
                ("Confidence", "confidence_assessment"),
                ("Lessons", "lessons_learned"),
            )
            if str(reply.get(name) or "").strip()
        ]
        trust = lowest(Trust.AGENT, ctx.seen_trust)
        words = TextBlock(text="\n".join(lines), source=Source(kind="agent", ref=ROLE), trust=trust)
        return (Message(role="user", content=(head, words)),)


_AGENT = Source(kind="agent", ref="candidate")
_EMPTY = (block_from("(none)", trust=Trust.SYSTEM),)


def _with_reward(rival: Rival, reward: float) -> Rival:
    return replace(rival, state=rival.state.model_copy(update={"rewards": (*rival.before.rewards, reward)}))


def _is_scored(rival: Rival) -> bool:
    return len(rival.state.rewards) > len(rival.before.rewards)


def with_answer(rivals: Sequence[Rival]) -> tuple[list[Rival], list[Rival]]:
    """Return the rivals that are worth a look, and those that ended without an answer."""
    empty = [rival for rival in rivals if rival.state.result is not None and not rival.state.result.answer.strip()]
    return [rival for rival in rivals if rival not in empty], empty


@dataclass(frozen=True)
class Reward:
    """Ranks by rewards: of all steps together (`parts_reward`), or one for the whole work (`parts_outcome`)."""

    verifier: Verifier
    prompt: str = REWARD

    async def __call__(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
        """Return the rivals, the best first; one whose reward could not be had comes behind those that have one."""
        fit, empty = with_answer(rivals)
        # What had ended before has its reward; whole runs that were never scored have none.
        new = [rival for rival in fit if rival.decision or (self.prompt == OUTCOME and not rival.state.rewards)]
        by_id = {
            id(rival): better
            for rival, better in zip(new, await self.verifier.scores(self.prompt, new, ctx), strict=True)
        }
        fit = [by_id.get(id(rival), rival) for rival in fit]
        return [*sorted(fit, key=self._place), *empty]

    def _place(self, rival: Rival) -> tuple[bool, float]:
        rewards = rival.state.rewards
        lacks_reward = not rewards or (rival.decision is not None and not _is_scored(rival))
        return lacks_reward, -(rewards[-1] if rewards and self.prompt == OUTCOME else total_reward(rewards))


@dataclass(frozen=True)
class Listwise:
    """Shows all rivals at once and has the best one named; the next best of the others, until `width` are chosen."""

    verifier: Verifier
    width: int = 1

    async def __call__(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
        fit, empty = with_answer(rivals)
        ranking: list[Rival] = []
        while len(fit) > 1 and len(ranking) < self.width:
            ranking.append(fit.pop(await self.verifier.best(fit, ctx)))
        return [*ranking, *fit, *empty]


@dataclass(frozen=True)
class Pairwise:
    """Merges rivals pair by pair: the better of each two goes on, until one is left. No request shows more than two."""

    verifier: Verifier

    async def __call__(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
        """Return the rivals, the best first; those that lost later stand before those that lost earlier."""
        winners, empty = with_answer(rivals)
        losers: list[Rival] = []
        while len(winners) > 1:
            pairs = [winners[at : at + 2] for at in range(0, len(winners) - 1, 2)]
            rest = winners[2 * len(pairs) :]
            places = await self.verifier.bests(pairs, ctx)
            losers = [*(pair[1 - place] for pair, place in zip(pairs, places, strict=True)), *losers]
            winners = [*(pair[place] for pair, place in zip(pairs, places, strict=True)), *rest]
        return [*winners, *losers, *empty]


async def vote(rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
    """Rank by how many rivals agree: on the answer, or on the next calls. Nobody is asked."""
    fit, empty = with_answer(rivals)
    groups: dict[str, list[Rival]] = {}
    for rival in fit:
        groups.setdefault(_ballot(rival), []).append(rival)
    ranking = sorted(groups.values(), key=lambda group: -len(group))
    return [*(group[0] for group in ranking), *(rival for group in ranking for rival in group[1:]), *empty]


def _ballot(rival: Rival) -> str:
    """Return what a rival votes for: equal texts are one vote."""
    if rival.state.result is not None:
        return f"answer {form_of(rival.state.result.answer)}"
    calls = rival.decision.tool_calls if rival.decision is not None else ()
    return f"calls {canonical_json([[call.name, call.arguments] for call in calls])}"


def form_of(answer: str) -> str:
    """Return an answer such that answers that differ in form only are equal: numbers, dates, JSON, case, marks."""
    text = " ".join(answer.split()).strip("\"'`*. ").replace("−", "-")
    if (number := number_of(text)) is not None:
        return f"{number[0].normalize():f} {number[1]}".strip()
    if (date := date_of(text)) is not None:
        return date.isoformat()
    if text[:1] in "{[":
        try:
            return canonical_json(json.loads(text))
        except ValueError:
            pass
    words = re.sub(r"[,;:](?!\d)", " ", text.casefold()).split()
    return " ".join(word.strip(".!?\"'`*()[]") for word in words)


@dataclass(frozen=True)
class Reflecting:
    """Has the steps that are kept looked back on where their reward is at or under a threshold."""

    choose: Choose  # ranks the rivals; where it scores none, the steps that are kept are scored here
    verifier: Verifier
    threshold: float  # 0 to 10
    width: int = 1  # rivals that are kept

    async def __call__(self, rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
        """Return the rivals as ranked; those that are kept with their lessons."""
        ranking = [*await self.choose(rivals, ctx)]
        survivors = [rival for rival in ranking[: self.width] if rival.decision is not None and not rival.state.is_over]
        by_id = {id(rival): rival for rival in survivors if _is_scored(rival)}
        missing = [rival for rival in survivors if id(rival) not in by_id] if self._scores_none(ranking) else []
        by_id |= {
            id(rival): better
            for rival, better in zip(missing, await self.verifier.scores(REWARD, missing, ctx), strict=True)
        }
        low = {
            key: rival
            for key, rival in by_id.items()
            if _is_scored(rival) and rival.state.rewards[-1] <= self.threshold
        }
        reflections = dict(zip(low, await self.verifier.reflections([*low.values()], ctx), strict=True))
        return [reflections.get(id(rival), by_id.get(id(rival), rival)) for rival in ranking]

    @staticmethod
    def _scores_none(ranking: Sequence[Rival]) -> bool:
        return not any(_is_scored(rival) for rival in ranking)


def chooser(name: str, verifier: Verifier, width: int = 1) -> Choose:
    """Return the chooser of a name: `process`, `outcome`, `listwise`, `pairwise` or `vote`."""
    makers: dict[str, Callable[[], Choose]] = {
        "process": lambda: Reward(verifier),
        "outcome": lambda: Reward(verifier, OUTCOME),
        "listwise": lambda: Listwise(verifier, width),
        "pairwise": lambda: Pairwise(verifier),
        "vote": lambda: vote,
    }
    return makers[name]()
