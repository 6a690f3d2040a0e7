"""`agentorchestra doctor`: what must work for runs to work, and what to do where it does not."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, one_line
from agentorchestra.core.errors import AgentOrchestraError, MissingKeyError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.settings import NO_PRESET, Settings

if TYPE_CHECKING:
    from agentorchestra.log.store.inspection import Inspection
    from agentorchestra.workspace import Workspace

Level = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35)
LOW_DISK_BYTES = 1_000_000_000
NO_DISK_BYTES = 50_000_000


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str  # what was looked at
    status: Level  # `ok`; `warn` (some runs will not work); `fail` (none will)
    detail: str  # what was found
    hint: str = ""  # what to do, "" where nothing is


@click.command(
    epilog="""\b
Examples:
  agentorchestra doctor
  agentorchestra doctor --workspace project --json
  agentorchestra doctor --deep

\b
Exit codes: 0, also with warnings; 1 if anything failed.""",
)
@click.option("--deep", is_flag=True, help="Read the whole log too, and name what is damaged.")
@json_option("one object with the checks")
@workspace_option
def doctor(deep: bool, as_json: bool, folder: Path) -> int:
    """Check this installation and the workspace, one line each, with what to do about what is wrong.

    Looks at Python, SQLite, the workspace's folder, database and format, the settings, your application, disk space,
    the interpreter for snippets, the sandbox, the browser, the desktop, the PDF reader, the models and whether their
    keys are set, names in the policy that nothing has, the prompts, and the search engines. Nothing is written, no
    server but those of `database` and `artifacts` is contacted, and no key or password is printed.

    With --deep also the log: SQLite's own check, whether every run has all its events, each can be read and is the one
    that was recorded, and every blob against its hash. It names the runs that are damaged and what of them can still be
    read.
    """
    checks = list(examine(folder, deep=deep))
    failed = any(one.status == "fail" for one in checks)
    if as_json:
        emit_json({"ok": not failed, "checks": [asdict(one) for one in checks]})
    else:
        width = max(len(one.name) for one in checks)
        lines = [
            f"{one.status:<4}  {one.name:<{width}}  {one.detail}{f'; {one.hint}' if one.hint else ''}" for one in checks
        ]
        emit(clean("\n".join(lines)))
    return int(failed)


def examine(folder: Path, *, deep: bool = False) -> list[Check]:
    """Return every check, in the order of the report; none of them raises."""
    settings, about_settings = _settings(folder)
    workspace, about_app = _app(folder, settings)
    if workspace is not None:
        # What a run would go by: the application may bring settings of its own.
        settings = workspace.own.settings or settings
    checks: list[Callable[[], list[Check]]] = [
        _python,
        _sqlite,
        lambda: _workspace(folder, settings),
        lambda: [about_settings],
        lambda: about_app,
        lambda: _disk(folder),
        _monty,
        lambda: _sandbox(settings),
        lambda: _browser(settings),
        _desktop,
        _pypdf,
        lambda: _models(settings, workspace),
        lambda: _policy(folder, settings, workspace),
        lambda: _prompts(folder, workspace),
        lambda: _components(folder, settings, workspace),
        lambda: _mcp(folder, settings),
        lambda: _search(folder, settings, workspace),
    ]
    if deep:
        checks.append(lambda: _log(folder, settings))
    found: list[Check] = []
    for check in checks:
        try:
            found += check()
        except Exception as exc:  # a check that breaks is a finding like any other
            name = getattr(check, "__name__", "").strip("_<>") or "check"
            found.append(Check(name, "fail", f"the check itself failed: {type(exc).__name__}: {one_line(str(exc))}"))
    return found


def _python() -> list[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < OLDEST_PYTHON
    return [Check("Python", "fail", version, "use Python 3.11 or later") if old else Check("Python", "ok", version)]


def _sqlite() -> list[Check]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return [Check("SQLite", "fail", version, "use a Python with SQLite 3.35 or later")]
    checks = [Check("SQLite", "ok", version)]
    with (
        tempfile.TemporaryDirectory(prefix="agentorchestra-") as place,
        closing(sqlite3.connect(Path(place) / "probe.db")) as connection,
    ):
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        ok = mode == "wal"
        hint = "" if ok else "put temporary files and the workspace on a local disk"
        checks.append(Check("SQLite WAL", "ok" if ok else "fail", f"journal mode {mode}", hint))
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
            checks.append(Check("SQLite FTS5", "ok", "available"))
        except sqlite3.Error as exc:
            hint = "use a Python whose SQLite has FTS5; searching in files needs it"
            checks.append(Check("SQLite FTS5", "fail", str(exc), hint))
    return checks


def _workspace(folder: Path, settings: Settings | None) -> list[Check]:
    from agentorchestra.log.store.schema import REVISIONS
    from agentorchestra.log.store.sqlite import DATABASE

    name = "workspace"
    choose = "choose another folder with --workspace"
    if not folder.exists():
        parent = _existing(folder)
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            return [Check(name, "fail", f"{folder} does not exist and {parent} cannot be written", choose)]
        if settings is not None and settings.database is not None:
            return _database(folder, settings)
        return [Check(name, "ok", f"{folder} does not exist yet; the first run makes it")]
    if not folder.is_dir():
        return [Check(name, "fail", f"{folder} is a file, not a folder", choose)]
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        return [Check(name, "fail", f"{folder} cannot be written: {exc.strerror}", f"make it writable, or {choose}")]
    database = folder / DATABASE
    if settings is not None and settings.database is not None:
        return _database(folder, settings)
    if not database.exists():
        return [Check(name, "ok", f"{folder} is writable and empty; the first run makes its log")]
    if not os.access(database, os.R_OK | os.W_OK):
        return [Check(name, "fail", f"{database} cannot be written", f"make it writable, or {choose}")]
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=5)) as connection:
            connection.execute("PRAGMA query_only = ON")
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            (count,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    except (sqlite3.Error, TypeError) as exc:
        return [Check(name, "fail", f"{database} cannot be read: {exc}", "restore it from a backup, or move it away")]
    if revision not in REVISIONS:
        return [
            Check(name, "fail", f"{folder} has format {revision}, later than {REVISIONS[-1]}", f"upgrade, or {choose}")
        ]
    detail = f"{folder} is writable, format {revision}, {count} runs"
    if revision != REVISIONS[-1]:
        return [Check(name, "warn", detail, f"the next command brings it to {REVISIONS[-1]}; keep a backup")]
    return [Check(name, "ok", f"{detail}, SQLite")]


def _database(folder: Path, settings: Settings) -> list[Check]:
    """Check the log in PostgreSQL; the folder then keeps files only."""
    from agentorchestra.log.store.postgres import PostgresStore
    from agentorchestra.log.store.schema import REVISIONS
    from agentorchestra.log.store.sqlite import DATABASE

    assert settings.database is not None
    checks = [Check("workspace", "ok", f"{folder} keeps files; the log is in the database")]
    if (folder / DATABASE).exists():
        hint = "runs in it are not seen while `database` is set"
        checks = [Check("workspace", "warn", f"{folder} also has a {DATABASE}", hint)]
    try:
        store = PostgresStore(settings.database.get_secret_value(), schema=settings.database_schema)
        found = store.examine()
    except AgentOrchestraError as exc:
        return [*checks, Check("database", "fail", one_line(str(exc), 2000))]
    detail = f"PostgreSQL {found.version}, {store.place}"
    detail += ": empty" if found.revision is None else f": format {found.revision}, {found.runs} runs"
    current = found.revision == REVISIONS[-1]
    if found.sealed and not current:
        checks.append(Check("database", "fail", f"{detail}, and it can only be read", found.sealed))
    elif found.sealed:
        checks.append(Check("database", "warn", f"{detail}; it can only be read", found.sealed))
    elif found.revision is None:
        checks.append(Check("database", "ok", f"{detail}; the first run makes its tables"))
    elif not current:
        hint = f"the next command brings it to {REVISIONS[-1]}; keep a backup"
        checks.append(Check("database", "warn", detail, hint))
    else:
        checks.append(Check("database", "ok", detail))
    if not found.durable:
        hint = "a crash of its machine loses what was acknowledged; set fsync = on"
        checks.append(Check("database", "warn", "the server runs with fsync = off", hint))
    return [*checks, *_artifacts(folder, settings, found.artifacts)]


def _artifacts(folder: Path, settings: Settings, noted: tuple[str, str] | None) -> list[Check]:
    """Check that the place of the artifacts answers, and that it is the one that the database names."""
    from agentorchestra.log.store.factory import artifacts_for

    name = "artifacts"
    try:
        place = artifacts_for(settings.model_copy(update={"database_retry_s": 0.0}), folder)
        here = None if place is None else place.address
        if noted is not None and noted[0] != here:
            hint = f'set `artifacts = "{noted[0]}"`, or move them as docs/stores.md says'
            said = f"those of the database lie at {noted[0]}, and the settings name {here or 'none'}"
            return [Check(name, "fail", said, hint)]
        if place is None:
            return []
        place.owner = "" if noted is None else noted[1]
        place.check()
    except AgentOrchestraError as exc:
        return [Check(name, "fail", one_line(str(exc), 2000))]
    return [Check(name, "ok", f"{place.address} answers")]


def _log(folder: Path, settings: Settings | None) -> list[Check]:
    """Read the whole log. A store that is opened is brought up to date: an older one is left alone."""
    from agentorchestra.log.store.factory import store_for

    if settings is None:
        return [Check("log", "fail", "not read: the settings cannot be", "correct the settings")]
    if settings.database is None and not _has_log(folder, settings):
        return [Check("log", "ok", "there is none yet")]
    behind = _behind(_workspace(folder, settings))
    if behind:
        return [
            Check("log", "warn", "not read: its format is an earlier one", f"{behind[0].hint}, then check it again")
        ]

    async def read() -> Inspection:
        store = store_for(settings, folder)
        await store.open()
        try:
            return await store.inspect()
        finally:
            await store.close()

    try:
        if not _has_log(folder, settings):
            return [Check("log", "ok", "there is none yet")]
        found = asyncio.run(read())
    except AgentOrchestraError as exc:
        return [Check("log", "fail", one_line(str(exc), 2000))]
    seen = f"{found.runs} runs, {found.events} events and {found.blobs} blobs were read"
    if found.unchecked:
        seen += f"; {found.unchecked} events of an earlier version have no checksum: not checked for changes"
    hint = "restore it from a backup; other runs are not affected"
    return [Check("log", "fail", one_line(one, 1000), hint) for one in found.damage] or [Check("log", "ok", seen)]


def _has_log(folder: Path, settings: Settings) -> bool:
    """Return True if there is a log; raise StoreError where the database does not say."""
    from agentorchestra.log.store.postgres import PostgresStore
    from agentorchestra.log.store.sqlite import DATABASE

    if settings.database is None:
        return (folder / DATABASE).exists()
    store = PostgresStore(settings.database.get_secret_value(), schema=settings.database_schema)
    return store.examine().revision is not None


def _behind(checks: list[Check]) -> list[Check]:
    """Return that check of the workspace which says that the next command brings the log up to date."""
    return [check for check in checks if check.status == "warn" and "brings it to" in check.hint]


def _components(folder: Path, settings: Settings | None, workspace: Workspace[Any] | None) -> list[Check]:
    """Compose the components as a run would: what is at hand with what the workspace has registered."""
    name = "components"
    if settings is None or workspace is None:
        return [Check(name, "warn", "not composed, because the settings or the application cannot be read")]
    log = _workspace(folder, settings)
    if any(check.status == "fail" for check in log):
        return [Check(name, "warn", "not composed, because the log cannot be read")]
    if not _has_log(folder, settings):
        return [Check(name, "ok", "none is registered yet")]
    behind = _behind(log)
    if behind:
        return [
            Check(name, "warn", "not composed: the log has an earlier format", f"{behind[0].hint}, then check again")
        ]

    async def compose() -> tuple[int, list[Check]]:
        checks = []
        async with workspace.another() as opened:
            managers = (opened.tcp, opened.ecp, opened.acp, opened.prompt_components, opened.memory_components)
            for manager in managers:
                refusals, failures = await manager.examine()
                checks += [Check(name, "fail", one_line(why, 1000), "no run can begin until then") for why in refusals]
                hint = "runs go on without it; `agentorchestra components --help` says how it is mended or taken out"
                checks += [Check(name, "warn", one_line(why, 1000), hint) for why in failures]
            return sum(len(manager.names()) for manager in managers), checks

    try:
        count, checks = asyncio.run(compose())
    except AgentOrchestraError as exc:
        return [Check(name, "fail", one_line(str(exc), 2000), "correct it: no run can begin until then")]
    return checks or [Check(name, "ok", f"{count} are registered and can be used")]


def _settings(folder: Path) -> tuple[Settings | None, Check]:
    from agentorchestra.workspace import SETTINGS_FILE, load_settings, settings_path

    try:
        settings = load_settings(folder)
        path = settings_path(folder)
    except AgentOrchestraError as exc:
        return None, Check("settings", "fail", one_line(str(exc), 2000))
    said = str(path) if path else f"no {SETTINGS_FILE}: the defaults hold"
    if settings.preset != NO_PRESET:
        said += f"; over the preset {settings.preset}"
    return settings, Check("settings", "ok", said)


def _app(folder: Path, settings: Settings | None) -> tuple[Workspace[Any] | None, list[Check]]:
    """Open the workspace as a run would; return None where the settings or the application cannot be loaded."""
    from agentorchestra.workspace import open_workspace

    if settings is None:
        return None, []
    try:
        workspace = open_workspace(folder)
    except AgentOrchestraError as exc:
        return None, [Check("app", "fail", one_line(str(exc), 2000), "correct it, or take `app` out of the settings")]
    return workspace, [Check("app", "ok", settings.app)] if settings.app is not None else []


def _disk(folder: Path) -> list[Check]:
    free = shutil.disk_usage(_existing(folder)).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < NO_DISK_BYTES:
        return [Check("disk", "fail", detail, "free space: the log cannot be written")]
    if free < LOW_DISK_BYTES:
        return [Check("disk", "warn", detail, "free space soon")]
    return [Check("disk", "ok", detail)]


def _monty() -> list[Check]:
    hint = "reinstall agentorchestra; without it the tool `python` fails"
    try:
        from pydantic_monty import Monty

        with Monty(max_processes=1) as pool, pool.checkout() as session:
            value = session.feed_run("sum(range(5))")
    except Exception as exc:
        return [Check("Monty", "fail", f"{type(exc).__name__}: {one_line(str(exc))}", hint)]
    return [Check("Monty", "ok", "runs snippets") if value == 10 else Check("Monty", "fail", f"gave {value!r}", hint)]


def _search(folder: Path, settings: Settings | None, workspace: Workspace[Any] | None) -> list[Check]:
    """Check which search engines can be asked; warn of those that the settings name and that lack something."""
    from agentorchestra.workspace.composition import search_engines
    from agentorchestra.workspace.settings import settings_path

    if settings is None:
        return []
    given = workspace.own.search_engines if workspace is not None else ()
    try:
        engines = search_engines(settings, folder, os.environ, given)
    except AgentOrchestraError as exc:
        return [Check("search", "fail", str(exc), "correct [search] in agentorchestra.toml")]
    beside = settings_path(folder)
    near = beside.parent if beside is not None else Path()
    asked = {*settings.search.engines, *settings.search.engine}
    lacking = [f"{name} {why}" for name, why in engines.lacking.items() if name in asked]
    lacking += [
        f"the folder {one.path} is not there" for one in settings.search.folders if not (near / one.path).is_dir()
    ]
    ready = ", ".join(one.name for one in engines.ready) or "no engine"
    if lacking:
        return [Check("search", "warn", f"asks {ready}", "; ".join(lacking))]
    return [Check("search", "ok", f"asks {ready}")]


def _mcp(folder: Path, settings: Settings | None) -> list[Check]:
    """Check the settings' MCP servers by their file; start none of them."""
    from agentorchestra.tools.mcp.config import read_mcp_file
    from agentorchestra.workspace import settings_path

    if settings is None or not settings.mcp:
        return []
    beside = settings_path(folder)
    path = (beside.parent if beside is not None else Path()) / settings.mcp
    try:
        file = read_mcp_file(path, os.environ)
    except AgentOrchestraError as exc:
        return [Check("mcp", "fail", one_line(str(exc), 500))]
    if find_spec("mcp") is None:
        return [Check("mcp", "fail", "the package mcp is not installed", 'run: pip install "agentorchestra[mcp]"')]
    servers = ", ".join(one.name for one in file.servers) or "none"
    notes = [Check("mcp", "warn", one_line(note, 500)) for note in file.notes]
    return [Check("mcp", "ok", one_line(f"{path} names the servers {servers} (none was started)", 500)), *notes]


