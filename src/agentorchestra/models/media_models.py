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
    found = {}
    for kind, role in ROLES.items():
        named = [one[role].model for one in (roles, settings.roles) if role in one and one[role].model]
        says = [name for name in (model, *settings.models) if _says(models.profile(name), kind)]
        chosen = [one for one in (*named, *says) if _may(models, one, kind)]
        if not chosen and not (kind == "audio" and settings.transcription_model) and _may(models, model, kind):
            chosen = [model]
        if chosen:
            found[kind] = tuple(dict.fromkeys(chosen))
    # Documents as they are only to models of which it is said: every model can be given their text.
    documents = [name for name in (model, *settings.models) if _says(models.profile(name), "document")]
    if chosen := [one for one in documents if _may(models, one, "document")]:
        found["document"] = tuple(dict.fromkeys(chosen))
    return found


def _says(profile: ModelProfile, kind: str) -> bool:
    said = {"image": profile.vision, "audio": profile.audio, "video": profile.video, "document": profile.document}
    return said[kind] is True


def _may(models: ModelManager, name: str, kind: str) -> bool:
    """Return True if a model can be asked at all, and nothing says that it does not take the medium."""
    profile = models.profile(name)
    if profile.model == "offline" and not _says(profile, kind):
        return False  # it answers from words alone
    with contextlib.suppress(UsageError):
        models.check(name)
        return takes(_EXAMPLE[kind], provider=profile.model.partition(":")[0], profile=profile)
    return False
