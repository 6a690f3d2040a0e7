"""The table of commands. `--help` is written from it: no command's module is imported for that."""

from __future__ import annotations

import shlex
from importlib import import_module, metadata
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from agentorchestra.core.names import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


WORK = "Work"
RUNS = "Runs"
IMPROVE = "Improve and measure"
SERVE = "Serve"
WORKSPACE = "Workspace"
GROUPS = (WORK, RUNS, IMPROVE, SERVE, WORKSPACE)
"""The sections of `--help`, in their order."""

FIRST_DAY = ("setup", "models", "chat", "run", "show", "resume")
"""The commands that stand on top, above the groups."""


class _Entry(NamedTuple):
    """The group of a command, where it lives, and its line in the list of commands."""

    group: str
    module: str
    attribute: str
    summary: str


COMMANDS: dict[str, _Entry] = {
    "run": _Entry(WORK, "run", "run", "Run a task and print the answer."),
    "code": _Entry(WORK, "code", "code", "Let an agent work on a copy of a folder, and bring back what it changed."),
    "apply": _Entry(WORK, "code", "apply", "Bring what a run changed in its copy of a folder into that folder."),
    "chat": _Entry(WORK, "chat", "chat", "Talk with agents: a conversation of several turns at the terminal."),
    "debate": _Entry(WORK, "debate", "debate", "Let experts debate a topic, and conclude."),
    "show": _Entry(WORK, "show", "show", "Show what a run did, found and cost."),
    "files": _Entry(WORK, "files", "files", "List the files that a run made, or save them."),
    "resume": _Entry(WORK, "resume", "resume", "Go on with a run that stopped before its end."),
    "answer": _Entry(WORK, "answer", "answer", "Answer a question a run waits for, and go on with it."),
    "approve": _Entry(WORK, "answer", "approve", "Allow what a run asks permission for, and go on with it."),
    "deny": _Entry(WORK, "answer", "deny", "Refuse what a run asks permission for, and go on with it."),
    "tell": _Entry(WORK, "control", "tell", "Add to the task of a run; it is read at the next step."),
    "runs": _Entry(RUNS, "runs", "runs", "List the runs of the workspace, newest first."),
    "tail": _Entry(RUNS, "tail", "tail", "Follow a run that another process drives."),
    "cost": _Entry(RUNS, "cost", "cost", "Add up what runs cost."),
    "log": _Entry(RUNS, "log", "log", "Print events of the log, by session, task, record and index."),
    "replay": _Entry(RUNS, "replay", "replay", "Check that today's code and prompts repeat a recorded run."),
    "fork": _Entry(RUNS, "fork", "fork", "Go on from any event of a run, with another model or prompt."),
    "compare": _Entry(RUNS, "compare", "compare", "Show where two runs first differ, and how each goes on."),
    "policy": _Entry(
        RUNS, "policy", "group", "Try another policy on recorded runs; probe what followed untrusted words."
    ),
    "pause": _Entry(RUNS, "control", "pause", "Stop a run before its next step; resume goes on."),
    "cancel": _Entry(RUNS, "control", "cancel", "Stop a run, wherever it is driven."),
    "export": _Entry(RUNS, "transfer", "export", "Write a run into one file that another machine can import."),
    "import": _Entry(RUNS, "transfer", "import_", "Take a run that another machine exported into this workspace."),
    "eval": _Entry(
        IMPROVE, "evaluation", "group", "Ask questions with true answers of several systems, and compare them."
    ),
    "evolve": _Entry(IMPROVE, "evolution", "group", "Improve prompts and tools from their runs, on evidence."),
    "components": _Entry(
        IMPROVE,
        "components.group",
        "components",
        "Find, compare, restore and carry tools, environments, agents, prompts, memories.",
    ),
    "tools": _Entry(IMPROVE, "components.group", "tools", "The commands of components, for tools."),
    "environments": _Entry(
        IMPROVE, "components.group", "environments", "The commands of components, for environments."
    ),
    "agents": _Entry(IMPROVE, "components.group", "agents", "The commands of components, for agents."),
    "prompts": _Entry(IMPROVE, "components.group", "prompts", "The commands of components, for prompts."),
    "memories": _Entry(
        IMPROVE, "components.group", "memories", "What is remembered; the commands of components, for memory systems."
    ),
    "new": _Entry(IMPROVE, "new", "new", "Write a tool, an agent or a system to begin with, and its test."),
    "serve": _Entry(SERVE, "serve", "serve", "Answer HTTP requests: submit, status, events, answers."),
    "schedule": _Entry(SERVE, "schedule", "schedule", "Run tasks at the times of a cron expression."),
    "submit": _Entry(SERVE, "cluster", "submit", "Queue a task for the workers of a database."),
    "worker": _Entry(SERVE, "cluster", "worker", "Drive queued runs, on any number of machines."),
    "status": _Entry(SERVE, "cluster", "status", "Show the workers, the queue and the runs of a database."),
    "setup": _Entry(WORKSPACE, "setup", "setup", "Choose a model, keep its key, and write the settings."),
    "models": _Entry(WORKSPACE, "models", "models", "List the models that are configured, and ask them."),
    "doctor": _Entry(WORKSPACE, "doctor", "doctor", "Check this installation and the workspace."),
    "presets": _Entry(WORKSPACE, "presets", "presets", "List the presets of the papers, and what they set."),
    "gc": _Entry(WORKSPACE, "gc", "gc", "Delete old runs, and what nothing refers to any more."),
    "backup": _Entry(WORKSPACE, "backup", "backup", "Copy the workspace, also while runs go on."),
    "browser": _Entry(WORKSPACE, "browser", "browser", "Open the browser by hand, as an agent has it."),
    "sandbox": _Entry(WORKSPACE, "sandbox", "sandbox", "Try the sandbox for code that models write."),
    "completion": _Entry(WORKSPACE, "completion", "completion", "Let your shell complete commands and runs."),
}

