"""`agentorchestra doctor`: what must work for runs to work, and what to do where it does not."""

from __future__ import annotations

import asyncio
import hashlib
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

from agentorchestra.cli.commands.models import Configured, configuration, model_rows
from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import emit_either, one_line, table
from agentorchestra.core.errors import AgentOrchestraError, AppError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.settings import NO_PRESET, Settings
from agentorchestra.workspace.settings import settings_folder
from agentorchestra.workspace.variables import ENV_FILE

if TYPE_CHECKING:
    from agentorchestra.log.store.inspection import Inspection
    from agentorchestra.workspace import Workspace

Level = Literal["ok", "warn", "fail", "not installed"]

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35)
LOW_DISK_BYTES = 1_000_000_000
NO_DISK_BYTES = 50_000_000


@dataclass(frozen=True)
class Check:
    name: str  # what was looked at
    # `ok`; `warn` (some runs will not work); `fail` (none will); `not installed` (nobody has to have it)
    status: Level
    detail: str  # what was found
    hint: str = ""  # what to do, "" where nothing is


@click.command(
    epilog="""\b
Examples:
  agentorchestra doctor
  agentorchestra doctor --workspace project --json
  agentorchestra doctor --deep

\b
Exit codes: 0, also with warnings; 1 if anything failed."""
)
@click.option("--deep", is_flag=True, help="Read the whole log too, and name what is damaged.")
@json_option("one object with the checks")
@workspace_option
def doctor(deep: bool, as_json: bool, folder: Path) -> int:
    """Check this installation and the workspace, one line each, with what to do about what is wrong.

    Looks at Python, SQLite, the workspace's folder, database and format, the settings, your application, disk space,
    the interpreter for snippets, the sandbox, the browser, the desktop, the PDF reader, the models and where their keys
    are, .env and the keyring, names in the policy that nothing has, the prompts, and the search engines. Nothing is
    written, no server but those of `database` and `artifacts` is contacted, and no key or password is printed.
    `agentorchestra setup` mends what concerns models, keys, search and browser.

    With --deep also the log: SQLite's own check, whether every run has all its events, each can be read and is the one
    that was recorded, and every blob and every file given with a task against its hash. It names the runs that are
    damaged and what of them can still be read.
    """
    checks = list(examine(folder, deep=deep))
    failed = any(check.status == "fail" for check in checks)
    rows = [[check.status, check.name, "; ".join(filter(None, (check.detail, check.hint)))] for check in checks]
    about = {"ok": not failed, "checks": [asdict(check) for check in checks]}
    emit_either(as_json, about, table(None, rows, words=3))
    return int(failed)


def examine(folder: Path, *, deep: bool = False) -> list[Check]:
    """Return every check, in the order of the report; none of them raises."""
    settings, about_settings = _settings(folder)
    of, about_app = _app(folder, settings)
    workspace = of.workspace if of is not None else None
    if of is not None:
        # What a run would go by: the application may bring settings of its own.
        settings = of.settings
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
        lambda: _models(of),
        lambda: _keys(of),
        lambda: _policy(folder, settings, workspace),
        lambda: _prompts(folder, workspace),
        lambda: _components(folder, settings, workspace),
        lambda: _mcp(folder, of),
        lambda: _search(folder, of),
    ]
    if deep:
        checks += [lambda: _log(folder, settings), lambda: _given_files(folder)]
    results: list[Check] = []
    for check in checks:
        try:
            results += check()
        except Exception as exc:  # a check that breaks is a finding like any other
            name = getattr(check, "__name__", "").strip("_<>") or "check"
            results.append(Check(name, "fail", f"the check itself failed: {type(exc).__name__}: {one_line(str(exc))}"))
    return results


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
        state = store.examine()
    except AgentOrchestraError as exc:
        return [*checks, Check("database", "fail", one_line(str(exc), 2000))]
    detail = f"PostgreSQL {state.version}, {store.place}"
    detail += ": empty" if state.revision is None else f": format {state.revision}, {state.runs} runs"
    current = state.revision == REVISIONS[-1]
    if state.sealed and not current:
        checks.append(Check("database", "fail", f"{detail}, and it can only be read", state.sealed))
    elif state.sealed:
        checks.append(Check("database", "warn", f"{detail}; it can only be read", state.sealed))
    elif state.revision is None:
        checks.append(Check("database", "ok", f"{detail}; the first run makes its tables"))
    elif not current:
        hint = f"the next command brings it to {REVISIONS[-1]}; keep a backup"
        checks.append(Check("database", "warn", detail, hint))
    else:
        checks.append(Check("database", "ok", detail))
    if not state.durable:
        hint = "a crash of its machine loses what was acknowledged; set fsync = on"
        checks.append(Check("database", "warn", "the server runs with fsync = off", hint))
    return [*checks, *_artifacts(folder, settings, state.artifacts)]


