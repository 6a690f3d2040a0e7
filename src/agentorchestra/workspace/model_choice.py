"""Which models a new run asks, and what they may cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import UsageError
from agentorchestra.core.settings import RoleSettings, Settings

if TYPE_CHECKING:
    from agentorchestra.tools.web.search.tool import Engines

DEFAULT_COST_USD = 1.0
"""Held for priced models when no dollar limit was given; the command line prints it."""


class Choices:
    """The models of a run by role, and its limits: as the settings say, where nothing else was given.

    Args:
        settings: of the workspace.
        engines: what is searched with, which may cost too.
    """

    def __init__(self, settings: Settings, engines: Engines) -> None:
        self._settings = settings
        self._engines = engines

    def roles(self, given: Mapping[str, str], *, explicit: bool, models: Any) -> dict[str, RoleSettings]:
        """The model and parameters of each role of a new run; every model is one that can be asked.

        Args:
            given: models by role.
            explicit: whether a model was given for the whole run: it holds for all other roles then.
            models: of the run.
        """
        roles = dict(self._settings.roles)
        if explicit:
            roles = {name: role.model_copy(update={"model": ""}) for name, role in roles.items()}
        for name, model in given.items():
            roles[name] = roles.get(name, RoleSettings()).model_copy(update={"model": model})
        for role in roles.values():
            if role.model:
                models.check(role.model)
        return dict(sorted(roles.items()))

    def budget(self, names: Sequence[str], given: Budget | None, models: Any, *, perhaps: Iterable[str] = ()) -> Budget:
        """The limits of a run; `perhaps` are models that it may ask too, for which a price need not be known yet."""
        budget = self._settings.budget.model_copy(update=(given or Budget()).model_dump(exclude_none=True))
        if budget.cost_usd is not None:
            for name in names:
                models.require_price(name)
        elif all(map(models.price_known, names)) and (
            any(models.price_known(name) and not models.free(name) for name in (*names, *perhaps))
            or any(engine.traits.cost_usd for engine in self._engines.ready)
        ):
            budget = budget.model_copy(update={"cost_usd": DEFAULT_COST_USD})
        return budget

    def media_models(self, models: Any, model: str, roles: Mapping[str, RoleSettings]) -> dict[str, tuple[str, ...]]:
        """The models that see or hear, by kind of medium."""
        from agentorchestra.models.media_models import media_models

        return media_models(models, self._settings, model, roles)

    def windows(self, names: set[str], models: Any) -> dict[str, int]:
        """What each model can read; one that cannot be asked (a profile without its key) is left out."""
        found = {}
        for name in sorted(names):
            try:
                found[name] = models.client(name).profile.context_window
            except UsageError:
                continue
        return found

    def forced(self, names: set[str], models: Any) -> tuple[str, ...]:
        """Those whose requests may force the call of one tool; one that cannot be asked is left out."""
        found = []
        for name in sorted(names):
            try:
                client = models.client(name)
            except UsageError:
                continue
            if client.native_tools and client.profile.may_force:
                found.append(name)
        return tuple(found)


__all__ = ["DEFAULT_COST_USD", "Choices"]
