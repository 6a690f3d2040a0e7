"""The kinds of component that live in this room: tools, environments, prompts; agents are described in theirs."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.conditions import conditions_of
from agentorchestra.core.errors import SourceError, VersionError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.programs.dynamic import class_from_source, tools_from_source
from agentorchestra.tea.programs.foreign import TIMEOUT_S, Programs, called_tools, foreign_tool
from agentorchestra.tea.programs.sources import class_text, module_text, package_of, symbol_of
from agentorchestra.tea.prompts.prompt import Prompt, parse_prompt
from agentorchestra.tea.registry.config import ComponentConfig, Operation
from agentorchestra.tea.registry.history import Maker
from agentorchestra.tea.registry.kind import Evolvable, Kind, Made, Variable
from agentorchestra.tea.registry.rights import MODE, TOUCHES, Rights
from agentorchestra.tea.registry.words import CODE, DESCRIPTION, schema_variables, with_words, worded

EnvironmentFactory = Callable[[], Environment]

_DEFAULT = "1.0.0"


def operation(schema: ToolSchema) -> Operation:
    return Operation(name=schema.name, description=schema.description, parameters=schema.parameters)


# -- tools -------------------------------------------------------------------------------------------------------------


def _describe_tool(name: str, tool: Tool[..., Any], builtin: bool) -> ComponentConfig:
    metadata: dict[str, JsonValue] = {"tags": [*sorted(tag.value for tag in tool.tags)], "mode": tool.mode.value}
    if tool.timeout_s is not None:
        metadata["timeout_s"] = tool.timeout_s
    if tool.traits.approval != "policy":
        metadata["approval"] = tool.traits.approval
    if tool.traits.invokers is not None:
        metadata["invokers"] = [*tool.traits.invokers]
    if tool.traits.distribution:
        metadata["distribution"] = tool.traits.distribution
    said = tool.traits.evolvable
    if said is not None:
        metadata["evolvable"] = said if isinstance(said, bool) else [*said]
    return ComponentConfig(
        kind="tool",
        name=name,
        description=tool.description,
        version=tool.version,
        content_hash=tool.content_hash,
        operations=(operation(tool.schema).model_copy(update={"name": name}),),
        metadata=metadata,
        builtin=builtin,
        evolvable=tool.traits.evolvable not in (False, ()),
        origin=tool.traits.origin,
    )


def _made_of_tool(tool: Tool[..., Any]) -> Made | None:
    text = module_text(tool)
    if not text:
        return None
    maker = Maker(how="module", symbol=symbol_of(tool), package=package_of(tool), script=tool.__module__ == "__main__")
    return Made(text, maker)


def _make_tool(name: str, maker: Maker, text: str) -> Tool[..., Any]:
    text = definitions_of(text) if maker.script else text
    (found,) = tools_from_source(text, name=maker.symbol or name, package=maker.package)
    return found


def definitions_of(text: str) -> str:
    """Return a program's text without the statements that only do something: those started it once already."""
    lines = text.splitlines(keepends=True)
    for one in ast.parse(text).body:
        if isinstance(one, ast.Expr) and not isinstance(one.value, ast.Constant):
            for number in range(one.lineno - 1, one.end_lineno or one.lineno):
                lines[number] = "\n"
    return "".join(lines)


def code_variables(made: Made | None, name: str, role: str, description: str) -> list[Variable]:
    """Return the one variable of a component that is made of code: the function or class of this name in its text."""
    if made is None or not made.text:
        return []
    start, end = lines_of(made.text, made.maker.symbol or name)
    return [Variable(CODE, "".join(made.text.splitlines(keepends=True)[start:end]), role, description)]


def rewritten_code(made: Made, name: str, values: Mapping[str, str]) -> Made:
    """Return what a component is made of with other code for this name in its text, and other words."""
    made = worded(made, values)
    if CODE not in values:
        return made
    lines = made.text.splitlines(keepends=True)
    start, end = lines_of(made.text, name)
    code = values[CODE]
    text = "".join([*lines[:start], code.rstrip("\n") + "\n", *lines[end:]])
    return Made(text, made.maker.model_copy(update={"how": "source"}))


