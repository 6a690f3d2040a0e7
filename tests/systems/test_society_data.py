"""The labelled conversations: their form, how many there are of each kind, and that runs still give them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.log.conversation import Conversation
from tests.support.society_plays import DATA, every_play, spoken

PATTERNS = ("direct_dispatch", "planner_mediated_decomposition", "instruction_refinement", "agent_substitution")
EDGE_CASES = ("criterion_tightened", "assumption_audited", "misaligned_instruction_corrected")
LARGEST, LARGEST_SUM = 12_000, 500_000


@pytest.fixture(scope="module")
def labels() -> dict[str, dict[str, Any]]:
    """The labels of each conversation."""
    found: dict[str, dict[str, Any]] = json.loads((DATA / "labels.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def conversations() -> dict[str, Conversation]:
    """The conversations by name."""
    files = sorted(DATA.glob("*.jsonl"))
    return {file.stem: Conversation.of_lines(file.read_text(encoding="utf-8")) for file in files}


def found(label: dict[str, Any]) -> set[str]:
    """The patterns and edge cases of a conversation."""
    return {one["pattern"] for one in label["patterns"] + label["edge_cases"]}


def test_each_conversation_is_small_and_has_labels(
    labels: dict[str, dict[str, Any]], conversations: dict[str, Conversation]
) -> None:
    assert set(labels) == set(conversations)
    assert {one.origin for one in conversations.values()} <= {"run", "relay"}
    sizes = [file.stat().st_size for file in DATA.rglob("*.*")]
    assert max(file.stat().st_size for file in DATA.glob("*.jsonl")) < LARGEST and sum(sizes) < LARGEST_SUM
    for name, one in conversations.items():
        assert [row.n for row in one.exchanges] == [*range(1, len(one.exchanges) + 1)], name
        assert one.exchanges[-1].kind == "submit" and one.leader == "coral", name


def test_each_label_rests_on_messages_that_were_read(
    labels: dict[str, dict[str, Any]], conversations: dict[str, Conversation]
) -> None:
    for name, label in labels.items():
        said = {row.n: row for row in conversations[name].exchanges if row.kind in ("message", "lost")}
        assert set(label) == {"held_out", "patterns", "edge_cases"}, name
        assert {one["pattern"] for one in label["patterns"]} <= {*PATTERNS}, name
        assert {one["pattern"] for one in label["edge_cases"]} <= {*EDGE_CASES}, name
        for one in label["patterns"] + label["edge_cases"]:
            rests = one["messages"]
            assert rests == sorted(set(rests)) and rests and set(rests) <= set(said), (name, one)
            assert not any(said[n].refused for n in rests), (name, one)
        for one in label["patterns"]:
            senders = [said[n].sender for n in one["messages"]]
            others = [said[n].to[0] if said[n].sender == "coral" else said[n].sender for n in one["messages"]]
            match one["pattern"]:
                case "direct_dispatch":
                    assert senders == ["coral"] and others != ["planner"], (name, one)
                case "planner_mediated_decomposition":
                    assert others[:2] == ["planner"] * 2 and "planner" not in others[2:], (name, one)
                    assert senders == ["coral", "planner", *["coral"] * len(others[2:])] and others[2:], (name, one)
                case kind:
                    again = kind == "instruction_refinement"
                    assert senders == ["coral", others[1], "coral"] and others[0] == others[1], (name, one)
                    assert (others[2] == others[0]) is again, (name, one)


def test_half_of_the_runs_have_patterns_and_there_is_enough_of_each(
    labels: dict[str, dict[str, Any]], conversations: dict[str, Conversation]
) -> None:
    runs = {name: label for name, label in labels.items() if conversations[name].origin == "run"}
    assert len(runs) == 80 and sum(bool(label["patterns"]) for label in runs.values()) == 40
    counts = Counter(kind for label in runs.values() for kind in found(label))
    assert all(counts[kind] >= 14 and len(runs) - counts[kind] >= counts[kind] for kind in PATTERNS), counts
    assert all(counts[kind] >= 6 for kind in EDGE_CASES), counts


def test_half_is_held_out_and_half_of_each_kind(labels: dict[str, dict[str, Any]]) -> None:
    held = [label for label in labels.values() if label["held_out"]]
    assert len(held) == len(labels) // 2
    for kind in (*PATTERNS, *EDGE_CASES):
        there, all_of_it = (sum(kind in found(label) for label in some) for some in (held, labels.values()))
        assert abs(2 * there - all_of_it) <= 1, kind


def test_each_conversation_of_a_run_has_a_play(conversations: dict[str, Conversation]) -> None:
    assert set(every_play()) == {name for name, one in conversations.items() if one.origin == "run"}


@pytest.mark.parametrize(
    "name", [name if name == "tide-table" else pytest.param(name, marks=pytest.mark.long) for name in every_play()]
)
async def test_a_run_in_which_a_play_is_spoken_gives_the_conversation(name: str, tmp_path: Path) -> None:
    said = await spoken(every_play()[name], tmp_path)
    assert said.lines() == (DATA / f"{name}.jsonl").read_text(encoding="utf-8")
