"""A transformation: from one kind of component to another, with options; and which of them follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Generic, Literal, TypeVar

from agentorchestra.core.errors import TransformationError
from agentorchestra.core.protocols import Environment
from agentorchestra.tea.calling.tool import Tool

S = TypeVar("S")
R = TypeVar("R")

Role = Literal["tool", "environment", "agent"]
"""The kinds that a transformation takes or gives: tools (one or several), an environment (its factory), an agent."""

Factory = Callable[[], Environment]


@dataclass(frozen=True)
class Carried:
    """The components that one needs besides itself; the workspace takes them in with it.

    Nobody is offered these: an agent that may use the component does not thereby see what is behind it.
    """

    tools: tuple[Tool[..., Any], ...] = ()
    environments: Mapping[str, Factory] = field(default_factory=dict)
    agents: tuple[Any, ...] = ()
    action: str = ""  # the environment's action that a tool stands for


EMPTY = Carried()


def carried_by(component: Any) -> Carried:
    parts = getattr(component, "carried", None)
    return parts if isinstance(parts, Carried) else EMPTY


@dataclass(frozen=True)
class Transformation(Generic[S, R]):
    """One of the family P of the protocol: typed, callable, and closed under `compose` (000, definition 1).

    Attributes:
        name: for messages.
        domain: what it takes.
        codomain: what it gives.
        options: given to the function with each call; `using` sets them.
    """

    name: str
    domain: Role
    codomain: Role
    function: Callable[..., R]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, subject: S, /, **options: Any) -> R:
        """Return the subject as the other kind of component, or raise TransformationError."""
        check_role(self.name, self.domain, subject)
        try:
            return self.function(subject, **{**self.options, **options})
        except TypeError as exc:
            if "keyword argument" not in str(exc) or "unexpected" not in str(exc):
                raise
            raise TransformationError(f"{self.name}: {exc}; docs/transformations.md lists its options") from None

    def using(self, **options: Any) -> Transformation[S, R]:
        """Return the same with these options in every call, e.g. inside `compose`."""
        return replace(self, options={**self.options, **options})

    def __repr__(self) -> str:
        return f"<{self.name}: {self.domain} -> {self.codomain}>"


def compose(*transformations: Transformation[Any, Any]) -> Transformation[Any, Any]:
    """Return one transformation that does several, in order: `compose(e2t, t2a.using(name="clerk"))`.

    Raises:
        TransformationError: where one does not take what the one before it gives, or there is none.
    """
    for link in transformations:
        if not isinstance(link, Transformation):
            raise TransformationError(
                f"{link!r} is no transformation; compose takes a2t, t2a, e2t, t2e, a2e, e2a and what compose gives"
            )
    if not transformations:
        raise TransformationError("compose needs at least one transformation, e.g. compose(e2t, t2e)")
    for first, second in pairwise(transformations):
        if first.codomain != second.domain:
            raise TransformationError(
                f"{first.name} gives {_a(first.codomain)}, {second.name} takes {_a(second.domain)}: they cannot follow "
                f"each other; after {first.name} comes one of {', '.join(_taking(first.codomain))}"
            )

    def chain(subject: Any) -> Any:
        for link in transformations:
            subject = link(subject)
        return subject

    name = " then ".join(link.name for link in transformations)
    return Transformation(name, transformations[0].domain, transformations[-1].codomain, chain)


def _taking(role: Role) -> list[str]:
    return [f"{role[0]}2{other[0]}" for other in ("tool", "environment", "agent") if other != role]


def _a(role: Role) -> str:
    return {"tool": "tools", "environment": "an environment", "agent": "an agent"}[role]


def check_role(name: str, role: Role, subject: Any) -> None:
    fits = {"tool": _is_tools, "environment": is_factory, "agent": _is_agent}[role](subject)
    if not fits:
        example = {"tool": "a tool or a list of tools", "environment": "an environment's class or factory"}
        raise TransformationError(f"{name} takes {_a(role)}, not {subject!r}; give {example.get(role, 'an Agent')}")


def _is_tools(subject: Any) -> bool:
    if isinstance(subject, Tool):
        return True
    return isinstance(subject, list | tuple) and bool(subject) and all(isinstance(tool, Tool) for tool in subject)


def is_factory(subject: Any) -> bool:
    """Return True for what makes environments when it is called; an instance has one life only."""
    if isinstance(subject, type):
        return hasattr(subject, "act")
    return callable(subject) and not isinstance(subject, Tool | Transformation)


def _is_agent(subject: Any) -> bool:
    return not isinstance(subject, Tool | type) and all(
        hasattr(subject, attribute) for attribute in ("name", "description", "prompt", "drive", "schema")
    )


def tools_in(subject: Any) -> tuple[Tool[..., Any], ...]:
    """Return one tool or several as several; raise TransformationError if two have one name."""
    tools = (subject,) if isinstance(subject, Tool) else tuple(subject)
    twice = first_twice(tool.name for tool in tools)
    if twice is not None:
        raise TransformationError(f"two of the tools are called {twice!r}; give one another name (name=...)")
    return tools


def first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def instance(factory: Factory) -> Environment:
    """Return an instance, for what it says of itself: never opened; raise TransformationError if it is none."""
    try:
        product = factory()
    except Exception as exc:
        raise TransformationError(
            f"{factory!r} makes no environment: {type(exc).__name__}: {exc}; it is called without arguments"
        ) from None
    missing = [
        name for name in ("name", "version", "content_hash", "actions", "act", "state") if not hasattr(product, name)
    ]
    if missing:
        raise TransformationError(
            f"{factory!r} makes {product!r}, which is no environment: it has no {', '.join(missing)} "
            "(agentorchestra.Environment says what one has)"
        )
    return product
