"""JSON schemas to pydantic models and back (000, app. C.1: the dynamic manager's parameter schemas).

A model accepts exactly the values of its schema: types are not coerced, and what pydantic has no words for (`oneOf`,
`pattern`, `not`, ...) is checked by the schema itself.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ForwardRef, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from agentorchestra.core.errors import SourceError
from agentorchestra.tea.calling.signatures import schema_problems

_AWAY = "https://schemas.invalid/"
"""Stands before references in what the schema itself checks: pydantic leaves such ones alone."""

_WORDS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format"}
)
"""Keywords that refuse no value."""

_OF_MODELS = frozenset({"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"})
"""Keywords that fields and configuration of a model say."""

_LIMITS: dict[str, dict[str, str]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "integer": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "number": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "object": {"minProperties": "min_length", "maxProperties": "max_length"},
    "boolean": {},
    "null": {},
}
_SIMPLE: dict[str, Any] = {"string": StrictStr, "number": StrictFloat | StrictInt, "boolean": StrictBool, "null": None}


class _Titles(GenerateJsonSchema):
    """Without titles made of names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


class SchemaModel(BaseModel):
    """What the models of schemas have in common."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


def model_of(schema: dict[str, Any], name: str = "Arguments") -> type[BaseModel]:
    """The pydantic model of an object's JSON schema (2020-12); names that Python cannot have are aliases.

    Args:
        schema: of an object; `$ref` may point into its `$defs`.
        name: of the model.

    Raises:
        SourceError: for a schema that is not an object's, is nested too deeply, or refers to what it does not have.
    """
    if schema.get("type") != "object":
        raise SourceError(f"the schema of {name} is not an object's: its type must be 'object'")
    maker = _Maker(schema)
    try:
        found = maker.model(schema, name)
        for one in maker.made.values():
            one.model_rebuild(_types_namespace=dict(maker.made))
        found.model_rebuild(_types_namespace=dict(maker.made))
    except RecursionError:
        raise SourceError(f"the schema of {name} is nested too deeply") from None
    return found


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model's values; `schema_of(model_of(s))` accepts what `s` does."""
    schema = model.model_json_schema(schema_generator=_Titles)
    extra: dict[str, Any] = getattr(model, "__schema_definitions__", {})
    away: set[str] = set()
    found: dict[str, Any] = _moved(schema, lambda ref: _home(ref, away))
    todo = set(away)
    definitions = dict(found.get("$defs", {}))
    while todo:
        one = todo.pop()
        if one not in definitions and one in extra:
            definitions[one] = extra[one]
            more: set[str] = set()
            _moved(extra[one], lambda ref, more=more: _home(ref, more))  # type: ignore[misc]
            todo |= more
    if definitions:
        found["$defs"] = definitions
    return found


def _home(ref: str, found: set[str]) -> str:
    for prefix in (_AWAY, "#/$defs/"):
        if ref.startswith(prefix):
            found.add(ref.removeprefix(prefix))
            return f"#/$defs/{ref.removeprefix(prefix)}"
    return ref


def _moved(value: Any, move: Callable[[str], str]) -> Any:
    """A schema with its references changed."""
    if isinstance(value, dict):
        return {
            key: move(one) if key == "$ref" and isinstance(one, str) else _moved(one, move)
            for key, one in value.items()
        }
    return [_moved(one, move) for one in value] if isinstance(value, list) else value


