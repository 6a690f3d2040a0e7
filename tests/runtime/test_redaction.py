"""Secrets are found in the encodings that programs put them into, and nothing else is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra import Settings, Workspace, tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.trust.redact import Redactor

SECRET = 'sw/rd fish+&"4711"?ü'
OF_WORDS = ["secret", "123456", "passwd", "foobar", "000000", "aaaaaa", "this is"]


def encoded(value: str, before: bytes = b"", after: bytes = b"") -> dict[str, str]:
    """A text in which the value stands, in each encoding."""
    data = value.encode()
    whole = before + data + after
    return {
        "url": f"https://a.example/?key={quote(value)}&x=1",
        "url, whole": f"https://a.example/?key={quote(value, safe='')}&x=1",
        "url, lower case": f"?key={''.join(f'%{one:02x}' if chr(one) not in SAFE else chr(one) for one in data)}",
        "form": f"key={quote_plus(value)}",
        "hex": whole.hex(),
        "HEX": whole.hex().upper(),
        "base64": base64.b64encode(whole).decode(),
        "base64, urlsafe": base64.urlsafe_b64encode(whole).decode().rstrip("="),
        "json": json.dumps({"key": value}),
        "json, as it is": json.dumps({"key": value}, ensure_ascii=False),
        "basic": f"Authorization: Basic {base64.b64encode(b'user:' + data).decode()}",
    }


SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


@pytest.mark.parametrize("kind", list(encoded(SECRET)))
@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"\xff\xfe\xfd\xfc"])
def test_a_secret_in_an_encoding_is_replaced(kind: str, before: bytes) -> None:
    redactor = Redactor({"KEY": SECRET, "OTHER": "another-value"})
    for after in (b"", b"x", b"xy"):
        text = encoded(SECRET, before, after)[kind]
        found = redactor.text(text)
        assert "secret:KEY" in found
        assert redactor.json({"a": [text]}) == {"a": [found]}
        assert redactor.text(found) == found


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=40), st.binary(max_size=5))
def test_base64_leaves_no_whole_character_of_a_secret(value: str, before: bytes) -> None:
    data = value.encode()
    text = base64.b64encode(before + data + b"end").decode()
    found = Redactor({"KEY": value}).text(text)
    head, _, tail = found.partition("secret:KEY")
    # What is left stands for what was there before and after, and for no bit of the secret.
    assert len(head) * 6 <= len(before) * 8
    assert len(tail) * 6 <= (len(text) * 6 - (len(before) + len(data)) * 8)
    assert text.startswith(head) and text.endswith(tail)


@pytest.mark.parametrize("value", OF_WORDS)
def test_ordinary_text_stays(value: str) -> None:
    text = "".join(
        page.read_text().replace(value, "") for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    )
    assert Redactor({"KEY": value}).text(text) == text


def test_a_short_value_is_no_secret() -> None:
    text = " ".join(encoded("abcde").values())
    assert Redactor({"KEY": "abcde", "NONE": ""}).text(text) == text


def test_what_is_learnt_later_is_found_too() -> None:
    redactor = Redactor({})
    redactor.learn("KEY", SECRET)
    redactor.learn("KEY", SECRET)
    assert redactor.json([encoded(SECRET)["basic"]])[0].startswith("Authorization: Basic dXNlc")
    assert "secret:KEY" in redactor.text(encoded(SECRET)["hex"])


async def test_no_encoding_of_a_secret_is_in_the_log(tmp_path: Path) -> None:
    value = "swordfish-4711-of-the-deep"
    texts = encoded(value)

    @tool(effect="read")
    async def leak() -> dict[str, str]:
        """Give back what a program said."""
        return texts

    model = ScriptedModel([decide(calls=[call("leak")]), decide(calls=[call("done", answer=texts["basic"])])])
    settings = Settings(system="react", secrets=("KEY",))
    async with Workspace(tmp_path / "ws", tools=[leak], settings=settings, environ={"KEY": value}) as ws:
        result = await ws.run("Say it.", model=model)
        assert result.answer.endswith("secret:KEY")
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        events: list[Any] = [one.model_dump(mode="json") for one in await ws.log.events(result.run_id)]
    log = json.dumps(events)
    assert log.count("secret:KEY") >= len(texts)
    for text in (value, value.encode().hex(), base64.b64encode(value.encode()).decode()[:-4], texts["basic"][-20:]):
        assert text not in log
