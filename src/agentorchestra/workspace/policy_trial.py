"""Other policies for recorded runs: how they are loaded, and what they are shown of the runs (trust/trial.py)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import EventFormatError, PolicyFileError, RunUnderWayError, SourceError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.settings import PolicySettings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.engine import is_dead
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.trust.trial import RunTrial, judged_again
from agentorchestra.workspace.assembly import Facet
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.equipment import RunObjects, run_request

if TYPE_CHECKING:
    from agentorchestra.workspace.probe import Probe


def load_policy(path: Path) -> Policy:
    """Return the policy of a file: the default one with the `[policy]` table of a TOML file, or a Python file's own.

    A Python file is executed as the user's own program, and its folder is searched for what it imports.

    Raises:
        PolicyFileError: in one sentence.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PolicyFileError(f"the policy {path} cannot be read: {exc}; name a .toml or a .py file") from None
    if path.suffix == ".toml":
        return DefaultPolicy(_table(path, text))
    if path.suffix == ".py":
        return _own(path, text)
    raise PolicyFileError(f"the policy {path} is neither a .toml nor a .py file; name one of these")


def _table(path: Path, text: str) -> PolicySettings:
    try:
        values = tomllib.loads(text)
    except ValueError as exc:
        raise PolicyFileError(f"{path} is no TOML: {exc}; correct it") from None
    table = values.get("policy")
    if not isinstance(table, dict):
        raise PolicyFileError(f"{path} has no [policy] table; write one (docs/security.md, Settings)")
    try:
        return PolicySettings(**table)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(("policy", *map(str, first["loc"])))
        raise PolicyFileError(f"{name} in {path} does not fit: {first['msg']}; docs/settings.md lists them") from None


def _own(path: Path, text: str) -> Policy:
    from agentorchestra.tea.programs.dynamic import load_module
    from agentorchestra.tea.programs.namespaces import namespace_of, within

    try:
        with within(namespace_of(path.parent)):
            module = load_module(text, label=str(path))
    except SourceError as exc:
        raise PolicyFileError(f"the policy {exc}") from exc
    deciders = {name: var for name, var in vars(module).items() if callable(getattr(var, "decide", None))}
    objects = {name: var for name, var in deciders.items() if not isinstance(var, type)}
    classes = {name: var for name, var in deciders.items() if getattr(var, "__module__", "") == module.__name__}
    pool: dict[str, Any] = objects or classes
    if len(pool) != 1:
        problem = f"{len(pool)} policies ({', '.join(pool)})" if pool else "no policy: no class with a method `decide`"
        raise PolicyFileError(f"{path} has {problem}; leave one in it (docs/security.md, A policy of your own)")
    ((name, var),) = pool.items()
    try:
        policy: Policy = var() if isinstance(var, type) else var
    except Exception as exc:  # the user's own code
        raise PolicyFileError(
            f"the policy {name} of {path} cannot be made: {type(exc).__name__}: {exc}; make one in the file, "
            f"e.g. policy = {name}(...)"
        ) from exc
    return policy


class PolicyTrials(Facet):
    """What a policy does and would have done in the runs of a workspace (docs/security.md)."""

    async def judge(self, run_id: str, policy: Policy) -> RunTrial:
        """Judge each effect of a recorded run again under another policy; no model is asked, and nothing is done.

        Raises:
            UnknownRunError, RunUnderWayError, EventFormatError, PolicyFileError (the policy fails on an effect).
        """
        parts, record = self._parts, await self._parts.record(run_id)
        await refuse_under_way(parts, record)
        events = await parts.store.load(record.id)
        folder = parts.runs_folder / record.id
        try:
            run_schemas = await _kept_schemas(parts, record.manifest.schemas)
            schemas = {**_of_environments(parts), **run_schemas, **Ledger.of(events).codec.schemas()}
            return judged_again(record.id, record.manifest, events, policy, schemas=schemas, folder=folder)
        except EventFormatError as exc:
            raise EventFormatError(f"run {record.id} cannot be judged: {exc}") from None

    async def probe(self, run_id: str, *, budget: Budget | None = None) -> Probe:
        """Fork a run with other values in the place of untrusted ones, and say which sensitive effects followed them.

        The fork asks the run's model from the first result on that has such a value, and carries out nothing that
        reaches beyond its own folder (docs/security.md).

        Args:
            budget: other limits for the fork than the run's.

        Raises:
            UnknownRunError, RunUnderWayError, ForkError, UnknownComponentError, and what `resume` raises.
        """
        from agentorchestra.workspace.probe import Probe, Prober, compare

        store, record = self._parts.store, await self._parts.record(run_id)
        await refuse_under_way(self._parts, record)
        prober = Prober(record.manifest, Ledger.of(await store.load(run_id)))
        if prober.first is None or not prober.acting():
            return Probe(run_id=run_id)
        other, objects = run_request("fork", {"budget": budget, "labels": {"probe": run_id}})
        at = prober.first - 1
        fork = await self._assembly().creator.fork(run_id, at, other, objects, prompts={}, outcomes={})
        result = await self._assembly().driver.resume(fork, RunObjects(policy=prober), wrap=prober.wrap)
        return Probe(
            run_id=run_id,
            fork=fork,
            status=result.status,
            swapped=len(prober.swap),
            effects=compare(prober, Ledger.of(await store.load(fork))),
            usage=result.usage,
            error=result.error or "",
        )


async def refuse_under_way(parts: Composition, record: RunRecord) -> None:
    """Raise RunUnderWayError for a run that somebody drives."""
    if record.status is not RunStatus.RUNNING:
        return
    job = await parts.store.job(record.id)
    if job is not None and job.owner is not None and not is_dead(job.owner):
        raise RunUnderWayError(
            f"run {record.id} is still going on; wait for its end, or stop it with `agentorchestra pause {record.id}`"
        )


async def _kept_schemas(parts: Composition, digest: str) -> dict[str, ToolSchema]:
    """Return the schemas that were kept with a run, of which its models may have been told in words."""
    if not digest or not await parts.store.find_blobs([digest]):
        return {}
    schemas = json.loads(await parts.store.get_blob(digest))
    return {name: ToolSchema.model_validate(schema) for name, schema in schemas.items()}


def _of_environments(parts: Composition) -> dict[str, ToolSchema]:
    """Return the schemas of the actions of today's environments, which are kept with no run."""
    every = parts.catalog.every_environment
    return {f"{name}_{action.name}": action for name, make in every.items() for action in make().actions()}