class _Maker:
    """Makes the models of one schema.

    Attributes:
        made: models of definitions, by name.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions = {**root.get("definitions", {}), **root.get("$defs", {})}
        self._making: set[str] = set()
        self.made: dict[str, type[BaseModel]] = {}

    def model(self, schema: dict[str, Any], name: str) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        required = set(schema.get("required", ()))
        properties = schema.get("properties", {})
        for property_, inner in properties.items():
            field = _field_name(property_, fields)
            given: dict[str, Any] = {"alias": property_} if field != property_ else {}
            if isinstance(inner, dict):
                given |= {word: inner[word] for word in ("description", "title") if word in inner}
                given |= {"json_schema_extra": {"format": inner["format"]}} if "format" in inner else {}
            if property_ not in required:
                has = isinstance(inner, dict) and "default" in inner
                given |= {"default": inner["default"]} if has else {"default_factory": _nothing}
            fields[field] = (self.type(inner, f"{name}_{field}"), Field(**given))
        config = ConfigDict(extra="forbid" if schema.get("additionalProperties") is False else "allow")
        more = {key: value for key, value in schema.items() if key not in _WORDS | _OF_MODELS}
        if isinstance(schema.get("additionalProperties"), dict):
            more["additionalProperties"] = schema["additionalProperties"]
        if required - set(properties):
            more["required"] = list(schema["required"])
        members: dict[str, Any] = {"__module__": __name__}
        if more:
            config["json_schema_extra"] = self._away(more)
            members["check_rest"] = model_validator(mode="before")(functools.partial(_check, self._whole(schema)))
        base = type(name, (SchemaModel,), {**members, "model_config": config})
        found: type[SchemaModel] = create_model(
            name, __base__=base, __doc__=schema.get("description") or None, **fields
        )
        found.__schema_definitions__ = self._definitions  # type: ignore[attr-defined]
        return found

    def type(self, schema: Any, name: str) -> Any:
        """The Python type that accepts what a schema accepts."""
        if schema is True:
            return Any
        if not isinstance(schema, dict):
            return self._checked(schema)
        rules = {key: value for key, value in schema.items() if key not in _WORDS}
        if not rules:
            return Any
        if set(rules) == {"$ref"}:
            return self._referred(str(rules["$ref"]), schema)
        if set(rules) == {"anyOf"} and rules["anyOf"]:
            return Union[tuple(self.type(one, f"{name}_{n}") for n, one in enumerate(rules["anyOf"]))]  # noqa: UP007
        if set(rules) in ({"enum"}, {"enum", "type"}) and self._plain(rules["enum"], rules.get("type")):
            return Literal[tuple(rules["enum"])]
        kind = rules.pop("type", None)
        if isinstance(kind, list) and kind:
            kinds = [self.type({**rules, "type": one}, f"{name}_{n}") for n, one in enumerate(kind)]
            return Union[tuple(kinds)]  # noqa: UP007
        return self._typed(kind, rules, schema, name)

    def _typed(self, kind: Any, rules: dict[str, Any], schema: dict[str, Any], name: str) -> Any:
        if not isinstance(kind, str) or kind not in _LIMITS:
            return self._checked(schema)
        limits = {_LIMITS[kind][key]: rules.pop(key) for key in list(rules) if key in _LIMITS[kind]}
        inner: Any
        if kind == "array":
            inner = list[self.type(rules.pop("items", True), f"{name}_item")]  # type: ignore[misc]
        elif kind == "object" and rules.get("properties") is not None and not limits:
            if set(rules) <= {"properties", "required", "additionalProperties"} and isinstance(
                rules.get("additionalProperties", True), bool
            ):
                return self.model(schema, name)
            return self._checked(schema)
        elif kind == "object":
            inner = dict[str, self.type(rules.pop("additionalProperties", True), f"{name}_value")]  # type: ignore[misc]
        elif kind == "integer":
            inner = StrictInt
        else:
            inner = _SIMPLE[kind]
        if rules:  # what is left has no words in pydantic, or means nothing for this type
            return self._checked(schema)
        return Annotated[inner, Field(**limits)] if limits else inner

    def _plain(self, values: Any, kind: Any) -> bool:
        """Whether values are texts, for which equality means the same here and there."""
        return (
            isinstance(values, list)
            and bool(values)
            and all(type(one) is str for one in values)
            and kind in (None, "string")
        )

    def _referred(self, ref: str, schema: dict[str, Any]) -> Any:
        name = re.sub(r"^#/(\$defs|definitions)/", "", ref)
        if name == ref or name not in self._definitions:
            raise SourceError(f"the schema refers to {ref[:100]!r}, which is not in it")
        target = self._definitions[name]
        title = re.sub(r"\W", "_", name)
        if title in self.made or name in self._making:
            return self.made.get(title) or (ForwardRef(title) if self._is_model(target) else self._checked(schema))
        self._making.add(name)
        try:
            found = self.type(target, title)
        finally:
            self._making.discard(name)
        if isinstance(found, type) and issubclass(found, BaseModel):
            self.made[title] = found
        return found

    def _is_model(self, schema: Any) -> bool:
        if not isinstance(schema, dict) or schema.get("type") != "object" or schema.get("properties") is None:
            return False
        rules = set(schema) - _WORDS
        return rules <= {"type", "properties", "required", "additionalProperties"} and isinstance(
            schema.get("additionalProperties", True), bool
        )

    def _checked(self, schema: Any) -> Any:
        """Any value that the schema itself accepts."""
        rules = schema if isinstance(schema, dict) else {"not": {}}
        check = functools.partial(_check, self._whole(rules))
        return Annotated[Any, AfterValidator(check), WithJsonSchema(self._away(rules))]

    def _whole(self, rules: dict[str, Any]) -> dict[str, Any]:
        """Rules that stand alone."""
        return {**rules, "$defs": self._definitions} if self._definitions else rules

    def _away(self, rules: dict[str, Any]) -> dict[str, Any]:
        """Rules as pydantic may show them."""
        moved: dict[str, Any] = _moved(rules, lambda ref: re.sub(r"^#/(\$defs|definitions)/", _AWAY, ref))
        return moved


def _check(schema: dict[str, Any], value: Any) -> Any:
    problems = schema_problems(value, schema)
    if problems:
        raise ValueError("; ".join(problems[:3]))
    return value


def _nothing() -> None:
    """The value of a property that was not given; no default of the schema."""
    return


def _field_name(name: str, taken: Mapping[str, Any]) -> str:
    """A name that a field may have: the property's own where possible."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith(("_", "model_"))
    if usable and not hasattr(BaseModel, name) and name not in taken:
        return name
    base = re.sub(r"\W", "_", name).strip("_") or "field"
    base = f"field_{base}" if not base[0].isalpha() or not base.isidentifier() else base
    found, number = f"{base}_", 2
    while found in taken:
        found, number = f"{base}_{number}", number + 1
    return found


__all__ = ["SchemaModel", "model_of", "schema_of"]
