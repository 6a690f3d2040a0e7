"""`agentorchestra evolve export`, as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_runs_become_training_data_and_a_command(folder: Folder) -> None:
    folder.write("a.txt", "The key of the cellar hangs in the hall.\n")
    for task in ("Where does the key of the cellar hang?", "Which key hangs in the hall?"):
        assert folder.run("run", task, "-f", "a.txt", "--system", "react", "--label", f"n={task[:5]}").code == 0
    done = folder.run("evolve", "export", "data")
    assert done.code == 0, done.err
    assert "2 records of 2 runs in data/train.jsonl" in done.err
    assert done.out.startswith("trl sft --model_name_or_path Qwen/Qwen3-8B --dataset_name data --max_length 16384 ")
    lines = [json.loads(one) for one in (folder.path / "data" / "train.jsonl").read_text().splitlines()]
    assert [one["messages"][-1]["tool_calls"][0]["function"]["name"] for one in lines] == ["done", "done"]
    done = folder.run(
        "evolve", "export", "one", "--label", "n=Which", "--per", "step", "--form", "hermes", "--no-files"
    )
    assert done.code == 0 and "1 record of 1 run " in done.err
    (line,) = (folder.path / "one" / "train.jsonl").read_text().splitlines()
    assert "<tool_call>" in json.loads(line)["completion"][0]["content"]
    assert "hangs in the hall.\\n" not in line and "the content of a.txt is left out" in line


def test_bad_input_is_refused(folder: Folder) -> None:
    folder.write("a.txt", "The key of the cellar hangs in the hall.\n")
    assert folder.run("run", "Where does the key hang?", "-f", "a.txt", "--system", "react").code == 0
    none = folder.run("evolve", "export", "data", "--min-score", "0.5")
    assert none.code == 2 and "no record can be made: no score; choose other runs" in none.err
    assert not (folder.path / "data").exists()
    (folder.path / "data").mkdir()
    folder.write("data/x.txt", "x")
    there = folder.run("evolve", "export", "data")
    assert there.code == 2 and "data is there already and is not empty; name a new folder" in there.err
    assert "no run 'run_X'" in folder.run("evolve", "export", "new", "run_X").err
    assert "there is no evaluation 'x'" in folder.run("evolve", "export", "new", "--evaluation", "x").err
    pairs = folder.run("evolve", "export", "new", "--pairs")
    assert pairs.code == 2 and "no record can be made: no two runs took different actions in one state" in pairs.err
