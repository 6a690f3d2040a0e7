"""Who is asked about pictures, sound and videos: the models that take them, by what the settings say of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from agentorchestra.core.errors import UsageError
from agentorchestra.core.settings import ModelProfile, RoleSettings, Settings
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.media import takes

ROLES = {"image": "vision", "audio": "hearing", "video": "video"}
"""The role whose model and parameters a question about each kind of medium has."""

_EXAMPLE = {"image": "image/jpeg", "audio": "audio/mpeg", "video": "video/mp4", "document": "application/pdf"}


def media_models(
    models: ModelManager, settings: Settings, model: str, roles: Mapping[str, RoleSettings]
) -> dict[str, tuple[str, ...]]:
    """Return the models that a run asks about each kind of medium, the first choice first.

    The role's model, then the run's own if its profile says that it takes the medium, then the profiles of the settings
    that say so, in their order. Where there is none, the run's own if nothing is known of it: a server that refuses the
    medium costs one request. (A recording is rather written down, where a `transcription_model` is named.) What the
    settings name for the role counts also where the run's model was given by hand: it may not see.
    """
    by_kind = {}
    for kind, role in ROLES.items():
        role_models = [table[role].model for table in (roles, settings.roles) if role in table and table[role].model]
        says = [name for name in (model, *settings.models) if _says(models.profile(name), kind)]
        choice = [name for name in (*role_models, *says) if _may(models, name, kind)]
        if not choice and not (kind == "audio" and settings.transcription_model) and _may(models, model, kind):
            choice = [model]
        if choice:
            by_kind[kind] = tuple(dict.fromkeys(choice))
    # Documents as they are only to models of which it is said: every model can be given their text.
    documents = [name for name in (model, *settings.models) if _says(models.profile(name), "document")]
    if choice := [name for name in documents if _may(models, name, "document")]:
        by_kind["document"] = tuple(dict.fromkeys(choice))
    return by_kind


def _says(profile: ModelProfile, kind: str) -> bool:
    support = {"image": profile.vision, "audio": profile.audio, "video": profile.video, "document": profile.document}
    return support[kind] is True


def _may(models: ModelManager, name: str, kind: str) -> bool:
    """Return True if a model can be asked at all, and nothing says that it does not take the medium."""
    profile = models.profile(name)
    if profile.model == "offline" and not _says(profile, kind):
        return False  # it answers from words alone
    with contextlib.suppress(UsageError):
        models.check(name)
        return takes(_EXAMPLE[kind], provider=profile.model.partition(":")[0], profile=profile)
    return False
