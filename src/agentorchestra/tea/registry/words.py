"""The words that describe a component to models: they can be changed without its code, as texts laid over it.

The code of a tool of a server, or of one that comes with the package, is not this workspace's to change; its
description and those of its arguments are. They are variables like others (000, app. C.4), by these names:

    description, argument:NAME                      of a tool
    rules, action:NAME, argument:ACTION.NAME        of an environment, besides its description
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.registry.history import Maker
from agentorchestra.tea.registry.kind import Made, TextVariable

CODE = "code"
DESCRIPTION = "description"


def schema_variables(schema: ToolSchema, action: str = "") -> Iterator[TextVariable]:
    if action:
        yield TextVariable(f"action:{action}", schema.description, DESCRIPTION, f"what the action {action} does")
    else:
        use = f"what {schema.name} does, for who may call it"
        yield TextVariable(DESCRIPTION, schema.description, DESCRIPTION, use)
    within = f"{action}." if action else ""
    for name, inner in _properties(schema.parameters).items():
        text = str(inner.get(DESCRIPTION) or "") if isinstance(inner, Mapping) else ""
        use = f"what {name} is, an argument of {schema.name}"
        yield TextVariable(f"argument:{within}{name}", text, DESCRIPTION, use)


def with_words(schema: ToolSchema, maker: Maker, action: str = "") -> ToolSchema:
    """Return a schema with the words of a maker in place of its own; those for an argument that is gone say nothing."""
    texts = maker.texts
    within = f"{action}." if action else ""
    properties = {
        name: {**inner, DESCRIPTION: texts[key]} if (key := f"argument:{within}{name}") in texts else inner
        for name, inner in _properties(schema.parameters).items()
    }
    description = texts.get(f"action:{action}" if action else DESCRIPTION, schema.description)
    parameters = {**schema.parameters, "properties": properties} if properties else schema.parameters
    if (description, parameters) == (schema.description, schema.parameters):
        return schema
    trust = lowest(Trust.UNTRUSTED, schema.trust) if maker.foreign_texts else schema.trust
    return schema.model_copy(update={"description": description, "parameters": parameters, "trust": trust})


def reword(recipe: Made, values: Mapping[str, str]) -> Made:
    """Return what a component is made of with other words laid over it: all of these values but its code."""
    texts = {name: text for name, text in values.items() if name != CODE}
    return Made(recipe.text, recipe.maker.model_copy(update={"texts": {**recipe.maker.texts, **texts}}))


def _properties(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = parameters.get("properties")
    return properties if isinstance(properties, Mapping) else {}
