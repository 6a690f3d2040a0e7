"""`log`, `export` and `import` at the command line."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentorchestra.cli.group import cli
from agentorchestra.core.errors import AgentOrchestraError, NoWorkspaceError
from agentorchestra.workspace import Workspace
from tests.bundle.support import elsewhere


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A workspace with three runs, two of them in a session."""
    with tempfile.TemporaryDirectory() as name:
        for task, session in (("What is 6 * 7?", "sums"), ("What is 2 + 3?", None), ("What is 9 - 4?", "sums")):
            Workspace(Path(name) / "ws", environ={}).run_sync(task, session=session, model="offline", system="react")
        yield Path(name) / "ws"


def said(folder: Path, *words: str) -> str:
    """What a command prints on stdout; it must end well."""
    done = CliRunner().invoke(cli, [*words, "--workspace", str(folder)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0, done.output
    return str(done.stdout)


def found(folder: Path, *words: str) -> list[tuple[str, int, str]]:
    """Run, index and type of what `log` finds."""
    lines = [json.loads(line) for line in said(folder, "log", "--jsonl", *words).splitlines()]
    return [(one["run"], one["seq"], one["type"]) for one in lines]


@pytest.mark.long
def test_the_three_forms_say_the_same(folder: Path) -> None:
    words = ("--run", "last", "--index", "2..9")
    lines = [json.loads(line) for line in said(folder, "log", "--jsonl", *words).splitlines()]
    listed = json.loads(said(folder, "log", "--json", *words))
    assert [{**one, "ts": one["ts"].replace("Z", "+00:00")} for one in listed] == lines
    shown = [line.split() for line in said(folder, "log", *words).splitlines()]
    assert [(one["run"], str(one["seq"]), one["type"]) for one in lines] == [(one[0], one[1], one[4]) for one in shown]


@pytest.mark.long
def test_the_queries_of_the_tracer(folder: Path) -> None:
    every = found(folder)
    runs = list(dict.fromkeys(run for run, _, _ in every))
    assert len(runs) == 3
    assert found(folder, "--session", "sums") == [one for one in every if one[0] != runs[1]]
    assert found(folder, "--task", "2 + 3") == [one for one in every if one[0] == runs[1]]
    assert found(folder, "--task", "what IS", "--run", runs[0]) == [one for one in every if one[0] == runs[0]]
    assert found(folder, "--run", "last", "--index", "2..3") == [one for one in every if one[0] == runs[2]][1:3]
    assert found(folder, "--index", "1") == [one for one in every if one[1] == 1]
    assert found(folder, "--index", "4..") == [one for one in every if one[1] >= 4]
    assert found(folder, "--type", "run_created", "--type", "run_ended") == [
        one for one in every if one[2] in ("run_created", "run_ended")
    ]
    assert found(folder, "--limit", "4") == every[-4:]
    assert found(folder, "--since", "1h") == every
    assert found(folder, "--since", "2100-01-01") == []
    assert found(folder, "--actor", "nobody") == []
    model = found(folder, "--record", "/1.react#2", "--run", runs[0])
    assert [kind for _, _, kind in model] == ["started", "completed"]
    below = found(folder, "--record", "/1.react", "--run", runs[0])
    assert set(model) < set(below) < {one for one in every if one[0] == runs[0]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--type", "begun"], "there are no events of the type 'begun'; the types: run_created"),
        (["--record", "1.react"], "--record is '1.react'; keys and branches begin with /"),
        (["--index", "x"], "'x' is no index; write 12, 10..20, 10.. or ..20"),
        (["--index", ".."], "'..' is no index"),
        (["--since", "soon"], "'soon' is no time; write 2h, 3d, 2026-11-05"),
        (["--json", "--jsonl"], "--json and --jsonl exclude each other"),
        (["--run", "run_XYZ"], "no run 'run_XYZ'"),
    ],
)
def test_usage_that_is_refused(folder: Path, words: list[str], sentence: str) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        said(folder, "log", *words)
    assert sentence in (getattr(caught.value, "message", "") or str(caught.value))


def test_nothing_is_made_where_there_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(NoWorkspaceError, match=r"none does not exist; name a workspace with --workspace"):
        said(tmp_path / "none", "log")
    assert not (tmp_path / "none").exists()


def test_lines_of_a_log_are_a_log_again(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(said(folder, "log", "--jsonl"), encoding="utf-8")
    assert len(json.loads(said(tmp_path / "ws", "import", str(tmp_path / "log.jsonl"), "--json"))) == 3
    assert said(tmp_path / "ws", "log", "--jsonl") == said(folder, "log", "--jsonl")
    assert said(tmp_path / "ws", "import", str(tmp_path / "log.jsonl")).count("nothing to do") == 3
    part = said(folder, "log", "--jsonl", "--type", "completed")
    (tmp_path / "part.jsonl").write_text(part, encoding="utf-8")
    with pytest.raises(
        AgentOrchestraError, match=r"line 1 of .*part.jsonl is event \d+ of run_\w+ where event 1 belongs"
    ):
        said(tmp_path / "other", "import", str(tmp_path / "part.jsonl"))


def test_export_and_import(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (path,) = said(folder, "export", "last").splitlines()
    run = path.removesuffix(".zip")
    assert Path(path).is_file()
    with pytest.raises(AgentOrchestraError, match=f"{path} is there already; name another file with --out"):
        said(folder, "export", "last")
    done = json.loads(said(folder, "export", run, "--out", "sub.zip", "--no-files", "--json"))
    assert (done["run_id"], done["path"], done["files"]) == (run, "sub.zip", 0)
    with pytest.raises(AgentOrchestraError, match="no/such cannot be written: No such file or directory"):
        said(folder, "export", run, "--out", "no/such/file.zip")
    assert said(tmp_path / "ws", "import", path).startswith(f"{run}  completed  ")
    assert "imported" in said(tmp_path / "ws", "show", run)
    assert "imported" not in said(folder, "show", run)


@pytest.mark.long
def test_in_a_process_of_its_own_a_damaged_bundle_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 and so on")
    said = elsewhere(tmp_path / "there", "import", "../bad.zip", code=2)
    assert said.splitlines() == [
        "error: ../bad.zip is no bundle, or its end is missing; get it again, nothing was imported"
    ]
