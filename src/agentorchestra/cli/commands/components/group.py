"""`agentorchestra components`, and its short forms `tools`, `environments`, `agents`, `prompts` and `memories`."""

from __future__ import annotations

from functools import partial

import click

from agentorchestra.cli.commands.components.change import activate, archive, deprecate, export, import_, restore
from agentorchestra.cli.commands.components.memories import entries, forget
from agentorchestra.cli.commands.components.read import contract, diff, info, list_, search, versions
from agentorchestra.cli.commands.components.shared import KINDS
from agentorchestra.cli.commands.components.stats import COUNTABLE, stats
from agentorchestra.cli.commands.components.texts import edit, show
from agentorchestra.cli.group import COMMANDS

history = click.Command(
    "history",
    callback=versions.callback,
    params=versions.params,
    help=versions.help,
    short_help="The same as `versions`.",
)
_COMMANDS: tuple[click.Command, ...] = (
    list_,
    info,
    show,
    search,
    stats,
    versions,
    history,
    diff,
    restore,
    activate,
    deprecate,
    archive,
    export,
    import_,
    contract,
)

_EPILOG = """\b
Examples:
{examples}

\b
Exit codes: 0; 2 for a name or a version that is not there, and whatever else
is refused before anything is done."""


def _epilog(*examples: str) -> str:
    return _EPILOG.format(examples="\n".join(f"  agentorchestra {example}" for example in examples))


components = click.Group(
    "components",
    commands={str(cmd.name): cmd for cmd in _COMMANDS},
    short_help=COMMANDS["components"].summary,
    help="""Show and change what runs of this workspace are made of: the packaged components, those of its application,
    and those that were registered.

    `agentorchestra tools` is short for `components --kind tool`, and so for each kind.""",
    epilog=_epilog(
        "components list",
        'components search "look something up in the documents"',
        "components list --under package --kind agent",
        "components info read_file --kind tool --json",
        "components show read_file --kind tool",
        "components diff read_file 1.0.0 1.1.0",
        "components export --as skills skills",
        "components contract --kind agent",
    ),
)


def _short_form(kind: str, example: str) -> click.Group:
    plural = KINDS[kind]
    return click.Group(
        plural,
        commands={str(cmd.name): _with_kind(cmd, kind) for cmd in _COMMANDS if cmd is not stats or kind in COUNTABLE},
        short_help=COMMANDS[plural].summary,
        help=f"The commands of `agentorchestra components`, with `--kind {kind}`.",
        epilog=_epilog(f"{plural} list", f"{plural} info {example}", f"{plural} versions {example} --json"),
    )


def _with_kind(command: click.Command, kind: str) -> click.Command:
    assert command.callback is not None
    return click.Command(
        command.name,
        callback=partial(command.callback, kind=kind),
        params=[option for option in command.params if option.name != "kind"],
        help=command.help,
        short_help=command.short_help,
    )


tools = _short_form("tool", "read_file")
environments = _short_form("environment", "garden")
agents = _short_form("agent", "reporter")
prompts = _short_form("prompt", "planner")
prompts.add_command(edit)
memories = _short_form("memory", "summary")
memories.add_command(entries)
memories.add_command(forget)
memories.help = (
    "What the workspace remembers; and the commands of `components`, with `--kind memory`, for what remembers it."
)
memories.epilog = _epilog(
    "memories entries --search atlas",
    "memories forget run_01KSA5ZQ0M3V7T9X2C4D6E8FGH:mem_3f2a9c41d0",
    "memories forget --all --agent deep_analyzer",
    "memories info summary",
)
