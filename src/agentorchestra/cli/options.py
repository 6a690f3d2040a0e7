"""Options and arguments that several commands take."""

from __future__ import annotations

import math
import os
import select
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentorchestra.cli.output import WORKSPACE_VARIABLE, say
from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.names import nearest

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic for type checkers only in later versions of click


class Words(ParamType):
    """Text from the command line. Bytes that are no UTF-8 arrive as lone surrogates, which no log can hold."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.fail("it holds bytes that are not UTF-8; write it in UTF-8", param, ctx)
        return text


class PositiveNumber(ParamType):
    """A finite number above zero."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number <= 0:
            self.fail(f"{value!r} is not a number above 0", param, ctx)
        return number


class FilePath(ParamType):
    """A file's path; whether it can be read is checked when the run is made."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = str(value)
        if not text:
            self.fail("the name is empty", param, ctx)
        if "\0" in text or any("\udc80" <= c <= "\udcff" for c in text):
            self.fail(f"{text!a} holds bytes that are not UTF-8; rename the file", param, ctx)
        return Path(text)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class GivenPath(FilePath):
    """A file or a folder of the user's; where nothing is there, what is meant is looked for beside it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if path != STDIN and not os.path.lexists(path) and path.parent.is_dir():
            names = sorted(os.listdir(path.parent))  # noqa: PTH208 - names
            if cut_off := [name for name in names if name.startswith(f"{path.name} ")]:
                whole = shlex.quote(str(path.parent / cut_off[0]))
                self.fail(f"{path} does not exist; put a name with blanks into quotation marks: {whole}", param, ctx)
            if close := nearest(path.name, names):
                self.fail(f"{path} does not exist; did you mean {str(path.parent / close[0])!r}?", param, ctx)
        return path


class GivenFile(GivenPath):
    """A file that is given with a task."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if "://" in str(value):
            self.fail(
                f"{value} is an address, not a file: write it into the task, for agents to open, or save it first: "
                f"curl -LO {shlex.quote(str(value))}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class Pair(ParamType):
    """Two words around a `=`; `form` is how they are written, for messages; the second may be `empty`."""

    def __init__(self, form: str, *, empty: bool = True) -> None:
        self.name = form
        self._empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, sign, text = Words().convert(value, param, ctx).partition("=")
        if not sign or not key.strip() or not (text.strip() or self._empty):
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        return key.strip(), text


class NamedVersion(ParamType):
    """`KIND:NAME@VERSION`, as a pair of `KIND:NAME` and the version."""

    name = "kind:name@version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        component, at, version = Words().convert(value, param, ctx).strip().partition("@")
        if not at or not version or not all(component.partition(":")):
            self.fail(f"{value!r} is not of the form KIND:NAME@VERSION, e.g. tool:price_of@1.0.1", param, ctx)
        return component, version


WORDS = Words()
STDIN = Path("-")
POSITIVE = PositiveNumber()
COUNT = click.IntRange(min=1)


def option(*names: str, type: Any = WORDS, default: Any = None, **attributes: Any) -> Callable[[F], F]:
    """`click.option` that takes text if nothing else is said, and whose help shows the default."""
    if default is not None:
        attributes |= {"default": default, "show_default": default != ""}
    return click.option(*names, type=type, **attributes)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several options and arguments, which `--help` lists in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _folder(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    if not value.strip():
        raise click.BadParameter("the folder's name is empty", ctx=ctx, param=param)
    return Path(value)


workspace_option = click.option(
    "--workspace",
    "folder",
    metavar="DIR",
    default=".agentorchestra",
    envvar=WORKSPACE_VARIABLE,
    show_envvar=True,
    show_default=True,
    callback=_folder,
    help="The folder with the log, the settings and the files of the runs.",
)
"""`--workspace DIR`, as `folder`."""


def json_option(noun: str) -> Callable[[F], F]:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {noun} on stdout, and nothing else there.")


def _warn(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value:
        say(
            "WARNING: --unsafe-local: programs that models write run without a sandbox and may do what you may",
            red=True,
        )
    return value


unsafe_option = click.option(
    "--unsafe-local",
    is_flag=True,
    callback=_warn,
    help="Run the programs that models write on this machine, without any sandbox: they may do what you may.",
)
"""`--unsafe-local`, which says in red what it means."""


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a value for `opening`, through which it acts."""
    ctx.meta[f"agentorchestra.{param.name}"] = value


mcp_option = click.option(
    "--mcp",
    multiple=True,
    metavar="FILE",
    type=FilePath(),
    expose_value=False,
    callback=_keep,
    help="A file of MCP servers whose tools may be used; may be repeated.  [default: from the settings]",
)
"""`--mcp FILE`; `opening` gives the files to the workspace."""


preset_option = click.option(
    "--preset",
    metavar="NAME",
    type=WORDS,
    expose_value=False,
    callback=_keep,
    help="The limits of a paper under the settings (`presets list`), or none.  [default: from the settings]",
)
"""`--preset NAME`; `opening` gives it to the workspace."""


