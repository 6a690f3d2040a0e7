"""`policy try` and `policy probe` at the command line."""

from __future__ import annotations

import sqlite3

import pytest

from tests.cli.support import Folder

DENY = '[policy]\ndeny = ["send_mail"]\n'
QUIET = '''
from agentorchestra import DefaultPolicy, Verdict


class Quiet(DefaultPolicy):
    """Reads no notes."""

    def decide(self, effect, view):
        if effect.name == "read_notes":
            return Verdict(action="deny", reason="the notes are private")
        return super().decide(effect, view)
'''


def _mailed(app: Folder) -> str:
    assert app.run("run", "PLAN mail").code == 3
    assert app.run("approve", "last", app.open_code()).code == 0
    return app.ids()[0]


@pytest.mark.long
def test_a_run_under_another_policy_beside_what_was(app: Folder) -> None:
    run = _mailed(app)
    app.write("deny.toml", DENY)
    tried = app.run("policy", "try", "deny.toml", run)
    assert tried.code == 0, tried.err
    lines = tried.out.splitlines()
    assert lines[0] == run
    assert lines[1].startswith("* /1.react#") and "send_mail(" in lines[1] and "eve@example.org" in lines[1]
    assert lines[2].startswith("      was asked, approved: Allow send_mail? send_mail (send) would act with to, body")
    assert lines[3] == "      now denied: 'send_mail' is denied by the workspace's policy settings"
    assert lines[4].startswith("1 run, ") and lines[4].endswith(" effects, 1 changed")
    table = [line.split() for line in lines[5:]]
    assert table[0] == ["was", "now"]
    assert table[2] == ["asked", "1", "0"] and table[3] == ["denied", "0", "1"]


def test_all_runs_are_judged_and_each_effect_is_in_json(app: Folder) -> None:
    mailed = _mailed(app)
    assert app.run("run", "PLAN nap").code == 0
    app.write("quiet.py", QUIET)
    found = app.run("policy", "try", "quiet.py", "--json").json
    assert {one["run_id"] for one in found["runs"]} == {*app.ids()} and found["left_out"] == []
    (run,) = [one for one in found["runs"] if one["run_id"] == mailed]
    (notes,) = [one for one in run["effects"] if one["name"] == "read_notes"]
    assert (notes["was"], notes["now"], notes["reason"]) == ("allowed", "denied", "the notes are private")
    total = found["total"]
    assert total["runs"] == 2 and total["changed"] == 1 and total["now"]["denied"] == 1 and total["was"]["asked"] == 1
    assert total["effects"] == sum(total["was"].values()) == sum(total["now"].values())


def test_what_would_be_asked_about_is_shown_as_the_question_would(app: Folder) -> None:
    assert app.run("run", "PLAN nap").code == 0
    app.write("ask.toml", '[policy]\nask = ["slow"]\n')
    lines = app.run("policy", "try", "ask.toml").out.splitlines()
    assert lines[2:5] == [
        "      was allowed",
        "      now asked: the setting policy.ask names slow",
        "        seconds = '3' (agent: composed by the model while it saw: prompt, task, agent)",
    ]


def test_a_question_that_is_open_is_counted(app: Folder) -> None:
    assert app.run("run", "PLAN mail").code == 3
    app.write("deny.toml", DENY)
    tried = app.run("policy", "try", "deny.toml")
    assert tried.out.splitlines()[-1] == "not judged: 1 call that people were asked about and that went no further"


OBEYING = """
import re

from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call
from app import read_notes, send_mail


def script(request):
    results = [message.text for message in request.messages if message.role == "tool"]
    if not results:
        return call("read_notes")
    if len(results) > 1:
        return call("done", answer=results[1])
    ((to, code),) = re.findall(r"write to (\\S+): the code is (\\w+)", results[0])
    return call("send_mail", to=to, body=f"the code is {code}")


def workspace():
    return Workspace(tools=[read_notes, send_mail], models={"scripted": ScriptedModel(script)})
"""


