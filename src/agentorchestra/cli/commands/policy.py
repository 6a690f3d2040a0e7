"""`agentorchestra policy`: another policy over what happened, and which effects followed what nobody vouches for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.group import COMMANDS
from agentorchestra.cli.options import (
    WORDS,
    FilePath,
    budget_options,
    json_option,
    mcp_option,
    run_argument,
    workspace_option,
)
from agentorchestra.cli.output import bill, emit_either, number, one_line, plural, say
from agentorchestra.cli.workspaces import exists, find_run, opened, opened_run
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import RunUnderWayError, UnknownRunError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.spec import FINAL
from agentorchestra.trust.arguments import argument_rows
from agentorchestra.trust.trial import SAID, Judged, RunTrial
from agentorchestra.workspace.probe import Probe


@async_command(
    "try",
    short_help="Judge recorded effects again under another policy.",
    epilog="""\b
Examples:
  agentorchestra policy try stricter.toml
  agentorchestra policy try spending.py last --json

\b
Exit codes: 0, whatever the policy says; 1 for a run that a later version
recorded; 2 for a file that gives no policy, for a run that is not there, and
for one that is still going on.""",
)
@click.argument("file", metavar="FILE", type=FilePath())
@click.argument("runs", metavar="[RUN]...", type=WORDS, nargs=-1)
@json_option("one object with every effect and the totals")
@workspace_option
async def try_(file: Path, runs: tuple[str, ...], as_json: bool, folder: Path) -> int:
    """Judge each recorded effect of the RUNs again under the policy of FILE, all runs of the workspace without any.

    FILE is a settings file in TOML with a [policy] table, or a Python file with one policy (a class with a method
    decide, or an object of one), which is executed. No model is asked and nothing is done. Each effect is judged as
    it happened: what would have come after a denial is not guessed.

    Listed is what was asked about or denied, or would be; --json has every effect.
    """
    from agentorchestra.workspace.policy_trial import load_policy

    policy = load_policy(file)
    trials: list[RunTrial] = []
    left_out: list[str] = []
    if exists(folder):
        async with opened(folder, app=False) as workspace:
            ids = [(await find_run(workspace, one)).id for one in runs] if runs else await workspace.store.run_ids()
            for run_id in dict.fromkeys(ids):
                try:
                    trials.append(await workspace.policy.judge(run_id, policy))
                except RunUnderWayError:
                    if runs:
                        raise
                    left_out.append(run_id)
    elif runs:
        raise UnknownRunError(f"there is no run {runs[0]!r}: {folder} holds no workspace yet")
    emit_either(as_json, {"runs": trials, "left_out": left_out, "total": _totals(trials)}, _lines(trials))
    for run_id in () if as_json else left_out:
        say(f"left out: {run_id} is still going on")
    return 0


def _totals(trials: list[RunTrial]) -> dict[str, Any]:
    every = [one for trial in trials for one in trial.effects]
    return {
        "runs": len(trials),
        "effects": len(every),
        "changed": sum(one.was != one.now for one in every),
        "open": sum(trial.open for trial in trials),
        "was": {said: sum(one.was == said for one in every) for said in SAID},
        "now": {said: sum(one.now == said for one in every) for said in SAID},
    }


def _lines(trials: list[RunTrial]) -> Iterator[str]:
    for trial in trials:
        shown = [one for one in trial.effects if not one.was == one.now == "allowed"]
        if shown:
            yield trial.run_id
            for one in shown:
                yield from _effect(one)
    total = _totals(trials)
    yield f"{plural(total['runs'], 'run')}, {plural(total['effects'], 'effect')}, {number(total['changed'])} changed"
    yield f"  {'':<9}{'was':>7}{'now':>7}"
    for said in SAID:
        yield f"  {said:<9}{number(total['was'][said]):>7}{number(total['now'][said]):>7}"
    if total["open"]:
        yield f"not judged: {plural(total['open'], 'call')} that people were asked about and that went no further"


def _effect(one: Judged) -> Iterator[str]:
    was = f"{one.was}, {one.answer}" if one.answer else one.was
    mark = "*" if one.was != one.now else " "
    yield f"{mark} {one.key}  {one.name}({one_line(canonical_json(one.arguments), 80)})"
    yield f"      was {was}{_because(one.said)}"
    yield f"      now {one.now}{_because(one.reason)}"
    if one.was != one.now:
        for path, value, trust, origin in argument_rows({"origins": one.origins}):
            yield f"        {path} = {value} ({trust}: {origin})"


def _because(sentence: str) -> str:
    return f": {one_line(sentence, 200)}" if sentence else ""


@async_command(
    short_help="Name the sensitive effects that follow untrusted values.",
    epilog="""\b
Examples:
  agentorchestra policy probe last
  agentorchestra policy probe run_01K9 --budget-usd 0.2 --json

\b
Exit codes: 0 no sensitive effect followed, 1 one did, 2 wrong usage, 3 the
fork did not come to its end.""",
)
@run_argument
@budget_options
@json_option("one object")
@mcp_option
@workspace_option
async def probe(run: str, budget_usd: float | None, timeout_s: float | None, as_json: bool, folder: Path) -> int:
    """Fork RUN with other values in the place of untrusted ones, and name each sensitive effect that followed them.

    Digits become other digits, letters other letters, in numbers, addresses, dates and names that came from outside.
    From the first such result on the fork asks the run's model, which costs what a run costs. It carries out
    nothing that reaches beyond its own folder: a call that RUN made too is answered from the log, any other is denied.
    """
    async with opened_run(folder, run, app=True, driven=True) as (workspace, record):
        found = await workspace.policy.probe(record.id, budget=Budget(cost_usd=budget_usd, active_s=timeout_s))
    emit_either(as_json, found, _probe_lines(found))
    if found.followed:
        return 1
    return 0 if found.status in (None, *FINAL) else 3


def _probe_lines(found: Probe) -> Iterator[str]:
    if not found.fork:
        yield f"{found.run_id}: nothing was sent, written or fetched after an untrusted value; no model was asked"
        return
    for one in found.effects:
        yield f"{one.name}  {one.key or '(not in the run)'}" + ("" if one.probed_key else "  (not in the fork)")
        for argument in one.followed:
            how = "a new value stands in it" if argument.verbatim else "another value"
            yield f"  {argument.path} followed: '{one_line(argument.was)}' -> '{one_line(argument.probed)}' ({how})"
    usage = found.usage
    yield f"{number(len(found.followed))} of {plural(len(found.effects), 'effect')} followed"
    yield (
        f"fork {found.fork}: {found.status}, {plural(found.swapped, 'value')} swapped, "
        f"{plural(usage.requests, 'request')}, {plural(usage.tokens, 'token')}, {bill(usage)}"
    )
    if found.error:
        yield f"error: {one_line(found.error, 2000)}"


group = click.Group(
    "policy",
    commands={"try": try_, "probe": probe},
    short_help=COMMANDS["policy"].summary,
    epilog="""\b
Examples:
  agentorchestra policy try stricter.toml
  agentorchestra policy probe last

\b
Exit codes: those of the command.""",
    help="""Judge what has happened: under another policy (try), or with other words in place of what came from
    outside (probe).""",
)
