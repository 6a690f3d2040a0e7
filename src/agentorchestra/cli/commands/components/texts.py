"""`components show` and `prompts edit`: the texts that components are made of."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.commands.components.shared import KINDS, Named, kind_option, name_argument, only, reason_option
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import FilePath, json_option, mcp_option, workspace_option
from agentorchestra.cli.output import clean, command, emit, emit_either, emit_json, say
from agentorchestra.cli.workspaces import opening
from agentorchestra.core.errors import PromptError, UsageError, VersionError

if TYPE_CHECKING:
    from agentorchestra.tea.registry.config import ComponentConfig
    from agentorchestra.workspace import Workspace

STDIN = Path("-")


@async_command("show", short_help="The text of one component: a prompt, or a tool's source.")
@name_argument()
@kind_option
@json_option("one object with the text")
@mcp_option
@workspace_option
async def show(entry: Named, kind: str | None, as_json: bool, folder: Path) -> int:
    """Print the text that the component NAME is made of, in the version that its name means: a prompt's file with what
    it includes, the module that a tool, environment or agent is defined in.
    """
    async with opening(folder) as workspace:
        label, server = await only(workspace, kind, entry.name, hidden=True)
        config = await server.info(entry.name, entry.version)
        text = await server.source(entry.name, entry.version) or await _text_here(server, config)
    about = {"kind": label, "name": config.name, "version": config.version, "text": text}
    emit_either(as_json, about, text.removesuffix("\n"))
    return 0


async def _text_here(server: Any, config: ComponentConfig) -> str:
    """Return a version's text that is not kept: its code in this process, or a definition; else VersionError."""
    (version,) = [row for row in await server.versions(config.name) if row.version == config.version]
    if version.maker is not None and version.maker.fields:
        return json.dumps(version.maker.fields, indent=2, ensure_ascii=False)
    hint = f"`agentorchestra {KINDS[config.kind]} info {config.component}` has what is known of it"
    if config.name in await server.list() and (await server.info(config.name)).version == config.version:
        component = await server.get(config.name)
        with contextlib.suppress(OSError, TypeError):
            return textwrap.dedent(inspect.getsource(inspect.unwrap(component)))
        if config.kind == "agent" and component.prompt:
            hint = f"its prompt: `agentorchestra prompts show {component.prompt}`; {hint}"
    raise VersionError(f"no text of the {config.kind} {config.component} is kept; {hint}")


@async_command("edit", short_help="Change a prompt in this workspace, in an editor.")
@name_argument("NAME")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=FilePath(),
    help="Take the new text from FILE instead of an editor; - is stdin.",
)
@reason_option
@json_option("one object")
@workspace_option
async def edit(entry: Named, source: Path | None, reason: str, as_json: bool, folder: Path) -> int:
    """Open the prompt NAME in the editor that $VISUAL or $EDITOR names, and make what was saved its next version.

    Runs of this workspace use it from the next one on. Prompts that include it change with it. The version before
    stays, that of the package too, and `agentorchestra prompts restore` brings it back.
    """
    async with opening(folder) as workspace:
        label, server = await only(workspace, "prompt", entry.name)
        own = folder / "prompts" / f"{entry.name}.md"
        if own.exists():
            raise UsageError(
                f"the prompt {entry.name!r} of this workspace stands in {own}; change that file: the next run uses it"
            )
        before = await server.info(entry.name, entry.version)
        text = await server.source(entry.name, entry.version)
        content = _edit_text(entry.name, text) if source is None else _read(source)
        config, also, keepers = before, list[str](), list[str]()
        if content.strip() != text.strip() or entry.version is not None:
            try:
                config, also, keepers = await update(workspace, server, entry.name, content, folder, reason)
            except UsageError as exc:
                if source is not None:
                    raise
                again = f"correct it there, then `agentorchestra prompts edit {entry.name} --from FILE`"
                raise PromptError(f"{exc}; your text is kept in {_keep(entry.name, content)}: {again}") from None
    changed = config.version != before.version
    if as_json:
        emit_json({"changed": changed, "before": before.version, "also": also, **config.model_dump(mode="json")})
        return 0
    if not changed:
        emit(f"{label} {before.component} is as it was: the text did not change")
        return 0
    emit(clean(f"{label} {config.component} is what its name means from the next run on"))
    if also:
        say(f"with it changed what includes it: {', '.join(also)}")
    if keepers:
        say(f"these include it and keep its former text, because they were edited themselves: {', '.join(keepers)}")
    say(f"to go back: {command('prompts restore', before.component, folder)}")
    return 0


async def update(
    workspace: Workspace[Any], server: Any, name: str, text: str, folder: Path, reason: str
) -> tuple[Any, list[str], list[str]]:
    """Register a text as the next version of a prompt, and what includes it; return what could not follow too."""
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.workspace import packaged_prompts

    library = PromptLibrary(packaged_prompts(), folder / "prompts", app_folders=workspace.own.prompts)
    modules = {module.partition("@")[0] for prompt in library.names for module in library.get(prompt).modules}
    for module in sorted(modules, key=lambda key: len(library.get(key).modules)):  # what includes none comes first
        source_text = await server.source(module)
        if source_text != library.get(module).text:
            library = library.with_texts({module: source_text})
    library = library.with_prompts({name: await server.get(name)})
    draft = library.with_texts({name: text})
    including = [key for key in draft.names if key != name and draft.get(key) != library.get(key)]
    follows = [key for key in including if await server.source(key) == library.get(key).text]
    config, *_ = await server.register([draft.get(key) for key in (name, *follows)], reason=reason)
    return config, follows, [key for key in including if key not in follows]


def _edit_text(name: str, text: str) -> str:
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        raise UsageError("there is no terminal for an editor here; set EDITOR, or give the text with --from FILE")
    try:
        content = click.edit(text, extension=f".{name}.md", require_save=False)
    except click.ClickException as exc:
        raise UsageError(
            f"the editor failed ({exc.format_message()}), nothing was changed; set EDITOR to another one"
        ) from None
    return content or ""


def _read(source: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if source == STDIN else source.read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(f"{source} is not UTF-8 (byte {exc.start}); write it in UTF-8") from None
    except OSError as exc:
        raise UsageError(f"{source} cannot be read: {exc.strerror}; name another file with --from FILE") from None


def _keep(name: str, text: str) -> Path:
    """Return a new file with a text that was refused."""
    with tempfile.NamedTemporaryFile("w", prefix=f"{name}-", suffix=".md", delete=False, encoding="utf-8") as file:
        file.write(text)
    return Path(file.name)
