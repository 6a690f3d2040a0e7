"""The table of commands. `--help` is written from it: no command's module is imported for that."""

from __future__ import annotations

import difflib
from importlib import import_module, metadata
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a command lives, and its line in the list of commands."""

    module: str
    attribute: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "run", "Run a task and print the answer."),
    "code": Entry("code", "code", "Let an agent work on a copy of a folder, and bring back what it changed."),
    "apply": Entry("code", "apply", "Bring what a run changed in its copy of a folder into that folder."),
    "chat": Entry("chat", "chat", "Talk with agents: a conversation of several turns at the terminal."),
    "debate": Entry("debate", "debate", "Let experts debate a topic, and conclude."),
    "runs": Entry("runs", "runs", "List the runs of the workspace, newest first."),
    "show": Entry("show", "show", "Show what a run did, step by step."),
    "tail": Entry("tail", "tail", "Follow a run that another process drives."),
    "cost": Entry("cost", "cost", "Add up what runs cost."),
    "answer": Entry("answer", "answer", "Answer a question a run waits for, and go on with it."),
    "approve": Entry("answer", "approve", "Allow what a run asks permission for, and go on with it."),
    "deny": Entry("answer", "deny", "Refuse what a run asks permission for, and go on with it."),
    "resume": Entry("resume", "resume", "Go on with a run that stopped before its end."),
    "files": Entry("files", "files", "List the files that a run made, or save them."),
    "replay": Entry("replay", "replay", "Check that today's code and prompts repeat a recorded run."),
    "fork": Entry("fork", "fork", "Go on from any event of a run, with another model or prompt."),
    "compare": Entry("compare", "compare", "Show where two runs first differ, and how each goes on."),
    "policy": Entry("policy", "group", "Try another policy on recorded runs; probe what followed untrusted words."),
    "pause": Entry("control", "pause", "Stop a run before its next step; resume goes on."),
    "log": Entry("log", "log", "Print events of the log, by session, task, record and index."),
    "export": Entry("transfer", "export", "Write a run into one file that another machine can import."),
    "import": Entry("transfer", "import_", "Take a run that another machine exported into this workspace."),
    "cancel": Entry("control", "cancel", "Stop a run, wherever it is driven."),
    "tell": Entry("control", "tell", "Add to the task of a run; it is read at the next step."),
    "components": Entry(
        "components.group",
        "components",
        "Find, compare, restore and carry tools, environments, agents, prompts, memories.",
    ),
    "tools": Entry("components.group", "tools", "The commands of components, for tools."),
    "environments": Entry("components.group", "environments", "The commands of components, for environments."),
    "agents": Entry("components.group", "agents", "The commands of components, for agents."),
    "prompts": Entry("components.group", "prompts", "The commands of components, for prompts."),
    "memories": Entry(
        "components.group", "memories", "What is remembered; the commands of components, for memory systems."
    ),
    "new": Entry("new", "new", "Write a tool, an agent or a system to begin with, and its test."),
    "presets": Entry("presets", "presets", "List the presets of the papers, and what they set."),
    "eval": Entry("evaluation", "group", "Ask questions with true answers of several systems, and compare them."),
    "evolve": Entry("evolution", "group", "Improve prompts and tools from their runs, on evidence."),
    "gc": Entry("gc", "gc", "Delete old runs, and what nothing refers to any more."),
    "backup": Entry("backup", "backup", "Copy the workspace, also while runs go on."),
    "serve": Entry("serve", "serve", "Answer HTTP requests: submit, status, events, answers."),
    "submit": Entry("cluster", "submit", "Queue a task for the workers of a database."),
    "worker": Entry("cluster", "worker", "Drive queued runs, on any number of machines."),
    "status": Entry("cluster", "status", "Show the workers, the queue and the runs of a database."),
    "browser": Entry("browser", "browser", "Open the browser by hand, as an agent has it."),
    "sandbox": Entry("sandbox", "sandbox", "Try the sandbox for code that models write."),
    "doctor": Entry("doctor", "doctor", "Check this installation and the workspace."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None where there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(f"agentorchestra.cli.commands.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument; suggest the closest names for an unknown one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=2)
            guess = f", did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"there is no command {args[0]!r}{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
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
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Run teams of language-model agents on open-ended tasks.

    Everything a run does is recorded in the workspace, so that it can be shown, resumed and replayed.
    A RUN is named by its id, a unique beginning of it, or "last". At a terminal, without a command, the chat begins.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from agentorchestra.cli.bare import bare

    return bare(ctx)
