from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, cast

import click

from agentorchestra.cli.driver import Stop, at_terminal, run_async
from agentorchestra.cli.options import (
    WORDS,
    GivenPath,
    budget_options,
    environment_option,
    model_option,
    option,
    workspace_options,
)
from agentorchestra.cli.output import say
from agentorchestra.cli.view.live import is_terminal, live_here
from agentorchestra.cli.workspaces import opening
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import ChatError
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunFields

_NEWEST = "\0"
"""`--resume` without a session."""


@click.command(
    context_settings={"allow_extra_args": True},
    epilog="""\b
Examples:
  agentorchestra chat
  agentorchestra chat --model openai:gpt-5 --budget-usd 0.5
  agentorchestra chat --resume
  agentorchestra chat --session offers
  agentorchestra chat --in .
  agentorchestra chat --model offline

\b
Exit codes: 0; 2 wrong usage, or no terminal; 130 if the chat itself was stopped by a signal.""",
)
@click.option(
    "--resume",
    metavar="[SESSION]",
    is_flag=False,
    flag_value=_NEWEST,
    type=WORDS,
    help="Go on with a session or a run, else with the newest conversation; a turn that was under way goes on.",
)
@option("--session", metavar="S", help="The session to go on with; a new one where there is none.")
@model_option
@option("--system", "-s", metavar="NAME", help="How agents work on the turns.  [default: from the settings]")
@environment_option
@click.option(
    "--in",
    "project",
    metavar="DIR",
    type=GivenPath(),
    help="Work on a copy of the folder DIR; after each turn the diff is shown, and applied if you say so.",
)
@click.option(
    "--on-ask",
    type=click.Choice(["wait", "deny"]),
    help="With deny what needs an approval is denied; Shift-Tab changes it.  [default: from the settings]",
)
@budget_options
@workspace_options
def chat(
    resume: str | None,
    session: str | None,
    budget_usd: float | None,
    timeout_s: float | None,
    folder: Path,
    **fields: Any,
) -> int:
    """Talk with agents: a turn is a run, and the next one goes on from it, with its files and its conversation.

    @PATH attaches a file. What is typed while agents work is queued for them; approvals are asked for in place. Ctrl-C
    stops a turn, Ctrl-D leaves, and --resume goes on, also with a turn whose process was killed. /help lists the
    commands and keys. The limits hold for each turn.
    """
    if extra := click.get_current_context().args:
        path, start = Path(extra[0]), "begin it with `agentorchestra chat`, then type your message"
        hint = f"{start}, with @{path} in it" if path.exists() else start
        work_on = f"to work on a folder, type: agentorchestra chat --in {shlex.quote(extra[0])}"
        raise click.UsageError(f"a chat takes no {extra[0]!r}; {work_on if path.is_dir() else hint}")
    if not at_chat_terminal():
        raise ChatError(
            "a chat needs a terminal that can draw, on stdin and stdout; without one each turn is a command: "
            'agentorchestra run --session NAME "..."'
        )
    if resume is not None and session is not None:
        raise click.UsageError("--resume and --session exclude each other; give one of them")

    async def work() -> int:
        from agentorchestra.cli.chat.commands import carry_out, names
        from agentorchestra.cli.chat.conversation import ChatSession
        from agentorchestra.cli.chat.loop import Chat
        from agentorchestra.cli.commands.run import session_to_go_on

        async with opening(folder) as workspace:
            name = session
            if resume is not None:
                name = await session_to_go_on(workspace, None if resume == _NEWEST else resume)
            options = cast("RunFields", fields)
            options["on_ask"] = options["on_ask"] or workspace.settings.on_ask
            options["budget"] = Budget(cost_usd=budget_usd, active_s=timeout_s)
            talk = ChatSession(workspace, name, options)
            await talk.look()
            if options["model"] is None and talk.last is None and not model_is_set(workspace.settings):
                raise ChatError(
                    "no model is set up to talk with; `agentorchestra setup` does that, and `agentorchestra chat "
                    "--model offline` shows how a chat works without one"
                )
            workspace.models.check(talk.now("model"))
            chatting = Chat(talk, folder, carry_out, names)
            try:
                return await chatting.run(Stop.of_command())
            finally:
                if talk.session is not None:
                    say(f"to go on: {chatting.resume_command}")

    return run_async(work())


def model_is_set(settings: Settings) -> bool:
    """Return True if the user chose a model: the one that is there by default only looks texts up."""
    return "model" in settings.model_fields_set or bool(settings.models)


def at_chat_terminal() -> bool:
    return at_terminal() and is_terminal(sys.stdout) and live_here()
