"""The arguments of a call as a pydantic model (000, app. C.1: the dynamic manager's parameter schemas).

A model accepts exactly the values of its JSON schema: the schema itself decides, and nothing is coerced. What is inside
of an argument stays a JSON value.
"""

from __future__ import annotations

import copy
import keyword
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from agentorchestra.tea.calling.signatures import schema_problems


class ArgumentsModel(BaseModel):
    """Base of the models: an object of a JSON schema."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    __json_schema__: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def check_schema(cls, value: Any) -> Any:
        """Refuse what the schema refuses."""
        problems = [] if isinstance(value, cls) else schema_problems(value, cls.__json_schema__)
        if problems:
            raise ValueError("; ".join(problems[:3]))
        return value

    @classmethod
    def model_json_schema(cls, *_options: Any, **_keywords: Any) -> dict[str, Any]:
        """Return the schema that the model was made of."""
        return copy.deepcopy(cls.__json_schema__)


def arguments_model(name: str, parameters: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model of the arguments of a call: `PriceOfArguments`; a name that Python cannot have is an alias."""
    words = re.sub(r"[^0-9a-zA-Z]+", " ", name).title().replace(" ", "")
    required, fields = parameters.get("required", ()), dict[str, Any]()
    for argument, schema in parameters.get("properties", {}).items():
        entry = schema if isinstance(schema, Mapping) else {}
        default = ... if argument in required else entry.get("default")
        field = _field_name(argument, fields)
        alias = argument if field != argument else None
        fields[field] = (Any, Field(default, alias=alias, description=entry.get("description")))
    model = create_model(f"{words}Arguments", __base__=ArgumentsModel, __module__=__name__, **fields)
    model.__json_schema__ = dict(parameters)
    return model


def _field_name(name: str, fields: Mapping[str, Any]) -> str:
    """Return a name that a field may have: the argument's own where possible."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    if usable and not hasattr(ArgumentsModel, name) and name not in fields:
        return name
    base = "field_" + re.sub(r"\W", "_", name).strip("_")
    field, number = base, 2
    while field in fields:
        field, number = f"{base}_{number}", number + 1
    return field