SYNONYMS: dict[str, tuple[str, ...]] = {
    "list": ("runs", "components list"),
    "ls": ("runs", "files RUN"),
    "history": ("runs",),
    "stop": ("cancel RUN", "pause RUN"),
    "kill": ("cancel RUN",),
    "rm": ("gc --help",),
    "continue": ('run --continue "..."', "resume RUN"),
    "diff": ("compare RUN RUN", "apply RUN --dry-run", "components diff NAME OLD NEW"),
    "logs": ("log", "tail RUN"),
    "watch": ("tail RUN",),
    "open": ("show RUN --html",),
    "ask": ('run "..."', "chat"),
    "start": ("chat", "serve"),
    "init": ("setup",),
    "config": ("setup", "doctor"),
    "model": ("models", 'run "..." --model NAME'),
    "version": ("--version",),
    "help": ("--help",),
    "usage": ("cost",),
}
"""What to type instead of names that other programs have for these commands."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(f"agentorchestra.cli.commands.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command; those of commands are not among them."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            if close := nearest(exc.option_name.lstrip("-"), [opt.name for opt in self.params if opt.name] + ["help"]):
                ctx.fail(f"no such option {exc.option_name}; did you mean --{close[0]}?")
            ctx.fail(
                f'{exc.option_name} stands before the command; type `agentorchestra run "..." {exc.option_name} ...`'
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument; say what to type instead of an unknown one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(_instead(args))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, from the table alone, and the options."""
        from click.shell_completion import CompletionItem

        fitting = [(name, entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=summary) for name, summary in fitting), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of commands from the table alone; those of the first day stand on top only."""
        width = max(map(len, COMMANDS))
        sections = {"The first day": FIRST_DAY} | {
            group: tuple(name for name, entry in COMMANDS.items() if entry.group == group and name not in FIRST_DAY)
            for group in GROUPS
        }
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name].summary) for name in names])


def _instead(args: list[str]) -> str:
    """Return what is wrong with arguments that begin with no command, and what to type."""
    first = args[0]
    if " " in first.strip() or "\n" in first:
        return f"a task comes after the command run; type: {shlex.join(['agentorchestra', 'run', *args])}"
    problem = f"there is no command {first!r}"
    if instead := SYNONYMS.get(first.casefold()):
        return f"{problem}; type {' or '.join(f'`agentorchestra {line}`' for line in instead)}"
    if first.startswith("run_"):
        return f"{problem}; to see a run, type: agentorchestra show {shlex.quote(first)}"
    if Path(first).is_file():
        return f'{problem}; to ask about a file, type: agentorchestra run "..." --file {shlex.quote(first)}'
    words = [*takewhile(lambda word: not word.startswith("-"), args)]
    task = shlex.join(["agentorchestra", "run", " ".join(words), *args[len(words) :]])
    a_task = f"a task comes after run, in quotation marks: {task}"
    if not (close := nearest(first, COMMANDS, 2)):
        return f"{problem}; {a_task}"
    more = f" Or, {a_task}" if len(words) > 2 else ""
    return f"{problem}; did you mean {' or '.join(map(repr, close))}?{more}"


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        try:
            click.echo(f"agentorchestra {metadata.version('agentorchestra')}")
        except metadata.PackageNotFoundError:
            click.echo("agentorchestra (not installed: running from its source folder)")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  agentorchestra run "What is the notice period?" --file contract.pdf
  agentorchestra show last
  agentorchestra resume last

\b
Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 any other end (partial,
blocked, waiting, paused, out of budget or time), 130 cancelled.

\b
AGENTORCHESTRA_WORKSPACE names the workspace, AGENTORCHESTRA_DEBUG=1 shows tracebacks.""",
)
@click.option(
    "--version", "-V", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Run teams of language-model agents on open-ended tasks.

    Everything a run does is recorded in the workspace, so that it can be shown, resumed and replayed.
    A RUN is named by its id, a unique beginning of it, or "last". At a terminal, without a command, the chat begins.
    """
    if ctx.invoked_subcommand is not None:
        return None
    return int(import_module("agentorchestra.cli.bare").bare(ctx))
