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
from agentorchestra.cli.workspaces import exists, find_run, opened_run, opening
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
        async with opening(folder, app=False) as workspace:
            ids = [(await find_run(workspace, name)).id for name in runs] if runs else await workspace.store.run_ids()
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
    every = [effect for trial in trials for effect in trial.effects]
    return {
        "runs": len(trials),
        "effects": len(every),
        "changed": sum(effect.was != effect.now for effect in every),
        "open": sum(trial.open for trial in trials),
        "was": {verdict: sum(effect.was == verdict for effect in every) for verdict in SAID},
        "now": {verdict: sum(effect.now == verdict for effect in every) for verdict in SAID},
    }


def _lines(trials: list[RunTrial]) -> Iterator[str]:
    for trial in trials:
        effects = [effect for effect in trial.effects if not effect.was == effect.now == "allowed"]
        if effects:
            yield trial.run_id
            for effect in effects:
                yield from _effect(effect)
    total = _totals(trials)
    yield f"{plural(total['runs'], 'run')}, {plural(total['effects'], 'effect')}, {number(total['changed'])} changed"
    yield f"  {'':<9}{'was':>7}{'now':>7}"
    for verdict in SAID:
        yield f"  {verdict:<9}{number(total['was'][verdict]):>7}{number(total['now'][verdict]):>7}"
    if total["open"]:
        yield f"not judged: {plural(total['open'], 'call')} that people were asked about and that went no further"


def _effect(effect: Judged) -> Iterator[str]:
    was = f"{effect.was}, {effect.answer}" if effect.answer else effect.was
    mark = "*" if effect.was != effect.now else " "
    yield f"{mark} {effect.key}  {effect.name}({one_line(canonical_json(effect.arguments), 80)})"
    yield f"      was {was}{_because(effect.said)}"
    yield f"      now {effect.now}{_because(effect.reason)}"
    if effect.was != effect.now:
        for path, value, trust, origin in argument_rows({"origins": effect.origins}):
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
    async with opened_run(folder, run, app=True, machine=True) as (workspace, record):
        result = await workspace.policy.probe(record.id, budget=Budget(cost_usd=budget_usd, active_s=timeout_s))
    emit_either(as_json, result, _probe_lines(result))
    if result.followed:
        return 1
    return 0 if result.status in (None, *FINAL) else 3


def _probe_lines(result: Probe) -> Iterator[str]:
    if not result.fork:
        yield f"{result.run_id}: nothing was sent, written or fetched after an untrusted value; no model was asked"
        return
    for call in result.effects:
        yield f"{call.name}  {call.key or '(not in the run)'}" + ("" if call.probed_key else "  (not in the fork)")
        for argument in call.followed:
            note = "a new value stands in it" if argument.verbatim else "another value"
            yield f"  {argument.path} followed: '{one_line(argument.was)}' -> '{one_line(argument.probed)}' ({note})"
    usage = result.usage
    yield f"{number(len(result.followed))} of {plural(len(result.effects), 'effect')} followed"
    yield (
        f"fork {result.fork}: {result.status}, {plural(result.swapped, 'value')} swapped, "
        f"{plural(usage.requests, 'request')}, {plural(usage.tokens, 'token')}, {bill(usage)}"
    )
    if result.error:
        yield f"error: {one_line(result.error, 2000)}"


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