def lines_of(text: str, name: str) -> tuple[int, int]:
    """Return the first line of a function or class with decorators, which may name it, and the line after its last."""
    try:
        tree = ast.parse(text)
    except SyntaxError as exc:
        raise SourceError(f"the text of {name!r} is no Python: line {exc.lineno}: {exc.msg}") from None
    defined = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    for one in defined:
        named = [
            key.value.value
            for decorator in one.decorator_list
            if isinstance(decorator, ast.Call)
            for key in decorator.keywords
            if key.arg == "name" and isinstance(key.value, ast.Constant)
        ]
        if name == one.name or name in named:
            first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
            return first - 1, one.end_lineno or one.lineno
    raise SourceError(f"{name!r} is not defined at the top of its text, so its code cannot be told from the rest")


def tool_kind(
    programs: Programs, *, may_call: Collection[str] = (), may_import: Collection[str] = ()
) -> Kind[Tool[..., Any]]:
    """Return the kind of tools; `may_call` and `may_import` are for code that the workspace's user did not write."""

    async def foreign(name: str, maker: Maker, text: str, config: ComponentConfig | None) -> Tool[..., Any]:
        seconds = config.metadata.get("timeout_s") if config is not None else None
        limit = min(TIMEOUT_S, seconds) if isinstance(seconds, int | float) else TIMEOUT_S
        found = foreign_tool(
            text, maker.symbol or name, programs, timeout_s=limit, may_call=may_call, may_import=may_import
        )
        said = config.metadata.get("evolvable") if config is not None else None
        if isinstance(said, bool | list):  # what its author said stands in a decorator, which is not executed
            found = found.with_traits(evolvable=said if isinstance(said, bool) else tuple(map(str, said)))
        return found

    return Kind(
        name="tool",
        plural="tools",
        describe=_describe_tool,
        fits=lambda one: isinstance(one, Tool),
        named=lambda one: one.name,
        made=_made_of_tool,
        make=_make_tool,
        make_foreign=foreign,
        is_code=lambda maker: True,
        written=lambda one: (one.version, True) if one.traits.explicit else None,
        version_of=lambda one: one.version,
        copied=_copied,
        renamed=lambda one, name, version: one.renamed(name, version),
        variables=lambda one, made: [
            *code_variables(made, one.name, "tool code", one.description),
            *schema_variables(one.schema),
        ],
        rewritten=lambda one, made, values: rewritten_code(
            _copied(made, one.name, ""), made.maker.symbol or one.name, values
        ),
        worded=lambda one, maker: one.described(with_words(one.schema, maker)),
        evolvable=lambda one: one.traits.evolvable,
        rights=lambda one, made: _rights_of_tool(one, made, frozenset(may_call)),
        limited=lambda one, invokers: one.with_traits(invokers=invokers),
    )


def _rights_of_tool(tool: Tool[..., Any], made: Made | None, may_call: frozenset[str]) -> Rights:
    code = made.text if made is not None else ""
    return {
        TOUCHES: frozenset(tag.value for tag in tool.tags),
        MODE: tool.mode.value,
        "approval": tool.traits.approval,
        "the trusted fields of its result": frozenset(".".join(path) for path in tool.traits.trusted),
        "seconds": inf if tool.timeout_s is None else tool.timeout_s,
        "US dollars": tool.bound.cost_usd,
        "the tools that its code calls": called_tools(ast.parse(code)) & may_call,
    }


def _copied(made: Made, name: str, new_name: str) -> Made:
    symbol = made.maker.symbol or name
    return Made(made.text, made.maker.model_copy(update={"symbol": symbol}))


# -- environments ------------------------------------------------------------------------------------------------------


class NamedFactory:
    """A factory whose instances have the name and version that the registry gave, and the words of their maker."""

    def __init__(self, make: EnvironmentFactory, name: str, version: str, words: Maker | None = None) -> None:
        self.make: EnvironmentFactory = make.make if isinstance(make, NamedFactory) else make
        self.name = name
        self.version = version
        self.words: Maker | None = words or (make.words if isinstance(make, NamedFactory) else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.make, name)

    def __call__(self) -> Environment:
        made = self.make()
        if made.version != self.version:
            made.version = self.version
        if made.name != self.name:
            made.name = self.name
        if self.words is not None:
            _describe_anew(made, self.words)
        return made


