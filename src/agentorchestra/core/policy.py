"""The types of policy: what is asked of it and what it says. The shipped default lives in trust/policy.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect

PLAN = "policy_plan"  # purpose of the request for a plan, name of its prompt, and title of the schema of its reply
REVIEW = "policy_review"  # the same of the request for a second look at a call


class PlannedTest(BaseModel, frozen=True):
    """A condition on the record that is meant."""

    field: str  # of the record
    # how it is compared; `lowest` and `highest` among the records that meet the other conditions
    test: Literal["is", "is not", "has", "at least", "at most", "below", "above", "lowest", "highest"]
    value: str = ""  # with what; for `at least`, `at most`, `below` and `above` also the name of another field


class PlannedSource(BaseModel, frozen=True):
    """A source from which the value of an argument may come."""

    # `task`: the user's words; `result`: what a tool gave; `composed`: the model writes it; `user`: the user has to say
    # it
    kind: Literal["task", "result", "composed", "user"]
    tool: str = ""  # of a `result`, the tool; of `composed`, the tool from whose results it is written, "" for none
    where: str = ""  # the field of the result, "" where it is not known
    what: str = ""  # the value in words, for people and to tell it from others like it
    which: tuple[PlannedTest, ...] = ()  # conditions that the records of the result have to meet, all of them
    formula: str = ""  # of a `composed` number, how it is worked out from fields of such a record: `price * 1.05`


class PlannedArgument(BaseModel, frozen=True):
    """An argument that a call may have, and where its value may come from."""

    argument: str
    sources: tuple[PlannedSource, ...] = ()


class PlannedUse(BaseModel, frozen=True):
    """A tool with effects that the user's words call for; `times` is how often at most, 0 for any number."""

    tool: str
    times: int = Field(default=1, ge=0)
    arguments: tuple[PlannedArgument, ...] = ()


class Plan(BaseModel, frozen=True):
    """What the user's words call for, stated before anything was read."""

    uses: tuple[PlannedUse, ...] = ()  # of tools with effects
    # names of the tools that were shown to whoever stated it; it says nothing of others
    known: frozenset[str] = frozenset()
    described: dict[str, str] = {}  # what the tools that only read say of themselves, by name


class Given(NamedTuple):
    """A result of a call in the run.

    Attributes:
        arguments, value: of the call.
        untrusted: whether the value comes from outside.
        private: whether it is neither from the network nor from a file that the user gave with the task.
    """

    arguments: dict[str, JsonValue]
    value: JsonValue
    untrusted: bool
    private: bool = True


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
        plan: lazily, what the user's words call for; None without a plan.
        results: lazily, what tools and actions gave in this run, by the name under which a model calls them.
        acted: lazily, how often a tool or action was called in this run because policy allowed it.
        second_look: whether a model looks at the call again if policy allows it.
        allowed_hosts: hosts the settings open for reading.
        folder: the run's folder; None outside of runs.
    """

    user_content: tuple[str, ...] = ()
    links: Callable[[], frozenset[str]] = frozenset
    found: Callable[[], frozenset[str]] = frozenset
    followed: Callable[[], frozenset[str]] = frozenset
    private: Callable[[], bool] = bool
    trusted: Callable[[], Iterable[tuple[str, str | int | float]]] = tuple
    plan: Callable[[], Plan | None] = lambda: None
    results: Callable[[], Mapping[str, Sequence[Given]]] = dict
    acted: Callable[[str], int] = lambda name: 0
    second_look: bool = False
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


@runtime_checkable
class Separable(Protocol):
    """A policy that knows which calls it allows whatever else a run does: a part of the run may make those."""

    def alone(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if neither the plan nor what others in the run read or do can change that it is allowed."""


@runtime_checkable
class PlanningPolicy(Protocol):
    """A policy that judges some effects by a plan: the door has one made before it asks about these."""

    def wants_plan(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if the plan decides about this effect."""


@runtime_checkable
class Reviewing(Protocol):
    """A policy that wants a second look at some of the calls that it allows: the door has a model take it."""

    def wants_review(self, effect: Effect, view: PolicyView) -> bool:
        """Return True if a model is to look at this effect before it is done."""