def _artifacts(folder: Path, settings: Settings, record: tuple[str, str] | None) -> list[Check]:
    """Check that the place of the artifacts answers, and that it is the one that the database names."""
    from agentorchestra.log.store.factory import artifacts_for

    name = "artifacts"
    try:
        place = artifacts_for(settings.model_copy(update={"database_retry_s": 0.0}), folder)
        here = None if place is None else place.address
        if record is not None and record[0] != here:
            hint = f'set `artifacts = "{record[0]}"`, or move them as docs/stores.md says'
            detail = f"those of the database lie at {record[0]}, and the settings name {here or 'none'}"
            return [Check(name, "fail", detail, hint)]
        if place is None:
            return []
        place.owner = "" if record is None else record[1]
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
    lag = _behind(_workspace(folder, settings))
    if lag:
        return [Check("log", "warn", "not read: its format is an earlier one", f"{lag[0].hint}, then check it again")]

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
        report = asyncio.run(read())
    except AgentOrchestraError as exc:
        return [Check("log", "fail", one_line(str(exc), 2000))]
    seen = f"{report.runs} runs, {report.events} events and {report.blobs} blobs were read"
    if report.unchecked:
        seen += f"; {report.unchecked} events of an earlier version have no checksum: not checked for changes"
    hint = "restore it from a backup; other runs are not affected"
    return [Check("log", "fail", one_line(line, 1000), hint) for line in report.damage] or [Check("log", "ok", seen)]


def _given_files(folder: Path) -> list[Check]:
    """Read the files that were given with tasks: each is named by the SHA-256 of its bytes."""
    paths = sorted((folder / "files").glob("??/*"))
    checks = []
    for path in paths:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != path.name:
                detail = f"{path} was changed after it was given"
                checks.append(Check("given files", "fail", detail, "restore it from a backup"))
    return checks or [Check("given files", "ok", f"{len(paths)} were read")]


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
    lag = _behind(log)
    if lag:
        return [Check(name, "warn", "not composed: the log has an earlier format", f"{lag[0].hint}, then check again")]

    async def compose() -> tuple[int, list[Check]]:
        checks = []
        async with workspace.copy() as copy:
            managers = (copy.tcp, copy.ecp, copy.acp, copy.components.prompts, copy.components.memories)
            for manager in managers:
                errors, failures = await manager.stock.examine()
                checks += [Check(name, "fail", one_line(text, 1000), "no run can begin until then") for text in errors]
                hint = "runs go on without it; `agentorchestra components --help` says how it is mended or taken out"
                checks += [Check(name, "warn", one_line(text, 1000), hint) for text in failures]
            return sum(len(manager.stock.names()) for manager in managers), checks

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
    detail = str(path) if path else f"no {SETTINGS_FILE}: the defaults hold"
    if settings.preset != NO_PRESET:
        detail += f"; over the preset {settings.preset}"
    return settings, Check("settings", "ok", detail)


def _app(folder: Path, settings: Settings | None) -> tuple[Configured | None, list[Check]]:
    """Read what a run would go by; return None where settings, `.env` or the application cannot be loaded."""
    if settings is None:
        return None, []
    try:
        of = configuration(folder)
    except AppError as exc:
        return None, [Check("app", "fail", one_line(str(exc), 2000), "correct it, or take `app` out of the settings")]
    except AgentOrchestraError as exc:
        return None, [Check(ENV_FILE, "fail", one_line(str(exc), 2000))]
    return of, [Check("app", "ok", settings.app)] if settings.app is not None else []


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


