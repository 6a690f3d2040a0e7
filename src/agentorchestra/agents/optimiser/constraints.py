"""Constraints on a new text for a variable, checked by code: whatever a model says, these hold.

An optimiser asks again where one is broken; the gate checks them once more before anything is registered.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from agentorchestra.agents.optimiser.evidence import Limits, Variable
from agentorchestra.core.errors import (
    GrowthError,
    LostPlaceholderError,
    PromptError,
    RightsError,
    SchemaChangeError,
    SourceError,
    UnloadableError,
)
from agentorchestra.tea.programs.foreign import read_schema
from agentorchestra.tea.programs.imports import FOREIGN_MODULES, check_imports, parse_source
from agentorchestra.tea.prompts.composition import with_parts
from agentorchestra.tea.prompts.prompt import placeholders
from agentorchestra.tea.registry.versions import changes_of

GUARD = "untrusted"  # the word by which lines that protect an agent from orders in what it reads are told

_USER = "{# user #}"
_PART = "{# part: it #}\n{# end #}\n"


def check_text(variable: Variable, text: str, limits: Limits) -> None:
    """Check a new text for a variable; it may be the old one.

    Raises:
        GrowthError: it is empty or too long.
        LostPlaceholderError: of a prompt, a variable of the old text is lost, or an unknown one is used.
        UnloadableError: it cannot be read as a template or as Python, or defines something else.
        SchemaChangeError: calls that fitted the old text are refused by the new one.
        RightsError: a decorator, an import or a protection differs.
    """
    subject = f"the new text for {variable.key}"
    if not text.strip():
        raise GrowthError(f"{subject} is empty; give the whole text")
    most = longest(variable, limits)
    if len(text) > most:
        raise GrowthError(f"{subject} has {len(text):,} characters; at most {most:,} are allowed, so shorten it")
    if variable.is_code:
        _check_code(variable, text, subject)
    elif variable.is_template:
        _check_template(variable, text, subject)
    if not variable.is_code:
        _check_guard(variable, text, subject)


def longest(variable: Variable, limits: Limits) -> int:
    return int(limits.growth * len(variable.text)) + limits.room


def required(variable: Variable) -> tuple[str, ...]:
    """Return the variables that a new text has to render; () where it is not a template."""
    return tuple(sorted(placeholders(variable.text))) if variable.is_template else ()


def _check_guard(variable: Variable, text: str, subject: str) -> None:
    lines = {" ".join(line.split()) for line in text.splitlines()}
    for line in variable.text.splitlines():
        if GUARD in line and " ".join(line.split()) not in lines:
            raise RightsError(
                f"{subject} lacks the line {line.strip()!r}, which protects the agent from orders in what it reads; "
                "keep it"
            )


def _check_template(variable: Variable, text: str, subject: str) -> None:
    try:
        uses = placeholders(text)
        with_parts(_PART, {"it": text}, label=subject)
    except PromptError as exc:
        raise UnloadableError(f"{subject} cannot be loaded: {exc}") from None
    required_names = required(variable)
    if missing := [name for name in required_names if name not in uses]:
        raise LostPlaceholderError(
            f"{subject} lacks {', '.join(f'{{{{ {name} }}}}' for name in missing)}; keep what is rendered"
        )
    allowed_names = required_names if variable.placeholders is None else variable.placeholders
    if strange := sorted(uses - {*allowed_names}):
        raise LostPlaceholderError(
            f"{subject} renders {', '.join(strange)}, which the prompt is not given; it is given "
            f"{', '.join(allowed_names) or 'nothing'}"
        )
    if _USER in variable.text and _USER not in text:
        raise LostPlaceholderError(f"{subject} lacks the line {_USER}, behind which the user's message begins; keep it")


def _check_compatible(before: Mapping[str, Any], after: Mapping[str, Any], subject: str) -> None:
    problems = [change.what for change in changes_of(before, after) if change.level == "major"]
    if problems:
        raise SchemaChangeError(f"{subject} refuses calls that fitted: {'; '.join(problems)}; keep what it takes")


def _check_code(variable: Variable, text: str, subject: str) -> None:
    before, after = _definition(variable.text, subject), _definition(text, subject)
    if type(before) is not type(after) or before.name != after.name:
        raise UnloadableError(f"{subject} defines {after.name!r} and not {before.name!r}; keep the name")
    if [ast.dump(decorator) for decorator in before.decorator_list] != [
        ast.dump(decorator) for decorator in after.decorator_list
    ]:
        raise RightsError(f"{subject} changes the decorator of {before.name!r}, which says what it may do; keep it")
    if isinstance(before, ast.ClassDef) or isinstance(after, ast.ClassDef):
        return
    whole = with_source(variable, text)
    try:
        check_imports(whole, allowed=FOREIGN_MODULES, label=subject)
    except SourceError as exc:
        raise RightsError(f"{exc}; code of a model runs in the sandbox only") from None
    try:
        old_schema = read_schema(with_source(variable, variable.text), before.name)
    except SourceError:
        if ast.dump(before.args) != ast.dump(after.args):
            raise SchemaChangeError(f"{subject} changes the arguments of {before.name!r}; keep them") from None
        return
    try:
        new_schema = read_schema(whole, before.name)
    except SourceError as exc:
        raise UnloadableError(f"{subject} cannot be loaded: {exc}") from None
    _check_compatible(old_schema.parameters, new_schema.parameters, subject)


def with_source(variable: Variable, text: str) -> str:
    """Return the whole text that code stands in, with a new text for it."""
    return variable.source.replace(variable.text.strip("\n"), text.strip("\n"), 1) if variable.source else text


def _definition(text: str, subject: str) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef:
    try:
        body = parse_source(text, label=subject).body
    except SourceError as exc:
        raise UnloadableError(str(exc)) from None
    definitions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    if len(definitions) != 1 or len(body) > 1:
        raise UnloadableError(
            f"{subject} has {len(body)} statements; give the one function or class, with its imports and helpers "
            "inside it"
        )
    return definitions[0]
