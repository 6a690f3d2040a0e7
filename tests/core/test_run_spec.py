"""RunSpec: one description of a run, in Python and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import BudgetError, FileInputError, SettingsError
from agentorchestra.core.spec import RunFields, RunSpec


def test_the_keyword_arguments_of_a_run_are_the_fields_of_its_spec() -> None:
    assert {"task", *RunFields.__annotations__} == {*RunSpec.model_fields}


def test_a_spec_comes_back_from_json() -> None:
    spec = RunSpec(
        task="How long is the notice?",
        files=(Path("contract.pdf"),),
        budget=Budget(cost_usd=0.5),
        labels={"team": "law"},
        environments=("files",),
        options={"experts": ["clerk"], "rounds": 2},
        action="code",
    )
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
    assert RunSpec(**spec.model_dump()) == spec
    given = {"task": "x", "files": ["a.pdf"], "environments": ["files"], "options": {"experts": ("clerk",)}}
    listed = RunSpec.model_validate(given)
    assert (listed.files, listed.environments) == ((Path("a.pdf"),), ("files",))
    assert listed.options == {"experts": ["clerk"]}


def test_none_is_the_default() -> None:
    assert RunSpec(task="x", labels=None, roles=None, options=None, budget=None) == RunSpec(task="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"files": "a.pdf"}, FileInputError, "files is 'a.pdf'; give a list of paths"),
        ({"environments": "files"}, SettingsError, "environments is 'files'; give a list of names"),
        ({"budget": {"step": 1}}, BudgetError, r"budget\.step is no limit; the limits: steps"),
        ({"on_uncertain": "x"}, SettingsError, "on_uncertain is 'x'; it is 'report', 'ask' or 'retry'"),
        ({"finish": "x"}, SettingsError, "finish is 'x'; it is 'done' or 'text'"),
        ({"labels": {"a": 1}}, SettingsError, "the label 'a' = 1 is not text"),
        ({"max_steps": "many"}, ValidationError, "max_steps"),
        ({"budget_usd": 1}, ValidationError, "budget_usd"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        RunSpec(**({"task": "x"} | fields))  # type: ignore[arg-type]
