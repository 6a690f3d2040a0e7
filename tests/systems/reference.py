"""The packaged systems in docs/systems.md: `python -m tests.systems.reference` writes them, a test checks them.

Who is asked, as what, with which prompt and tools, is read from the log of a small run of each system; the agents that
it leads, its limits, its own parts and its prompts from the code.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.systems.__main__ import TASK, THINGS, decision, tools
from pydantic import BaseModel

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import Inquiry
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import DEFAULT_COST_USD, Workspace
from agentorchestra.workspace.agents import builtin_agents
from agentorchestra.workspace.catalog import systems

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "systems.md"
MARK = "<!-- What follows is written by `python -m tests.systems.reference` from the code. -->\n"

GIVEN = {"weigh": "the given tools"}
SECTIONS = {"agentorchestra": "team"}
"""Sections of the settings that have another name than the system whose limits they are."""

OPTIMISED = {
    "variables": [{"component": "prompt:react", "variable": "rules", "text": "Weigh it.", "role": "prompt"}],
    "evidence": [
        {
            "run": "run_1",
            "task": "Weigh it.",
            "status": "partial",
            "nodes": [{"key": "a", "kind": "RequestModel", "gave": "a pound", "uses": ["prompt:react/rules"]}],
            "edges": [["a", "outcome"]],
        }
    ],
}
"""What an optimiser works on in its small run."""

DEBATE = f"{TASK}\nExperts: finance_expert, mathematics_expert"


@dataclass(frozen=True)
class Prompt:
    """A packaged prompt: its name, version, and the words that it begins with."""

    name: str
    version: str
    begins: str

    @property
    def shown(self) -> str:
        """The prompt as the page names it."""
        return f"`{self.name}` {self.version}"


@dataclass(frozen=True)
class Asked:
    """A request that a system made: by whom, as which role, with which prompt and tools."""

    who: str
    role: str
    prompt: Prompt
    tools: tuple[str, ...]


def packaged_prompts() -> dict[str, Prompt]:
    """The packaged prompts, by name."""
    found = {}
    for path in sorted((ROOT / "src" / "agentorchestra").rglob("prompts/*.md")):
        _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
        values = dict(re.findall(r"^(\w+): (.*)$", head, re.MULTILINE))
        words = re.split(r"\{%|\{\{", re.sub(r"\{#.*?#\}", "", body), maxsplit=1)[0]
        if "name" in values:
            found[values["name"]] = Prompt(values["name"], values["version"], " ".join(words.split()))
    return found


# -- what a run shows --------------------------------------------------------------------------------------------------


def spoken(request: ModelRequest) -> ModelResponse:
    """What an expert or a manager of a debate says, and an optimiser: something in each field."""
    form = request.settings.output_schema
    if form is not None:
        return say(json.dumps(_filled(form)))
    done = next(one for one in request.tools if one.name == "done")
    return decide(calls=[call("done", **_filled(done.parameters))])


def _filled(form: Mapping[str, Any]) -> Any:
    if form.get("type") == "object":
        return {name: _filled(one) for name, one in form["properties"].items()}
    if form.get("type") == "array":
        return [_filled(form["items"])]
    return (
        form["enum"][0]
        if "enum" in form
        else {"boolean": False, "integer": 1, "number": 1}.get(str(form.get("type")), "a pound")
    )


async def asked(system: str, prompts: Iterable[Prompt]) -> tuple[list[Asked], int]:
    """The requests of a small run, each kind once, in the order in which they were made; and how many there were."""
    debates, optimises = system == "debate", system in ("reflection", "textgrad")
    model = ScriptedModel(spoken if debates or optimises else decision)
    with tempfile.TemporaryDirectory(prefix="systems-") as folder:
        async with Workspace(Path(folder), models={model.name: model}, tools=tools(), environ={}) as ws:
            task = (DEBATE if debates else TASK).format(", ".join(THINGS[:5]))
            given = OPTIMISED if optimises else None
            result = await ws.run(task, system=system, model=model.name, options=given)
            assert result.status in ("completed", "partial"), f"{system} ended as {result.status}: {result.error}"
            ledger = Ledger.of(await ws.log.events(result.run_id))
    found: dict[Asked, None] = {}
    for key, record in sorted(ledger.records.items(), key=lambda one: one[1].seq):
        if record.kind is not EffectKind.REQUEST_MODEL:
            continue
        effect = ledger.codec.decode(record.effect)
        assert effect.request is not None
        begins = " ".join(effect.request.messages[0].text.split())
        prompt = max(prompts, key=lambda one: _alike(begins, one.begins))
        assert _alike(begins, prompt.begins), f"{system}: no packaged prompt begins as {begins[:60]!r}"
        names = dict.fromkeys(GIVEN.get(one.name, f"`{one.name}`") for one in effect.request.tools)
        who = re.sub(r"^\d+\.", "", key.branch.rpartition("/")[2])
        found[Asked("" if who == system else who, str(effect.role), prompt, tuple(names))] = None
    return [*found], len(model.requests)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# -- what the code says ------------------------------------------------------------------------------------------------


def _module(system: Any) -> Any:
    made = system if inspect.isfunction(system) else type(system)
    return sys.modules[made.__module__]


def _trees(module: Any) -> list[tuple[Any, ast.Module]]:
    """A system's own file, with those of the system that it is made of and of the checks of its agents."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    tree = ast.parse(source)
    found = [(module, tree)]
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module and re.search(r"\.(systems|agents\.planning)\.", one.module):
            found += _trees(sys.modules[one.module])
    return found