def _sandbox(settings: Settings | None) -> list[Check]:
    from agentorchestra.core.settings import SandboxSettings
    from agentorchestra.sandbox.factory import sandbox_for

    given = settings.sandbox if settings is not None else SandboxSettings()
    try:
        chosen = sandbox_for(given)
    except AgentOrchestraError as exc:
        return [Check("sandbox", "fail", one_line(str(exc)))]
    if chosen is None:
        return [Check("sandbox", "warn", "none", "`bash` and most programs are refused; set sandbox.backend")]
    problem = asyncio.run(chosen.problem())
    if problem:
        return [Check("sandbox", "warn", one_line(problem), "`bash` and most programs are refused")]
    if not chosen.safe:
        return [Check("sandbox", "warn", chosen.name, "programs that models write may do what you may")]
    return [Check("sandbox", "ok", f"{chosen.name} runs programs"), *_limits(chosen.name)]


def _limits(backend: str) -> list[Check]:
    """Say who holds the limits of bubblewrap's programs; an engine holds its own."""
    from agentorchestra.sandbox.cgroup import Controller, parent_group

    if backend != "bubblewrap":
        return []
    checks = []
    otherwise: tuple[tuple[str, Controller, str], ...] = (
        ("memory", "memory", "added up 20 times a second, and each process by itself"),
        ("processes", "pids", "held for the user that each sandbox has (RLIMIT_NPROC)"),
    )
    for what, controller, without in otherwise:
        group = parent_group(controller)
        if group is not None:
            detail, hint = f"held by the kernel (control groups, version {group.version})", ""
        else:
            detail = f"{without}: no control group can be made here"
            hint = f"a unit to which {controller} is delegated has one"
        checks.append(Check(f"sandbox {what}", "ok", detail, hint))
    return checks


