"""`agentorchestra models`: the models that are configured, what each needs, and whether it answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from agentorchestra.cli.driver import run_async
from agentorchestra.cli.options import WORDS, json_option, workspace_option
from agentorchestra.cli.output import bill, clean, emit, emit_json, one_line, say, table
from agentorchestra.core.errors import AgentOrchestraError, MissingExtraError, MissingKeyError, ModelError, UsageError

if TYPE_CHECKING:
    from agentorchestra.core.budget import Usage
    from agentorchestra.core.settings import Settings
    from agentorchestra.models.manager import ModelManager
    from agentorchestra.workspace import Workspace
    from agentorchestra.workspace.variables import Variables

GREETING = "Hello"  # what a model is asked to see whether it answers
_PATIENCE_S = 60.0  # of silence, after which a model does not answer
_ROOM = 1024  # tokens of its answer: some think before they greet
_ALWAYS = ("openai", "anthropic", "google", "ollama", "vllm")  # providers that are listed in any case
_STORES = {"": "-", "environment": "env", "keyring": "keyring"}  # `setup --key-store`; any other place is a file


class Configured(NamedTuple):
    """A workspace as a command has it, not open, with its settings, models and variables."""

    workspace: Workspace[Any]
    settings: Settings
    manager: ModelManager
    variables: Variables


def configuration(folder: Path) -> Configured:
    from agentorchestra.models.manager import ModelManager
    from agentorchestra.workspace import load_settings, open_workspace
    from agentorchestra.workspace.variables import ENV_FILE

    workspace = open_workspace(folder)
    workspace.env_file = ENV_FILE
    settings = workspace.own.settings or load_settings(folder)
    variables = workspace.read_variables(settings)
    return Configured(workspace, settings, ModelManager(settings, variables, extra=workspace.own.models), variables)


def model_rows(of: Configured) -> list[dict[str, Any]]:
    """Return what there is to know of every model that is named, without asking it.

    `address` is "" for its provider's own; `state` is `ready`, `no key` or `not usable`, and `problem` says why;
    `window` counts tokens; `dollars` are those per million input and output tokens, None for unknown; `key` is the
    variable; `own` are models of the application.
    """
    from agentorchestra.models.failures import shown_address

    rows = []
    for name, uses in of.manager.uses().items():
        profile, endpoint = of.manager.profile(name), None
        row: dict[str, Any] = {"name": name, "uses": uses, "model": profile.model, "state": "ready", "problem": ""}
        try:
            of.manager.check(name)
            endpoint = of.manager.endpoint(name)
        except AgentOrchestraError as exc:
            row |= {"state": "no key" if isinstance(exc, MissingKeyError) else "not usable", "problem": str(exc)}
        address, key = (endpoint.address, endpoint.key_env) if endpoint is not None else (profile.base_url, "")
        row |= {"address": shown_address(address) if address else "", "window": profile.context_window}
        row |= {"key": key, "key_place": of.variables.place(key), "dollars": of.manager.dollars(name)}
        fallbacks = () if row["problem"] else of.manager.chain(name)[1:]
        rows.append({**row, "fallbacks": fallbacks, "own": name in of.workspace.own.models})
    return rows


def _provider_rows(variables: Variables) -> list[dict[str, Any]]:
    from agentorchestra.models.providers import PROVIDERS

    rows = []
    for name, entry in PROVIDERS.items():
        install = "" if entry.is_installed else f'pip install "pydantic-ai-slim[{entry.extra}]"'
        key = next((env for env in entry.key_envs if variables.place(env)), "".join(entry.key_envs[:1]))
        rows.append({"provider": name, "install": install, "key": key, "key_place": variables.place(key)})
    return rows


async def ask_once(manager: ModelManager, name: str, uses: tuple[str, ...] = ()) -> Usage:
    """Ask a model one short request, in no run; return what it used; raise ModelError or UsageError."""
    from agentorchestra.core.messages import ModelRequest, ModelSettings, user

    if "transcription" in uses:
        raise UsageError("not asked: it writes down recordings, and there is none to send")
    client: Any = manager.client(name)
    try:
        if "embeddings" in uses:
            _, usage = await client.embed([GREETING])
        else:
            settings = ModelSettings(max_tokens=_ROOM, timeout_s=min(_PATIENCE_S, client.profile.timeout_s))
            request = ModelRequest(model=name, messages=(user(GREETING),), settings=settings)
            usage = (await client.request(request, media=None)).usage  # there is no medium to read
    finally:
        await manager.aclose()
    charge: Usage = usage.model_copy(update={"cost_usd": client.price(usage)})
    return charge


async def _check(of: Configured, row: dict[str, Any]) -> dict[str, Any]:
    """Return what comes of asking a model: `status` (`answered`, `failed`, `not asked`), `detail`, `usage`."""
    if row["problem"]:
        return {"status": "failed", "detail": row["problem"]}
    try:
        usage = await ask_once(of.manager, row["name"], row["uses"])
    except (ModelError, UsageError) as exc:
        return {"status": "failed" if isinstance(exc, ModelError) else "not asked", "detail": str(exc)}
    return {"status": "answered", "detail": f"it answered ({bill(usage)})", "usage": usage.model_dump(mode="json")}


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  agentorchestra models
  agentorchestra models --check
  agentorchestra models set openai:gpt-5

\b
Exit codes: 0 printed; 1 with --check if a model did not answer; 2 wrong usage.""",
)
@click.option("--check", is_flag=True, help="Ask each of them one short request, and say what that cost.")
@json_option("one object with the models and the providers")
@workspace_option
@click.pass_context
def models(ctx: click.Context, check: bool, as_json: bool, folder: Path) -> int:
    """List the models that are configured: what each is for, where its key is, its window, its prices.

    Below them the providers, and what is not installed: any model of theirs can be named as provider:model. No server
    is asked without --check, and no key is printed.
    """
    if ctx.invoked_subcommand is not None:
        if any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ctx.params):
            raise click.UsageError(f"options stand behind the word {ctx.invoked_subcommand}; write them there")
        return 0
    of = configuration(folder)
    rows, providers = model_rows(of), _provider_rows(of.variables)
    for row in rows if check else ():
        row["check"] = run_async(_check(of, row))
    if as_json:
        emit_json({"models": rows, "providers": providers})
    else:
        _print(rows, providers)
    return int(any(row.get("check", {}).get("status") == "failed" for row in rows))


