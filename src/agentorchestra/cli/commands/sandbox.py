from __future__ import annotations

import asyncio
from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import emit, emit_json


@async_command(
    epilog="""\b
Examples:
  agentorchestra sandbox
  agentorchestra sandbox --dockerfile | docker build -t agentorchestra-sandbox -

\b
Exit codes: 0 a program ran in it, 1 there is none here."""
)
@click.option("--dockerfile", is_flag=True, help="Print what the image for the Docker backend is built from.")
@json_option("one object with what was found")
@workspace_option
async def sandbox(dockerfile: bool, as_json: bool, folder: Path) -> int:
    """Run a program in the sandbox that the workspace's settings name, and say what programs may import there.

    Code that a model wrote runs in a sandbox or not at all: bubblewrap on Linux, or Docker. Where there is none, this
    says what to install.
    """
    from agentorchestra.sandbox.base import Program
    from agentorchestra.sandbox.docker import docker_file
    from agentorchestra.sandbox.factory import limits_for, sandbox_for
    from agentorchestra.sandbox.libraries import DEFAULT_LIBRARIES, library_paths
    from agentorchestra.workspace import load_settings

    settings = load_settings(folder).sandbox
    libraries = (*DEFAULT_LIBRARIES, *settings.libraries)
    if dockerfile:
        emit(docker_file(libraries).rstrip())
        return 0
    backend = sandbox_for(settings)

    problem = 'the settings say sandbox.backend = "none"' if backend is None else await backend.problem()
    missing = library_paths(libraries)[1]
    if backend is not None and not problem:
        began = asyncio.get_running_loop().time()
        result = await backend.run(Program("python", "6 * 7"), limits_for(settings))
        took = asyncio.get_running_loop().time() - began
        if result.stdout.strip() != "42":
            problem = f"a program did not run in it: {result.detail or result.stderr or result.ending}"
    if as_json:
        about = {"ok": not problem, "sandbox": getattr(backend, "name", "none"), "problem": problem}
        emit_json({**about, "safe": bool(backend and backend.safe), "missing_libraries": list(missing)})
        return int(bool(problem))
    if problem or backend is None:
        emit(f"no sandbox: {problem}")
        return 1
    emit(f"{backend.name}: a program ran in {took * 1000:.0f} ms")
    if not backend.safe:
        emit("this isolates nothing: programs may do what you may")
    present = [name for name in libraries if name not in missing]
    emit(f"programs may import: the standard library{''.join(f', {name}' for name in present)}")
    if missing:
        emit(f"not installed: {', '.join(missing)}; pip install 'agentorchestra[sandbox]'")
    return 0