def _browser(settings: Settings | None) -> list[Check]:
    """Check whether the environment `browser` can be used; start nothing."""
    from agentorchestra.core.settings import BrowserSettings
    from agentorchestra.environments.browser.session.chromium import check_installed

    given = settings.browser if settings is not None else BrowserSettings()
    try:
        found = check_installed(given.executable)
    except AgentOrchestraError as exc:
        # Nobody has to have one; who names one wants it.
        return [Check("browser", "warn" if given.executable else "ok", one_line(str(exc), 500))]
    return [Check("browser", "ok", f"the environment browser drives {found}")]


def _desktop() -> list[Check]:
    """Check whether the environment `computer` can be used; start nothing."""
    from agentorchestra.environments.computer.display import missing_program

    missing = [missing_program()] if missing_program() else []
    if find_spec("xcffib") is None or find_spec("PIL") is None:
        missing.append("the desktop needs xcffib and Pillow: pip install 'agentorchestra[computer]'")
    if shutil.which("bwrap") is None:
        missing.append("its display runs in bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)")
    return [Check("desktop", "ok", "; ".join(missing) or "the environment computer has Xvfb and openbox")]


def _pypdf() -> list[Check]:
    try:
        import pypdf

        writer, file = pypdf.PdfWriter(), io.BytesIO()
        writer.add_blank_page(100, 100)
        writer.write(file)
        pages = len(pypdf.PdfReader(file).pages)
    except Exception as exc:
        detail = f"{type(exc).__name__}: {one_line(str(exc))}"
        return [Check("pypdf", "fail", detail, "reinstall agentorchestra; without it PDFs cannot be read")]
    return [Check("pypdf", "ok" if pages == 1 else "fail", f"{pypdf.__version__} reads PDFs")]


