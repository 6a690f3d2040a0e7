"""Patterns in how agents worked together, recognised by code (003, sec. 4.4.1).

Each rule is about who writes to whom in which order, how much of one text's words another one has, and what a
reply says of its own success. Words are compared without their endings, so that `counted` is `counts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Literal

from pydantic import BaseModel

from agentorchestra.log.conversation import AgentExchange, Conversation

Name = Literal["direct_dispatch", "planner_mediated_decomposition", "instruction_refinement", "agent_substitution"]

WHOLE, NEARLY_ALL = 0.65, 0.9
"""The part of the task's words that a message has at least which hands over the whole task: where no further piece of
work asks for the words it lacks, and where one does."""

ALIKE, SAME, TAKEN_UP, MENTION, CONTACT = 0.5, 0.35, 0.25, 0.15, 0.1
"""The part of the words of the shorter of two texts that the other one has at least: two instructions in a row to one
agent, if both are the same work; any two instructions; one after a failure, at once to another agent; one that speaks
of who had the work before; a correction, and what it corrects."""

NEW = 3  # words that an instruction has at least beside those of the one before; one with fewer is the same again

_ENDING = re.compile(r"(?<=\w{3})(?:ings?|ed|ers?|e?s|e|ly)$")
_WORD = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
_EMPTY = frozenset(
    "a about after again all also among an and any are as at be been before between both but by can could did do does "  # noqa: SIM905 - a list of words
    "each for from give given had has have how i if in into is it its just many me more most much of on once one only "
    "or our out over own please put reply say so some still tell than that the their them then there these they this "
    "those to try two under up use was we were what when where which who whom whose will with would you your "
    "answer".split()
)

_FAILED = re.compile(
    r"\b(nothing|cannot|(?:ca|could|did|does|do)n't|(?:can|could|did|does|do) not|impossible|n/a|"
    r"un(?:able|clear|known|readable|finished|available|successful)|illegible|incomplete|partial(?:ly)?|"
    r"(?<!no )(?<!without )(?:fail(?:s|ed|ure)?|errors?|gaps?|problems?)|miss(?:ing|ed)|skip(?:s|ped)?|refus\w+|"
    r"block(?:s|ed)|denied|forbidden|paywall|captcha|log ?in|stopped|killed|timed out|time limit|timeout|crash\w*|"
    r"hangs|stuck|lose|lost|gave up|give up|in vain|too (?:large|long|big|slow|many|dark|small)|too \w+ (?:to|for)|"
    r"corrupt\w*|damaged|broken|garbled|rubbish|blurred|blurry|faint|faded|truncated|cut off|protected|encrypted|"
    r"no (?:result|answer|access|such|hit|match|number|figure|trace)\w*|could only|only (?:a|part|some|half)|"
    r"(\d+) of (?:some |the |these |those )?(?!\2\b)\d+|"
    r"\w+ of (?:the )?(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))\b",
    re.IGNORECASE,
)
"""Signs in a reply that the work is not done, or only a part of it."""

_DOUBTS = re.compile(
    r"n't\b|\b(not|neither|never|uncertain|unsure|sorry|empty|blank|dead|offline|maybe|perhaps|probably|might|doubt\w*|"
    r"guess\w*|estimate\w*|contradict\w*|half|the rest|all but|"
    r"no (?!errors?|doubts?|problems?|gaps?|differen\w+|duplicates?|others?|further|exceptions?|changes?|contradict\w+|"
    r"negative|\w+ (?:without|is missing|left)))\b",
    re.IGNORECASE,
)
"""Signs in a reply that this may be so."""

_CORRECTS = re.compile(
    r"\b((?<!that )(?<!which )(?<!who )(?:is|are|was|were|do|does|did|could|has|have|should|must|need)(?:n't| not)|"
    r"can't|won't|cannot|can not|not (?:the|a|an|in|by|from|as|just|only|yet|what)|wrong\w*|mistake\w*|instead|"
    r"in place of|rather|again|anew|once more|still|missing|else|i mean|i meant|(?:is|are|was|were) no|leave out|"
    r"left out|differs?|differently|recount|recompute|redo|replace|correct(?:ed|ion)?|incomplete|whereas|while|"
    r"asked for|(?:question|task) (?:asks|says|wants|means|is about|speaks)|(?:must|has to|have to|needs? to) be|"
    r"needs? (?:all|every|each))\b",
    re.IGNORECASE,
)
"""Signs in an instruction that what came before was not right."""

_TAKES_OVER = re.compile(
    r"\b(instead|take over|dropped out|could(?:n't| not)|did(?:n't| not)|failed|gave up|unable|in vain|your turn)\b",
    re.IGNORECASE,
)
"""Signs in an instruction that somebody else had the work before."""

_FORMS = re.compile(
    r"\b(cite|citation|quote|link|url|format|as a (?:table|list|sentence|file)|rounded|decimals|units?|"
    r"where exactly)\b",
    re.IGNORECASE,
)
"""Signs in an instruction that a result is wanted in another form, or with its source."""

_CHECKS = re.compile(r"\b(verify|confirm|second opinion|double-check|cross-check|independent\w*)\b", re.IGNORECASE)
"""Signs in an instruction that a result is looked at again."""

_ENDS = re.compile(
    r"(?<!n't )(?<!not )\b(stop|never mind|forget it|that will do|(?:leave|skip|drop) (?:it|that|this)|"
    r"no need to (?:go|continue|search|look))\b",
    re.IGNORECASE,
)
"""Signs that no more work is asked for."""

_UNDER_WAY = re.compile(r"\b(working on|on it|nearly|started|in progress|at it|through|page \d+ of)\b", re.IGNORECASE)
"""Signs in a short reply that it is none yet."""

_PLANS = re.compile(
    r"\b(\w*plan\w*|steps?|split\w*|divi\w+|decompos\w+|structur\w+|subtasks?|break\w*|stages?|parts?|pieces|outline|"
    r"share\w* out|cut\w* \w+ up|lay out|go about|tackle|approach|strategy|proceed\w*|propose|suggest|order|assign\w*|"
    r"distribut\w+|sketch\w*|organi[sz]e|who does what|what now|what next|how to|how should)\b",
    re.IGNORECASE,
)
"""Signs that somebody asks for a plan."""

_STEP = re.compile(
    r"(?:^|[\s(])(?:\d{1,2}[a-z]?[.):]|S\d|step \w+|first(?:ly)?\b|second(?:ly)?\b|third(?:ly)?\b|then\b|next\b|"
    r"after that|finally\b|last(?:ly)?\b|->|[-*•] )|;\s",
    re.IGNORECASE,
)
"""Where a step begins in a plan."""


class Pattern(BaseModel, frozen=True):
    """A pattern that a conversation shows."""

    pattern: Name  # which of the paper's four
    messages: tuple[int, ...]  # the numbers of the exchanges it rests on, in their order


def patterns(talk: Conversation) -> list[Pattern]:
    read = _Reading(talk)
    matches = [*read.dispatch(), *read.decompositions(), *read.second_tries]
    return sorted(matches, key=lambda pattern: pattern.messages)


class _Reading:
    """What was said in a conversation, and by whom; what was refused reached nobody.

    A planner is an agent with `plan` in its name; all others work.
    """

    def __init__(self, talk: Conversation) -> None:
        self.task = words(talk.task)
        self.leader = talk.leader
        self.planners = {name for name in talk.members if "plan" in name.lower()}
        self.workers = {*talk.members} - self.planners
        self.said = [entry for entry in talk.exchanges if entry.kind in ("message", "lost") and not entry.refused]

    def _asks(self, exchange: AgentExchange, names: set[str]) -> set[str]:
        return {*exchange.to} & names if exchange.kind == "message" and exchange.sender == self.leader else set()

    def dispatch(self) -> Iterator[Pattern]:
        """Yield the message that gives one worker the whole task before anybody has divided it."""
        retries = {pattern.messages[-1] for pattern in self.second_tries}
        for place, exchange in enumerate(self.said):
            if self._asks(exchange, self.planners):
                return
            content = words(exchange.content)
            if not self._asks(exchange, self.workers) or not content & self.task:
                continue
            # What it lacks of the task, and another piece of work asks for, was kept for later.
            further = (other for other in self.said[place + 1 :] if self._asks(other, self.workers))
            later = [words(other.content) for other in further if other.n not in retries]
            remainder = (self.task - content) & frozenset[str]().union(*later)
            least = NEARLY_ALL if remainder else WHOLE
            if len(exchange.to) == 1 and len(content & self.task) >= least * len(self.task):
                yield Pattern(pattern="direct_dispatch", messages=(exchange.n,))
            return

    def decompositions(self) -> Iterator[Pattern]:
        """Yield each question for a plan with the plan and the messages that hand its steps out."""
        retries = {pattern.messages[-1] for pattern in self.second_tries}
        for start, question in enumerate(self.said):
            if not self._asks(question, self.planners):
                continue
            plan = self._plan(start)
            if plan is None:
                continue
            further = (exchange for exchange in self._until_next_plan(plan) if exchange.n not in retries)
            orders = [exchange.n for exchange in further if self._hands_out(exchange, self.said[plan])]
            if orders:
                messages = (question.n, self.said[plan].n, *orders)
                yield Pattern(pattern="planner_mediated_decomposition", messages=messages)

    def _plan(self, start: int) -> int | None:
        """Return the place of the plan that answers the question at `start`, None where no plan comes."""
        for place in range(start + 1, len(self.said)):
            exchange = self.said[place]
            if self._asks(exchange, self.planners):
                return None
            if exchange.sender in self.planners:
                return place if exchange.kind == "message" and self._is_plan(exchange, self.said[start]) else None
        return None

    def _is_plan(self, reply: AgentExchange, question: AgentExchange) -> bool:
        text = reply.content.replace("_", " ")
        workers = "|".join(re.escape(name.replace("_", " ")) for name in self.workers) or "(?!)"
        assignments = len(re.findall(rf"\((?:{workers})\)|\b(?:{workers}):", text))
        steps = max(len(re.findall(rf"\b(?:{workers})\b", text)), len(_STEP.findall(text)))
        asks_for_plan = bool(_PLANS.search(question.content))
        return not text.rstrip().endswith("?") and (steps >= 2 if asks_for_plan else assignments >= 2)

    def _until_next_plan(self, plan: int) -> Iterator[AgentExchange]:
        for place in range(plan + 1, len(self.said)):
            if self._asks(self.said[place], self.planners) and self._plan(place) is not None:
                return
            yield self.said[place]

    def _hands_out(self, exchange: AgentExchange, plan: AgentExchange) -> bool:
        return bool(self._asks(exchange, self.workers)) and len(words(exchange.content) & words(plan.content)) >= 2

    @cached_property
    def second_tries(self) -> list[Pattern]:
        """What follows a reply that leaves its instruction unmet: a changed instruction, or another agent."""
        tries = []
        for place, reply in enumerate(self.said):
            order = self._order(place) if reply.sender in self.workers else None
            after = self._taken_up(place, order) if order is not None else None
            if order is not None and after is not None:
                again = reply.sender in after.to
                name: Name = "instruction_refinement" if again else "agent_substitution"
                tries.append(Pattern(pattern=name, messages=(order.n, reply.n, after.n)))
        return tries

    def _order(self, place: int) -> AgentExchange | None:
        """Return the last instruction of who replies at a place; a question for news is none."""
        before, sender = self.said[:place], {self.said[place].sender}
        orders = (order for order in reversed(before) if self._asks(order, sender))
        return next((order for order in orders if not _only_asks_for_news(order)), None)

    def _taken_up(self, place: int, order: AgentExchange) -> AgentExchange | None:
        """Return the instruction that takes the work of an unmet reply up again, None where there is none."""
        reply, at_once = self.said[place], True
        if _is_under_way(reply):
            return None
        for later in range(place + 1, len(self.said)):
            retry = self.said[later]
            if retry.sender == reply.sender or (self._asks(retry, self.planners) and self._plan(later) is not None):
                return None
            if self._asks(retry, {reply.sender}):
                return retry if self._refines(order, reply, retry, at_once=at_once) else None
            if self._asks(retry, self.workers):
                if self._replaces(order, reply, retry, at_once=at_once) and not self._is_for_own(later):
                    return retry
                at_once = False
        return None

    def _refines(self, order: AgentExchange, reply: AgentExchange, retry: AgentExchange, *, at_once: bool) -> bool:
        """Return True if `retry` changes an order that a reply left unmet; `at_once`: it is the leader's next one."""
        if _only_asks_for_news(retry) or _ENDS.search(retry.content) or _repeats(order, retry):
            return False
        text = retry.content
        likeness, overlap = shared(order.content, text), shared(f"{order.content} {reply.content}", text)
        statements = _statements(text)
        corrects, of_form = bool(_CORRECTS.search(statements)), bool(_FORMS.search(text))
        if _in_trouble(reply):
            retold = at_once and not of_form and bool(statements) and bool(_FAILED.search(reply.content))
            return (likeness >= SAME and not of_form) or ((corrects or retold) and overlap >= CONTACT)
        if of_form:
            return False
        return (corrects and overlap >= (CONTACT if at_once else SAME)) or (at_once and likeness >= ALIKE)

    def _replaces(self, order: AgentExchange, reply: AgentExchange, retry: AgentExchange, *, at_once: bool) -> bool:
        """Return True if `retry` gives another agent the work that a reply left unmet; `at_once` as in `_refines`."""
        if _CHECKS.search(retry.content) or not _in_trouble(reply):
            return False
        likeness = shared(order.content, retry.content)
        if _names(reply.sender, retry) or _TAKES_OVER.search(retry.content):
            return likeness >= MENTION
        by_plan = max((shared(plan.content, retry.content) for plan in self._plans_before(retry)), default=0.0)
        return likeness >= (TAKEN_UP if at_once else SAME) and likeness > by_plan

    def _plans_before(self, exchange: AgentExchange) -> list[AgentExchange]:
        return [other for other in self.said if other.sender in self.planners and other.n < exchange.n]

    def _is_for_own(self, later: int) -> bool:
        """Return True if a message corrects what its reader itself replied."""
        exchange = self.said[later]
        for place in range(later - 1, -1, -1):
            reply = self.said[place]
            if reply.sender in exchange.to and reply.kind == "message":
                order = self._order(place)
                return order is not None and self._refines(order, reply, exchange, at_once=False)
        return False


