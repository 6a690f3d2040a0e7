"""`components`: list, info, search, contract."""

from __future__ import annotations

from tests.cli.support import Folder


def test_components_of_an_application(app: Folder) -> None:
    listed = app.run("components", "list")
    assert listed.code == 0
    lines = listed.out.splitlines()
    assert any(line.startswith("tool ") and "send_mail@1.0.0" in line and line.endswith("(yours)") for line in lines)
    assert any(line.startswith("agent ") and "reporter@" in line and "(yours)" not in line for line in lines)
    tools = app.run("components", "list", "--kind", "tool", "--json").json
    assert {one["kind"] for one in tools} == {"tool"}
    found = app.run("components", "search", "write a mail to an address")
    assert "send_mail" in found.out.splitlines()[0]
    scored = app.run("components", "search", "mail", "--kind", "tool", "--limit", "1", "--json").json
    assert [one["name"] for one in scored] == ["send_mail"]
    nothing = app.run("components", "search", "zzzqqq")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing fits 'zzzqqq'" in nothing.err
    info = app.run("components", "info", "send_mail")
    assert "- `to` (string): the address." in info.out
    assert app.run("components", "info", "send_mail", "--json").json["operations"][0]["name"] == "send_mail"
    assert app.run("components", "contract", "--kind", "agent").out.startswith("# Agents\n")


def test_bad_input(app: Folder) -> None:
    unknown = app.run("components", "info", "send_mails")
    assert (unknown.code, unknown.error) == (2, "there is no component 'send_mails'; did you mean send_mail?")
    assert app.run("components", "contract").code == 2
    assert app.run("components", "list", "--kind", "thing").code == 2
    assert app.run("components", "search", "x", "--limit", "0").code == 2
    assert app.run("components").code in (0, 2)
