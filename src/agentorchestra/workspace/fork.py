"""Forks: new runs that begin with the log of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import Budget
from agentorchestra.core.ids import new_run_id
from agentorchestra.core.settings import RoleSettings
from agentorchestra.core.spec import SOURCE_MEDIA_TYPE, RunManifest, RunSpec
from agentorchestra.log.fork import fork_point, forked_events, link_files, refuse_lost_environments, replaceable
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.run import current_budget
from agentorchestra.workspace.catalog import Stock
from agentorchestra.workspace.creation import Origin
from agentorchestra.workspace.equipment import Equipping
from agentorchestra.workspace.model_choice import Choices
from agentorchestra.workspace.parts import Equipment, RunObjects, distribution, prompt_text
from agentorchestra.workspace.place import Place, Ready


class Forking:
    """Makes forks of the runs of a workspace.

    Args:
        place: where the runs are.
        stock: what there is by name.
        equipping: equips the runs.
        choices: of their models and limits.
        origin: of the runs of this process.
        ready: takes into use what is registered.
    """

    def __init__(
        self, place: Place, stock: Stock, equipping: Equipping, choices: Choices, origin: Origin, ready: Ready
    ) -> None:
        self._place = place
        self._stock = stock
        self._equipping = equipping
        self._choices = choices
        self._origin = origin
        self._ready = ready

    async def fork(
        self,
        run_id: str,
        at: int | str | None,
        other: RunSpec,
        objects: RunObjects,
        *,
        prompts: Mapping[str, str | Path],
        outcomes: Mapping[str, JsonValue],
    ) -> str:
        """Make a run that goes on otherwise after an event; see Workspace.fork.

        Args:
            run_id: the parent.
            at: see Workspace.fork.
            other: with the model, roles, budget and labels that differ.
            objects: the tools and the model as a client.
            prompts, outcomes: see Workspace.fork.
        """
        place = self._place
        parent = await place.record(run_id)
        events = await place.store.load(run_id)
        seq = fork_point(run_id, events, at)
        copied = [event for event in events if event.seq <= seq]
        ledger = Ledger.of(copied)
        refuse_lost_environments(run_id, ledger, self._stock.every_environment)
        for key, value in outcomes.items():
            replaceable(ledger, key, value)
        await self._ready()
        equipment = await self._equipping.with_given(self._equipping.of(parent), objects.tools, objects.model)
        self._equipping.check(parent.manifest, equipment)
        changes, overrides = await self._changes(parent.manifest, equipment, other, prompts)
        given = (other.budget or Budget()).model_dump(exclude_none=True)
        limits = Budget(**(current_budget(parent.manifest, copied).model_dump() | given))
        names = [one for name in changes.pop("asked") for one in equipment.models.chain(name)]
        labels = {place.redact(key): place.redact(value) for key, value in other.labels.items()}
        new_id = new_run_id()
        manifest = parent.manifest.model_copy(
            update={
                **changes,
                "parent_run": run_id,
                "fork_seq": seq,
                "overrides": overrides | {f"outcome:{key}": value for key, value in outcomes.items()},
                "began": parent.manifest.began or parent.manifest.created,
                "created": place.clock.now(),
                "budget": self._choices.budget(names, limits, equipment.models),
                "labels": parent.manifest.labels | labels,
                "session": None,  # the session has the parent's answer already
                "distribution": distribution(),
            }
        )
        if parent.imported is not None:
            manifest = await self._made_own(manifest, equipment, given=tuple(prompts))
        redacted = place.redact_json(dict(outcomes))
        new = forked_events(run_id, copied, seq, manifest, outcomes=redacted, now=manifest.created)
        await asyncio.to_thread(link_files, place.files_of(run_id), place.files_of(new_id))
        await place.store.create_run(new_id, manifest, new)
        self._equipping.hold(new_id, equipment)
        return new_id

    async def _made_own(self, manifest: RunManifest, equipment: Equipment, *, given: tuple[str, ...]) -> RunManifest:
        """The manifest of a fork of an imported run: with this machine's application, tools and prompts.

        The fork is a run of this machine, so nothing of what came in may stand for this machine's own.

        Args:
            manifest: made of the parent's.
            equipment: what the fork is driven with.
            given: names of the prompts that were given to the fork.
        """
        from agentorchestra.tea.programs.sources import pin_of

        made = {name: make() for name, make in self._stock.environments_for(equipment).items()}
        foreign = {f"prompt:{name}" for name in manifest.prompts if name not in given}
        return manifest.model_copy(
            update={
                "app": self._origin.app,
                "app_folder": self._origin.app_folder,
                "tools": {name: pin_of(equipment.tools.get(name) or made[name]) for name in manifest.tools},
                "agents": {name: pin_of(self._stock.agents[name]) for name in manifest.agents},
                "prompts": equipment.prompts.pins() | {name: manifest.prompts[name] for name in given},
                "overrides": {name: value for name, value in manifest.overrides.items() if name not in foreign},
                "schemas": await self._equipping.keep_texts(equipment),
            }
        )

    async def _changes(
        self, manifest: RunManifest, equipment: Equipment, other: RunSpec, prompts: Mapping[str, str | Path]
    ) -> tuple[dict[str, Any], dict[str, JsonValue]]:
        """What a fork's manifest has otherwise than its parent's, and the same as it is written down."""
        changes: dict[str, Any] = {"asked": [manifest.model]}
        overrides: dict[str, JsonValue] = {k: v for k, v in manifest.overrides.items() if not k.startswith("outcome:")}
        if other.model is not None or other.roles:
            changes |= self._other_models(manifest, equipment, other, overrides)
        if prompts:
            texts = {name: prompt_text(name, Path(path), equipment.prompts) for name, path in prompts.items()}
            pins = equipment.prompts.with_texts(texts).pins()
            for name, text in texts.items():
                await self._place.store.put_blob(text.encode(), SOURCE_MEDIA_TYPE)
                overrides[f"prompt:{name}"] = pins[name].content_hash
            changes["prompts"] = manifest.prompts | {name: pins[name] for name in texts}
        return changes, overrides

    def _other_models(
        self, manifest: RunManifest, equipment: Equipment, other: RunSpec, overrides: dict[str, JsonValue]
    ) -> dict[str, Any]:
        """What changes with the models; written into the overrides too."""
        model, models = other.model, equipment.models
        name = model or manifest.model
        models.check(name)
        chosen = {
            role: one.model_copy(update={"model": ""}) if model is not None else one
            for role, one in manifest.roles.items()
        }
        for role, given in other.roles.items():
            models.check(given)
            chosen[role] = chosen.get(role, RoleSettings()).model_copy(update={"model": given})
            overrides[f"role:{role}"] = given
        if model is not None:
            overrides["model"] = name
        asked = [name, *(one.model for one in chosen.values() if one.model)]
        return {
            "model": name,
            "roles": dict(sorted(chosen.items())),
            "context_windows": manifest.context_windows | self._choices.windows(set(asked), models),
            "media_models": self._choices.media_models(models, name, chosen),
            "asked": asked,
        }


__all__ = ["Forking"]
