"""The agents of a run that write to each other: who may write to whom, and who changes threads (003, sec. 3)."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.core.mail import MOST_CHARS, Society, Topology

MEMBERS = {"web": "Searches.", "coder": "Computes."}


def founded(topology: Topology = "star") -> Society:
    """A society with one open thread of everybody, one of the coder alone, and one that is closed."""
    made = Society()
    made.take({"op": "found", "leader": "lead", "members": MEMBERS, "topology": topology}, "/")
    made.take({"op": "create", "thread": "all", "participants": ["web", "coder"]}, "/")
    made.take({"op": "create", "thread": "sums", "participants": ["coder"]}, "/")
    made.take({"op": "create", "thread": "old", "participants": ["coder"]}, "/")
    made.take({"op": "close", "thread": "old", "summary": "It is over."}, "/")
    return made


def letter(**changes: Any) -> dict[str, Any]:
    """A message that the leader may send."""
    return {"thread": "all", "content": "How many?", "to": ["coder"], **changes}


def test_a_message_of_the_leader_opens_its_thread() -> None:
    society, first = founded(), letter(thread="new", to=["coder"], sender="lead")
    assert society.message_problem("lead", first) == ""
    society.take(first, "/")
    assert society.threads["new"].participants == ["lead", "coder"]
    assert "web does not take part in 'new'" in society.message_problem("lead", letter(thread="new", to=["web"]))
    assert "there is no agent 'nobody'" in society.message_problem("lead", letter(thread="next", to=["nobody"]))


@pytest.mark.parametrize(
    ("sender", "changes", "sentence"),
    [
        ("lead", {"to": ["nobody"]}, "there is no agent 'nobody'; the agents: web, coder, lead"),
        ("lead", {"to": ["lead"]}, "lead cannot mention itself"),
        ("lead", {"to": []}, "mentions nobody"),
        ("lead", {"thread": "sums", "to": ["web"]}, "web does not take part in 'sums'; its participants: lead, coder"),
        ("lead", {"thread": "old"}, "the thread 'old' is closed; the open ones: all, sums"),
        ("web", {"thread": "none", "to": ["lead"]}, "the thread 'none' does not exist"),
        ("lead", {"thread": ""}, "the thread '' does not exist"),
        ("lead", {"content": " \n"}, "the message is empty"),
        ("lead", {"content": "x" * 1_000_000}, "1,000,000 characters, 50,000 are allowed"),
        ("web", {}, "web writes to lead alone, which passes on what others need; mention lead"),
        ("web", {"to": ["lead", "coder"]}, "web writes to lead alone"),
        ("web", {"thread": "sums", "to": ["lead"]}, "web does not take part in 'sums'"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_with_what_to_do(
    sender: str, changes: dict[str, Any], sentence: str
) -> None:
    assert sentence in founded().message_problem(sender, letter(**changes))


def test_what_is_allowed_is_not_refused() -> None:
    society = founded()
    assert society.message_problem("lead", letter(to=["coder", "web"])) == ""
    assert society.message_problem("lead", letter(content="x" * MOST_CHARS)) == ""
    assert society.message_problem("web", letter(to=["lead"])) == ""
    assert society.message_problem("web", letter(to=["lead", "lead"])) == ""


def test_a_mesh_lets_everybody_write_to_everybody() -> None:
    society = founded("mesh")
    assert society.message_problem("web", letter(to=["coder", "lead"])) == ""
    assert "web cannot mention itself" in society.message_problem("web", letter(to=["web"]))


@pytest.mark.parametrize(
    ("sender", "change", "sentence"),
    [
        ("web", {"op": "create", "thread": "mine", "participants": ["coder"]}, "only lead changes threads"),
        ("web", {"op": "close", "thread": "all", "summary": "."}, "only lead changes threads"),
        ("lead", {"op": "found", "leader": "lead", "members": {}, "topology": "mesh"}, "lead leads the agents"),
        ("lead", {"op": "create", "thread": "all", "participants": ["web"]}, "choose another name"),
        ("lead", {"op": "create", "thread": "old", "participants": ["web"]}, "choose another name"),
        ("lead", {"op": "create", "thread": " ", "participants": ["web"]}, "has no name"),
        ("lead", {"op": "create", "thread": "new", "participants": ["nobody"]}, "no agent 'nobody'"),
        ("lead", {"op": "add", "thread": "sums", "participant": "nobody"}, "no agent 'nobody'"),
        ("lead", {"op": "add", "thread": "sums", "participant": "coder"}, "coder is in 'sums' already"),
        ("lead", {"op": "add", "thread": "old", "participant": "web"}, "'old' is closed"),
        ("lead", {"op": "remove", "thread": "sums", "participant": "web"}, "web cannot be taken out of 'sums'"),
        ("lead", {"op": "remove", "thread": "sums", "participant": "lead"}, "lead cannot be taken out"),
        ("lead", {"op": "close", "thread": "old", "summary": "."}, "'old' is closed"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(sender: str, change: dict[str, Any], sentence: str) -> None:
    assert sentence in founded().problem(sender, change)


@pytest.mark.parametrize(
    "change",
    [
        {"leader": "other", "members": {}, "topology": "star"},
        {"leader": "lead", "members": [], "topology": "star"},
        {"leader": "lead", "members": {}, "topology": "ring"},
        {},
    ],
)
def test_a_society_that_is_not_whole_is_not_founded(change: dict[str, Any]) -> None:
    assert "needs its founder" in Society().problem("lead", {"op": "found", **change})


def test_changes_that_cross_each_other_leave_the_threads_whole() -> None:
    """Two calls of one decision are both allowed before either is taken in."""
    society = founded()
    for _ in range(2):
        society.take({"op": "remove", "thread": "all", "participant": "web"}, "/")
    assert society.threads["all"].participants == ["lead", "coder"]
    for _ in range(2):
        society.take({"op": "add", "thread": "all", "participant": "web"}, "/")
    assert society.threads["all"].participants == ["lead", "coder", "web"]
    society.take({"op": "create", "thread": "all", "participants": ["coder"]}, "/")
    society.take({"op": "create", "thread": "new", "participants": ["lead", "web", "web"]}, "/")
    assert society.threads["all"].participants == ["lead", "coder", "web"]
    assert society.threads["new"].participants == ["lead", "web"]


def test_who_works_no_more_is_refused_with_why() -> None:
    society = founded()
    society.gone["coder"] = "its model cannot be had"
    said = "coder works no more: its model cannot be had; ask another agent"
    assert society.message_problem("lead", letter()) == said
    assert society.problem("lead", {"op": "create", "thread": "new", "participants": ["web", "coder"]}) == said
    assert society.message_problem("lead", letter(to=["web"])) == ""


@pytest.mark.parametrize(
    ("name", "branch", "same"),
    [
        ("lead", "/1.lead", True),
        ("lead", "/1.lead/3.web", False),
        ("lead", "/1.lead/3.web/4.python/1.lead", False),
        ("web", "/1.lead/3.web", True),
        ("web", "/1.lead/3.web/4.python/1.web", False),
        ("web", "/2.web", False),
        ("helper", "/1.lead/3.web/4.python/1.helper", True),
    ],
)
def test_who_somebody_is_goes_by_the_branch(name: str, branch: str, same: bool) -> None:
    society = Society()
    assert society.forgery(name, branch) == ""
    society.take({"op": "found", "leader": "lead", "members": MEMBERS, "topology": "star"}, "/1.lead")
    said = f"the agent at {branch} is not the {name} that others write to"
    assert society.forgery(name, branch) == ("" if same else said)
