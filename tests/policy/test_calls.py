"""The policy on single calls: hostile forms of addresses, paths, keys and numbers end as a question, not an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, Tag
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import PolicySettings
from agentorchestra.trust.addresses import canonical
from agentorchestra.trust.policy import DefaultPolicy

PAGE = Provenance(kind="web", ref="https://a.example/x", trust=Trust.UNTRUSTED)
READ = (Tag.READ, Tag.NETWORK)


def decide(
    *tags: Tag,
    task: str = "",
    links: tuple[str, ...] = (),
    folder: Path | None = None,
    declared: ToolSchema | None = None,
    settings: PolicySettings | None = None,
    mode: Mode = Mode.ONCE,
    arguments: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    """What the default policy says of one call with untrusted content in view."""
    effect = Effect(
        kind=EffectKind.INVOKE_TOOL,
        component="act@1.0.0",
        arguments={**(arguments or {}), **more},
        tags=frozenset(tags),
        provenance=(PAGE,),
        declared=declared,
        mode=mode,
    )
    view = PolicyView(user_content=(task,), links=lambda: frozenset(links))
    chosen = settings or PolicySettings(allowed_hosts=("docs.example",))
    return DefaultPolicy(chosen, folder=folder).decide(effect, view).action


@pytest.mark.parametrize(
    "address",
    [
        "http://docs.example\\@evil.example/",
        "http://docs.example@evil.example/",
        "http://docs.example:80@evil.example/",
        "http://docs.example'@evil.example/",
        "http://docs.example.evil.example/",
        "http://docs.example\t.evil.example/",
        "http://evil.example/?docs.example",
        "http:/evil.example",
        "http:evil.example",
        "//evil.example/x",
        "\\\\evil.example\\x",
        "ws://evil.example/x",
        "http:/\t/evil.example/x",
        "ht\ntp://evil.example/x",
        "http:\u200b//evil.example/x",
        "http:/\u2007/evil.example/x",
        "http: //evil.example/x",
        "evil\n.example",
        "file://docs.example/etc/passwd",
        "data:text/html,x",
        "evil.example",
        "evil。example",
        "ｅｖｉｌ．example/x",
        "зло.рф",
        "localhost:8080",
        "localhost",
        "127.0.0.1",
        "[::1]:80/x",
        "http://[::1",
        "http://a:b:c/",
        "2130706433",
        "0x7f000001",
        "/relative/path",
        "?q=secret",
        "http://docs%2eexample/",
        "a@evil",
    ],
)
def test_an_address_in_any_form_asks(address: str) -> None:
    assert decide(*READ, url=address) == "ask"


def test_what_goes_along_with_a_known_address_counts() -> None:
    link = "http://evil.example/c"
    assert decide(*READ, links=(link,), url=link) == "allow"
    assert decide(*READ, links=(link,), url=link, headers={"x": "secret"}) == "ask"
    assert decide(*READ, links=(link,), url=link, note="secret") == "ask"
    assert decide(*READ, links=(link,), url=link, page=4711) == "ask"
    assert decide(*READ, links=(link,), url=f"{link} and my secret") == "ask"
    assert decide(*READ, links=(link,), url=f"{link}?!.,") == "ask"
    assert decide(*READ, links=(link,), url=f"{link}#secret") == "ask"
    assert decide(*READ, links=(link,), url=link.replace("http", "https")) == "ask"
    assert decide(*READ, url="http://docs.example/any?q=1", note="free, the host is allowed") == "allow"


def test_what_a_schema_says_by_itself_is_no_choice_of_the_model() -> None:
    link = "http://b.example/c"
    parameters = {
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "chars": {"type": "integer", "default": 4000},
            "form": {"enum": ["text", "html"]},
        },
    }
    own = ToolSchema(name="act", description="", parameters=parameters)
    assert decide(*READ, links=(link,), url=link, chars=4000, form="html", declared=own) == "allow"
    assert decide(*READ, links=(link,), url=link, chars=4001, form="html", declared=own) == "ask"
    foreign = own.model_copy(update={"trust": Trust.UNTRUSTED})
    assert decide(*READ, links=(link,), url=link, chars=4000, declared=foreign) == "ask"
    assert decide(Tag.SEND, task="to Bob", to="Bob", form="html", declared=own) == "ask"


def test_an_address_means_what_the_user_means_by_it() -> None:
    task = "Read B.example/Docs?id=1 and https://c.example, please."
    assert decide(*READ, task=task, url="https://b.example/Docs?id=1") == "allow"
    assert decide(*READ, task=task, url="http://b.example/Docs?id=1") == "allow"
    assert decide(*READ, task=task, url="https://b.example/docs?id=1") == "ask"
    assert decide(*READ, task=task, url="https://c.example/") == "allow"
    assert decide(*READ, task=task, url="https://c.example:443") == "allow"
    assert decide(*READ, task=task, url="http://c.example/") == "ask"
    assert decide(*READ, task=task, url="https://c.example/x") == "ask"
    assert decide(*READ, task=task, url="ftp://b.example/Docs?id=1") == "ask"


def test_words_are_searched_for_but_make_no_host() -> None:
    assert decide(*READ, query="what is a contract") == "allow"
    assert decide(*READ, query="weather") == "allow"
    assert decide(*READ, query="Wetter?") == "allow"
    assert decide(*READ, query="北京天气怎么样？") == "allow"
    assert decide(*READ, host="evil", zone="example") == "ask"
    assert decide(*READ, parts=["evil", "example"]) == "ask"
    assert decide(*READ, query="weather", task="the weather in de", language="de") == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/motd",
        " /etc/motd",
        "/etc/motd\n",
        "file:///etc/motd",
        "FILE:///etc/motd",
        "file:///%65tc/motd",
        "file:/etc/motd",
        "..",
        "a/../../b",
        "~/x",
        "~root/x",
        "$HOME/x",
        "${HOME}/x",
        "%APPDATA%\\x",
        "C:\\x",
        "\\\\server\\x",
        "/etc/profile.d/x\n.sh",
        "link/motd",
        "link",
        "/etc/\0motd",
        "files/letter.txt",
        "./files/../files/letter.txt",
        "xx://../../../etc/motd",
        "xx://../..",
        "a report\n /../../etc/motd",
        "\n ../../etc/motd",
        "/tmp/a name\nof two lines",
        "link/a name\nof two lines",
        "a/../" * 1_000 + "../../etc/motd",
        "./" * 3_000 + "link/motd",
        "/" * 5_000 + "etc/motd",
        "link/" + "./" * 3_000 + "motd",
        "/etc" + "/x/.." * 3_000 + "/motd",
        "n" * 300 + "/../link/motd",
        "https://evil.example/up?load",
        "s3://bucket/key",
        "file:..%2f..%2fetc/motd",
        "../\ud800",
    ],
)
def test_every_way_out_of_the_runs_folder_asks(path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert decide(Tag.WRITE, folder=tmp_path, path=path, text="x") == "ask"


@pytest.mark.parametrize(
    "path",
    [
        *("a.txt", "out/a.txt", "a b.txt", "a/./b", "x" * 5_000, "loop/a", "see http://a.example/x", "50% of $ 3"),
        *("a b\n/../c", "import x\n\n# see ../../lib/a.js\n", "/* c */\n" + "x = 1;\n" * 100),
    ],
)
def test_what_stays_inside_or_is_a_text_does_not(path: str, tmp_path: Path) -> None:
    (tmp_path / "loop").mkdir()
    assert decide(Tag.WRITE, folder=tmp_path, path=path, text="First line.\n/etc/motd is a file\n") == "allow"


def test_a_long_text_is_judged_at_once(tmp_path: Path) -> None:
    text = "<p>one</p>\n" * 200_000
    assert decide(Tag.WRITE, folder=tmp_path, path="a.html", text=text) == "allow"
    assert decide(Tag.WRITE, folder=tmp_path, path="a.html", text=f"{text}/../x") == "ask"


def test_an_address_of_yours_may_be_written_about(tmp_path: Path) -> None:
    given = {"note": "https://a.example/x"}
    assert decide(Tag.WRITE, folder=tmp_path, arguments=given) == "ask"
    assert decide(Tag.WRITE, folder=tmp_path, arguments=given, task="note https://a.example/x") == "allow"


def test_links_that_go_round_in_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert decide(Tag.WRITE, folder=tmp_path, path="a/x", text="y") in ("allow", "ask")


def test_a_tool_that_does_not_say_what_it_touches() -> None:
    assert decide(to="eve") == "ask"
    assert decide(to="eve", mode=Mode.REPEATABLE) == "ask"
    assert decide(to="eve", mode=Mode.PURE) == "allow"
    assert decide(to="eve", mode=Mode.COMPOSITE) == "allow"
    assert decide(to="eve", task="write to eve") == "allow"
    assert decide(to="eve", settings=PolicySettings(undeclared="allow")) == "allow"
    foreign = ToolSchema(name="act", description="", parameters={}, trust=Trust.UNTRUSTED)
    assert decide(to="eve", declared=foreign) == "ask"


def test_a_call_that_says_nothing_is_not_the_users() -> None:
    assert decide(Tag.SEND) == "ask"
    assert decide(Tag.SEND, to=[], body="", cc=None) == "ask"
    assert decide(Tag.SEND, confirm=True) == "ask"
    assert decide(Tag.SEND, task="to Bob", to="Bob", cc=None, body="") == "allow"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), json_values, max_size=4), st.sampled_from([*Tag]))
def test_any_arguments_get_a_verdict(arguments: dict[str, Any], tag: Tag) -> None:
    said = decide(tag, arguments=arguments)
    assert said in ("allow", "ask")
    if tag in (Tag.SEND, Tag.SPEND):
        assert said == "ask", "nothing stands in an empty task"


@pytest.mark.long
def test_too_many_values_and_deep_ones_end() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    effect = Effect.model_construct(
        kind=EffectKind.INVOKE_TOOL,
        component="act@1.0.0",
        arguments={"deep": deep, "many": ["Bob"] * 200_000},
        tags=frozenset({Tag.SEND}),
        provenance=(PAGE,),
    )
    verdict = DefaultPolicy().decide(effect, PolicyView(user_content=("Bob",)))
    assert verdict.action == "ask"


NAMED = "https://www.shop.example/Cart/list?id=7&lang=en"


@given(
    st.integers(0, len(NAMED)),
    st.one_of(st.sampled_from("\\/@:.?#%&= \t\n'\"<>.。／＠"), st.characters(exclude_categories=["Cs"])),
    st.booleans(),
)
def test_a_changed_address_is_read_only_after_a_question(at: int, char: str, replace: bool) -> None:
    changed = NAMED[:at] + char + NAMED[at + replace :]
    same = canonical(changed) is not None and canonical(changed) == canonical(NAMED)
    allowed = decide(*READ, task=f"Look at {NAMED} please", url=changed) == "allow"
    if allowed:
        assert same or changed.strip() == NAMED
    if same or changed.strip(" \t\n") == NAMED:
        assert allowed
