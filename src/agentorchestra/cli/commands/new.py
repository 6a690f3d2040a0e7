"""`agentorchestra new`: a tool, an agent or a system to begin with, its test, and the application around it."""

from __future__ import annotations

import importlib.resources
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

import click

from agentorchestra.cli.options import WORDS, json_option, option
from agentorchestra.cli.output import emit_either, say
from agentorchestra.core.errors import AppError, UsageError
from agentorchestra.core.settings import Settings
from agentorchestra.workspace import (
    DEFAULT_FOLDER,
    SETTINGS_FILE,
    Workspace,
    load_app,
    load_settings,
    packaged_prompts,
    settings_path,
    systems,
)

APP_MODULE = "app"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PROFILE = re.compile(r"(?<=\{# part: profile #\}\n).*?(?=\{# end #\})", re.DOTALL)

_PROMPTS = 'prompts=[Path(__file__).parent / "prompts"]'
ARGUMENTS = {
    "tool": ("tools=[{name}]",),
    "agent": ("agents=[{name}]", _PROMPTS),
    "system": ('systems={{"{name}": {name}}}', _PROMPTS),
}
"""What a Workspace is given for each kind."""

TRY = {
    "tool": """agentorchestra run '{name}(text="a bird in the hand", most=1)' --system react --model offline""",
    "agent": """agentorchestra run '{name}(task="What is ...?")' --file FILE --system agentorchestra --model offline""",
    "system": "agentorchestra run '6 * 7?' --system {name} --model offline",
}
"""A first command for each kind: the offline model needs no key."""


@click.command(
    epilog="""\b
Examples:
  agentorchestra new tool longest_words
  agentorchestra new agent reader --folder project
  agentorchestra new system two_and_a_judge

\b
docs/tutorials/ goes on from there.
Exit codes: 0; 2 if the name cannot be used, or a file is there already."""
)
@click.argument("kind", type=click.Choice(["tool", "agent", "system"]))
@click.argument("name", metavar="NAME", type=WORDS)
@option(
    "--folder",
    metavar="DIR",
    default=".",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the application lives, beside agentorchestra.toml; made where it is missing.",
)
@json_option("one object with the paths of the files")
def new(kind: str, name: str, folder: Path, as_json: bool) -> int:
    """Write a working NAME with its test; nothing that is there is overwritten.

    An agent and a system get a prompt too, in prompts/. Where there is no application yet, app.py and
    agentorchestra.toml are written, and NAME is found by every command; else the lines to add are printed.
    """
    place = _Place.of(folder)
    _check_name(kind, name, place)
    files = {f"{name}.py": _fill(f"{kind}.py", name), f"test_{name}.py": _fill(f"test_{kind}.py", name)}
    if kind == "agent":
        files[f"prompts/{name}.md"] = _agent_prompt(name)
    elif kind == "system":
        files[f"prompts/{name}_judge.md"] = _fill("system_judge.md", name)
    fresh = place.app is None and not (folder / f"{APP_MODULE}.py").exists()
    if fresh:
        files[f"{APP_MODULE}.py"] = _app(kind, name)
        if place.settings is None:
            files[SETTINGS_FILE] = _fill("agentorchestra.toml", name)
    _write(folder, files)
    paths = [str(folder / path) for path in files]
    emit_either(as_json, {"kind": kind, "name": name, "files": paths}, "\n".join(paths))
    for line in _how_to_go_on(kind, name, place, fresh=fresh):
        say(line)
    return 0


@dataclass(frozen=True)
class _Place:
    """A folder with an application, or for one."""

    folder: Path  # the folder
    settings: Path | None  # its settings file, if there is one
    app: str | None  # `module:attribute` of the settings, if they name one
    workspace: Workspace | None  # the application, if it can be loaded

    @classmethod
    def of(cls, folder: Path) -> _Place:
        path = settings_path(folder / DEFAULT_FOLDER)
        settings = load_settings(folder / DEFAULT_FOLDER) if path is not None else Settings()
        workspace = None
        if settings.app is not None and path is not None:
            try:
                workspace = load_app(settings.app, path.parent)
            except AppError as exc:
                say(f"warning: {exc}; its names are not looked at")
        return cls(folder, path, settings.app, workspace)