def _search(folder: Path, of: Configured | None) -> list[Check]:
    """Check which search engines can be asked; warn of those that the settings name and that lack something."""
    from agentorchestra.workspace.composition import search_engines

    if of is None:
        return []
    search = of.settings.search
    try:
        engines = search_engines(of.settings, folder, of.variables, of.workspace.own.search_engines)
    except AgentOrchestraError as exc:
        return [Check("search", "fail", str(exc), "correct [search] in agentorchestra.toml")]
    near = settings_folder(folder)
    names = {*search.engines, *search.engine}
    lacking = [f"{name} {reason}" for name, reason in engines.lacking.items() if name in names]
    lacking += [f"the folder {entry.path} is not there" for entry in search.folders if not (near / entry.path).is_dir()]
    ready = ", ".join(engine.name for engine in engines.ready) or "no engine"
    checks = [Check("search", "warn" if lacking else "ok", f"asks {ready}", "; ".join(lacking))]
    if "auto" in search.engines and find_spec("ddgs") is None:
        detail = "what asks engines of the web without a key"
        checks.append(Check("search", "not installed", detail, "run: pip install 'agentorchestra[search]'"))
    return checks


def _mcp(folder: Path, of: Configured | None) -> list[Check]:
    """Check the settings' MCP servers by their file; start none of them."""
    from agentorchestra.tools.mcp.config import read_mcp_file

    if of is None or not of.settings.mcp:
        return []
    path = settings_folder(folder) / of.settings.mcp
    try:
        file = read_mcp_file(path, of.variables)
    except AgentOrchestraError as exc:
        return [Check("mcp", "fail", one_line(str(exc), 500))]
    if find_spec("mcp") is None:
        return [Check("mcp", "fail", "the package mcp is not installed", 'run: pip install "agentorchestra[mcp]"')]
    servers = ", ".join(server.name for server in file.servers) or "none"
    notes = [Check("mcp", "warn", one_line(note, 500)) for note in file.notes]
    return [Check("mcp", "ok", one_line(f"{path} names the servers {servers} (none was started)", 500)), *notes]


def _sandbox(settings: Settings | None) -> list[Check]:
    from agentorchestra.sandbox.factory import WITHOUT, sandbox_for

    try:
        backend = sandbox_for((settings or Settings()).sandbox)
    except AgentOrchestraError as exc:
        return [Check("sandbox", "fail", one_line(str(exc)))]
    if backend is None:
        return [Check("sandbox", "warn", "none", f"set sandbox.backend; {WITHOUT}")]
    problem = asyncio.run(backend.problem())
    if problem:
        return [Check("sandbox", "not installed", one_line(problem, 500), WITHOUT)]
    if not backend.safe:
        return [Check("sandbox", "warn", backend.name, "programs that models write may do what you may")]
    return [Check("sandbox", "ok", f"{backend.name} runs programs"), *_limits(backend.name)]


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
    for resource, controller, without in otherwise:
        group = parent_group(controller)
        if group is not None:
            detail, hint = f"held by the kernel (control groups, version {group.version})", ""
        else:
            detail = f"{without}: no control group can be made here"
            hint = f"a unit to which {controller} is delegated has one"
        checks.append(Check(f"sandbox {resource}", "ok", detail, hint))
    return checks


def _browser(settings: Settings | None) -> list[Check]:
    """Check whether the environment `browser` can be used; start nothing."""
    from agentorchestra.environments.browser.session.chromium import check_installed

    browser = (settings or Settings()).browser
    try:
        program = check_installed(browser.executable)
    except AgentOrchestraError as exc:
        # Nobody has to have one; who names one wants it.
        return [Check("browser", "warn" if browser.executable else "not installed", one_line(str(exc), 500))]
    return [Check("browser", "ok", f"the environment browser drives {program}")]


def _desktop() -> list[Check]:
    """Check whether the environment `computer` can be used; start nothing."""
    from agentorchestra.environments.computer.display import missing_program

    missing = [missing_program()] if missing_program() else []
    if find_spec("xcffib") is None or find_spec("PIL") is None:
        missing.append("the desktop needs xcffib and Pillow: pip install 'agentorchestra[computer]'")
    if shutil.which("bwrap") is None:
        missing.append("its display runs in bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)")
    if missing:
        return [Check("desktop", "not installed", "; ".join(missing))]
    return [Check("desktop", "ok", "the environment computer has Xvfb and openbox")]


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


