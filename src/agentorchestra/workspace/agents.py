"""The packaged agents, and what an agent says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import asdict, fields, replace
from functools import cache
from types import FunctionType
from typing import Any, get_type_hints

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from agentorchestra.agents.agent import USER_TOOLS, Agent
from agentorchestra.agents.analysis.agent import NAME as ANALYZER
from agentorchestra.agents.analysis.agent import AnalysisDriver, deep_analyzer
from agentorchestra.agents.browser.agent import BROWSER, browser_use
from agentorchestra.agents.citations import FOLDER_FILES
from agentorchestra.agents.debate.agent import debate
from agentorchestra.agents.debate.experts import EXPERTS
from agentorchestra.agents.distiller import distiller
from agentorchestra.agents.generation.agent import tool_generator
from agentorchestra.agents.reporting.agent import REPORTER
from agentorchestra.agents.research.agent import deep_researcher
from agentorchestra.agents.society.actors import society_agents
from agentorchestra.agents.society.reader import reader
from agentorchestra.core.errors import SettingsError, SourceError, UnknownComponentError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.settings import AgentSettings, Settings
from agentorchestra.environments.report import REPORT
from agentorchestra.tea.memory.base import NO_MEMORY
from agentorchestra.tea.programs.dynamic import load_source, member
from agentorchestra.tea.programs.sources import defining_text, package_of
from agentorchestra.tea.registry.config import ComponentConfig, Operation
from agentorchestra.tea.registry.history import Maker
from agentorchestra.tea.registry.kind import Kind, Made, TextVariable
from agentorchestra.tea.registry.kinds import code_variables, rewritten_code
from agentorchestra.tea.registry.rights import Rights
from agentorchestra.tea.registry.words import CODE, DESCRIPTION, reword

_DEFAULT = "1.0.0"
_CODE = ("drive", "version", "carried")  # fields of an agent that are no values of its definition

_TEXTS = ("description", "prompt", "role")


WORKER = Agent(
    name="worker",
    description=(
        "Carries out work with the tools that the user gave for this task, and gives back what they said. Say with "
        "which values."
    ),
    tools=None,
    prompt="worker",
    role="worker",
    max_steps=15,
)
"""Carries out what the user's own tools are for."""


def builtin_agents(settings: Settings | None = None) -> dict[str, Agent]:
    limits = settings or Settings()
    drivers = (browser_use(limits.browser), deep_analyzer(limits.analysis), deep_researcher(limits.research))
    planner_agents = (*drivers, REPORTER, WORKER, tool_generator(limits.generator), debate(limits.debate))
    agents: tuple[Agent, ...] = (*planner_agents, *EXPERTS, *society_agents(), reader(), distiller())
    return {agent.name: agent for agent in agents}


@cache
def packaged_agents() -> tuple[str, ...]:
    """Return the names of the packaged agents."""
    return (*builtin_agents(),)


def agents_with_settings(agents: Mapping[str, Agent], settings: Mapping[str, AgentSettings]) -> dict[str, Agent]:
    """Return the agents as the settings want them; raise SettingsError for a name that no agent has."""
    unknown = sorted({*settings} - {*agents})
    if unknown:
        raise SettingsError(
            f"the settings name the agent {unknown[0]!r} (agents.{unknown[0]}), which is not there; the agents: "
            f"{', '.join(sorted(agents))}"
        )
    result = dict(agents)
    for name, override in settings.items():
        values = override.model_dump(exclude_none=True)
        if values.get("memory") == NO_MEMORY:
            values["memory"] = ""
        if values.pop("team", None):
            values["within"] = ()
        result[name] = replace(result[name], **values)
    return result


