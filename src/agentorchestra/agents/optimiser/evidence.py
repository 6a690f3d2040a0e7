"""Evidence and variables as JSON: what runs did, the texts that may be changed, and within which limits.

An optimiser's run has them as its options, so they stand in its manifest: a resume and a replay work on the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import EvidenceError, UsageError

OUTCOME = "outcome"  # the end of a run as a node of its graph: what every path leads to

KINDS = ("tool", "environment", "agent", "prompt", "memory")

LONGEST_LOSS = 20_000  # characters of the words that say what is wanted of an outcome
MOST_RUNS = 64  # runs of one batch


class Past(BaseModel, frozen=True, extra="forbid"):
    """An earlier value of a variable, what was said of it, and how it did (momentum)."""

    text: str
    feedback: str = ""
    score: float | None = None


class Variable(BaseModel, frozen=True, extra="forbid"):
    """A text that may be changed (000, app. C.4).

    Attributes:
        component: `kind:name`.
        variable: its name in the component, as `vars` gives it.
        text: its present value.
        role: what it is: `prompt`, `tool code`, `description`, ...
        description: what it does.
        source: of code, the whole text that it stands in, with its imports; "" where it stands alone.
        placeholders: of a prompt, the variables that it is given; None for those that the text renders.
        past: earlier values, oldest first.
    """

    component: str
    variable: str
    text: str
    role: str = ""
    description: str = ""
    source: str = ""
    placeholders: tuple[str, ...] | None = None
    past: tuple[Past, ...] = ()

    @property
    def key(self) -> str:
        """`kind:name/variable`."""
        return f"{self.component}/{self.variable}"

    @property
    def name(self) -> str:
        return self.component.partition(":")[2]

    @property
    def is_code(self) -> bool:
        return "code" in self.role

    @property
    def is_template(self) -> bool:
        return self.component.startswith("prompt:") and self.role == "prompt"


class Node(BaseModel, frozen=True, extra="forbid"):
    """An effect of a run."""

    key: str  # of the effect
    # `kind`, `component`, `actor`: what was done, by which component (`name@version`), for whom
    kind: str
    component: str = ""
    actor: str = ""
    # `given`, `gave`: what went in and what came out, shortened
    given: str = ""
    gave: str = ""
    arguments: dict[str, JsonValue] | None = None  # of a call, whole; None where they are too long
    error: str = ""  # why it failed, "" where it did not
    cost_usd: float | None = None  # what it cost, None where that is not known
    trust: Trust = Trust.UNTRUSTED  # of what came out
    uses: tuple[str, ...] = ()  # keys of the variables that took part in it


class Evidence(BaseModel, frozen=True, extra="forbid"):
    """What one run did and what came of it, as a graph of its effects. The expected answer never stands in it."""

    run: str  # its id
    # `task`, `status`, `answer`, `error`: what was asked and how it ended
    task: str
    status: str
    answer: str = ""
    error: str = ""
    failed_checks: tuple[str, ...] = ()  # sentences of checks that failed and of warnings
    score: float | None = Field(default=None, ge=0, le=1)  # 0 to 1, where the run was scored
    labels: dict[str, str] = {}  # of the run
    nodes: tuple[Node, ...] = ()  # its effects, in the order in which they ended
    # (from, to): the output of the first stands in the input of the second; the end of the run is `outcome`
    edges: tuple[tuple[str, str], ...] = ()
    left_out: int = Field(default=0, ge=0)  # effects that had no room

    @property
    def failed(self) -> bool:
        """True if its end leaves something to be wished for: a lower score than 1, or without one no completion."""
        return self.score < 1 if self.score is not None else self.status != "completed"

    def successors(self) -> dict[str, list[str]]:
        targets: dict[str, list[str]] = {node.key: [] for node in self.nodes}
        for source, target in self.edges:
            targets[source].append(target)
        return targets


class Limits(BaseModel, frozen=True, extra="forbid"):
    """The bounds of an optimiser."""

    # `growth`, `room`: a new text has at most `growth` times the characters of the old one, and `room` more
    growth: float = Field(default=1.5, ge=1, le=10)
    room: int = Field(default=1_000, ge=0, le=100_000)
    attempts: int = Field(default=2, ge=1, le=5)  # times that a text is asked for, where what came breaks a constraint
    changes: int = Field(default=3, ge=1, le=20)  # variables that are changed at most
    # effects of one run that feedback is asked for, those nearest to its end
    nodes: int = Field(default=24, ge=1, le=200)
    chars: int = Field(default=24_000, ge=2_000, le=400_000)  # characters of material in one request


class Optimisation(BaseModel, frozen=True, extra="forbid"):
    """The options of an optimiser's run."""

    variables: tuple[Variable, ...] = Field(min_length=1)  # what may be changed
    evidence: tuple[Evidence, ...] = Field(min_length=1, max_length=MOST_RUNS)  # of one or more runs
    limits: Limits = Limits()  # within which it is changed
    # what is wanted of an outcome, in words; the expected answers of single tasks do not belong there
    loss: str = Field(default="", max_length=LONGEST_LOSS)

    def of(self, key: str) -> Variable:
        return next(variable for variable in self.variables if variable.key == key)


