"""docs/web.md is one walk in a shell: its files are written, its commands run, from the server's start to its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Folder, clean_environment
from tests.support.patience import LONGEST_S

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
PORT = "8765"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_runs_as_printed(tmp_path: Path) -> None:
    """All that differs is the port: another server of this machine may have the one that the page names."""
    folder = Folder(tmp_path)
    for name, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        folder.write(name, text)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 8 and f"api=http://127.0.0.1:{PORT}\n" in blocks[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = "set -eu -o pipefail\n" + "echo; echo ----\n".join(blocks)
    program = program.replace("serve &", f"serve --port {port} &").replace(PORT, port)
    environment = clean_environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    walk = subprocess.Popen(
        ["bash", "-c", program],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = walk.communicate(timeout=LONGEST_S)
    finally:
        if walk.poll() is None:
            os.killpg(walk.pid, signal.SIGKILL)
    assert walk.returncode == 0, out + err
    _, submitted, again, status, events, booked, figures, stopped = out.split("----\n")
    assert len(re.findall(r'"run_id":"run_\w+"', again)) == 2 and len(set(re.findall(r"run_\w{26}", again))) == 1
    assert '"ready":true' in figures and 'agentorchestra_runs{standing="queued"} 0.0' in figures
    assert '"run_id":"run_' in submitted and not stopped.strip()
    assert '"task":"How much did General Electric invest in 1946?"' in status and '"team":"finance"' in status
    whole, _, rest = events.partition("event: end")
    assert re.findall(r"^id: (\d+)$", whole, re.MULTILINE)[:4] == ["1", "2", "3", "4"]
    assert re.findall(r"^id: (\d+)$", rest, re.MULTILINE)[0] == "4"
    assert '"status": "completed"' in booked
    table, *_ = folder.ids()
    shown = folder.assert_readable(table)
    assert shown["result"]["answer"].startswith("For six.")
    assert "told" in {event["type"] for event in shown["events"]}
