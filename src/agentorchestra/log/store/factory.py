"""The store that the settings name: SQLite in the workspace's folder, or a schema of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentorchestra.core.errors import SettingsError, WorkspaceNotWritableError
from agentorchestra.core.settings import Settings
from agentorchestra.log.store.sql import SqlStore

if TYPE_CHECKING:
    from agentorchestra.log.store.artifacts import Artifacts


def store_for(settings: Settings, folder: Path) -> SqlStore:
    """Return the store, not yet open. With a database the folder holds files only; it is made here."""
    if settings.database is None:
        if settings.artifacts is not None:
            raise SettingsError(
                "`artifacts` names where machines that share a database keep what they make, and there is no "
                "`database`; leave `artifacts` out: the workspace's folder keeps everything"
            )
        from agentorchestra.log.store.sqlite import SqliteStore

        return SqliteStore(folder, max_bytes=settings.max_bytes)
    if settings.max_bytes is not None:
        raise SettingsError(
            f"max_bytes = {settings.max_bytes} limits the workspace's own database file; with `database` leave it out "
            "and set a limit on the server"
        )
    from agentorchestra.log.store.postgres import PostgresStore

    store = PostgresStore(
        settings.database.get_secret_value(),
        schema=settings.database_schema,
        retry_s=settings.database_retry_s,
        artifacts=artifacts_for(settings, folder),
        lease_s=settings.lease_s,
    )
    _make(folder)
    return store


def artifacts_for(settings: Settings, folder: Path) -> Artifacts | None:
    """Return where the settings keep large artifacts, None for the database."""
    if settings.artifacts is None:
        return None
    from agentorchestra.log.store.artifacts import Artifacts

    cache = folder / "artifacts"
    return Artifacts(settings.artifacts, settings.artifacts_options, cache, retry_s=settings.database_retry_s)


def _make(folder: Path) -> None:
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
            folder.chmod(0o700)
    except OSError as exc:
        raise WorkspaceNotWritableError(
            f"cannot make the workspace's folder {folder} ({exc.strerror or exc}), which keeps its files; "
            "choose another --workspace"
        ) from exc