def _named(module: Any, tree: ast.Module) -> set[str]:
    """The names in a file that stand where a prompt is named."""
    places: list[ast.expr] = []
    for one in ast.walk(tree):
        if isinstance(one, ast.Call):
            by = one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")
            by_prompt = by == "get" and isinstance(one.func, ast.Attribute) and "prompts" in ast.unparse(one.func.value)
            if one.args and (by_prompt or by in (Inquiry.__name__, "ask_model")):
                places.append(one.args[0])
            places += [word.value for word in one.keywords if word.arg == "prompt"]
    texts = [one.value for one in places if isinstance(one, ast.Constant)]
    texts += [getattr(module, one.id, "") for one in places if isinstance(one, ast.Name)]
    return {one for one in texts if isinstance(one, str) and one}


def takes_parts(module: Any) -> bool:
    """Whether its main agent works in steps."""
    return any("run_agent" in vars(one) for one, _ in _trees(module))


def own_parts(module: Any) -> dict[str, Any]:
    """The parts that it has of its own."""
    own = getattr(module, "PARTS", PartSettings())
    return dict(own.model_dump(exclude_none=True))


def limits(name: str) -> tuple[str, dict[str, Any]]:
    """The section of the settings with its limits, and their defaults; without those that are empty."""
    section = SECTIONS.get(name, name)
    values = getattr(Settings(), section, None)
    shown = values.model_dump(mode="json") if isinstance(values, BaseModel) else {}
    return section, {key: one for key, one in shown.items() if one not in (None, "", [], {}, ())}


def led(name: str, module: Any) -> list[Any]:
    """The packaged agents that it leads: those that are there for it alone, else those of every planner."""
    if not any(".delegates(" in ast.unparse(tree) for _, tree in _trees(module)):
        return []
    agents = [one for one in builtin_agents().values() if one.name != name]
    own = [one for one in agents if name in one.within and one.name in getattr(module, "WORKERS", [one.name])]
    return own or [one for one in agents if not one.within]