def team(
    agents: Mapping[str, Agent],
    # `names`: those of the packaged environments that the run names; `builtin`: all of these
    names: Collection[str],
    builtin: Collection[str],
    tools: Collection[str] | None = None,  # the run's, by name; None for all that may be
    *,
    leaders: Collection[str] = (),  # the run's system, and the agents that stand behind its tools
    # those that planners have, None for all; leaders, and who works for them alone, are there besides
    roster: Collection[str] | None = None,
) -> dict[str, Agent]:
    """Return the agents of one run.

    Those that are there on request only are left out where the run does not name their environments, those that need a
    tool where it does not have it, and those that work for others alone where none of these is there. Where pages are
    opened, the analyzer reads what was downloaded: it works in `files` there.
    """
    missing = {*builtin} - {*names} - {REPORT}  # that one is there wherever an agent writes it
    members = {
        name: agent
        for name, agent in agents.items()
        if not (agent.on_request and missing & {*agent.environments}) and (tools is None or {*agent.needs} <= {*tools})
    }
    if roster is not None:
        members = {name: agent for name, agent in members.items() if name in {*roster, *leaders} or agent.within}
    present = {*leaders, *(name for name, agent in members.items() if not agent.within)}
    members = {name: agent for name, agent in members.items() if name in present or present & {*agent.within}}
    analyzer = members.get(ANALYZER)
    if analyzer and isinstance(analyzer.drive, AnalysisDriver) and FOLDER_FILES in builtin and BROWSER in names:
        members[ANALYZER] = replace(analyzer, environments=(*analyzer.environments, FOLDER_FILES))
    return members


def wants_in_run(agent: Agent) -> tuple[str, ...]:
    """Return what a run has to have for an agent to be in it: environments that it names, tools."""
    return (*(environment for environment in agent.environments if environment != REPORT), *agent.needs)


def _describe(name: str, agent: Agent, builtin: bool) -> ComponentConfig:
    schema = agent.schema
    return ComponentConfig(
        kind="agent",
        name=name,
        description=f"{agent.description}\n{agent.profile}".strip(),
        version=agent.version,
        # Whatever version it is given, it is the same agent.
        content_hash=replace(agent, version=_DEFAULT).content_hash,
        operations=(Operation(name=name, description=schema.description, parameters=schema.parameters),),
        metadata={
            "role": agent.role,
            "tools": "those of the application" if agent.tools is None else [*agent.tools],
            "prompt": agent.prompt,
            "max_steps": agent.max_steps,
            **_profile(agent),
        },
        builtin=builtin,
        evolvable=agent.evolvable not in (False, ()),
    )


def check_named(
    checked_agents: Iterable[Agent],
    *,
    tools: set[str] | None,
    environments: set[str],
    agents: set[str],
    systems: Collection[str] = (),
) -> None:
    """Refuse (UnknownComponentError) agents that name what is not there; None: more names may come later."""
    for agent in checked_agents:
        relations = [other.agent for other in agent.relationships]
        for kind, names, registered_names in (
            ("tool", [name for name in agent.tools or () if name != USER_TOOLS], tools),
            ("environment", agent.environments, environments),
            ("agent", relations, agents),
            ("agent", agent.within, agents | {*systems}),
        ):
            for name in names:
                if registered_names is None or name in registered_names or name == "done":
                    continue
                guess = did_you_mean(name, registered_names, f"give it to the workspace ({kind}s=...)")
                raise UnknownComponentError(
                    f"agent {agent.name!r} names the {kind} {name!r}, which is not there; {guess}"
                )


def _profile(agent: Agent) -> dict[str, JsonValue]:
    """Return the typed part of its configuration, as far as it says something."""
    values: dict[str, JsonValue] = {
        "competencies": [*agent.competencies],
        "objectives": [*agent.objectives],
        "relationships": [asdict(relationship) for relationship in agent.relationships],
        "environments": [*agent.environments],
        "remembers": agent.remembers,
        "within": [*agent.within],
    }
    return {name: value for name, value in values.items() if value}


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(Agent)
    return {field.name: TypeAdapter(hints[field.name]) for field in fields(Agent) if field.name not in _CODE}


def _definition(agent: Agent) -> Made | None:
    """Return the values of its definition; an agent with code of its own is made only where that is at hand."""
    if agent.drive is not None or agent.carried is not None:
        return None
    values = {name: to_jsonable_python(getattr(agent, name)) for name in _adapters()}
    if agent.evolvable is None:
        del values["evolvable"]
    return Made("", Maker(how="fields", fields=values))


