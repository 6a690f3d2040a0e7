"""A machine that is no Linux, and has no sandbox: what needs none works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.support import QUESTION, Folder, clean_environment
from tests.support.patience import LONGEST_S

ELSEWHERE = r'''
"""This process as macOS would have it: without what only Linux gives."""
import select

for name in [name for name in dir(select) if "epoll" in name.lower()]:
    delattr(select, name)  # before the module `selectors` looks for it
import os, signal, socket, sys

import psutil  # reads /proc on this machine, and would look for macOS's own calls on that one

for module, names in (
    (os, ("O_PATH", "O_TMPFILE", "copy_file_range", "eventfd", "memfd_create", "pidfd_open", "posix_fallocate",
          "posix_fadvise", "sched_getaffinity", "sched_setaffinity", "setns", "splice", "unshare")),
    (signal, ("SIGRTMIN", "pidfd_send_signal")),
    (socket, ("AF_NETLINK", "AF_PACKET", "SO_PEERCRED")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("Xlib", "xcffib", "ossaudiodev", "spwd"):
    sys.modules[name] = None


STANDARD = (os.path.dirname(os.__file__), "<frozen ")


def refuse(event, arguments):
    """There is no /proc for code of ours."""
    if event == "open" and str(arguments[0]).startswith(("/proc", "/sys/fs/cgroup")):
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(STANDARD):
            frame = frame.f_back
        if frame is not None and "/agentorchestra/" in frame.f_code.co_filename:  # libraries read what this machine has
            raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))


sys.addaudithook(refuse)
import asyncio, multiprocessing, pathlib, shutil, sqlite3, subprocess, sysconfig, tempfile, threading, uuid  # theirs

sysconfig.get_config_vars()

sys.platform = "darwin"
from agentorchestra.cli import main

codes = []
for line in sys.stdin.read().splitlines():
    codes.append(main(line.split("\t")))
    print(flush=True)
print(codes)
'''


def test_what_works_without_linux_and_without_a_sandbox(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    commands = [
        ["--help"],
        ["doctor", "--json"],
        ["run", QUESTION, "--file", "lease.txt", "--model", "offline"],
        ["runs"],
        ["sandbox"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input="\n".join("\t".join(words) for words in commands),
        cwd=folder.path,
        env={**clean_environment(), "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert "Traceback" not in done.stderr and done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 1]", done.stderr
    assert "three months" in done.stdout
    checks = {
        one["name"]: one
        for one in json.JSONDecoder().raw_decode(done.stdout[done.stdout.index('{\n  "ok"') :])[0]["checks"]
    }
    assert checks["sandbox"]["status"] == checks["desktop"]["status"] == "not installed"
    assert "runs on texts, files and the web go on without" in checks["sandbox"]["hint"]
    assert (
        "bubblewrap runs on Linux only, and this is darwin; or docker is not installed" in checks["sandbox"]["detail"]
    )
    assert "no sandbox: bubblewrap runs on Linux only" in done.stdout


def test_docker_takes_the_place_of_bubblewrap(folder: Folder, tmp_path: Path) -> None:
    """An engine that answers, as far as it is asked whether it is there: what it then runs is in tests/sandbox."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text("#!/bin/sh\necho 27.0\n")
    (programs / "docker").chmod(0o755)
    folder.environment["PATH"] = os.pathsep.join([str(programs), "/nonexistent"])
    checks = {one["name"]: one for one in folder.run("doctor", "--json").json["checks"]}
    assert (checks["sandbox"]["status"], checks["sandbox"]["detail"]) == ("ok", "docker runs programs")