def prompts_of(agent: Any, module: Any) -> set[str]:
    """The prompts of an agent that a system leads: its own, that of what drives it there, those of its workflow."""
    if hasattr(module, "EXECUTOR"):
        return {str(module.EXECUTOR)}
    if agent.drive is None or agent.within:
        return {agent.prompt}
    found = {agent.prompt} - {Agent.prompt}
    workflow = sys.modules[_module(agent.drive).__package__]
    for one in pkgutil.iter_modules(workflow.__path__, f"{workflow.__name__}."):
        module = importlib.import_module(one.name)
        found |= _named(module, ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
    return found


# -- the page ----------------------------------------------------------------------------------------------------------


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name} = {json.dumps(value)}`" for name, value in values.items())


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = [*head]
    return ["", *(f"| {' | '.join(one)} |" for one in (titles, ["---"] * len(titles), *rows)), ""]


def _tools(one: Any) -> str:
    names = ("*",) if one.tools is None else one.tools
    shown = [*("the given tools" if name == "*" else f"`{name}`" for name in names)]
    return ", ".join([*shown, *(f"environment `{name}`" for name in one.environments)]) or "none"


def _section(name: str, module: Any, found: list[Asked], prompts: Mapping[str, Prompt]) -> list[str]:
    path = Path(str(module.__file__)).relative_to(ROOT)
    what = (module.__doc__ or "").partition("\n")[0]
    lines = [f"## {name}", "", what, "", f"Its code: `{path}`.", "", "Asked in the small run:"]
    rows = [
        (one.who or "the main agent", f"`{one.role}`", one.prompt.shown, ", ".join(one.tools) or "none, a form")
        for one in found
    ]
    lines += _table(("who", "role", "prompt", "tools in the first request"), rows)
    agents, (section, values) = led(name, module), limits(name)
    if agents:
        lines += ["The agents that it leads:"]
        counted = not any(key.endswith("_steps") for key in values)
        told = (
            (
                f"`{one.name}`{', on request' if one.on_request else ''}",
                f"`{one.role}`",
                ", ".join(prompts[each].shown for each in sorted(prompts_of(one, module))),
                _tools(one),
                *([str(one.max_steps)] if counted else []),
            )
            for one in agents
        )
        lines += _table(("agent", "role", "prompts", "tools", *(["steps"] if counted else [])), told)
    lines += [f"- Limits, `[{section}]`: {_settings(values)}." if values else "- No limits but those of every run."]
    own = own_parts(module)
    of_its_own = f"its own are {_settings(own)}" if own else "it has none of its own"
    lines += [
        f"- Takes `[parts]`; {of_its_own}."
        if takes_parts(module)
        else "- Takes no `[parts]` but those of search and `refine`: its workflow is code."
    ]
    named = {one for file, tree in _trees(module) for one in _named(file, tree)} & {*prompts}
    more = sorted(named - {one.prompt.name for one in found})
    if more:
        lines += [f"- Prompts besides, where they are needed: {', '.join(prompts[one].shown for one in more)}."]
    return [*lines, ""]


async def generated() -> str:
    """What follows the mark."""
    prompts = packaged_prompts()
    known = systems()
    order = ["react", *sorted({*known} - {"react", "direct"})]  # of `direct` there is nothing to compare
    overview, sections = [], []
    for name in order:
        module = _module(known[name])
        found, count = await asked(name, prompts.values())
        roles = dict.fromkeys(f"`{one.role}`" for one in found)
        own = own_parts(module)
        takes = (_settings(own) or "none of its own") if takes_parts(module) else "search and `refine` alone"
        overview.append((f"[{name}](#{name})", ", ".join(roles), str(len(led(name, module)) or ""), takes, str(count)))
        sections += _section(name, module, found, prompts)
    head = ("system", "roles in the small run", "agents that it leads", "`[parts]`", "requests of the small run")
    parts = [
        (f"`{one}`", *(json.dumps(own_parts(_module(known[name])).get(one, "")) for name in ("oagents", "static")))
        for one in PartSettings.model_fields
    ]
    general = Settings().model_dump(include={"max_steps", "max_depth", "action", "finish", "reasoning", "memory"})
    lines = ["", "## Side by side", *_table(head, overview)]
    lines += [
        f"Of every run: {_settings(general)}; a limit of {DEFAULT_COST_USD:g} US dollar for models with prices.",
        "",
    ]
    lines += ["The parts, with what a system has of its own:"]
    lines += _table(("`[parts]`", "oagents", "static"), (tuple(one.replace('""', "") for one in row) for row in parts))
    lines += [
        f"Their prompts: {', '.join(one.shown for one in prompts.values() if one.name.startswith('parts_'))}.",
        "",
    ]
    return "\n".join([*lines, *sections]).rstrip() + "\n"


def head() -> str:
    """What stands before the mark."""
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, f"{PAGE} has lost its mark"
    return text + mark


if __name__ == "__main__":
    PAGE.write_text(head() + asyncio.run(generated()), encoding="utf-8")