def _make(name: str, maker: Maker, text: str) -> Agent:
    adapters = _adapters()
    unknown = sorted(set(maker.fields) - set(adapters))
    if unknown:
        raise SourceError(f"the agent {name!r} has the unknown field {unknown[0]!r}; the fields: {', '.join(adapters)}")
    values = {"name": name, **maker.fields}
    try:
        return Agent(**{field: adapters[field].validate_python(value) for field, value in values.items()})
    except ValidationError as exc:
        first = exc.errors()[0]
        raise SourceError(f"the agent {name!r} does not fit: {first['msg']} ({first['input']!r})") from None
    except TypeError as exc:
        raise SourceError(f"the agent {name!r} lacks something: {exc}") from None


def _rename(agent: Agent, name: str, version: str) -> Agent:
    return agent if (agent.name, agent.version) == (name, version) else replace(agent, name=name, version=version)


def _copy(recipe: Made, name: str, new_name: str) -> Made:
    return Made("", recipe.maker.model_copy(update={"fields": {**recipe.maker.fields, "name": new_name}}))


def _driver(agent: Agent) -> Any:
    """Return the function that drives an agent, or the class of what does; None where neither is a text's."""
    drive: Any = agent.drive
    if isinstance(drive, FunctionType):
        return drive
    call = inspect.getattr_static(type(drive), "__call__", None)
    return type(drive) if isinstance(call, FunctionType) else None


def _with_code(agent: Agent, recipe: Made | None) -> Made | None:
    """Return what an agent with a drive of its own is made of, with the text that defines the drive."""
    if recipe is None or recipe.text or recipe.maker.how != "given":
        return recipe
    driver = _driver(agent)
    text = defining_text(driver)
    symbols = {"symbol": driver.__name__, "package": package_of(driver)} if text else {}
    return Made(text, recipe.maker.model_copy(update=symbols))


def _variables(agent: Agent, recipe: Made | None) -> list[TextVariable]:
    # A drive has prompts and roles of its own: of such an agent the description alone is a text.
    names = (DESCRIPTION,) if agent.drive is not None or agent.carried is not None else _TEXTS
    code = code_variables(_with_code(agent, recipe), agent.name, "agent code", "how the agent works")
    return [*code, *(TextVariable(name, str(getattr(agent, name)), name) for name in names)]


def _rewritten(agent: Agent, recipe: Made, values: Mapping[str, str]) -> Made:
    if recipe.maker.how != "given":
        return Made("", recipe.maker.model_copy(update={"fields": {**recipe.maker.fields, **values}}))
    if CODE not in values:
        return reword(recipe, values)
    source = _with_code(agent, recipe) or recipe
    changed = rewritten_code(source, source.maker.symbol, values)
    return Made(changed.text, changed.maker.model_copy(update={"how": "given"}))


def _recode(agent: Agent, recipe: Made) -> Agent:
    """Return an agent whose drive is what a text defines: a function, or the same object with that class."""
    definition = member(load_source(recipe.text, package=recipe.maker.package), recipe.maker.symbol)
    drive: Any = definition
    if isinstance(definition, type):
        drive = copy(agent.drive)
        try:
            object.__setattr__(drive, "__class__", definition)
        except TypeError as exc:
            raise SourceError(f"the class {definition.__name__} cannot drive the agent {agent.name!r}: {exc}") from None
    object.__setattr__(drive, "content_hash", sha256_text(recipe.text))
    return replace(agent, drive=drive)


def _rights(agent: Agent, recipe: Made | None) -> Rights:
    return {
        "tools": frozenset((USER_TOOLS,) if agent.tools is None else agent.tools),
        "environments": frozenset(agent.environments),
        "steps": float(agent.max_steps),
        "memory": agent.memory,
        "who it works for": agent.within,
    }


AGENT: Kind[Agent] = Kind(
    name="agent",
    plural="agents",
    describe=_describe,
    fits=lambda value: isinstance(value, Agent),
    name_of=lambda agent: agent.name,
    recipe_of=_definition,
    make=_make,
    make_foreign=None,
    is_code=lambda maker: maker.how in ("module", "source"),
    own_version=lambda agent: (agent.version, True) if agent.version != _DEFAULT else None,
    version_of=lambda agent: agent.version,
    copy_recipe=_copy,
    with_name=_rename,
    variables=_variables,
    rewritten=_rewritten,
    with_words=lambda agent, maker: replace(agent, description=maker.texts.get(DESCRIPTION, agent.description)),
    evolvable=lambda agent: agent.evolvable,
    rights=_rights,
    with_code=_recode,
)
