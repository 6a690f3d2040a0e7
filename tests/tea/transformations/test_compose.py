"""compose accepts exactly the sequences that fit, and a transformation takes exactly its kind."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra import Agent, a2e, a2t, compose, e2a, e2t, t2a, t2e, tool
from agentorchestra.core.errors import TransformationError
from tests.runtime.counter import Counter

ALL: list[Any] = [a2t, t2a, e2t, t2e, a2e, e2a]


@tool(effect="pure")
def double(x: int) -> int:
    """Double."""
    return 2 * x


AGENT = Agent(name="helper", description="Helps.", prompt="worker")
SUBJECTS: dict[str, Any] = {"tool": [double], "environment": Counter, "agent": AGENT}


@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=5))
def test_compose_accepts_exactly_the_valid_sequences(chosen: list[Any]) -> None:
    """Domains and codomains are in the names: x2y takes an x and gives a y."""
    valid = all(first.name[2] == second.name[0] for first, second in itertools.pairwise(chosen))
    if not valid:
        with pytest.raises(TransformationError, match="they cannot follow each other; after"):
            compose(*chosen)
        return
    made = compose(*chosen)
    assert (made.domain[0], made.codomain[0]) == (chosen[0].name[0], chosen[-1].name[2])
    for other in ALL:  # closed: what compose gives composes
        if other.domain == made.codomain:
            assert compose(made, other).codomain == other.codomain
        else:
            with pytest.raises(TransformationError):
                compose(made, other)


@given(st.sampled_from(ALL), st.sampled_from(sorted(SUBJECTS)))
def test_a_transformation_takes_its_domain_and_gives_its_codomain(one: Any, kind: str) -> None:
    named = {"name": "given"} if one in (t2a, t2e) else {}
    if kind != one.domain:
        with pytest.raises(TransformationError, match=f"{one.name} takes "):
            one(SUBJECTS[kind], **named)
        return
    made = one(SUBJECTS[kind], **named)
    for other in ALL:
        other_named = {"name": "then"} if other in (t2a, t2e) else {}
        if other.domain == one.codomain:
            other(made, **other_named)
        else:
            with pytest.raises(TransformationError):
                other(made, **other_named)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: compose(), "compose needs at least one transformation"),
        (lambda: compose(e2t, "t2e"),  # type: ignore[arg-type]
         "'t2e' is no transformation; compose takes a2t"),
        (lambda: compose(e2t, a2t), "e2t gives tools, a2t takes an agent: they cannot follow each other"),
        (lambda: e2t(Counter()),  # type: ignore[arg-type]
         "e2t takes an environment, not <tests.runtime.counter.Counter"),
        (lambda: e2t(dict), "e2t takes an environment, not <class 'dict'>"),
        (lambda: e2t(lambda: 5), "makes 5, which is no environment: it has no name, version"),
        (lambda: e2t(lambda: 1 // 0), "makes no environment: ZeroDivisionError"),
        (lambda: e2t(Counter, only=["fly"]), "environment 'counter' has no action 'fly'; its actions: add, look"),
        (lambda: e2t(Counter, only=[]), "environment 'counter' has no actions, so there is nothing to call"),
        (lambda: e2t(Counter, colour="red"), "e2t: .* unexpected keyword argument 'colour'; docs/transformations.md"),
        (lambda: t2e([double]), "t2e needs the environment's name"),
        (lambda: t2e([double, double], name="x"), "two of the tools are called 'double'"),
        (lambda: t2e([double], name="x", rules={"halve": ()}), "a rule for 'halve', which is no action of 'x'"),
        (lambda: t2e([double], name="x", state={"a": {1, 2}}), "the state of 'x' is not JSON"),
        (lambda: t2a([], name="x"), "t2a takes tools, not \\[\\]; give a tool or a list of tools"),
        (lambda: t2a([double]), "t2a needs the agent's name"),
        (lambda: a2t(AGENT, instance="a/b"), "'a/b' cannot be an instance's name"),
        (lambda: a2e(AGENT, actions=[]), "'helper' cannot be an environment: it needs at least one action"),
        (lambda: e2a(Counter, accepts=["fly"]), "has no action 'fly' to accept; its actions: add, look"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_what_does(make: Any, sentence: str) -> None:
    with pytest.raises(TransformationError, match=sentence):
        make()
