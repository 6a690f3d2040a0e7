"""`components restore`, `activate`, ...: what changes a component's history, and what carries it elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.commands.components.shared import (
    KINDS,
    Named,
    kind_option,
    name_argument,
    only,
    reason_option,
    servers,
)
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import FilePath, json_option, option, workspace_option
from agentorchestra.cli.output import emit_either, number, say
from agentorchestra.cli.workspaces import opening
from agentorchestra.core.errors import ManifestError, VersionError
from agentorchestra.workspace import Workspace


def _change(name: str, short: str, text: str, state: str, *, named_as: str = "NAME@VERSION") -> click.Command:
    """Return the command that carries out `name` on a version; `text` is its help, `state` what the version is then."""

    @async_command(name, short_help=short, help=text)
    @name_argument(named_as)
    @kind_option
    @reason_option
    @json_option("one object")
    @workspace_option
    async def change(entry: Named, kind: str | None, reason: str, as_json: bool, folder: Path) -> int:
        async with opening(folder) as workspace:
            label, server = await only(workspace, kind, entry.name, hidden=True)
            if entry.version is None and named_as == "NAME@VERSION":
                raise VersionError(
                    f"{entry.name!r} names no version; write {entry.name}@1.0.1: `agentorchestra components versions "
                    f"{entry.name}` lists them"
                )
            if name == "restore":
                config, more = await _restore(workspace, label, server, entry, folder, reason)
            else:
                config, more = await getattr(server, name)(entry.name, entry.version, reason=reason), ""
        emit_either(as_json, config, f"{label} {config.component} {state}{more}")
        return 0

    assert isinstance(change, click.Command)
    return change


async def _restore(
    workspace: Workspace[Any], label: str, server: Any, spec: Named, folder: Path, reason: str
) -> tuple[Any, str]:
    """Make an earlier version the current one, and let what includes a prompt follow; return it, and what changed."""
    from agentorchestra.cli.commands.components.texts import update

    name, version = spec
    if name not in await server.list():
        return await server.restore(name, version, reason=reason), ""
    past = {version.version: version for version in await server.versions(name)}
    before, also = (await server.info(name)).version, list[str]()
    version = version or past[before].parent.removeprefix(f"{name}@") or before
    if label == "prompt" and version in past and past[version].state == "active":  # its text is known: no new version
        config, also, _ = await update(workspace, server, name, await server.source(name, version), folder, reason)
    else:
        config = await server.restore(name, version, reason=reason)
    now = f", in place of {before}" if config.version != before else ", as before"
    return config, now + (f"; with it changed what includes it: {', '.join(also)}" if also else "")


restore = _change(
    "restore",
    "Make an earlier version the current one again.",
    """Make a version of the component NAME what its name means, as it was; runs from now on use it.

    Without a version, that is the version that the current one was made from: the last change is taken back. A
    component that was unregistered is brought back. Prompts that include a prompt change with it.
    """,
    "is what its name means now",
    named_as="NAME[@VERSION]",
)
deprecate = _change(
    "deprecate",
    "Mark a version as one to get away from.",
    """Mark a version of the component NAME, the current one by default, as deprecated.

    It still works where it is named. Searches no longer find it while it is the current one.
    """,
    "is deprecated",
    named_as="NAME[@VERSION]",
)
activate = _change(
    "activate",
    "Take a candidate into use.",
    "Make a candidate of the component NAME, or a deprecated version, what its name means; runs from now on use it.",
    "is what its name means now",
)
archive = _change(
    "archive",
    "End a candidate or deprecated version.",
    "End a candidate of the component NAME, or a deprecated version: it stays readable and cannot be used again.",
    "is archived",
)


@async_command("export", short_help="Write components into a file, or as Agent Skills.")
@click.argument("path", metavar="PATH", type=FilePath())
@kind_option
@option(
    "--as",
    "form",
    type=click.Choice(["registry", "skills"]),
    default="registry",
    help="With all their versions for another workspace, or as a folder of skills for other agents.",
)
@json_option("a list with an object for each kind")
@workspace_option
async def export(path: Path, kind: str | None, form: str, as_json: bool, folder: Path) -> int:
    """Write the components of a kind with all their versions, histories and texts into the file PATH.

    Without a kind, PATH is a folder with a file for each kind (tools.json, ...). Nothing that is there is overwritten.
    With `--as skills`, PATH is a folder in which each component gets a folder with a SKILL.md that says how to use it;
    skills that were exported there before are written anew.
    """
    async with opening(folder) as workspace:
        by_kind = servers(workspace, kind)
        if form == "skills":
            done = await _export_skills(by_kind, path)
        else:
            done = [
                {"kind": key, "path": str(target), "components": len(await by_kind[key].list())}
                for key, target in _targets(by_kind, path, kind).items()
                if await by_kind[key].save(target)
            ]
    emit_either(as_json, done, [str(row["path"]) for row in done])
    for row in () if as_json else done:
        say(f"{number(row['components'])} {KINDS[row['kind']]} in {row['path']}")
    return 0


async def _export_skills(by_kind: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    from agentorchestra.tea.registry.skills import skills_of, write_skills

    # Together: two kinds may have a component of one name, and each skill a folder of its own.
    pairs = [pair for server in by_kind.values() for pair in await server.descriptions()]
    names = [folder.name for folder in write_skills(skills_of(pairs), path)]
    of_kind: dict[str, list[str]] = {key: [] for key in by_kind}
    for (config, _), name in zip(pairs, names, strict=True):
        of_kind[config.kind].append(name)
    return [{"kind": key, "path": str(path), "components": len(docs), "skills": docs} for key, docs in of_kind.items()]


def _targets(by_kind: dict[str, Any], path: Path, kind: str | None) -> dict[str, Path]:
    targets = {key: path if kind is not None else path / f"{KINDS[key]}.json" for key in by_kind}
    for target in targets.values():
        if target.exists() or target.is_symlink():
            raise ManifestError(f"{target} is there already; remove it, or choose another name")
    try:
        for target in targets.values():
            target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ManifestError(f"{path} cannot be written: {exc.strerror or exc}; choose another place") from None
    return targets


@async_command("import", short_help="Take components over that another workspace exported.")
@click.argument("path", metavar="PATH", type=FilePath())
@kind_option
@click.option("--trust", is_flag=True, help="Its code is your own. Without this it runs in the sandbox only.")
@json_option("a list with an object for each kind")
@workspace_option
async def import_(path: Path, kind: str | None, trust: bool, as_json: bool, folder: Path) -> int:
    """Take over what `components export` wrote: the file PATH, or the files in the folder PATH.

    Components that are unknown here come with all their versions; known ones get the versions that are missing, and
    their names go on meaning what they do. A file is taken over as a whole or not at all.
    """
    from agentorchestra.tea.registry.saved import kind_of_saved, read_saved

    # All of them are looked at before any of them is taken over.
    files = {file: kind or kind_of_saved(file) for file in _sources(path, kind)}
    for file, key in files.items():
        read_saved(file, key)
    imports: list[tuple[str, Path, list[str]]] = []
    async with opening(folder) as workspace:
        by_kind = servers(workspace, None)
        for file, key in files.items():
            imports.append((key, file, list(await by_kind[key].load(file, trusted=trust))))
    about = [{"kind": key, "path": str(file), "components": names} for key, file, names in imports]
    emit_either(as_json, about, [f"{key} {name}" for key, _, names in imports for name in names])
    if not trust and not as_json:
        say("their code runs in the sandbox only; import them with --trust if it is your own")
    return 0


def _sources(path: Path, kind: str | None) -> list[Path]:
    if not path.is_dir():
        return [path]
    candidates = [path / f"{plural_}.json" for key, plural_ in KINDS.items() if kind in (None, key)]
    present = [file for file in candidates if file.exists()]
    if not present:
        names = " or ".join(file.name for file in candidates)
        raise ManifestError(f"the folder {path} holds no {names}; give a file or folder that `components export` wrote")
    return present
