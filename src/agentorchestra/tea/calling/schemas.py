"""JSON schemas to pydantic models and back (000, app. C.1: the dynamic manager's parameter schemas).

A model accepts exactly the values of its schema: nothing is coerced, and the schema itself is asked last. The types of
its fields say where a value is wrong, and make models of the objects inside.
"""

from __future__ import annotations

import copy
import keyword
import re
from collections.abc import Mapping
from typing import Any, ClassVar, ForwardRef, Literal, Self, Union

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
    model_validator,
)

from agentorchestra.core.errors import SourceError
from agentorchestra.tea.calling.signatures import UntitledSchema, schema_problems

_NUMBER = StrictInt | StrictFloat
_SIMPLE: dict[str, Any] = {
    "string": StrictStr,
    "integer": _NUMBER,  # 1.0 is an integer of JSON schema
    "number": _NUMBER,
    "boolean": StrictBool,
    "null": None,
}
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
    maker = _Maker(schema)
    try:
        maker.check_references(schema)
        found = maker.model(schema, name)
        for one in (*maker.made.values(), found):
            one.model_rebuild(_types_namespace=dict(maker.made))
    except RecursionError:
        raise SourceError(f"the schema of {name} is nested too deeply") from None
    return found


def arguments_model(name: str, parameters: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model of the arguments of a call: `PriceOfArguments`."""
    words = re.sub(r"[^0-9a-zA-Z]+", " ", name).title().replace(" ", "")
    return model_of(dict(parameters), f"{words}Arguments")


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model's values; `schema_of(model_of(s))` accepts what `s` does."""
    return model.model_json_schema(schema_generator=UntitledSchema)


class _Maker:
    """Makes the models of one schema; `made` has those of its definitions, by name."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions = {**root.get("definitions", {}), **root.get("$defs", {})}
        self._making: set[str] = set()
        self.made: dict[str, type[BaseModel]] = {}

    def check_references(self, value: Any) -> None:
        """Raise SourceError for a reference to what is not there."""
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            if key == "$ref" and isinstance(one, str):
                self._name_of(one)
            elif isinstance(one, dict | list):
                self.check_references(one)

    def _name_of(self, ref: str) -> str:
        found = _REFERENCE.fullmatch(ref)
        if found is None or found[1] not in self._definitions:
            raise SourceError(f"the schema refers to {ref[:100]!r}, which is not in it")
        return found[1]

    def model(self, schema: dict[str, Any], name: str) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        required = schema.get("required", ())
        for property_, inner in schema.get("properties", {}).items():
            field = _field_name(property_, fields)
            said = inner if isinstance(inner, dict) else {}
            given: dict[str, Any] = {word: said[word] for word in ("description", "title") if word in said}
            if field != property_:
                given["alias"] = property_
            if property_ not in required:
                given["default"] = said.get("default")
            fields[field] = (self.type(inner, f"{name}_{field}"), Field(**given))
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        base = type(
            name,
            (SchemaModel,),
            {
                "__module__": __name__,
                "model_config": ConfigDict(extra="forbid" if closed else "allow"),
                "__json_schema__": {**schema, "$defs": self._definitions} if self._definitions else schema,
            },
        )
        return create_model(name, __base__=base, __doc__=schema.get("description") or None, **fields)

    def type(self, schema: Any, name: str) -> Any:
        """Return a Python type that accepts whatever a schema accepts."""
        if not isinstance(schema, dict):
            return Any
        if isinstance(schema.get("$ref"), str):
            return self._referred(self._name_of(schema["$ref"]))
        if schema.get("anyOf"):
            return Union[tuple(self.type(one, f"{name}_{n}") for n, one in enumerate(schema["anyOf"]))]  # noqa: UP007
        values, kind = schema.get("enum"), schema.get("type")
        if values and all(type(one) is str for one in values):
            return Literal[tuple(values)]
        if isinstance(kind, list) and kind:
            kinds = [self.type({**schema, "type": one}, f"{name}_{n}") for n, one in enumerate(kind)]
            return Union[tuple(kinds)]  # noqa: UP007
        if kind == "array":
            items = True if "prefixItems" in schema else schema.get("items", True)
            return list[self.type(items, f"{name}_item")]  # type: ignore[misc]
        if kind == "object" and _has_fields(schema):
            return self.model(schema, name)
        if kind == "object":
            values = True if "patternProperties" in schema else schema.get("additionalProperties", True)
            return dict[str, self.type(values, f"{name}_value")]  # type: ignore[misc]
        return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any

    def _referred(self, name: str) -> Any:
        target, title = self._definitions[name], re.sub(r"\W", "_", name)
        if title in self.made:
            return self.made[title]
        if name in self._making:
            return ForwardRef(title) if _has_fields(target) else Any
        self._making.add(name)
        try:
            found = self.type(target, title)
        finally:
            self._making.discard(name)
        if _has_fields(target):
            self.made[title] = found
        return found


def _has_fields(schema: Any) -> bool:
    """Return True if the values of a schema are objects with properties of their own."""
    kept = {"$ref", "anyOf", "enum", "patternProperties"}
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and not kept & schema.keys()
    )


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