def _describe_anew(environment: Any, words: Maker) -> None:
    texts, rules = words.texts, environment.rules()
    schemas = tuple(with_words(one, words, one.name) for one in environment.actions())
    environment.content_hash = sha256_json([environment.content_hash, texts])
    environment.actions = lambda: schemas
    environment.rules = lambda: texts.get("rules", rules)


def _action(environment: Environment, action: ToolSchema) -> Operation:
    found = operation(action)
    conditions = conditions_of(environment, action.name).text
    return found.model_copy(update={"description": f"{found.description}\n\n{conditions}"}) if conditions else found


def _describe_environment(name: str, factory: EnvironmentFactory, builtin: bool) -> ComponentConfig:
    one = factory()
    words = factory.words.texts if isinstance(factory, NamedFactory) and factory.words is not None else {}
    doc = words.get(DESCRIPTION) or inspect.cleandoc(getattr(one, "description", "") or type(one).__doc__ or "")
    return ComponentConfig(
        kind="environment",
        name=name,
        description=" ".join(doc.split()),
        version=one.version,
        content_hash=one.content_hash,
        operations=tuple(_action(one, action) for action in one.actions()),
        rules=one.rules(),
        metadata={"branching": one.branching, "durable": one.durable},
        builtin=builtin,
        evolvable=said_of(factory) not in (False, ()),
    )


def class_name(factory: Callable[[], Any]) -> str:
    made = factory.make if isinstance(factory, NamedFactory) else factory
    return made.__name__ if isinstance(made, type) else type(factory()).__name__


def _made_of_environment(factory: EnvironmentFactory) -> Made | None:
    cls = factory.make if isinstance(factory, NamedFactory) else factory
    text = class_text(cls)
    if not text or not isinstance(cls, type):
        return None
    script = cls.__module__ == "__main__"
    return Made(text, Maker(how="module", symbol=cls.__name__, package=package_of(cls), script=script))


_MEMBERS = ("actions", "mutates", "rules", "open", "close", "act", "state")


def made_factory(what: str, maker: Maker, text: str, members: tuple[str, ...]) -> Callable[[], Any]:
    """Return the class that a kept text defines, which can be called without arguments; raise SourceError if not."""
    text = definitions_of(text) if maker.script else text
    cls = class_from_source(text, maker.symbol or None, has=members, package=maker.package)
    try:
        cls()
    except Exception as exc:
        raise SourceError(f"the {what} {cls.__name__} cannot be made: {type(exc).__name__}: {exc}") from None
    return cls


def _renamed_environment(factory: EnvironmentFactory, name: str, version: str) -> EnvironmentFactory:
    held = factory if isinstance(factory, NamedFactory) else factory()
    if (held.name, held.version) == (name, version):
        return factory
    return NamedFactory(factory, name, version)


def said_of(factory: Callable[[], Any]) -> Evolvable:
    """Return what the class of an environment or memory system says may be optimised (`evolvable`)."""
    said = getattr(factory(), "evolvable", None)
    return said if said is None or isinstance(said, bool) else tuple(said)


def _variables_of_environment(factory: EnvironmentFactory, made: Made | None) -> list[Variable]:
    one = factory()
    rules = one.rules() or ""
    described = _describe_environment(one.name, factory, False).description
    return [
        *code_variables(made, class_name(factory), "environment code", " ".join(rules.split())[:500]),
        Variable(DESCRIPTION, described, DESCRIPTION, f"what the environment {one.name} is"),
        Variable("rules", rules, "rules", f"how agents work in {one.name}"),
        *(each for action in one.actions() for each in schema_variables(action, action.name)),
    ]


def _rights_of_environment(factory: EnvironmentFactory, made: Made | None) -> Rights:
    one = factory()
    tags = getattr(one, "tags", None)
    touched = {tag.value for action in one.actions() for tag in (tags(action.name) if tags is not None else ())}
    confined = bool(getattr(one, "confined", False))
    return {
        TOUCHES: frozenset({*touched, *(() if confined else ("places outside of its folder",))}),
        "branching": one.branching,
        "durable": one.durable,
    }


