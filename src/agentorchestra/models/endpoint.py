from __future__ import annotations

from dataclasses import dataclass

from agentorchestra.core.settings import ModelProfile

LOCAL = "local:"  # the prefix of a folder with a model on this machine: `local_embedding.py`, `local_transcription.py`


@dataclass(frozen=True)
class Endpoint:
    """A model with its server and key looked up: everything that a client needs."""

    name: str  # as asked for: a profile's name or `provider:model`
    profile: ModelProfile  # made up for a bare `provider:model`
    in_settings: bool  # whether the settings hold it under this name
    provider: str  # the known provider, "" for a server that is only an address
    model: str  # its id as it is sent
    address: str | None  # the server, None for the provider's own
    key_env: str  # the variable the key comes from, "" where none is sent
    key: str | None  # its value
    section: str = ""  # where its profile is written, for sentences
