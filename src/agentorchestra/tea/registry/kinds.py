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
from agentorchestra.tea.registry.kind import Evolvable, Kind, Made, TextVariable
from agentorchestra.tea.registry.rights import MODE, TOUCHES, Rights
from agentorchestra.tea.registry.words import CODE, DESCRIPTION, reword, schema_variables, with_words

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
    evolvable = tool.traits.evolvable
    if evolvable is not None:
        metadata["evolvable"] = evolvable if isinstance(evolvable, bool) else [*evolvable]
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
    (tool,) = tools_from_source(text, name=maker.symbol or name, package=maker.package)
    return tool


def definitions_of(text: str) -> str:
    """Return a program's text without the statements that only do something: those started it once already."""
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = "\n"
    return "".join(lines)


def code_variables(recipe: Made | None, name: str, role: str, description: str) -> list[TextVariable]:
    """Return the one variable of a component that is made of code: the function or class of this name in its text."""
    if recipe is None or not recipe.text:
        return []
    start, end = lines_of(recipe.text, recipe.maker.symbol or name)
    return [TextVariable(CODE, "".join(recipe.text.splitlines(keepends=True)[start:end]), role, description)]


def rewritten_code(recipe: Made, name: str, values: Mapping[str, str]) -> Made:
    """Return what a component is made of with other code for this name in its text, and other words."""
    recipe = reword(recipe, values)
    if CODE not in values:
        return recipe
    lines = recipe.text.splitlines(keepends=True)
    start, end = lines_of(recipe.text, name)
    code = values[CODE]
    text = "".join([*lines[:start], code.rstrip("\n") + "\n", *lines[end:]])
    return Made(text, recipe.maker.model_copy(update={"how": "source"}))


def lines_of(text: str, name: str) -> tuple[int, int]:
    """Return the first line of a function or class with decorators, which may name it, and the line after its last."""
    try:
        tree = ast.parse(text)
    except SyntaxError as exc:
        raise SourceError(f"the text of {name!r} is no Python: line {exc.lineno}: {exc.msg}") from None
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    for node in nodes:
        names = [
            key.value.value
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call)
            for key in decorator.keywords
            if key.arg == "name" and isinstance(key.value, ast.Constant)
        ]
        if name == node.name or name in names:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return first - 1, node.end_lineno or node.lineno
    raise SourceError(f"{name!r} is not defined at the top of its text, so its code cannot be told from the rest")


def tool_kind(
    programs: Programs, *, may_call: Collection[str] = (), may_import: Collection[str] = ()
) -> Kind[Tool[..., Any]]:
    """Return the kind of tools; `may_call` and `may_import` are for code that the workspace's user did not write."""

    async def foreign(name: str, maker: Maker, text: str, config: ComponentConfig | None) -> Tool[..., Any]:
        seconds = config.metadata.get("timeout_s") if config is not None else None
        limit = min(TIMEOUT_S, seconds) if isinstance(seconds, int | float) else TIMEOUT_S
        tool = foreign_tool(
            text, maker.symbol or name, programs, timeout_s=limit, may_call=may_call, may_import=may_import
        )
        evolvable = config.metadata.get("evolvable") if config is not None else None
        if isinstance(evolvable, bool | list):  # what its author said stands in a decorator, which is not executed
            tool = tool.with_traits(evolvable=evolvable if isinstance(evolvable, bool) else tuple(map(str, evolvable)))
        return tool

    return Kind(
        name="tool",
        plural="tools",
        describe=_describe_tool,
        fits=lambda tool: isinstance(tool, Tool),
        name_of=lambda tool: tool.name,
        recipe_of=_made_of_tool,
        make=_make_tool,
        make_foreign=foreign,
        is_code=lambda maker: True,
        own_version=lambda tool: (tool.version, True) if tool.traits.explicit else None,
        version_of=lambda tool: tool.version,
        copy_recipe=_copy_recipe,
        with_name=lambda tool, name, version: tool.with_name(name, version),
        variables=lambda tool, recipe: [
            *code_variables(recipe, tool.name, "tool code", tool.description),
            *schema_variables(tool.schema),
        ],
        rewritten=lambda tool, recipe, values: rewritten_code(
            _copy_recipe(recipe, tool.name, ""), recipe.maker.symbol or tool.name, values
        ),
        with_words=lambda tool, maker: tool.with_schema(with_words(tool.schema, maker)),
        evolvable=lambda tool: tool.traits.evolvable,
        rights=lambda tool, recipe: _rights_of_tool(tool, recipe, frozenset(may_call)),
        with_invokers=lambda tool, invokers: tool.with_traits(invokers=invokers),
    )


