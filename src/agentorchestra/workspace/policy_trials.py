"""Other policies and other values tried on recorded runs (`ws.policy`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentorchestra.core.budget import Budget
from agentorchestra.core.policy import Policy
from agentorchestra.log.ledger import Ledger
from agentorchestra.workspace.assembly import Facet
from agentorchestra.workspace.equipment import RunObjects, run_request

if TYPE_CHECKING:
    from agentorchestra.trust.trial import RunTrial
    from agentorchestra.workspace.probe import Probe


class PolicyTrials(Facet):
    """What a policy does and would have done in the runs of a workspace (docs/security.md)."""

    async def judge(self, run_id: str, policy: Policy) -> RunTrial:
        """Judge each effect of a recorded run again under another policy; no model is asked, and nothing is done.

        Raises:
            UnknownRunError, RunUnderWayError, EventFormatError, PolicyFileError (the policy fails on an effect).
        """
        from agentorchestra.workspace.policy_trial import tried

        return await tried(self._parts, await self._parts.record(run_id), policy)

    async def probe(self, run_id: str, *, budget: Budget | None = None) -> Probe:
        """Fork a run with other values in the place of untrusted ones, and say which sensitive effects followed them.

        The fork asks the run's model from the first result on that has such a value, and carries out nothing that
        reaches beyond its own folder (docs/security.md).

        Args:
            budget: other limits for the fork than the run's.

        Raises:
            UnknownRunError, RunUnderWayError, ForkError, UnknownComponentError, and what `resume` raises.
        """
        from agentorchestra.workspace.policy_trial import refuse_under_way
        from agentorchestra.workspace.probe import Probe, Prober, compared

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
            effects=compared(prober, Ledger.of(await store.load(fork))),
            usage=result.usage,
            error=result.error or "",
        )