def read_options(options: Mapping[str, JsonValue], system: str) -> Optimisation:
    """Return the options of an optimiser's run; EvidenceError, with the first problem, where they do not fit."""
    try:
        optimisation = Optimisation.model_validate(dict(options))
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise EvidenceError(
            f"the options of {system} do not fit: {place}: {first['msg']}; it takes variables, evidence, limits, loss"
        ) from None
    _check_variables(optimisation, system)
    for evidence in optimisation.evidence:
        _check_graph(evidence, {variable.key for variable in optimisation.variables})
    used = {key for evidence in optimisation.evidence for node in evidence.nodes for key in node.uses}
    if not used:
        names = ", ".join(variable.key for variable in optimisation.variables)
        raise EvidenceError(
            f"none of the variables took part in the runs: {names}; give runs that used their components"
        )
    if optimisation.loss and not optimisation.loss.strip():
        raise EvidenceError("the loss is blank; say what is wanted of an outcome, or leave it out")
    if not optimisation.loss and not any(
        evidence.failed or evidence.error or evidence.failed_checks for evidence in optimisation.evidence
    ):
        raise EvidenceError(
            "nothing in the runs says that anything is to be bettered: all completed, none has a score below 1; give "
            "scores, runs that failed, or a loss that says what is wanted"
        )
    return optimisation


def _check_variables(optimisation: Optimisation, system: str) -> None:
    seen: set[str] = set()
    for variable in optimisation.variables:
        kind, _, name = variable.component.partition(":")
        if kind not in KINDS or not name:
            raise EvidenceError(
                f"{variable.component!r} names no component; write kind:name, the kind one of {', '.join(KINDS)}"
            )
        if variable.key in seen:
            raise EvidenceError(f"the variable {variable.key} is given twice; give each one once")
        if not variable.text.strip():
            raise EvidenceError(f"the variable {variable.key} has no text, so {system} has nothing to change")
        seen.add(variable.key)


def _check_graph(evidence: Evidence, variables: Collection[str]) -> None:
    keys = {node.key for node in evidence.nodes}
    if len(keys) < len(evidence.nodes) or OUTCOME in keys:
        raise EvidenceError(
            f"the evidence of {evidence.run} names an effect twice, or calls one {OUTCOME!r}; rename it"
        )
    for source, target in evidence.edges:
        if source not in keys or target not in {*keys, OUTCOME}:
            raise EvidenceError(f"the evidence of {evidence.run} has an edge {source} -> {target} without such effects")
    strange = sorted({key for node in evidence.nodes for key in node.uses} - {*variables})
    if strange:
        raise EvidenceError(f"the evidence of {evidence.run} uses the variable {strange[0]}, which is not given")
    try:
        TopologicalSorter(evidence.successors()).prepare()
    except CycleError as exc:
        raise EvidenceError(f"the edges of {evidence.run} run in a circle: {' -> '.join(exc.args[1])}") from None


def check_optimiser(system: str, options: Mapping[str, JsonValue], model: str) -> None:
    """Refuse what an optimiser could not begin with; see `read_options`.

    Raises:
        EvidenceError: for the options.
        UsageError: for the offline model, which cannot criticise.
    """
    read_options(options, system)
    if model == "offline":
        raise UsageError(
            f"the offline model judges nothing, so {system} cannot work with it; name a model with --model "
            "(docs/models.md)"
        )


def cut(text: str, most: int) -> str:
    """Return a text with at most so many characters: its beginning and its end, with a mark where the middle was."""
    if len(text) <= most:
        return text
    mark = f"\n[... {len(text) - most:,} characters left out ...]\n"
    left = max(0, most - len(mark))
    return f"{text[: left - left // 3]}{mark}{text[len(text) - left // 3 :]}" if left else text[:most]


def change(variable: Variable, text: str, reason: str, feedback: str) -> dict[str, Any]:
    return {
        "component": variable.component,
        "variable": variable.variable,
        "text": text,
        "reason": reason,
        "feedback": feedback,
    }