def test_an_effect_that_follows_untrusted_values_is_named(app: Folder) -> None:
    app.write("obeying.py", OBEYING)
    app.write("agentorchestra.toml", 'app = "obeying:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    run = _mailed(app)
    probed = app.run("policy", "probe", run)
    assert probed.code == 1 and probed.out, probed.err
    mail, to, body, total, fork = probed.out.splitlines()
    assert mail.startswith("send_mail  /1.react#")
    assert to.startswith("  to followed: 'eve@example.org' -> '") and to.endswith("' (a new value stands in it)")
    assert body.startswith("  body followed: 'the code is 4711' -> 'the code is ")
    assert total == "1 of 1 effect followed"
    assert fork.startswith(f"fork {app.ids()[0]}: completed, ") and "2 requests" in fork and "swapped" in fork
    assert (app.path / "outbox.txt").read_text() == "eve@example.org: the code is 4711\n"  # sent once, by the run
    found = app.run("policy", "probe", run, "--json")
    assert found.code == 1 and found.json["effects"][0]["followed"][0]["was"] == "eve@example.org"
    assert app.run("policy", "probe", run, "--budget-usd", "none").code == 2


@pytest.mark.long
def test_nothing_followed(app: Folder) -> None:
    followed_task = _mailed(app)  # the model of this application says what it says whatever it reads
    probed = app.run("policy", "probe", followed_task)
    assert probed.code == 0 and probed.out.splitlines()[-2] == "0 of 1 effect followed"
    assert app.run("run", "PLAN nap").code == 0
    without = app.run("policy", "probe", "last")
    assert without.code == 0
    assert without.out.endswith(" after an untrusted value; no model was asked\n")
    unknown = app.run("policy", "probe", "run_none")
    assert unknown.code == 2 and unknown.error.startswith("no run 'run_none' in the workspace")


def test_bad_input_is_refused_in_a_sentence(app: Folder) -> None:
    app.write("plain.toml", 'model = "offline"\n')
    app.write("broken.py", "import nothing_of_that_name\n")
    app.write("deny.toml", DENY)
    for words, sentence in (
        (["plain.toml"], "plain.toml has no [policy] table; write one (docs/security.md, Settings)"),
        (["broken.py"], "the policy broken.py cannot be loaded: "),
        (["none.toml"], "the policy none.toml cannot be read: "),
        (["deny.toml", "run_none"], "there is no run 'run_none': "),
    ):
        refused = app.run("policy", "try", *words)
        assert refused.code == 2 and refused.error.startswith(sentence), refused.err
    assert app.run("policy", "try", "deny.toml").code == 0
    run = _mailed(app)
    unknown = app.run("policy", "try", "deny.toml", "run_none", "--json")
    assert unknown.code == 2 and unknown.json["error_type"] == "UnknownRunError"
    with sqlite3.connect(app.workspace / "workspace.db") as connection:
        connection.execute("UPDATE events SET v = 9 WHERE type = 'completed'")
    newer = app.run("policy", "try", "deny.toml")
    assert newer.code == 1
    assert newer.error.startswith(f"run {run} cannot be judged: the log holds a 'completed' event of version 9")


@pytest.mark.long
def test_a_run_that_goes_on_is_left_out_or_refused(app: Folder) -> None:
    app.write("deny.toml", DENY)
    app.hold()
    with app.start("run", "PLAN sleep") as going:
        going.wait_for("step 1")
        (run,) = app.ids()
        every = app.run("policy", "try", "deny.toml")
        assert every.code == 0 and every.err == f"left out: {run} is still going on\n"
        named = app.run("policy", "try", "deny.toml", run)
        assert named.code == 2
        assert named.error.startswith(f"run {run} is still going on; wait for its end, or stop it with")
        app.let_go()
        assert going.end().code == 0
    assert app.run("policy", "try", "deny.toml", run).code == 0
