"""The shipped default policy, rule by rule (docs/door.md, "Policy and trust")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Provenance, Tag
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import PolicySettings
from agentorchestra.trust.addresses import links_in
from agentorchestra.trust.arguments import ELEMENT, SITE
from agentorchestra.trust.policy import DefaultPolicy

PAGE = Provenance(kind="web", ref="https://a.example/x", trust=Trust.UNTRUSTED)
USER = Provenance(kind="task", trust=Trust.USER)


def _effect(*tags: Tag, seen: tuple[Provenance, ...] = (USER, PAGE), name: str = "act", **arguments: Any) -> Effect:
    return Effect(
        kind=EffectKind.INVOKE_TOOL,
        component=f"{name}@1.0.0",
        arguments=arguments,
        tags=frozenset(tags),
        provenance=seen,
    )


def _decide(effect: Effect, task: str = "", *, links: set[str] | None = None, folder: Path | None = None) -> str:
    view = PolicyView(user_content=(task,), links=lambda: frozenset(links or ()))
    return DefaultPolicy(PolicySettings(allowed_hosts=("docs.example",)), folder=folder).decide(effect, view).action


@pytest.mark.parametrize("tags", [(Tag.READ,), (Tag.EXECUTE,), (Tag.WRITE,), (Tag.READ, Tag.NETWORK)])
def test_reading_sandboxed_execution_and_writing_inside_are_allowed(tags: tuple[Tag, ...]) -> None:
    assert _decide(_effect(*tags, text="anything from a page")) == "allow"


@pytest.mark.parametrize(
    "tags", [(), (Tag.SEND,), (Tag.SPEND,), (Tag.EXECUTE, Tag.NETWORK), (Tag.WRITE, Tag.NETWORK), (Tag.READ, Tag.SEND)]
)
def test_sensitive_effects_ask_unless_the_argument_stems_from_the_user(tags: tuple[Tag, ...]) -> None:
    effect = _effect(*tags, to="bob@b.example")
    assert _decide(effect) == "ask"
    assert _decide(effect, task="Write to  Bob@B.example, please.") == "allow"
    assert _decide(_effect(*tags, seen=(USER,), to="bob@b.example")) == "allow"


def test_every_leaf_of_the_arguments_counts_and_the_reason_names_them() -> None:
    effect = _effect(Tag.SEND, mail={"to": ["ann@a.example", "eve@e.example"], "copies": 7, "draft": True})
    verdict = DefaultPolicy().decide(effect, PolicyView(user_content=("send it to ann@a.example",)))
    assert verdict.action == "ask"
    # Where no schema names the fields, their names are chosen by the caller too.
    keys = {"mail.copies (key)", "mail.draft (key)"}
    assert set(verdict.arguments) == {"mail.to[1]", "mail.copies", "mail.draft", *keys}
    fields = {"to": {}, "copies": {}, "draft": {"default": True}}
    parameters = {"type": "object", "properties": {"mail": {"type": "object", "properties": fields}}}
    declared = ToolSchema(name="act", description="", parameters=parameters)
    effect = effect.model_copy(update={"declared": declared})
    verdict = DefaultPolicy().decide(effect, PolicyView(user_content=("send it to ann@a.example",)))
    assert set(verdict.arguments) == {"mail.to[1]", "mail.copies"}
    assert "act (send) would act with mail.to[1], mail.copies not taken from your task" in verdict.reason
    assert "web https://a.example/x" in verdict.reason


def test_writing_outside_the_runs_folder(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "out.txt"), "/etc/motd"
    assert _decide(_effect(Tag.WRITE, path=inside), folder=tmp_path) == "allow"
    assert _decide(_effect(Tag.WRITE, path="notes/out.txt"), folder=tmp_path) == "allow"
    assert _decide(_effect(Tag.WRITE, path=outside), folder=tmp_path) == "ask"
    assert _decide(_effect(Tag.WRITE, path="../../etc/motd"), folder=tmp_path) == "ask"
    assert _decide(_effect(Tag.WRITE, path="~/.bashrc"), folder=tmp_path) == "ask"
    assert _decide(_effect(Tag.WRITE, path=outside), task="put it into /etc/motd", folder=tmp_path) == "allow"
    link = tmp_path / "link"
    link.symlink_to("/etc")
    assert _decide(_effect(Tag.WRITE, path=str(link / "motd")), folder=tmp_path) == "ask"


def test_network_reads_need_an_address_that_was_seen() -> None:
    address = "https://b.example/page?id=1"
    effect = _effect(Tag.READ, Tag.NETWORK, url=address)
    assert _decide(effect) == "ask"
    assert _decide(effect, task=f"Read {address}.") == "allow"
    assert _decide(effect, links={address}) == "allow"
    assert _decide(_effect(Tag.READ, Tag.NETWORK, url="https://docs.example/any")) == "allow"
    composed = _effect(Tag.READ, Tag.NETWORK, url=f"{address}&secret=42")
    assert _decide(composed, task=f"Read {address}.") == "ask"


def test_addresses_without_a_scheme_count_too() -> None:
    for address in ("b.example/x?secret=1", "//b.example/x", "b.example", "10.0.0.7:80/x"):
        effect = _effect(Tag.READ, Tag.NETWORK, url=address)
        assert _decide(effect) == "ask", address
        assert _decide(effect, task=f"Read {address} please.") == "allow", address
    assert _decide(_effect(Tag.READ, Tag.NETWORK, query="what is a contract")) == "allow"
    shouting = DefaultPolicy(PolicySettings(allowed_hosts=("A.Example",)))
    assert shouting.decide(_effect(Tag.READ, Tag.NETWORK, url="https://a.example/x"), PolicyView()).action == "allow"


def test_a_value_counts_as_the_users_only_as_a_whole() -> None:
    task = "Pay 100 euros to Bob."
    assert _decide(_effect(Tag.SPEND, amount=100, to="bob"), task=task) == "allow"
    assert _decide(_effect(Tag.SPEND, amount=10, to="Bob"), task=task) == "ask"
    assert _decide(_effect(Tag.SPEND, amount=100, to="B"), task=task) == "ask"
    assert _decide(_effect(Tag.SPEND, meta={"eve@e.example": "Bob"}), task=task) == "ask"


def test_names_are_opened_and_closed_by_the_settings() -> None:
    policy = DefaultPolicy(PolicySettings(allow=("mail",), deny=("shell",)))
    assert policy.decide(_effect(Tag.SEND, name="mail", to="x@x.example"), PolicyView()).action == "allow"
    denied = policy.decide(_effect(Tag.READ, name="shell"), PolicyView())
    assert denied.action == "deny" and "'shell' is denied by the workspace's policy settings" in denied.reason


def test_links_stand_as_written_and_without_the_sentence_around_them() -> None:
    assert links_in("see (https://a.example/x), http://b.example/y?z=1.") == {
        "https://a.example/x",
        "https://a.example/x),",
        "http://b.example/y?z=1",
        "http://b.example/y?z=1.",
    }


def _typed(site: str, text: str, *seen: Provenance) -> Effect:
    properties = {
        "ref": {"type": "string", "format": ELEMENT},
        "text": {"type": "string"},
        "site": {"type": "string", "format": SITE},
    }
    return Effect(
        kind=EffectKind.INVOKE_ACTION,
        component="browser@1.0.0",
        arguments={"action": "input_text", "arguments": {"ref": "e12", "text": text, "site": site}},
        tags=frozenset({Tag.WRITE, Tag.SEND}),
        provenance=(USER, *seen),
        declared=ToolSchema(name="input_text", description="", parameters={"type": "object", "properties": properties}),
        confined=True,
    )


def test_what_is_typed_goes_unasked_to_the_site_that_the_user_named_if_it_has_it_already() -> None:
    shop = Provenance(kind="web", ref="http://shop.example:8080/find?q=1", trust=Trust.UNTRUSTED)
    below = Provenance(kind="web", ref="http://www.shop.example:8080/", trust=Trust.UNTRUSTED)
    wrong = Provenance(kind="environment", ref="browser_click", trust=Trust.UNTRUSTED)
    file = Provenance(kind="file", ref="salaries.csv", trust=Trust.UNTRUSTED)
    task = "Find the cheapest red kettle at http://shop.example:8080/."
    assert _decide(_typed("shop.example:8080", "kettle, red or so", shop, wrong), task) == "allow"
    assert _decide(_typed("www.shop.example:8080", "kettle, red or so", below), task) == "allow"
    # It came from elsewhere, or may have: only the user's own words go.
    for other in (PAGE, file, below):
        assert _decide(_typed("shop.example:8080", "Ann earns 5000", shop, other), task) == "ask"
        assert _decide(_typed("shop.example:8080", "red kettle", shop, other), task) == "allow"
    # Another site, port or spelling than the user named, whatever is typed.
    for site in ("evil.example", "shop.example", "shop.example:8080.evil.example", "xshop.example:8080", "shop"):
        assert _decide(_typed(site, "red kettle", shop), task) == "ask"
    assert _decide(_typed("10.1.0.0.1", "red", shop), "look at http://0.0.0.1/, red") == "ask"


def test_the_question_names_the_site_and_not_the_element() -> None:
    effect = _typed("evil.example", "Ann earns 5000", PAGE)
    verdict = DefaultPolicy().decide(effect, PolicyView(user_content=("find a kettle at http://shop.example/",)))
    assert set(verdict.arguments) == {"site", "text"}
    assert "browser (send, write) would act with text, site not taken from your task" in verdict.reason