def _models(settings: Settings | None, workspace: Workspace[Any] | None) -> list[Check]:
    from agentorchestra.models.manager import ModelManager

    if settings is None:
        return [Check("models", "warn", "not looked at, because the settings cannot be read")]
    if workspace is None:
        return [Check("models", "warn", "not looked at, because the application, which may bring some, fails")]
    manager = ModelManager(settings, workspace.own.environ, extra=workspace.own.models)
    checks = []
    for name, uses in manager.named().items():
        label = f"model {name}" + (f" ({', '.join(uses)})" if uses else "")
        try:
            manager.check(name)
        except AgentOrchestraError as exc:
            # What every run takes that names no model must work; the others may never be used.
            needed = any(use == "default" or use.startswith("role ") for use in uses)
            level: Level = "fail" if needed else "warn"
            kind = "no key" if isinstance(exc, MissingKeyError) else "not usable"
            checks.append(Check(label, level, f"{kind}: {one_line(str(exc), 2000)}"))
            continue
        if name in workspace.own.models:
            checks.append(Check(label, "ok", "given by the application"))
            continue
        profile = settings.models.get(name)
        price = "" if manager.price_known(name) else ", price unknown"
        env = profile.api_key_env if profile is not None else None
        key = f", key from {env}" if env else ""
        others = f", then {', '.join(manager.chain(name)[1:])}" if profile is not None and profile.fallbacks else ""
        checks.append(Check(label, "ok", f"{profile.model if profile is not None else name}{key}{price}{others}"))
    return checks


