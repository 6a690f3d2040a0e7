"""The papers' tables: they are whole, and their cells are found by their names."""

from __future__ import annotations

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.published.tables import PAPERS, published
from agentorchestra.evaluation.questions import SOURCES


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_are_whole_and_of_sets_there_are(paper: str) -> None:
    for table in published(paper).tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows.values())
        assert not table.set or table.set in SOURCES
        cells = [cell for row in table.rows.values() for cell in row if cell is not None]
        assert all(0 <= cell <= table.whole for cell in cells)


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