def _check_name(kind: str, name: str, place: _Place) -> None:
    """Raise UsageError for a name that cannot be one, or that somebody has."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be the name of {_a(kind)}: use lower case letters, digits and '_', the first a letter, "
            "at most 40, and no word of Python"
        )
    kinds = _kinds(place)
    if name in kinds:
        raise UsageError(f"there is {_a(kinds[name])} named {name!r} already; choose another name")
    if name == APP_MODULE or _module_elsewhere(name, place.folder):
        raise UsageError(f"there is a module named {name!r} already, which {name}.py would hide; choose another name")


def _kinds(place: _Place) -> dict[str, str]:
    """Return the kind of each name that is taken: packaged, or the application's."""
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.tools.registry import builtin_tools
    from agentorchestra.workspace.agents import builtin_agents

    kinds = dict.fromkeys(PromptLibrary(packaged_prompts()).names, "prompt")
    kinds |= {"done": "tool", **dict.fromkeys(builtin_tools(place.folder).tools, "tool")}
    kinds |= dict.fromkeys(builtin_agents(), "agent") | dict.fromkeys(systems(), "system")
    if place.workspace is not None:
        for kind, names in place.workspace.own.names.items():
            kinds |= dict.fromkeys(names, kind)
    return kinds


def _module_elsewhere(name: str, folder: Path) -> bool:
    before = sys.path[:]
    sys.path[:] = [entry for entry in before if Path(entry or ".").resolve() != folder.resolve()]
    try:
        return name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    finally:
        sys.path[:] = before


def _template(name: str) -> Template:
    folder = importlib.resources.files("agentorchestra.cli.commands") / "templates"
    return Template((folder / f"{name}.txt").read_text(encoding="utf-8"))


def _fill(template: str, name: str, **values: str) -> str:
    return _template(template).substitute(name=name, module=name, app=f"{APP_MODULE}:workspace", **values)


def _app(kind: str, name: str) -> str:
    lines = [f"        {argument.format(name=name)}," for argument in ARGUMENTS[kind]]
    path_import = "\nfrom pathlib import Path\n" if _PROMPTS in ARGUMENTS[kind] else ""
    return _fill("app.py", name, arguments="\n".join(lines), path_import=path_import)


def _agent_prompt(name: str) -> str:
    """Return the packaged agent's prompt with another profile: the rules of the loop stay."""
    (path,) = (folder / "react.md" for folder in packaged_prompts() if (folder / "react.md").is_file())
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^name: .*$", f"name: {name}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^version: .*$", "version: 1.0.0", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^description: .*$", f"description: System prompt of {name}.", text, count=1, flags=re.MULTILINE)
    return _PROFILE.sub(lambda _: _template("agent_profile.md").template, text, count=1)


def _write(folder: Path, files: dict[str, str]) -> None:
    for path in files:
        if (folder / path).exists():
            raise UsageError(
                f"{folder / path} is there already and is not overwritten; choose another name or --folder"
            )
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as exc:
            raise UsageError(f"{target} cannot be written: {exc.strerror}; choose another --folder") from None


def _how_to_go_on(kind: str, name: str, place: _Place, *, fresh: bool) -> Iterator[str]:
    if not fresh:
        module = (place.app or f"{APP_MODULE}:workspace").partition(":")[0]
        yield f"to wire it, edit {module.replace('.', '/')}.py:"
        if _PROMPTS in ARGUMENTS[kind]:
            yield "  from pathlib import Path"
        yield f"  from {name} import {name}"
        yield "  and give the Workspace, beside what it has:"
        yield from (f"  {argument.format(name=name)}," for argument in ARGUMENTS[kind])
    if place.app is None and place.settings is not None:
        yield f'to have it found, add to the top of {place.settings}: app = "{APP_MODULE}:workspace"'
    suffix = "" if place.folder == Path() else f" (in {place.folder})"
    yield f"to try it{suffix}:"
    yield f"  python -m pytest test_{name}.py"
    yield f"  {TRY[kind].format(name=name)}"


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "agent" else f"a {kind}"