def _rights_of_tool(tool: Tool[..., Any], recipe: Made | None, may_call: frozenset[str]) -> Rights:
    code = recipe.text if recipe is not None else ""
    return {
        TOUCHES: frozenset(tag.value for tag in tool.tags),
        MODE: tool.mode.value,
        "approval": tool.traits.approval,
        "the trusted fields of its result": frozenset(".".join(path) for path in tool.traits.trusted),
        "seconds": inf if tool.timeout_s is None else tool.timeout_s,
        "US dollars": tool.bound.cost_usd,
        "the tools that its code calls": called_tools(ast.parse(code)) & may_call,
    }


def _copy_recipe(recipe: Made, name: str, new_name: str) -> Made:
    symbol = recipe.maker.symbol or name
    return Made(recipe.text, recipe.maker.model_copy(update={"symbol": symbol}))


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
        environment = self.make()
        if environment.version != self.version:
            environment.version = self.version
        if environment.name != self.name:
            environment.name = self.name
        if self.words is not None:
            _describe_anew(environment, self.words)
        return environment


def _describe_anew(environment: Any, words: Maker) -> None:
    texts, rules = words.texts, environment.rules()
    schemas = tuple(with_words(action, words, action.name) for action in environment.actions())
    environment.content_hash = sha256_json([environment.content_hash, texts])
    environment.actions = lambda: schemas
    environment.rules = lambda: texts.get("rules", rules)


def _action(environment: Environment, action: ToolSchema) -> Operation:
    entry = operation(action)
    conditions = conditions_of(environment, action.name).text
    return entry.model_copy(update={"description": f"{entry.description}\n\n{conditions}"}) if conditions else entry


def _describe_environment(name: str, factory: EnvironmentFactory, builtin: bool) -> ComponentConfig:
    env = factory()
    words = factory.words.texts if isinstance(factory, NamedFactory) and factory.words is not None else {}
    doc = words.get(DESCRIPTION) or inspect.cleandoc(getattr(env, "description", "") or type(env).__doc__ or "")
    return ComponentConfig(
        kind="environment",
        name=name,
        description=" ".join(doc.split()),
        version=env.version,
        content_hash=env.content_hash,
        operations=tuple(_action(env, action) for action in env.actions()),
        rules=env.rules(),
        metadata={"branching": env.branching, "durable": env.durable},
        builtin=builtin,
        evolvable=said_of(factory) not in (False, ()),
    )


def class_name(factory: Callable[[], Any]) -> str:
    make = factory.make if isinstance(factory, NamedFactory) else factory
    return make.__name__ if isinstance(make, type) else type(factory()).__name__


def _made_of_environment(factory: EnvironmentFactory) -> Made | None:
    cls = factory.make if isinstance(factory, NamedFactory) else factory
    text = class_text(cls)
    if not text or not isinstance(cls, type):
        return None
    script = cls.__module__ == "__main__"
    return Made(text, Maker(how="module", symbol=cls.__name__, package=package_of(cls), script=script))


_MEMBERS = ("actions", "mutates", "rules", "open", "close", "act", "state")


def made_factory(label: str, maker: Maker, text: str, members: tuple[str, ...]) -> Callable[[], Any]:
    """Return the class that a kept text defines, which can be called without arguments; raise SourceError if not."""
    text = definitions_of(text) if maker.script else text
    cls = class_from_source(text, maker.symbol or None, has=members, package=maker.package)
    try:
        cls()
    except Exception as exc:
        raise SourceError(f"the {label} {cls.__name__} cannot be made: {type(exc).__name__}: {exc}") from None
    return cls


def _renamed_environment(factory: EnvironmentFactory, name: str, version: str) -> EnvironmentFactory:
    env = factory if isinstance(factory, NamedFactory) else factory()
    if (env.name, env.version) == (name, version):
        return factory
    return NamedFactory(factory, name, version)


def said_of(factory: Callable[[], Any]) -> Evolvable:
    """Return what the class of an environment or memory system says may be optimised (`evolvable`)."""
    value = getattr(factory(), "evolvable", None)
    return value if value is None or isinstance(value, bool) else tuple(value)


