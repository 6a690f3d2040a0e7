"""The papers' tables: what is stored has the arithmetic of the papers, and says where that does not follow."""

from __future__ import annotations

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.published.tables import PAPERS, Table, published
from agentorchestra.evaluation.questions import SOURCES

# Everything in the tables, and in what the texts say of them, that does not follow. All other sums do.
PROBLEMS = {
    "agentorchestra_tea": (
        "table 2, OpenAI DR, level 1: 74.29 is of no number of 53",
        "table 2, OpenAI DR, level 2: 69.06 is of no number of 86",
        "table 2, OpenAI DR, level 3: 47.6 is of no number of 26",
        "table 2, Manus, level 1: 86.5 is of no number of 53",
        "table 2, Manus, level 2: 70.1 is of no number of 86",
        "table 2, Manus, average: 73.9 is stated, 73.33 or 73.41 follows",
        "table 4, column Improvement, + researcher: 56.4 is stated, table 4 gives 56.38",
        "app. E.4, both ways of refinement improve consistently: table 5, aime-2024 has 10 for gpt-4o, TextGrad, 13.34 "
        "for gpt-4o, direct",
        "app. E.4, both ways of refinement improve consistently: table 5, aime-2025 has 6.67 for gpt-4o, "
        "self-reflection, 6.67 for gpt-4o, direct",
    ),
    "agentorchestra": (
        "table 1, OpenAI Deep Research, level 1: 74.29 is of no number of 53",
        "table 1, OpenAI Deep Research, level 2: 69.06 is of no number of 86",
        "table 1, OpenAI Deep Research, level 3: 47.6 is of no number of 26",
        "table 1, Manus, level 1: 86.5 is of no number of 53",
        "table 1, Manus, level 2: 70.1 is of no number of 86",
        "table 1, Manus, average: 73.9 is stated, 73.33 or 73.41 follows",
        "sec. 4.5.1, gain by the MCP manager agent: 4 is stated, figure 3 gives 4.32",
    ),
    "aorchestra": (
        "table 1, ReAct, DeepSeek-V3.2, gaia pass@1: 46.7 is of no number of 165",
        "table 1, AOrchestra, Claude-4.5-haiku, gaia pass@3: 73.9 is of no number of 165",
        "table 2, No-Context, average: 86 is stated, 84.00 follows",
        "table 2, Ours, average: 96 is stated, 92.00 follows",
        "table 3, ReAct, Deepseek-v3.2, accuracy: 46.7 is of no number of 165",
        "table 4, Claude Code, medium: 41.86 is of no number of 44; it is 18 of 43",
        "sec. 4.2, Terminal-Bench: an absolute gain over Mini-SWE: 64.29 is stated, table 1 gives 18.57",
    ),
    "coral": (),
    "oagents": (
        "table 3, Text web browser, average: 44.2 is stated, 44.24 follows",
        "table 3, Raw reader, level 1: 64.51 is of no number of 53",
        "table 5, Reflection-Expansion, level 2: 55.8 is of no number of 86",
        "table 6, GPT-4o, advance, average: 45.06 is stated, 46.06 follows",
        "table 6, GPT-4.1, baseline, average: 44.2 is stated, 44.24 follows",
        "table 6, DeepSeek-R1, baseline, average: 33.9 is stated, 33.94 follows",
        "sec. 4.2.1, Jina reader over raw HTML at level 2: 9.3 is stated, table 3 gives 2.32; no cells of table 3 give "
        "it, though table 6 has 9.30 for another comparison (Gemini-2.5)",
    ),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_what_does_not_follow_is_said(paper: str) -> None:
    assert published(paper).problems == PROBLEMS[paper]


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_are_whole_and_of_sets_there_are(paper: str) -> None:
    for table in published(paper).tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows.values())
        assert not table.set or table.set in SOURCES
        assert not table.sizes or len(table.sizes) >= len(table.columns) - 1
        cells = [cell for row in table.rows.values() for cell in row if cell is not None]
        assert all(0 <= cell <= table.whole for cell in cells)


def test_a_wrong_digit_is_found() -> None:
    right = {"a": (67.92, 53.49, 34.62, 55.15)}
    columns, sizes = ("level 1", "level 2", "level 3", "average"), (53, 86, 26)
    assert list(Table("2", "", columns, right, sizes=sizes, average="weighted").problems()) == []
    for at, changed in enumerate((67.82, 53.94, 36.42, 55.51)):
        rows = {"a": (*right["a"][:at], changed, *right["a"][at + 1 :])}
        assert list(Table("2", "", columns, rows, sizes=sizes, average="weighted").problems())


def test_cells_are_found_by_their_names() -> None:
    table = published("aorchestra").tables["1"]
    assert table.cell("AOrchestra, Gemini-3-Flash", "terminal pass@1") == 52.86
    with pytest.raises(
        EvaluationError, match="table 1 has no cell 'AOrchestra', 'average'; rows: ReAct, Gemini-3-Flash"
    ):
        table.cell("AOrchestra", "average")
    with pytest.raises(
        EvaluationError, match="leaves the cell 'Claude Code, Gemini-3-Flash', 'gaia pass@1' of table 1"
    ):
        table.cell("Claude Code, Gemini-3-Flash", "gaia pass@1")
    with pytest.raises(EvaluationError, match="nothing is stored of a paper 'owl'; the papers: agentorchestra_tea"):
        published("owl")
