from __future__ import annotations

import asyncio
from pathlib import Path

import click

from agentorchestra.cli.driver import logs_in_lines
from agentorchestra.cli.options import option, workspace_options
from agentorchestra.cli.output import emit, say
from agentorchestra.cli.workspaces import opening
from agentorchestra.core.errors import SettingsError

TOKEN_VARIABLE = "AGENTORCHESTRA_TOKEN"


@click.command(
    epilog=f"""\b
Examples:
  agentorchestra serve
  agentorchestra serve --port 0 --workspace project
  {TOKEN_VARIABLE}=... agentorchestra serve --host 0.0.0.0 --allow-host agents.example.org

\b
Needs the extra `web`: pip install "agentorchestra[web]"
Exit codes: 0 when it was stopped; 1 if the workspace cannot be opened;
2 wrong usage (an address that is taken, a missing token or extra)."""
)
@option("--host", default="127.0.0.1", help="The address to listen at.")
@option("--port", type=click.IntRange(0, 65535), default=8765, help="The port; 0 takes a free one.")
@option(
    "--token",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="What requests must bring; others on this machine can see arguments, so prefer the variable.  "
    "[default: a new one, printed]",
)
@option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="A further name this server is called by (the Host header of requests); may be repeated.",
)
@click.option(
    "--take-up",
    type=click.Choice(["accepted", "all"]),
    help="Go on with the runs that a server accepted, or with all that are abandoned.  "
    "[default: the setting serve.take_up: accepted]",
)
@workspace_options
def serve(
    host: str, port: int, token: str | None, allow_hosts: tuple[str, ...], take_up: str | None, folder: Path
) -> int:
    """Answer HTTP requests on this machine until Ctrl-C; docs/web.md has the requests.

    Runs that are submitted are queued and driven in this process, some at a time. When it stops, the next server goes
    on with them. The first line on stdout is the address, the second the token, if it was made here.
    """
    from agentorchestra.web import LOOPBACK_HOSTS, asgi, missing_extra

    try:
        from agentorchestra.web.server import address_of, bind, is_loopback
        from agentorchestra.web.server import serve as serve_app
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("agentorchestra"):
            raise
        raise missing_extra(exc) from None

    if not is_loopback(host) and token is None:
        raise SettingsError(
            f"{host} can be reached from other machines, so the token must be yours: set {TOKEN_VARIABLE} "
            "(or --token), or listen at 127.0.0.1"
        )

    async def work() -> None:
        async with opening(folder) as workspace:
            if take_up is not None:
                serving = workspace.settings.serve.model_copy(update={"take_up": take_up})
                workspace.settings = workspace.settings.model_copy(update={"serve": serving})
            app = asgi(workspace, token=token, allowed_hosts=(*LOOPBACK_HOSTS, host, *allow_hosts))
            with bind(host, port) as listener:
                emit(address_of(listener))
                if token is None:
                    emit(f"token: {app.token}")
                say(f"serving {folder}; Ctrl-C stops it")
                count = sum(standing == "abandoned" for standing in (await workspace.runs.standings()).values())
                if count and workspace.settings.serve.take_up != "all":
                    say(f"{count} runs are abandoned; to go on with them: agentorchestra resume --abandoned")
                await serve_app(app, listener)

    with logs_in_lines("agentorchestra.web"):
        asyncio.run(work())
    return 0