workspace_options = together(preset_option, mcp_option, workspace_option)
"""What the workspace of a command that makes runs is opened with: `--preset`, `--mcp`, `--workspace`."""

pin_option = click.option(
    "--pin", is_flag=True, help="Use the prompts and tools as the run was started with, where they have changed since."
)


def reject_repeats(
    ctx: click.Context, param: click.Parameter, pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        noun = (param.name or "").removesuffix("s")
        raise click.BadParameter(f"{twice[0]!r} is given more than once; a {noun} has one value", ctx=ctx, param=param)
    return pairs


file_option = click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    metavar="F",
    type=GivenFile(),
    help="A file, or a folder for the files below it; may be repeated.",
)
"""`--file F`, as `files`."""

model_option = click.option(
    "--model",
    "-m",
    metavar="M",
    type=WORDS,
    help="A model of the settings, provider:model, or offline.  [default: from the settings]",
)


def role_option(names: str) -> Callable[[F], F]:
    """`--role ROLE=MODEL`, as `roles`; the help text has the names of those there are."""
    return click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE=MODEL",
        type=Pair("role=model", empty=False),
        callback=reject_repeats,
        help=f"The model of one role ({names}, or one of your own agents'); may be repeated.",
    )


environment_option = option(
    "--environment",
    "environments",
    multiple=True,
    metavar="NAME",
    help="An environment that the top agent works in, such as files, terminal, git or browser; may be repeated.",
)


def label_option(form: str, help: str) -> Callable[[F], F]:
    """`--label`, as `labels`, which are pairs."""
    return option(
        "--label", "labels", multiple=True, metavar=form.upper(), type=Pair(form), callback=reject_repeats, help=help
    )


def on_ask_option(noun: str, code: int = 3) -> Callable[[F], F]:
    """`--on-ask` of a command that drives a `noun`, with the exit code where that waits."""
    return option(
        "--on-ask",
        type=click.Choice(["wait", "deny"]),
        help=f"A question nobody can answer now: the {noun} waits (exit code {code}), or the answer is no. "
        "At a terminal questions are asked, unless this is deny.  [default: from the settings]",
    )


def task_in(file: Path = STDIN) -> str:
    """Return the task that a file holds, or stdin (`-`); raise UsageError if it is no text."""
    source = "stdin" if file == STDIN else str(file)
    try:
        return (_stdin() if file == STDIN else file.read_bytes()).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"the task in {source} is not UTF-8 (byte {exc.start}); write it in UTF-8") from None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        raise click.UsageError(f"the task cannot be read from {source}: {reason}; give it as TASK") from None


def is_piped() -> bool:
    """Return True if something may come from stdin: it is a pipe, a socket or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _stdin(most: int = -1) -> bytes:
    """Return stdin to its end, or to so many bytes; say that it is read if nothing comes."""
    if is_piped() and not select.select([sys.stdin], [], [], 1)[0]:
        say("waiting for the end of stdin; `< /dev/null` gives it none")
    return sys.stdin.buffer.read(most)


@contextmanager
def material_on_stdin() -> Iterator[tuple[Path, ...]]:
    """Yield the file that holds what came from stdin, while it is needed; what is too long for a file is cut there."""
    from agentorchestra.tools.files import LIMITS

    data = _stdin(LIMITS.max_bytes + 1)
    with tempfile.TemporaryDirectory(prefix="agentorchestra-") as folder:
        try:
            data.decode("utf-8")
            place = Path(folder, "stdin.txt")
        except UnicodeDecodeError:
            place = Path(folder, "stdin")  # by its content it may be a file of another format
        place.write_bytes(data)
        yield (place,) if data.strip() else ()


def _runs_that_begin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return `last` and the ids of runs that begin so, for a shell; what cannot be read has none."""
    import asyncio

    from agentorchestra.cli.workspaces import LAST, exists, opening
    from agentorchestra.workspace import DEFAULT_FOLDER

    folder = Path(ctx.params.get("folder") or os.environ.get(WORKSPACE_VARIABLE) or DEFAULT_FOLDER)

    async def ids() -> list[str]:
        async with opening(folder, app=False) as workspace:
            return await workspace.store.run_ids()

    try:
        names = [LAST, *asyncio.run(ids())] if exists(folder) else []
    except (AgentOrchestraError, OSError):
        names = []
    return [name for name in names if name.startswith(incomplete)]


run_argument = click.argument("run", metavar="RUN", type=WORDS, shell_complete=_runs_that_begin)  # `RUN`, as `run`


budget_options = together(
    option(
        "--budget-usd",
        metavar="X",
        type=POSITIVE,
        help="The most the whole run may cost, in US dollars.  [default: 1 if the model has a price]",
    ),
    option(
        "--timeout-s",
        metavar="S",
        type=POSITIVE,
        help="The most seconds the run may be at work, over all its resumes; waiting does not count.",
    ),
)
"""`--budget-usd` and `--timeout-s`."""
