"""`agentorchestra evolve` from the questions to the rollback, as its users meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Folder, Result

APP = """
from agentorchestra import Workspace
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.testing import ScriptedModel
from tests.evolution.money import cents_of
from tests.evolution.test_evolver import Mender, worker


free = Price(input=0, output=0)
models = {"worker": worker, "mender": Mender()}
clients = {name: ScriptedModel(one, profile=ModelProfile(model=name, price=free)) for name, one in models.items()}
workspace = Workspace(tools=[cents_of], models=clients)  # one object, which several commands and arms begin with
"""
SETTINGS = 'app = "app:workspace"\nmodel = "worker"\nsystem = "react"\n'
ON = ("--on", "tool:cents_of", "--name", "cents")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    from tests.evolution.test_evolver import questions

    made = Folder(tmp_path)
    made.write("app.py", APP)
    made.write("agentorchestra.toml", SETTINGS)
    questions(tmp_path / "data")
    return made


def told(result: Result) -> tuple[int, str, str]:
    return result.code, result.out, result.err


@pytest.mark.long
def test_a_tool_is_evolved_shown_and_rolled_back(folder: Folder) -> None:
    begun = (
        "evolve",
        "run",
        "local",
        "--data",
        "data",
        *ON,
        "--optimiser",
        "reflection",
        "--optimiser-model",
        "mender",
    )
    code, out, err = told(folder.run(*begun, "--rounds", "1", "--batch", "2", "--promote", "ask"))
    assert code == 0, err
    assert "4 training questions, 6 held apart" in err
    assert "the gate lets a gain of 20 points through in" in err
    assert out.startswith("round 1  waiting  tool:cents_of@1.0.1")
    code, out, _ = told(folder.run("evolve", "diff", "tool:cents_of@1.0.1"))
    assert "+        return round(euros * 100)" in out
    assert "evolution cents, round 1: waiting: it is better" in out
    code, out, _ = told(folder.run("evolve", "promote", "tool:cents_of@1.0.1", "--reason", "I read it"))
    assert out.splitlines()[-1] == "tool:cents_of means 1.0.1 now"
    code, out, _ = told(folder.run("evolve", "history", "tool:cents_of"))
    assert "* 1.0.1  active" in out and "I read it" in out and "evolution cents, run run_" in out
    code, out, _ = told(folder.run("evolve", "rollback", "tool:cents_of"))
    assert out.strip() == "tool:cents_of means 1.0.0 again"
    code, out, _ = told(folder.run("evolve", "history", "tool:cents_of"))
    assert "* 1.0.0  active" in out and "1.0.1  deprecated" in out
    code, out, _ = told(folder.run("evolve", "status", "cents"))
    assert "1 of 1 round" in out and "a euro has 100 cents" in out


REFUSED = [
    (("run", "local", "--data", "data", "--on", "cents_of", "--name", "c"), "write KIND:NAME"),
    (("run", "local", "--data", "data", *ON, "--level", "0.9"), "the gate's level is 0.9"),
    (("run", "local", "--data", "data", *ON, "--held-apart", "2"), "a share of 2 cannot be held apart"),
    (("run", "local", "--data", "data", *ON, "--canary", "3"), "canary is 3.0"),
    (("status", "other"), "there is no evolution 'other'"),
    (("diff", "tool:cents_of"), "names no version; write KIND:NAME@VERSION"),
    (("promote", "tool:cents_of@9.9.9"), "has no version '9.9.9'"),
    (("rollback", "tool:cents_of"), "was made from no earlier version; name one with --to"),
    (("rate", "run_none", "1"), "run_none"),
]


def test_bad_words_are_refused_in_a_sentence(folder: Folder) -> None:
    for words, sentence in REFUSED:
        code, _, err = told(folder.run("evolve", *words))
        assert (code, "Traceback" in err) == (2, False), err
        assert sentence in err