def _print(rows: list[dict[str, Any]], providers: list[dict[str, Any]]) -> None:
    lines, details = [["model", "for", "key", "window", "$ in", "$ out"]], []
    for row in rows:
        dollars = [f"{price:.3g}" for price in row["dollars"] or ()] or ["?", "?"]
        key = "not set" if row["state"] == "no key" else _STORES.get(row["key_place"], "file")
        window = f"{row['window'] // 1000}k" if row["window"] >= 1000 else str(row["window"])
        lines.append([row["name"], ", ".join(row["uses"]) or "-", key, window, *dollars])
        if row["address"] or row["model"] != row["name"]:
            at = f" at {row['address']}" if row["address"] else ""
            at += f" with {row['key']} ({row['key_place']})" if row["key"] else ""
            details.append(f"{row['name']}: {row['model']}{at}")
    below = [(row["name"], row["check"]["detail"] if "check" in row else row["problem"]) for row in rows]
    notes = [f"{name}: {one_line(note, 1000)}" for name, note in below if note]
    notes += [
        f"{row['provider']}: {row['install']}" for row in providers if row["install"] and row["provider"] in _ALWAYS
    ]
    entries = [["provider", "library", "key"]]
    for row in providers:
        if row["provider"] in _ALWAYS or row["key_place"]:
            library = "not installed" if row["install"] else "installed"
            key = f"{row['key']} ({row['key_place'] or 'not set'})" if row["key"] else "-"
            entries.append([row["provider"], library, key])
    names = {line[0] for line in entries}
    more = ", ".join(row["provider"] for row in providers if row["provider"] not in names)
    parts = [*table(lines[0], lines[1:], words=3), *details, "", *table(entries[0], entries[1:], words=3)]
    emit(clean("\n".join([*parts, f"further providers: {more}", *([""] if notes else []), *notes])))


@models.command("set", short_help="Write the default model into the settings file.")
@click.argument("name", metavar="NAME", type=WORDS)
@json_option("one object with the model and the file")
@workspace_option
def set_default(name: str, as_json: bool, folder: Path) -> int:
    """Write NAME as the default model into agentorchestra.toml; every other line of it stays.

    NAME is a model of the settings, provider:model, or offline. It may lack its key or its library yet.
    """
    from agentorchestra.workspace.settings_file import edit_settings

    manager, lacks = configuration(folder).manager, ""
    try:
        manager.check(name)
    except (MissingKeyError, MissingExtraError) as exc:
        lacks = str(exc)
    if lacks:
        say(f"warning: {one_line(lacks, 1000)}")
    path = edit_settings(folder, {("model",): name})
    if as_json:
        emit_json({"model": name, "settings": str(path), "lacks": lacks})
    else:
        emit(clean(f"the default model is {name} ({path})"))
    if os.environ.get("AGENTORCHESTRA_MODEL"):
        say("warning: AGENTORCHESTRA_MODEL is set in the environment, and wins over the file")
    return 0