ENVIRONMENT: Kind[EnvironmentFactory] = Kind(
    name="environment",
    plural="environments",
    describe=_describe_environment,
    fits=callable,
    named=lambda factory: factory().name,
    made=_made_of_environment,
    make=lambda name, maker, text: made_factory("environment", maker, text, _MEMBERS),
    make_foreign=None,
    is_code=lambda maker: True,
    written=lambda factory: (v, True) if (v := factory().version) != _DEFAULT else None,
    version_of=lambda factory: factory().version,
    copied=_copied,
    renamed=_renamed_environment,
    variables=_variables_of_environment,
    rewritten=lambda factory, made, values: rewritten_code(made, made.maker.symbol or class_name(factory), values),
    worded=lambda factory, maker: NamedFactory(factory, (one := factory()).name, one.version, maker),
    evolvable=said_of,
    rights=_rights_of_environment,
)


# -- prompts -----------------------------------------------------------------------------------------------------------


def _describe_prompt(name: str, prompt: Prompt, builtin: bool) -> ComponentConfig:
    # What it must be given, as the arguments of a call: so that the version of a change is computed by the one rule.
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": {one: {} for one in prompt.variables},
        "required": [*prompt.variables],
        "additionalProperties": False,
    }
    return ComponentConfig(
        kind="prompt",
        name=name,
        description=prompt.description,
        version=prompt.version,
        content_hash=prompt.content_hash,
        operations=(Operation(name=name, description=prompt.description, parameters=parameters),),
        metadata={"variables": list(prompt.variables)},
        builtin=builtin,
        evolvable=bool(prompt.trainable) or not builtin,
    )


def _make_prompt(name: str, maker: Maker, text: str) -> Prompt:
    found = parse_prompt(text, label=f"the prompt {name!r}")
    if maker.symbol and found.name != name:
        raise VersionError(f"the text kept for the prompt {name!r} says that its name is {found.name!r}")
    return found


def _copied_prompt(made: Made, name: str, new_name: str) -> Made:
    text = re.sub(rf"^name:[ \t]*{re.escape(name)}[ \t]*$", f"name: {new_name}", made.text, count=1, flags=re.MULTILINE)
    return Made(text, made.maker)


def _variables_of_prompt(prompt: Prompt, made: Made | None) -> list[Variable]:
    if not prompt.trainable:
        return [Variable("template", prompt.template, "prompt", prompt.description)]
    return [
        Variable(name, text, "prompt", f"the part `{name}` of a prompt: {prompt.description}")
        for name, text in prompt.parts.items()
    ]


def _rewrite_prompt(prompt: Prompt, made: Made, values: Mapping[str, str]) -> Made:
    if prompt.trainable:
        for name, value in values.items():
            prompt = prompt.with_part(name, value)
        return Made(prompt.text, made.maker)
    template = values.get("template", prompt.template)
    head, found, _ = made.text.rpartition(prompt.template) if prompt.template else (made.text, "", "")
    if prompt.template and not found:
        raise VersionError(f"the template of the prompt {prompt.name!r} does not stand in its text as it is")
    return Made(head + template.rstrip("\n") + "\n", made.maker)


PROMPT: Kind[Prompt] = Kind(
    name="prompt",
    plural="prompts",
    describe=_describe_prompt,
    fits=lambda one: isinstance(one, Prompt),
    named=lambda one: one.name,
    made=lambda one: Made(one.text, Maker(how="prompt")) if one.text else None,
    make=_make_prompt,
    make_foreign=None,
    is_code=lambda maker: False,
    written=lambda one: (one.version, False),
    version_of=lambda one: one.version,
    copied=_copied_prompt,
    renamed=lambda one, name, version: (
        one if (one.name, one.version) == (name, version) else replace(one, name=name, version=version)
    ),
    variables=_variables_of_prompt,
    rewritten=_rewrite_prompt,
    worded=lambda one, maker: one,
    evolvable=lambda one: None,
    rights=lambda one, made: {},
)
