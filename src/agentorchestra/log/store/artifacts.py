"""Large blobs in a bucket of an S3-compatible store, for machines that share a database and no folder.

`PREFIX/ab/<sha256>` holds the bytes; `PREFIX/owner` names the one database whose they are. What was written or read
once lies in the workspace's folder too, so that it is read again without a request.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import itertools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agentorchestra.core.errors import (
    ArtifactsError,
    ArtifactsUnavailableError,
    MissingExtraError,
    OtherArtifactsError,
    SettingsError,
    StoreError,
)
from agentorchestra.core.settings import ArtifactsOptions
from agentorchestra.log.store.blobs import check_hash
from agentorchestra.log.store.patience import Patience

T = TypeVar("T")

CACHE_BYTES = 2 << 30  # the most that the copies in the workspace's folder take; the longest unused go first
_SHARE = 0.75  # the part of them that stays when there are too many

_OWNER = "owner"
_CONNECT_S, _ANSWER_S = 10, 60
_PREFIX = re.compile(r"[A-Za-z0-9._=/-]*")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_AGAIN = frozenset({errno.EBUSY, errno.EREMOTEIO})
"""Answers of a store that may be other ones in a moment, as s3fs calls them: 409, 500, 503."""

_COUNTER = itertools.count()

_log = logging.getLogger("agentorchestra.store")


class Artifacts:
    """The objects below one address; usable from any thread. Requests are made when bytes are needed.

    Args:
        address: `s3://bucket/prefix`.
        options: how the store is reached. Keys come from where every program for S3 has them: the environment, or the
            profile in ~/.aws.
        cache: the folder of the copies.
        retry_s: how long a request waits for a store that is away, in seconds.

    Attributes:
        address: as it was given, without a last slash.
        owner: names the database; "" for one that has no place for its artifacts yet.
        secrets: the keys in use, which must not reach the log, by name.

    Raises:
        SettingsError, MissingExtraError.
    """

    def __init__(self, address: str, options: ArtifactsOptions, cache: Path, *, retry_s: float) -> None:
        self.address = _check_address(address)
        self.owner = ""
        names = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        self.secrets = {name: os.environ[name] for name in names if os.environ.get(name)}
        self._options = _checked_options(options)
        self._root = self.address.removeprefix("s3://")
        self._cache = _Cache(cache)
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._system: Any = None
        self._ours = False
        if importlib.util.find_spec("s3fs") is None:
            raise MissingExtraError(
                f"artifacts = {self.address!r} needs the extra s3, which is not installed; install it with "
                "`pip install 'agentorchestra[s3]'`, or leave `artifacts` out to keep them in the database"
            )

    # --- blobs -----------------------------------------------------------------------------------

    def write(self, sha256: str, data: bytes, *, exists: bool) -> None:
        """Keep the bytes; they are durable when this returns. Those that may exist are looked for first."""
        if not exists or self._size(sha256) != len(data):
            self._do(lambda fs: fs.pipe_file(self._path(sha256), data))
        self._cache.put(sha256, data)

    def read(self, sha256: str, *, anew: bool = False) -> bytes:
        """Return the bytes, `anew` without the copy; StoreError if they are missing or not those of the name."""
        copy = None if anew else self._cache.get(sha256)
        if copy is not None:
            return copy
        place = f"{self.address}/{sha256[:2]}/{sha256}"
        try:
            data: bytes = self._do(lambda fs: fs.cat_file(self._path(sha256), max_concurrency=1))
        except FileNotFoundError as exc:
            raise StoreError(
                f"the workspace refers to the blob {sha256}, but there is no object {place}; restore it from a backup"
            ) from exc
        check_hash(sha256, data, place)
        self._cache.put(sha256, data)
        return data

    def names(self) -> Iterator[tuple[str, float, int]]:
        """Yield every object's hash, the time it was last written (s since 1970), and its size."""
        for path, about in self._do(lambda fs: fs.find(self._root, detail=True)).items():
            name = path.rpartition("/")[2]
            if path == self._path(name):
                yield name, about["LastModified"].timestamp(), int(about["size"])

    def remove(self, sha256: str, *, before: float) -> bool:
        """Remove an object that was last written before a time (s since 1970); return True if it is gone."""
        try:
            about = self._do(lambda fs: fs.info(self._path(sha256)))
            if about["LastModified"].timestamp() > before:
                return False
            self._do(lambda fs: fs.rm_file(self._path(sha256)))
        except FileNotFoundError:
            pass
        self._cache.drop(sha256)
        return True

    def check(self) -> None:
        """Ask for the owner's name.

        Raises:
            ArtifactsError: if there is no such bucket, or it is not open to these keys.
            ArtifactsUnavailableError: if it does not answer.
            OtherArtifactsError: if the artifacts there are another database's.
        """
        owner = self._found_owner()
        if owner and owner != self.owner:
            raise self._owner_error()

    # --- requests --------------------------------------------------------------------------------

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def _size(self, sha256: str) -> int | None:
        try:
            return int(self._do(lambda fs: fs.info(self._path(sha256)))["size"])
        except FileNotFoundError:
            return None

    def _found_owner(self) -> str:
        try:
            data: bytes = self._do(lambda fs: fs.cat_file(f"{self._root}/{_OWNER}", max_concurrency=1), claim=False)
        except FileNotFoundError:
            return ""
        return data.decode("utf-8", "replace")

    def _claim(self) -> None:
        """Write the owner's name where there is none; two databases below one address would remove each other's."""
        owner = self._found_owner()
        if not owner:
            self._do(lambda fs: fs.pipe_file(f"{self._root}/{_OWNER}", self.owner.encode()), claim=False)
            owner = self._found_owner()
        if owner != self.owner:
            raise self._owner_error()
        self._ours = True

    def _owner_error(self) -> OtherArtifactsError:
        return OtherArtifactsError(
            f"{self.address} holds the artifacts of another database; give each database a prefix of its own in "
            "`artifacts`"
        )

    def _do(self, request: Callable[[Any], T], *, claim: bool = True) -> T:
        """Make a request, again and again while the store is away; FileNotFoundError only for an object."""
        if claim and not self._ours:
            self._claim()
        patience = Patience(self._retry_s)
        while True:
            try:
                return request(self._file_system())
            except Exception as exc:
                if not _is_away(exc):
                    if isinstance(exc, FileNotFoundError) and _code(exc) != "NoSuchBucket":
                        raise
                    raise self._meaning(exc) from exc
                if not patience.wait(lambda exc=exc: self._say_away(exc)):  # type: ignore[misc]
                    raise ArtifactsUnavailableError(
                        f"the artifacts at {self._display} have been away for {self._retry_s:g} s ({_reason(exc)}); "
                        "what was recorded before is safe. When they are back, resume the run"
                    ) from exc

    def _file_system(self) -> Any:
        with self._lock:
            if self._system is None:
                import fsspec
                from fsspec.asyn import sync

                arguments = {"region_name": self._options.region, "endpoint_url": self._options.endpoint}
                system = fsspec.filesystem(
                    "s3",
                    skip_instance_cache=True,
                    use_listings_cache=False,
                    client_kwargs={name: value for name, value in arguments.items() if value},
                    # Who waits, and for how long, is decided in `_do` alone.
                    config_kwargs={
                        "connect_timeout": _CONNECT_S,
                        "read_timeout": _ANSWER_S,
                        "retries": {"total_max_attempts": 1},
                    },
                    **({"profile": self._options.profile} if self._options.profile else {}),
                )
                system.retries = 1
                system.connect()
                keys = sync(system.loop, system.session.get_credentials)
                if keys is not None:
                    frozen = sync(system.loop, keys.get_frozen_credentials)
                    secrets = {"AWS_SECRET_ACCESS_KEY": frozen.secret_key, "AWS_SESSION_TOKEN": frozen.token}
                    self.secrets.update((name, value) for name, value in secrets.items() if value)
                self._system = system
            return self._system

    @property
    def _display(self) -> str:
        endpoint = self._options.endpoint
        return f"{self.address} ({endpoint})" if endpoint else self.address

    def _say_away(self, exc: BaseException) -> None:
        _log.warning(
            "the artifacts at %s do not answer (%s); trying again for %g s", self._display, _reason(exc), self._retry_s
        )

    def _meaning(self, exc: Exception) -> ArtifactsError:
        reason = _reason(exc)
        if _code(exc) == "NoSuchBucket":
            hint = "there is no such bucket; make it, or correct `artifacts`"
        elif isinstance(exc, PermissionError):
            hint = (
                f"the store refuses these keys ({reason}); they need the rights to list the bucket and to get, put and "
                "delete objects below the prefix"
            )
        elif type(exc).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
            hint = f"no keys were found ({reason}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
        else:
            hint = f"the store refused a request ({reason}); correct `artifacts` or `artifacts_options`"
        return ArtifactsError(f"the artifacts at {self._display} cannot be used: {hint}")


