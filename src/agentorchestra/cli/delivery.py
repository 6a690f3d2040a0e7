"""The files of a run on the command line: copied to where its user works, and the line that says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from agentorchestra.cli.options import FilePath, option, together
from agentorchestra.cli.output import HandedOver, command, one_line, plural

if TYPE_CHECKING:
    from agentorchestra.core.spec import RunResult
    from agentorchestra.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_OUT = "agentorchestra-out"  # the folder in the current one that gets a folder for each run with files


class Out(NamedTuple):
    """The place for the files of a run: `folder` as it was named, None for the default; `off` to copy none."""

    folder: Path | None = None
    off: bool = False

    def check(self) -> None:
        """Refuse (OutFolderError) a named folder that cannot be written, before anything is spent."""
        from agentorchestra.workspace.delivery import check_out

        if self.folder is not None:
            check_out(self.folder)


def out_options(function: F) -> F:
    """Add `--out DIR` and `--no-out`, as `out`."""

    @wraps(function)
    def with_out(*args: Any, out: Path | None, no_out: bool, **values: Any) -> Any:
        if out is not None and no_out:
            raise click.UsageError("--out and --no-out exclude each other; give one of them")
        return function(*args, out=Out(out, no_out), **values)

    options = together(
        option(
            "--out",
            metavar="DIR",
            type=FilePath(),
            help="The folder for the files that the run made; what is there is not written over.  "
            f"[default: {DEFAULT_OUT}/RUN]",
        ),
        click.option(
            "--no-out", is_flag=True, help="Copy no file; `agentorchestra files RUN --save DIR` does it later."
        ),
    )
    return cast("F", options(with_out))


async def hand_over(workspace: Workspace[Any], result: RunResult, out: Out, folder: Path) -> HandedOver:
    """Copy the files of a run that has ended to where its user works.

    A run without files, and one that goes on, has nothing to copy. What goes wrong is said, and the answer stands.
    `folder` is the workspace as it was named, for the commands in messages.
    """
    from agentorchestra.core.errors import OutFolderError
    from agentorchestra.core.spec import first_names
    from agentorchestra.workspace.delivery import UNDER_WAY, save

    if not result.files or result.status in UNDER_WAY:
        return HandedOver(result)
    later = f"{command('files', result.run_id, folder)} --save DIR"
    if out.off:
        return HandedOver(result, (f"{plural(len(result.files), 'file')}, not copied: {later}",))
    place = out.folder if out.folder is not None else Path(DEFAULT_OUT) / result.run_id
    try:
        copy = await save(workspace.store, result.files, place)
    except OutFolderError as exc:
        problem = f"error: the files were not copied: {one_line(str(exc), 2000)}; they stay in the workspace: {later}"
        return HandedOver(result, problems=(problem,), failed=out.folder is not None)
    problems = [f"warning: {one_line(name)} was not copied: the workspace does not have it" for name in copy.missing]
    if result.more_files:
        whole = f"{command('export', result.run_id, folder)} --folder DIR"
        problems.append(f"{plural(result.more_files, 'further file')} of the run's folder: {whole} writes all of it")
    names = first_names((one_line(str(Path(file.path or "").relative_to(place))) for file in copy.files), 10)
    line = f"{plural(len(copy.files), 'file')} in {place}: {names}"
    by_name = {(file.name, file.sha256): file for file in copy.files}
    files = tuple(by_name.get((file.name, file.sha256), file) for file in result.files)
    return HandedOver(result.model_copy(update={"files": files}), (line,), tuple(problems))
