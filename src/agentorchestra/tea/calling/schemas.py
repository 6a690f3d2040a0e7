"""JSON schemas to pydantic models and back (000, app. C.1: the dynamic manager's parameter schemas).

A model accepts exactly the values of its schema: the schema itself is asked, and nothing is coerced. Objects inside
stay dictionaries.
"""

from __future__ import annotations

import copy
import keyword
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, create_model, model_validator

from agentorchestra.core.errors import SourceError
from agentorchestra.tea.calling.signatures import UntitledSchema, schema_problems

_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/(.*)", re.DOTALL)


class SchemaModel(BaseModel):
    """An object of a JSON schema."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    __json_schema__: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def check_schema(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Make the model of a value that its schema accepts."""
        found = handler(value)
        problems = [] if isinstance(value, cls) else schema_problems(value, cls.__json_schema__)
        if problems:
            raise ValueError("; ".join(problems[:3]))
        return found

    @classmethod
    def model_json_schema(cls, *_options: Any, **_named: Any) -> dict[str, Any]:
        """Return the schema that the model was made of."""
        return copy.deepcopy(cls.__json_schema__)


def model_of(schema: dict[str, Any], name: str = "Arguments") -> type[BaseModel]:
    """Return the model of an object's JSON schema (2020-12; `$ref` into its `$defs`), or raise SourceError."""
    if schema.get("type") != "object":
        raise SourceError(f"the schema of {name} is not an object's: its type must be 'object'")
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    try:
        _check_references(schema, definitions)
    except RecursionError:
        raise SourceError(f"the schema of {name} is nested too deeply") from None
    fields: dict[str, Any] = {}
    for property_, inner in schema.get("properties", {}).items():
        field = _field_name(property_, fields)
        said = inner if isinstance(inner, dict) else {}
        given: dict[str, Any] = {word: said[word] for word in ("description", "title") if word in said}
        if field != property_:
            given["alias"] = property_
        if property_ not in schema.get("required", ()):
            given["default"] = said.get("default")
        fields[field] = (Any, Field(**given))
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    base = type(
        name,
        (SchemaModel,),
        {
            "__module__": __name__,
            "model_config": ConfigDict(extra="forbid" if closed else "allow"),
            "__json_schema__": {**schema, "$defs": definitions} if definitions else schema,
        },
    )
    return create_model(name, __base__=base, __doc__=schema.get("description") or None, **fields)


def arguments_model(name: str, parameters: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model of the arguments of a call: `PriceOfArguments`."""
    words = re.sub(r"[^0-9a-zA-Z]+", " ", name).title().replace(" ", "")
    return model_of(dict(parameters), f"{words}Arguments")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model's values; `schema_of(model_of(s))` accepts what `s` does."""
    return model.model_json_schema(schema_generator=UntitledSchema)


def _check_references(value: Any, definitions: Mapping[str, Any]) -> None:
    """Raise SourceError for a reference to what is not there."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if key == "$ref" and isinstance(one, str):
            found = _REFERENCE.fullmatch(one)
            if found is None or found[1] not in definitions:
                raise SourceError(f"the schema refers to {one[:100]!r}, which is not in it")
        elif isinstance(one, dict | list):
            _check_references(one, definitions)


def _field_name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name that a field may have: the property's own where possible."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith(("_", "model_"))
    if usable and not hasattr(SchemaModel, name) and name not in taken:
        return name
    base = re.sub(r"\W", "_", name).strip("_") or "field"
    base = f"field_{base}" if not base[0].isalpha() or not base.isidentifier() else base
    found, number = f"{base}_", 2
    while found in taken:
        found, number = f"{base}_{number}", number + 1
    return found