@lru_cache(maxsize=1024)
def words(text: str) -> frozenset[str]:
    """Return a text's words without their endings, and without those that say little."""
    tokens = {token.lower() for token in _WORD.findall(text)} - _EMPTY
    return frozenset(_ENDING.sub("", token) if token.isalpha() else token for token in tokens)


def shared(text: str, other: str) -> float:
    """Return the part of the words of the shorter text that the other one has, from 0 to 1."""
    first, second = words(text), words(other)
    return len(first & second) / max(1, min(len(first), len(second)))


def _repeats(order: AgentExchange, exchange: AgentExchange) -> bool:
    return len(words(exchange.content) - words(order.content)) < NEW


def _only_asks_for_news(exchange: AgentExchange) -> bool:
    return exchange.content.rstrip().endswith("?") and len(words(exchange.content)) <= 2


def _in_trouble(reply: AgentExchange) -> bool:
    return reply.kind == "lost" or bool(_FAILED.search(reply.content) or _DOUBTS.search(reply.content))


def _is_under_way(reply: AgentExchange) -> bool:
    return len(reply.content) <= 80 and bool(_UNDER_WAY.search(reply.content))


def _statements(text: str) -> str:
    return " ".join(sentence for sentence in re.split(r"(?<=[.!?:;])\s+", text) if not sentence.endswith("?"))


def _names(agent: str, exchange: AgentExchange) -> bool:
    """Return True if an agent is spoken of, also as `web agent`."""
    return agent.replace("_", " ") in exchange.content.replace("_", " ")
