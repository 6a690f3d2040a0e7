"""Tasks in folders, in the format of Terminal-Bench 2 (Harbor): read before a run, and checked after it.

    TASK/instruction.md           what is asked
    TASK/task.toml                limits
    TASK/environment/Dockerfile   the machine; WORKDIR, ENV, COPY and ADD are carried out where there is no image
    TASK/tests/test.sh            the check, which leaves a reward in /logs/verifier/reward.txt

The format: https://www.harborframework.com/docs/tasks
"""

from __future__ import annotations

import asyncio
import json
import math
import posixpath
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentorchestra.core.errors import JobError, SandboxUnavailableError, TaskFolderError
from agentorchestra.core.settings import Settings, TerminalCopy
from agentorchestra.environments.base import base_for
from agentorchestra.environments.terminal import verifier
from agentorchestra.environments.terminal.network import TerminalProxy, reach_of
from agentorchestra.sandbox import Job, Sandbox, SandboxLimits
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.bubblewrap import host_path
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.machine import Machine
from agentorchestra.sandbox.shell import Mount, Shell

HINT = "docs/terminal.md, section 'Tasks in folders', has the format"
_WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "SHELL"} | {
    "STOPSIGNAL",
    "USER",
    "VOLUME",
}
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_REWARD_CHARS, _SHOWN_CHARS = 1000, 2000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # metadata and keys of newer versions


class _Agent(_Section):
    timeout_sec: float | None = Field(default=None, gt=0)


class _Verifier(_Section):
    timeout_sec: float = Field(default=600.0, gt=0)
    env: dict[str, str] = {}


class _Environment(_Section):
    memory_mb: int | None = Field(default=None, ge=64)
    memory: str | None = Field(default=None, pattern=r"^\d+[MG]$")
    storage_mb: int | None = Field(default=None, ge=1)
    docker_image: str | None = None
    mcp_servers: tuple[object, ...] = ()


class _Config(_Section):
    version: str = "1.0"
    schema_version: str = "1.0"
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()
    steps: tuple[object, ...] = ()


@dataclass(frozen=True)
class TaskFolder:
    path: Path  # of the folder
    instruction: str  # what is asked
    workdir: str = ""  # where the agent works; "" where the Dockerfile does not say
    # what the run's folder begins with, as the Dockerfile's COPY and ADD say; none with an image
    copies: tuple[TerminalCopy, ...] = ()
    # what commands find in their environment, as the Dockerfile's ENV says; none with an image
    variables: Mapping[str, str] = field(default_factory=dict)
    agent_s: float | None = None  # seconds that the agent may take; None where the task does not say
    tests_s: float = 600.0  # seconds that the tests may take
    env: Mapping[str, str] = field(default_factory=dict)  # what the tests find in their environment
    # `memory_mib`, `storage_mib`: limits of the machine; None where the task does not say
    memory_mib: int | None = None
    storage_mib: int | None = None
    notes: tuple[str, ...] = ()  # what of the Dockerfile is not carried out, a sentence each


class TaskVerdict(BaseModel, frozen=True):
    """The result of a task's tests."""

    solved: bool  # whether the reward is 1 or more
    reward: float  # as the tests wrote it; 1 or 0 by their exit code where they wrote none
    why: str  # a sentence
    output: str = ""  # the end of what the tests printed


# -- reading -----------------------------------------------------------------------------------------------------------