def _models(of: Configured | None) -> list[Check]:
    if of is None:
        return [Check("models", "warn", "not looked at, because the settings, .env or the application cannot be read")]
    checks = []
    for row in model_rows(of):
        label = f"model {row['name']}" + (f" ({', '.join(row['uses'])})" if row["uses"] else "")
        if row["problem"]:
            # What every run takes that names no model must work; the others may never be used.
            is_needed = any(use == "default" or use.startswith("role ") for use in row["uses"])
            kind = f"{row['state']}: {one_line(row['problem'], 2000)}"
            checks.append(Check(label, "fail" if is_needed else "warn", kind))
            continue
        price = ", price unknown" if row["dollars"] is None else ""
        key = f", key {row['key']} from {row['key_place']}" if row["key"] else ""
        fallbacks = f", then {', '.join(row['fallbacks'])}" if row["fallbacks"] else ""
        at = f" at {row['address']}" if row["address"] else ""
        ask = "; not asked; `agentorchestra models --check` does" if at else ""
        about = "given by the application" if row["own"] else f"{row['model']}{at}{key}{price}{fallbacks}{ask}"
        checks.append(Check(label, "ok", about))
    return checks


def _keys(of: Configured | None) -> list[Check]:
    """Say what `.env` and the keyring hold for keys, by names."""
    from agentorchestra.workspace.variables import git_problem, keyring_problem

    if of is None:
        return []
    file, invalid = of.variables.file, of.variables.invalid
    checks = []
    if file is not None:
        wrong = [f"line {n} is no NAME=VALUE" for n in invalid]
        wrong += ["others may read it: chmod 600"] if file.stat().st_mode & 0o077 else []
        wrong += [problem] if (problem := git_problem(file)) else []
        checks.append(Check(ENV_FILE, "warn" if wrong else "ok", f"{file} is read", "; ".join(wrong)))
    else:
        checks.append(Check(ENV_FILE, "ok", f"there is no {ENV_FILE} here"))
    names = of.settings.keyring
    missing = [name for name in names if not of.variables.place(name)]
    problem = keyring_problem()
    if missing:
        reason = problem or "it does not hold that: agentorchestra setup --key-store keyring"
        checks.append(Check("keyring", "warn", f"should hold {', '.join(missing)}", reason))
    elif problem:
        checks.append(Check("keyring", "not installed", problem, f"keys can be kept in {ENV_FILE}"))
    else:
        checks.append(Check("keyring", "ok", f"is looked into for {', '.join(names) or 'nothing'}"))
    return checks


def _policy(folder: Path, settings: Settings | None, workspace: Workspace[Any] | None) -> list[Check]:
    """Warn of policy rules for names that nothing has."""
    from agentorchestra.tools.registry import builtin_tools
    from agentorchestra.workspace import systems, tools_by_name

    if settings is None or workspace is None:
        return []
    terms = {*builtin_tools(folder).tools, *tools_by_name(workspace.own.tools), *workspace.own.environments, *systems()}
    # The door's own effects, and models, can be denied too.
    terms |= {"human", "join", "inbox", "offline", *settings.models, *workspace.own.models}
    checks = []
    for rule, names in (("allow", settings.policy.allow), ("deny", settings.policy.deny)):
        unknown = [name for name in names if name not in terms and ":" not in name]
        if unknown:
            hint = did_you_mean(unknown[0], sorted(terms), "correct it, unless the tool is given to single runs")
            checks.append(Check(f"policy.{rule}", "warn", f"nothing is named {', '.join(map(repr, unknown))}", hint))
    return checks


def _prompts(folder: Path, workspace: Workspace[Any] | None) -> list[Check]:
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.workspace import packaged_prompts

    try:
        prompts = workspace.own.prompts if workspace is not None else ()
        count = len(PromptLibrary(packaged_prompts(), folder / "prompts", app_folders=prompts).pins())
        names = PromptLibrary(packaged_prompts(), app_folders=prompts).names
    except AgentOrchestraError as exc:
        return [Check("prompts", "fail", one_line(str(exc), 2000), "correct the file, or reinstall agentorchestra")]
    own = sorted(path.stem for path in (folder / "prompts").glob("*.md"))
    overrides, unknown = [name for name in own if name in names], [name for name in own if name not in names]
    detail = f"{len(names)} prompts" + (f", replaced here: {', '.join(overrides)}" if overrides else "")
    if not count:
        return [Check("prompts", "fail", detail, "reinstall agentorchestra")]
    checks = [Check("prompts", "ok", detail)]
    for name in unknown:
        hint = did_you_mean(name, names, f"the prompts are {', '.join(names)}")
        checks.append(Check(f"prompt {name}", "warn", f"{folder / 'prompts' / name}.md replaces no prompt", hint))
    return checks


def _existing(folder: Path) -> Path:
    """Return the folder, or the closest one above it that exists."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