def _policy(folder: Path, settings: Settings | None, workspace: Workspace[Any] | None) -> list[Check]:
    """Warn of policy rules for names that nothing has."""
    from agentorchestra.tools.registry import builtin_tools
    from agentorchestra.workspace import systems, tools_by_name

    if settings is None or workspace is None:
        return []
    known = {*builtin_tools(folder).tools, *tools_by_name(workspace.own.tools), *workspace.own.environments, *systems()}
    # The door's own effects, and models, can be denied too.
    known |= {"human", "join", "inbox", "offline", *settings.models, *workspace.own.models}
    checks = []
    for rule, names in (("allow", settings.policy.allow), ("deny", settings.policy.deny)):
        unknown = [name for name in names if name not in known and ":" not in name]
        if unknown:
            hint = did_you_mean(unknown[0], sorted(known), "correct it, unless the tool is given to single runs")
            checks.append(Check(f"policy.{rule}", "warn", f"nothing is named {', '.join(map(repr, unknown))}", hint))
    return checks


def _prompts(folder: Path, workspace: Workspace[Any] | None) -> list[Check]:
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.workspace import packaged_prompts

    try:
        given = workspace.own.prompts if workspace is not None else ()
        count = len(PromptLibrary(packaged_prompts(), folder / "prompts", given=given).pins())
        names = PromptLibrary(packaged_prompts(), given=given).names
    except AgentOrchestraError as exc:
        return [Check("prompts", "fail", one_line(str(exc), 2000), "correct the file, or reinstall agentorchestra")]
    own = sorted(path.stem for path in (folder / "prompts").glob("*.md"))
    replaced, unknown = [one for one in own if one in names], [one for one in own if one not in names]
    detail = f"{len(names)} prompts" + (f", replaced here: {', '.join(replaced)}" if replaced else "")
    if not count:
        return [Check("prompts", "fail", detail, "reinstall agentorchestra")]
    checks = [Check("prompts", "ok", detail)]
    for one in unknown:
        hint = did_you_mean(one, names, f"the prompts are {', '.join(names)}")
        checks.append(Check(f"prompt {one}", "warn", f"{folder / 'prompts' / one}.md replaces no prompt", hint))
    return checks


def _existing(folder: Path) -> Path:
    """Return the folder, or the closest one above it that exists."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