def read_task_folder(path: Path, *, image: str = "") -> TaskFolder:
    """Return the task in a folder. Blocks.

    Args:
        image: the setting `terminal.image`: with one, the machine that the Dockerfile describes is there already.

    Raises:
        TaskFolderError: it is no such folder, or needs what is not there.
    """
    if not path.is_dir():
        raise TaskFolderError(f"the task folder {str(path)!r} is no folder; name one with an instruction.md. {HINT}")
    if (path / "task.yaml").is_file() and not (path / "task.toml").is_file():
        raise TaskFolderError(
            f"{path} is in the first format of Terminal-Bench (task.yaml), which is not read; "
            f"bring it into the second one (task.toml, instruction.md). {HINT}"
        )
    instruction = _text(path / "instruction.md").strip()
    if not instruction:
        raise TaskFolderError(f"{path / 'instruction.md'} is empty; write down what the agent is asked")
    config = _config(path / "task.toml")
    _text(path / "tests" / "test.sh")
    for name, value in config.verifier.env.items():
        if "${" in value or not name.isidentifier():
            raise TaskFolderError(
                f"verifier.env of {path / 'task.toml'} has {name} = {value!r}: variables of this machine are not given "
                "to tests; write the value itself"
            )
    environment = path / "environment"
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (environment / name).exists():
            raise TaskFolderError(f"{environment / name} describes several machines, and a run has one; remove it")
    machine = config.environment
    if machine.docker_image and not image:
        raise TaskFolderError(
            f"the task {path.name!r} lies on the image {machine.docker_image!r}, which is not fetched here: "
            f"`docker save -o task.tar {machine.docker_image}`, then set terminal.image to task.tar"
        )
    file = _Dockerfile(environment / "Dockerfile")
    if not machine.docker_image or file.path.exists():
        file.read(image=bool(image))
    memory = machine.memory_mb
    if memory is None and machine.memory:
        memory = int(machine.memory[:-1]) * (1024 if machine.memory[-1] == "G" else 1)
    return TaskFolder(
        path=path,
        instruction=instruction,
        workdir=file.workdir,
        copies=file.inside(),
        variables=file.variables,
        agent_s=config.agent.timeout_sec,
        tests_s=config.verifier.timeout_sec,
        env=config.verifier.env,
        memory_mib=memory,
        storage_mib=machine.storage_mb,
        notes=file.notes,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = "is missing" if isinstance(exc, FileNotFoundError) else f"cannot be read: {exc}"
        raise TaskFolderError(f"{path} {reason}; a task folder needs it. {HINT}") from None


def _config(path: Path) -> _Config:
    try:
        config = _Config.model_validate(tomllib.loads(_text(path)))
    except tomllib.TOMLDecodeError as exc:
        raise TaskFolderError(f"{path} is no TOML: {exc}; correct it") from None
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise TaskFolderError(f"{name} = {first['input']!r} in {path} does not fit: {first['msg']}; {HINT}") from None
    for version in (config.version, config.schema_version):
        if version.partition(".")[0] != "1":
            raise TaskFolderError(f"{path} has the version {version!r}; versions 1.x are read. {HINT}")
    for key, value in (("steps", config.steps), ("environment.mcp_servers", config.environment.mcp_servers)):
        if value:
            raise TaskFolderError(f"{key} in {path} is not carried out here; choose a task without it. {HINT}")
    return config


class _Dockerfile:
    """What is carried out of a Dockerfile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workdir = ""
        self.variables: dict[str, str] = {}
        self.notes: tuple[str, ...] = ()
        self._copies: list[tuple[Path, str]] = []  # source, and target from the root
        self._known = {"PATH": host_path()}  # what a variable stands for: ENV, and ARG with a value

    def read(self, *, image: bool) -> None:
        """Go through it; where the `image` is there already, for WORKDIR only."""
        left = dict[str, None]()
        for place, name, rest in self._instructions():
            if name == "WORKDIR":
                words = self._value(place, rest).strip("\"'")
                self.workdir = posixpath.normpath(posixpath.join(self.workdir or "/", words))
            elif image:
                continue
            elif name in ("COPY", "ADD"):
                self._copy(place, name, rest)
            elif name in ("ENV", "ARG"):
                self._set(place, name, rest)
            elif name == "RUN":
                raise TaskFolderError(
                    f"{place}: RUN {rest[:60]!r} needs an image, which nothing here builds: `docker build -t task "
                    f"{self.path.parent}`, `docker save -o task.tar task`, then set terminal.image to task.tar"
                )
            elif name in _WITHOUT_EFFECT:
                left[name] = None
            else:
                raise TaskFolderError(f"{place} has the unknown instruction {name!r}; correct it. {HINT}")
        if image:
            self.notes = (f"of {self.path} only WORKDIR is read; terminal.image has to be built from it",)
        elif left:
            note = f"of {self.path} is not carried out: {', '.join(left)}; commands find this machine's programs"
            self.notes = (note,)

    def inside(self) -> tuple[TerminalCopy, ...]:
        """Return what is copied, by where it comes in the working folder."""
        copies = []
        for source, target in self._copies:
            to = posixpath.relpath(target, self.workdir or "/work")
            if to.split("/")[0] == "..":
                raise TaskFolderError(
                    f"{self.path} copies {source.name!r} to {target!r}, outside of its WORKDIR {self.workdir!r}; build "
                    "an image from it and set terminal.image, or copy it below WORKDIR"
                )
            copies.append(TerminalCopy(source=str(source.absolute()), to="" if to == "." else to))
        return tuple(copies)

    def _instructions(self) -> Iterator[tuple[str, str, str]]:
        """Yield the instructions: the place for a sentence, the name, and what follows it."""
        joined_line, first = "", 0
        for number, line in enumerate([*_text(self.path).splitlines(), ""], 1):
            if line.lstrip().startswith("#"):
                continue
            joined_line, first = joined_line + line.rstrip(), first or number
            if joined_line.endswith("\\"):
                joined_line = joined_line[:-1] + " "
                continue
            name, *rest = joined_line.split(maxsplit=1)[:2] or [""]
            if name:
                yield f"{self.path}, line {first}", name.upper(), "".join(rest).strip()
            joined_line, first = "", 0

    def _value(self, place: str, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            name = match[1] or match[2] or ""
            if name not in self._known:
                raise TaskFolderError(f"{place} holds the variable {match[0]!r}, which has no value; write the value")
            return self._known[name]

        return re.sub(r"\$(?:(\w+)|\{(\w+)\}|.?)", value_of, text)

    def _words(self, place: str, name: str, rest: str) -> list[str]:
        try:
            return list(json.loads(rest)) if rest.startswith("[") else shlex.split(rest)
        except ValueError as exc:
            raise TaskFolderError(f"{place} has {name} {rest!r}, which cannot be read: {exc}; correct it") from None

    def _set(self, place: str, name: str, rest: str) -> None:
        words = self._words(place, name, rest)
        if name == "ENV" and words and "=" not in words[0]:  # the old form: one name, and the rest of the line
            words = [f"{words[0]}={' '.join(words[1:])}"]
        pairs = [word.partition("=") for word in words]
        values = {key: self._value(place, value) for key, equals, value in pairs if equals}
        for key in values:
            if not key.isidentifier():
                raise TaskFolderError(f"{place} sets {key!r}, which is no name of a variable; correct it")
        self._known |= values
        if name == "ENV":
            self.variables |= values

    def _copy(self, place: str, name: str, rest: str) -> None:
        words = [self._value(place, word) for word in self._words(place, name, rest)]
        flags = [word for word in words if word.startswith("--")]
        words = [word for word in words if not word.startswith("--")]
        if any(not flag.startswith(("--chown=", "--chmod=")) for flag in flags) or len(words) < 2 or "<<" in rest:
            raise TaskFolderError(
                f"{place} has {name} {rest!r}; sources of environment/ and a target are understood here"
            )
        *sources, target = words
        root = self.path.parent
        for source in sources:
            if name == "ADD" and ("://" in source or source.startswith("git@") or source.endswith(_ARCHIVES)):
                raise TaskFolderError(
                    f"{place} adds {source!r}, which only an engine fetches or unpacks; put the files themselves into "
                    f"{root} and copy them"
                )
            pattern = source.lstrip("/") or "."
            parts = sorted(root.glob(pattern)) if any(char in pattern for char in "*?[") else [root / pattern]
            if not parts or not all(part.exists() and part.resolve().is_relative_to(root.resolve()) for part in parts):
                raise TaskFolderError(f"{place} copies {source!r}, which is not in {root}; put it there")
            as_folder = target.endswith("/") or target in (".", "..") or len(sources) > 1 or len(parts) > 1
            at = posixpath.normpath(posixpath.join(self.workdir or "/", target))
            for part in parts:
                below = not part.is_dir() and (as_folder or at == (self.workdir or "/"))
                self._copies.append((part, posixpath.join(at, part.name) if below else at))


def with_task(settings: Settings, task: TaskFolder) -> Settings:
    terminal = settings.terminal.model_copy(
        update={
            "workdir": task.workdir or settings.terminal.workdir,
            "copies": task.copies,
            "environment": {**settings.terminal.environment, **task.variables},
        }
    )
    sandbox, folder = settings.sandbox, settings.folder
    if task.memory_mib is not None:
        sandbox = sandbox.model_copy(update={"memory_mib": task.memory_mib})
    if task.storage_mib is not None:
        folder = folder.model_copy(update={"max_mib": float(task.storage_mib)})
    return settings.model_copy(update={"terminal": terminal, "sandbox": sandbox, "folder": folder})


# -- checking ----------------------------------------------------------------------------------------------------------


async def need_sandbox(sandbox: Sandbox | None, purpose: str = "a task folder") -> Sandbox:
    """Return the sandbox, if it has machines, for `purpose`; SandboxUnavailableError for none or another one."""
    problem = await sandbox.problem() if sandbox is not None else 'the settings want none (sandbox.backend = "none")'
    if sandbox is None or problem or sandbox.name != "bubblewrap":
        name = sandbox.name if sandbox is not None else "none"
        raise SandboxUnavailableError(
            f"{purpose} needs the sandbox bubblewrap, and here it is {name!r}{f': {problem}' if problem else ''}; "
            'install bubblewrap and set sandbox.backend = "bubblewrap"'
        )
    return sandbox


async def check(
    task: TaskFolder,  # its folder was read before the run
    place: Path,  # what the run's world has on disk
    *,
    settings: Settings,  # of the workspace, with the task's machine
    # `sandbox`, `limits`, `images`, `environ`: of the workspace
    sandbox: Sandbox | None,
    limits: SandboxLimits,
    images: Path,
    environ: Mapping[str, str],
    # the one that the agent worked in, which is closed at the end: what it left running still runs. Without one the
    # tests have a sandbox of their own, over the folder and the layer that it left.
    shell: Shell | None = None,
) -> TaskVerdict:
    """Run a task's tests on the machine as the run left it; SandboxUnavailableError without a sandbox."""
    if shell is not None:
        return await _run_tests(task, place, shell)
    sandbox = await need_sandbox(sandbox)
    caps = replace(limits, seconds=task.tests_s)
    caps = replace(caps, work_bytes=int(settings.folder.max_mib * MIB), files=settings.folder.max_entries)
    machine = await asyncio.to_thread(_machine_left, place, settings, images)
    reach = reach_of(settings.terminal.hosts, environ)
    proxy = TerminalProxy(reach, settings.web) if reach.hosts and not settings.sandbox.network else None
    settings_mounts = settings.terminal.mounts
    mounts = [Mount(Path(mount.folder).expanduser(), mount.inside, mount.writable) for mount in settings_mounts]
    if proxy is not None:
        await proxy.start()
    try:
        own_shell = await shell_in(
            sandbox,
            place / "folder",
            caps,
            network=settings.sandbox.network,
            mounts=[*mounts, *await asyncio.to_thread(verifier.mounts, place)],
            machine=machine,
            gate=proxy.gate if proxy is not None else None,
        )
        return await _run_tests(task, place, own_shell)
    finally:
        if proxy is not None:
            await proxy.close()
        for name in ("overlay", verifier.PLACE):
            await asyncio.to_thread(shutil.rmtree, place / name, ignore_errors=True)


async def _run_tests(task: TaskFolder, place: Path, shell: Shell) -> TaskVerdict:
    try:
        log = await asyncio.to_thread(verifier.bring, task.path / "tests", place)
        lines = [f"export {key}={shlex.quote(value)}" for key, value in task.env.items()]
        job = await shell.run_apart("\n".join([*lines, f"bash {verifier.TESTS}/test.sh"]), timeout_s=task.tests_s)
    except JobError as exc:
        return TaskVerdict(solved=False, reward=0.0, why=f"the tests did not come to their end: {exc}")
    finally:
        await shell.close()  # nobody writes a reward while it is read
    output = (job.output or "")[-_SHOWN_CHARS:]
    if job.state != "ended" or job.exit_code is None:
        return TaskVerdict(solved=False, reward=0.0, why=unfinished_reason(job, task.tests_s), output=output)
    return _verdict(log, job.exit_code, output)


def unfinished_reason(job: Job, seconds: float) -> str:
    """Return a sentence on tests that did not come to their end within their time, in seconds."""
    reason = f"they may take {seconds:g} s" if job.state == "running" else "they printed too much"
    return f"the tests did not come to their end: {reason}"


def _machine_left(place: Path, settings: Settings, images: Path) -> Machine:
    """Return the machine that a run left; one that nobody worked on is as it begins. Blocks."""
    base, folder = base_for(settings.terminal, images), place / "folder"
    machine = base.machine(place / "layer")
    if not folder.exists():
        folder.mkdir(parents=True)
        base.begin(machine, folder)
    return machine


def _verdict(folder: Path, exit_code: int, output: str) -> TaskVerdict:
    for name in ("reward.txt", "reward.json"):
        path = folder / name
        if folder.is_symlink() or path.is_symlink() or not path.is_file():
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_REWARD_CHARS).strip()
        reward = _number(text)
        if reward is None:
            reason = f"the tests wrote {text[:80]!r} into {name}, which is no reward"
            return TaskVerdict(solved=False, reward=0.0, why=reason, output=output)
        return TaskVerdict(
            solved=reward >= 1, reward=reward, why=f"the tests gave the reward {reward:g}", output=output
        )
    reason = f"the tests wrote no reward and ended with exit code {exit_code}"
    return TaskVerdict(solved=exit_code == 0, reward=float(exit_code == 0), why=reason, output=output)


def _number(text: str) -> float | None:
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            value = value["reward"] if "reward" in value or len(value) != 1 else next(iter(value.values()))
        number = float(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return number if math.isfinite(number) else None
