"""Kinds of component: how one is described, what it is made of, and how it is made again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from agentorchestra.core.errors import CandidateError, VersionError
from agentorchestra.tea.registry.config import ComponentConfig, KindName
from agentorchestra.tea.registry.history import Maker
from agentorchestra.tea.registry.rights import Rights
from agentorchestra.tea.registry.versions import Change, changes_of

T = TypeVar("T")

Evolvable = bool | tuple[str, ...] | None
"""The variables that may be optimised: all, none, or those of these names (`argument` for each `argument:NAME`)."""

_CORE_NAMES = ("code", "template", "prompt", "role")
"""Variables of packaged components that change by a new version of the package only, unless their author says so."""


class Made(NamedTuple):
    """The text that a component is made of, "" for `maker.fields` alone, and how it is made again."""

    text: str
    maker: Maker


class TextVariable(NamedTuple):
    """A part of a component that may be optimised (000, app. C.4): `vars` gives it, `setvars` takes it back."""

    name: str  # of the part, unique in its component
    value: str  # its text
    role: str  # what it is: `code`, `prompt`, `description`, ...
    description: str = ""  # what it does, for whoever rewrites it
    evolvable: bool = True  # whether a candidate may change it: its author can keep it as it is


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The differences between tools, environments, agents, prompts and memory systems."""

    name: KindName
    plural: str  # for sentences
    # the configuration of a component, from its name, itself, and whether it comes with the package
    describe: Callable[[str, T, bool], ComponentConfig]
    fits: Callable[[Any], bool]  # whether an object is of this kind
    name_of: Callable[[T], str]  # the name an object of this kind has of its own
    recipe_of: Callable[[T], Made | None]  # what it is made of; None where it could not be made again
    make: Callable[[str, Maker, str], T]  # a component from that, for text that the workspace's user stands for
    # the same for code that nobody here stands for, with its configuration where that is known: nothing of it runs in
    # this process. None where a kind has no such way.
    make_foreign: Callable[[str, Maker, str, ComponentConfig | None], Awaitable[T]] | None
    # whether `make` executes its text, whatever its maker says of itself: it may have come from elsewhere
    is_code: Callable[[Maker], bool]
    # the version that the author of a component wrote down, and whether another content under it is refused (else the
    # next version is computed); None where it is computed in any case
    own_version: Callable[[T], tuple[str, bool] | None]
    version_of: Callable[[T], str]  # the version that an object says it has
    # what a copy under another name is made of, from what it is made of, the old and the new name
    copy_recipe: Callable[[Made, str, str], Made]
    with_name: Callable[[T, str, str], T]  # the same component with another name and version
    # the parts of a component that may be optimised, from it and what it is made of
    variables: Callable[[T, Made | None], list[TextVariable]]
    # what it is made of with other values for some of these parts
    rewritten: Callable[[T, Made, Mapping[str, str]], Made]
    # the same component with the words of its maker in place of its own
    with_words: Callable[[T, Maker], T]
    # what its author says may be optimised: all, nothing, these variables; None for the default
    evolvable: Callable[[T], Evolvable]
    # what it may do, from it and what it is made of: a candidate has no more of that than what it replaces
    rights: Callable[[T, Made | None], Rights]
    # the same component, which only some may invoke; None where a kind does not know who invokes
    with_invokers: Callable[[T, tuple[str, ...]], T] | None = None
    # a component at hand with other code in the place of its own; None where a text makes the whole component
    with_code: Callable[[T, Made], T] | None = None


def config_changes(before: ComponentConfig, after: ComponentConfig) -> list[Change]:
    """Return how the operations of a component changed, for whoever calls them; an operation that is gone is major."""
    earlier = {operation.name: operation for operation in before.operations}
    later = {operation.name: operation for operation in after.operations}
    if before.name != after.name and len(earlier) == len(later) == 1:
        # A copy under another name: its one operation is called as it is.
        (old,), (new,) = earlier.values(), later.values()
        return changes_of(old.parameters, new.parameters)
    report = []
    for name in [*earlier, *(key for key in later if key not in earlier)]:
        if name not in later:
            report.append(Change("major", f"{name} was removed"))
        elif name not in earlier:
            report.append(Change("minor", f"{name} is new"))
        else:
            prefix = "" if name == before.name else f"{name}: "
            changes = changes_of(earlier[name].parameters, later[name].parameters)
            report += [Change(change.level, prefix + change.what) for change in changes]
            if earlier[name].description != later[name].description:
                report.append(Change("patch", f"{prefix}its description"))
    if before.description != after.description and not report:
        report.append(Change("patch", "its description"))
    if before.rules != after.rules:
        report.append(Change("patch", "its rules"))
    return report


def mark_evolvable(variables: list[TextVariable], evolvable: Evolvable, *, builtin: bool) -> list[TextVariable]:
    """Return variables, each with whether a candidate may change it.

    Args:
        said: what its author says.
        builtin: whether it comes with the package.
    """

    def may(name: str) -> bool:
        if evolvable is None:
            return not (builtin and name in _CORE_NAMES)
        return evolvable if isinstance(evolvable, bool) else not {name, name.partition(":")[0]}.isdisjoint(evolvable)

    return [variable._replace(evolvable=may(variable.name)) for variable in variables]


def check_variables(
    label: str, values: Mapping[str, str], variables: Sequence[TextVariable], *, candidate: bool
) -> None:
    """Check that every named variable is one that may be changed, and every value a text.

    Raises:
        VersionError: for another name or value.
        CandidateError: for a variable of a candidate that is to stay as it is.
    """
    names = [part.name for part in variables]
    for name, value in values.items():
        if name not in names:
            raise VersionError(f"{label} has no variable {name!r}; its variables: {', '.join(names) or 'none'}")
        if not isinstance(value, str):
            raise VersionError(f"the variable {name!r} of {label} is {value!r}; give text")
    frozen = sorted(part.name for part in variables if candidate and part.name in values and not part.evolvable)
    if frozen:
        free = ", ".join(part.name for part in variables if part.evolvable) or "none"
        raise CandidateError(
            f"a candidate for {label} cannot change {', '.join(frozen)}: that stays as its author wrote it; evolvable "
            f"are: {free}"
        )