def _check_address(address: str) -> str:
    """Return an address without its last slash; SettingsError for one that is none."""
    scheme, separator, rest = address.partition("://")
    if not separator or scheme != "s3":
        # Whatever stands there may hold a key: only the scheme is repeated.
        text = f"{scheme[:20]}://" if separator else "no scheme"
        raise SettingsError(
            f"artifacts begins with {text}; give s3://bucket/prefix, or leave it out to keep artifacts in the "
            "database. A folder that all machines share is named with --workspace"
        )
    bucket, _, prefix = rest.rstrip("/").partition("/")
    parts = prefix.split("/") if prefix else []
    if not _BUCKET.fullmatch(bucket) or not _PREFIX.fullmatch(prefix) or not all(part.strip(".") for part in parts):
        raise SettingsError(
            "artifacts is no address of a bucket and a prefix; write s3://bucket/prefix with letters, digits and "
            ". _ = - only. Keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return f"s3://{rest.rstrip('/')}"


def _checked_options(options: ArtifactsOptions) -> ArtifactsOptions:
    if options.endpoint:
        parts = urlsplit(options.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in options.endpoint:
            raise SettingsError(
                "artifacts_options.endpoint is no address of a server; write https://host:9000, without keys"
            )
    return options


def _code(exc: BaseException) -> str:
    """Return the store's own word for an error, "" where it did not answer."""
    response = getattr(exc.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _is_away(exc: Exception) -> bool:
    """Return True if a request may succeed in a moment."""
    if isinstance(exc, TimeoutError | ConnectionError):
        return True
    if isinstance(exc, OSError) and (exc.errno in _AGAIN or _code(exc) in ("502", "504")):
        return True
    from botocore.exceptions import ConnectionError as NotConnectedError
    from s3fs.core import S3_RETRYABLE_ERRORS

    return isinstance(exc, (NotConnectedError, *S3_RETRYABLE_ERRORS))


def _reason(exc: BaseException) -> str:
    text = str(getattr(exc, "strerror", None) or exc).strip()
    return text.splitlines()[0][:300] if text else type(exc).__name__


class _Cache:
    """Copies of objects in a folder; what cannot be written or is damaged is read from the store again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size: int | None = None  # in bytes, once it was looked at
        self._lock = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        path = self._folder / sha256
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
        self.drop(sha256)
        return None

    def put(self, sha256: str, data: bytes) -> None:
        path = self._folder / sha256
        if path.exists():
            return
        temporary = self._folder / f"{sha256}.{os.getpid()}.{next(_COUNTER)}"
        with suppress(OSError):  # a full disk, a folder that cannot be written: it goes without copies
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                temporary.write_bytes(data)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            self._trim(len(data))

    def drop(self, sha256: str) -> None:
        with suppress(OSError):
            (self._folder / sha256).unlink(missing_ok=True)

    def _trim(self, added: int) -> None:
        with self._lock:
            if self._size is not None and self._size + added <= CACHE_BYTES:
                self._size += added
                return
            entries = []
            for path in self._folder.iterdir():
                with suppress(FileNotFoundError):
                    about = path.stat()
                    entries.append((about.st_mtime, about.st_size, path))
            self._size = sum(size for _, size, _ in entries)
            if self._size <= CACHE_BYTES:
                return
            for _, size, path in sorted(entries):
                if self._size <= CACHE_BYTES * _SHARE:
                    break
                path.unlink(missing_ok=True)
                self._size -= size


__all__ = ["CACHE_BYTES", "Artifacts"]
