"""Memory systems as components: their configuration, and how one is made again from the text of its class's module."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from agentorchestra.tea.memory.base import MEMBERS, MemoryFactory, describe_memory
from agentorchestra.tea.programs.sources import class_text
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.kind import Kind, Made, TextVariable
from agentorchestra.tea.registry.kinds import ENVIRONMENT, class_name, code_variables, made_factory, said_of

_METHODS = ("begin", "step", "end")


def _describe(name: str, factory: MemoryFactory, builtin: bool) -> ComponentConfig:
    system = describe_memory(name, factory)
    return ComponentConfig(
        kind="memory",
        name=name,
        description=system.description,
        version=system.version,
        content_hash=system.content_hash,
        metadata={key: value for key, value in system.settings.items() if key not in MEMBERS},
        builtin=builtin,
        evolvable=_evolvable(factory, builtin),
    )


def _evolvable(factory: MemoryFactory, builtin: bool) -> bool:
    evolvable = said_of(factory)
    return not builtin and bool(class_text(factory)) if evolvable is None else evolvable not in (False, ())


def _variables(factory: MemoryFactory, recipe: Made | None) -> list[TextVariable]:
    role = " ".join(factory().description.split())[:500]
    return code_variables(recipe, class_name(factory), "memory code", role)


_AS_ENVIRONMENTS: Any = ENVIRONMENT  # both are makers of objects with a name and a version

MEMORY: Kind[MemoryFactory] = replace(
    _AS_ENVIRONMENTS,
    name="memory",
    plural="memories",
    describe=_describe,
    fits=lambda make: all(hasattr(make, part) for part in _METHODS) if inspect.isclass(make) else callable(make),
    make=lambda name, maker, text: made_factory("memory system", maker, text, _METHODS),
    variables=_variables,
    with_words=lambda factory, maker: factory,
    rights=lambda make, recipe: {},
)