def _variables_of_environment(factory: EnvironmentFactory, recipe: Made | None) -> list[TextVariable]:
    env = factory()
    rules = env.rules() or ""
    description = _describe_environment(env.name, factory, False).description
    return [
        *code_variables(recipe, class_name(factory), "environment code", " ".join(rules.split())[:500]),
        TextVariable(DESCRIPTION, description, DESCRIPTION, f"what the environment {env.name} is"),
        TextVariable("rules", rules, "rules", f"how agents work in {env.name}"),
        *(variable for action in env.actions() for variable in schema_variables(action, action.name)),
    ]


def _rights_of_environment(factory: EnvironmentFactory, recipe: Made | None) -> Rights:
    env = factory()
    tags = getattr(env, "tags", None)
    values = {tag.value for action in env.actions() for tag in (tags(action.name) if tags is not None else ())}
    closed = bool(getattr(env, "confined", False))
    return {
        TOUCHES: frozenset({*values, *(() if closed else ("places outside of its folder",))}),
        "branching": env.branching,
        "durable": env.durable,
    }


ENVIRONMENT: Kind[EnvironmentFactory] = Kind(
    name="environment",
    plural="environments",
    describe=_describe_environment,
    fits=callable,
    name_of=lambda factory: factory().name,
    recipe_of=_made_of_environment,
    make=lambda name, maker, text: made_factory("environment", maker, text, _MEMBERS),
    make_foreign=None,
    is_code=lambda maker: True,
    own_version=lambda factory: (v, True) if (v := factory().version) != _DEFAULT else None,
    version_of=lambda factory: factory().version,
    copy_recipe=_copy_recipe,
    with_name=_renamed_environment,
    variables=_variables_of_environment,
    rewritten=lambda factory, recipe, texts: rewritten_code(recipe, recipe.maker.symbol or class_name(factory), texts),
    with_words=lambda factory, maker: NamedFactory(factory, (env := factory()).name, env.version, maker),
    evolvable=said_of,
    rights=_rights_of_environment,
)


# -- prompts -----------------------------------------------------------------------------------------------------------


def _describe_prompt(name: str, prompt: Prompt, builtin: bool) -> ComponentConfig:
    # What it must be given, as the arguments of a call: so that the version of a change is computed by the one rule.
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": {variable: {} for variable in prompt.variables},
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
    prompt = parse_prompt(text, label=f"the prompt {name!r}")
    if maker.symbol and prompt.name != name:
        raise VersionError(f"the text kept for the prompt {name!r} says that its name is {prompt.name!r}")
    return prompt


def _copied_prompt(recipe: Made, name: str, new_name: str) -> Made:
    text = re.sub(rf"^name:[ \t]*{re.escape(name)}[ \t]*$", f"name: {new_name}", recipe.text, count=1, flags=re.M)
    return Made(text, recipe.maker)


def _variables_of_prompt(prompt: Prompt, recipe: Made | None) -> list[TextVariable]:
    if not prompt.trainable:
        return [TextVariable("template", prompt.template, "prompt", prompt.description)]
    return [
        TextVariable(name, text, "prompt", f"the part `{name}` of a prompt: {prompt.description}")
        for name, text in prompt.parts.items()
    ]


def _rewrite_prompt(prompt: Prompt, recipe: Made, values: Mapping[str, str]) -> Made:
    if prompt.trainable:
        for name, value in values.items():
            prompt = prompt.with_part(name, value)
        return Made(prompt.text, recipe.maker)
    template = values.get("template", prompt.template)
    head, body, _ = recipe.text.rpartition(prompt.template) if prompt.template else (recipe.text, "", "")
    if prompt.template and not body:
        raise VersionError(f"the template of the prompt {prompt.name!r} does not stand in its text as it is")
    return Made(head + template.rstrip("\n") + "\n", recipe.maker)


PROMPT: Kind[Prompt] = Kind(
    name="prompt",
    plural="prompts",
    describe=_describe_prompt,
    fits=lambda prompt: isinstance(prompt, Prompt),
    name_of=lambda prompt: prompt.name,
    recipe_of=lambda prompt: Made(prompt.text, Maker(how="prompt")) if prompt.text else None,
    make=_make_prompt,
    make_foreign=None,
    is_code=lambda maker: False,
    own_version=lambda prompt: (prompt.version, False),
    version_of=lambda prompt: prompt.version,
    copy_recipe=_copied_prompt,
    with_name=lambda prompt, name, version: (
        prompt if (prompt.name, prompt.version) == (name, version) else replace(prompt, name=name, version=version)
    ),
    variables=_variables_of_prompt,
    rewritten=_rewrite_prompt,
    with_words=lambda prompt, maker: prompt,
    evolvable=lambda prompt: None,
    rights=lambda prompt, recipe: {},
)
