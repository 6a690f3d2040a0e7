"""Prompts that came from elsewhere end soon, whatever they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentorchestra.core.errors import PromptError
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.prompts.restrictions import check_plain
from agentorchestra.workspace import packaged_prompts
from tests.bundle.support import PROMPT, here, other, recorded, rewritten


def prompt(template: str) -> str:
    """The text of a prompt's file."""
    return f"---\nname: p\nversion: 1.0.0\nvariables: [tools, t, x]\n---\n{template}"


def test_the_packaged_prompts_are_plain() -> None:
    library = PromptLibrary(packaged_prompts())
    assert len(library.names) > 10
    for name in library.names:
        check_plain(library.get(name).text, name)  # as a run keeps it: with its modules in it


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in tools %}{% for b in tools %}{{ b }}{% endfor %}{% endfor %}",
        "{% for a in t %}{% if a %}{% for b in a.x %}{% for c in t %}x{% endfor %}{% endfor %}{% endif %}{% endfor %}",
        "{% set x = 'a' %}{% set x = x ~ x %}",
        "{{ 'a' * 1000000000 }}",
        "{{ 2 ** 100000000 }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}",
        "{% for a in tools recursive %}{{ loop(tools) }}{% endfor %}",
        "{% include 'x' %}",
        "{% for a in tools %}{% endfor %}" * 51,
        "x" * 300_000,
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
    ],
)
def test_what_may_take_any_time_is_refused(template: str) -> None:
    with pytest.raises(PromptError, match=r"the prompt 'p' came with an imported run and is not used"):
        check_plain(prompt(template), "p")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lists", ["[" * 20_000, "[" * 20_000 + "]" * 20_000])
def test_front_matter_that_is_nested_too_deeply_is_refused(lists: str) -> None:
    with pytest.raises(PromptError, match="it is nested too deeply"):
        check_plain(f"---\nname: p\nversion: 1.0.0\nvariables: {lists}\n---\nx", "p")


def test_what_is_given_may_be_gone_through() -> None:
    given = "{% for a in tools %}{{ loop.index }}{% for b in a.parts %}{{ b|join(', ') }}{% endfor %}{% endfor %}"
    check_plain(prompt(given), "p")


@pytest.mark.long
async def test_a_replay_of_a_bundle_with_such_a_prompt_is_one_sentence(tmp_path: Path) -> None:
    import hashlib

    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        await ws.log.export(run, tmp_path / "run.zip")
    text = (PROMPT + "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}").encode()
    digest = hashlib.sha256(text).hexdigest()

    def change(members: dict[str, bytes]) -> None:
        members[f"blobs/{digest}"] = text
        manifest = json.loads(members["manifest.json"])
        manifest["prompts"]["react"] |= {"source": digest, "content_hash": digest}
        members["manifest.json"] = json.dumps(manifest).encode()
        first, *rest = members["events.jsonl"].splitlines()
        created = json.loads(first)
        created["body"]["manifest"] = manifest
        members["events.jsonl"] = b"\n".join([json.dumps(created).encode(), *rest]) + b"\n"

    async with other(tmp_path / "there") as ws:
        await ws.log.import_file(rewritten(tmp_path / "run.zip", tmp_path / "bad.zip", change))
        with pytest.raises(PromptError, match=r"the prompt .react. came with an imported run .*: it uses Call"):
            await ws.replay(run)
