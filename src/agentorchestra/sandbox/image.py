"""Images: an OCI layout (a folder or a tar), or what `docker save` writes, unpacked without an engine or a registry.

OCI image specification: image-layout, manifest, config, and layer (whiteouts). Nothing in an image is believed: digests
are checked, and no name and no link leads out of the folder that it is unpacked to.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import io
import json
import os
import platform
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agentorchestra.core.errors import ImageError
from agentorchestra.sandbox.machine import HOSTS

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MOST_BYTES = 64 << 30  # of an unpacked image: more is a bomb
_MOST_JSON = 16 << 20
_MOST_LINKS = 40
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True)
class Image:
    path: Path
    digest: str  # SHA-256 of its config, which names all its layers
    layers: tuple[str, ...]  # names in the archive, the lowest first
    contents: tuple[str, ...]  # SHA-256 of each layer, unpacked
    work: str = ""  # where its commands begin, "" for the root
    user: str = ""  # as whom its commands run, "" for root
    environment: Mapping[str, str] = field(default_factory=dict)


class _Archive:
    """The files of an image, in a folder or in a tar."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tar: tarfile.TarFile | None = None
        try:
            if not path.is_dir():
                self._tar = tarfile.open(path)  # noqa: SIM115 - closed by `close`
        except FileNotFoundError:
            raise ImageError(f"the image {str(path)!r} does not exist; give a tar or a folder") from None
        except (OSError, tarfile.TarError, EOFError) as exc:
            raise ImageError(
                f"{str(path)!r} is no image: {str(exc).splitlines()[0]}; make one with `docker save -o FILE NAME`"
            ) from None

    def open(self, name: str) -> IO[bytes]:
        """Open a file by its name; ImageError if it is not there."""
        parts = name.split("/")
        if name.startswith("/") or ".." in parts:
            raise ImageError(f"the image {str(self.path)!r} names a file that leads out of it: {name[:200]!r}")
        with contextlib.suppress(OSError, KeyError, tarfile.TarError):
            if self._tar is None:
                return (self.path / name).open("rb")
            for path in (name, f"./{name}"):
                with contextlib.suppress(KeyError):
                    file = self._tar.extractfile(path)
                    if file is not None:
                        return file
        raise ImageError(
            f"{str(self.path)!r} is no image: it has no {name[:200]!r}; an OCI layout has index.json, "
            "`docker save` writes manifest.json"
        )

    def json(self, name: str) -> Any:
        with self.open(name) as file:
            data = file.read(_MOST_JSON)
        digest = name.removeprefix("blobs/sha256/")
        if digest != name and hashlib.sha256(data).hexdigest() != digest:
            raise ImageError(f"the image {str(self.path)!r} is damaged: {name} does not have the digest of its name")
        try:
            return json.loads(data)
        except ValueError:
            raise ImageError(f"{str(self.path)!r} is no image: {name[:200]!r} is not JSON") from None

    def has(self, name: str) -> bool:
        with contextlib.suppress(ImageError):
            self.open(name).close()
            return True
        return False

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[_Archive]:
    archive = _Archive(path)
    try:
        yield archive
    finally:
        archive.close()


def read_image(path: Path) -> Image:
    """Return what an image says of itself; ImageError for none of this machine. Nothing is unpacked. Blocks."""
    with _archive(path) as archive:
        try:
            if archive.has("index.json"):
                config, layers = _of_layout(archive)
            else:
                (first, *_) = archive.json("manifest.json")
                config, layers = str(first["Config"]), [str(layer) for layer in first["Layers"]]
            about = archive.json(config)
            with archive.open(config) as file:
                digest = hashlib.sha256(file.read(_MOST_JSON)).hexdigest()
            contents = tuple(str(digest).removeprefix("sha256:") for digest in about["rootfs"]["diff_ids"])
            _check_platform(path, str(about.get("os", "linux")), str(about.get("architecture", "")))
            settings = about.get("config") or {}
            environment = dict(pair.partition("=")[::2] for pair in settings.get("Env") or ())
            work, user = str(settings.get("WorkingDir") or ""), str(settings.get("User") or "")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise ImageError(f"{str(path)!r} is no image that can be read: {type(exc).__name__}: {exc}") from None
    if len(contents) != len(layers):
        raise ImageError(f"the image {str(path)!r} is damaged: it has {len(layers)} layers and names {len(contents)}")
    return Image(path, digest, tuple(layers), contents, work, user, environment)


def _of_layout(archive: _Archive) -> tuple[str, list[str]]:
    """Return the names of config and layers of the one image in a layout that fits this machine."""
    manifests = archive.json("index.json")["manifests"]
    seen: list[str] = []
    for _ in range(8):  # an index may name another one
        fitting = [manifest for manifest in manifests if _fits(manifest, seen)]
        if not fitting:
            raise ImageError(
                f"the image {str(archive.path)!r} is for {', '.join(seen) or 'no processor'}, and this machine is "
                f"linux/{_architecture()}; get the image for this one"
            )
        manifest = fitting[0]
        body = archive.json(_blob(manifest["digest"]))
        if "manifests" not in body:
            for layer in body["layers"]:
                if "zstd" in str(layer.get("mediaType", "")):
                    _zstd(archive.path)
            return _blob(body["config"]["digest"]), [_blob(layer["digest"]) for layer in body["layers"]]
        manifests = body["manifests"]
    raise ImageError(f"{str(archive.path)!r} is no image: its indexes name each other")


def _blob(digest: str) -> str:
    kind, _, name = digest.partition(":")
    if kind != "sha256" or len(name) != 64 or not all(char in "0123456789abcdef" for char in name):
        raise ImageError(f"an image names {digest[:100]!r}, which is no SHA-256")
    return f"blobs/sha256/{name}"


def _fits(descriptor: Mapping[str, Any], seen: list[str]) -> bool:
    target = descriptor.get("platform")
    if not target:
        return True
    name = f"{target.get('os', 'linux')}/{target.get('architecture', '')}"
    seen.append(name)
    return name == f"linux/{_architecture()}"


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _check_platform(path: Path, system: str, architecture: str) -> None:
    if (system, architecture) != ("linux", _architecture()):
        raise ImageError(
            f"the image {str(path)!r} is for {system}/{architecture or 'no processor'}, and this machine is "
            f"linux/{_architecture()}; get the image for this one"
        )


def unpack(image: Image, folder: Path, user: int | None) -> Path:
    """Return the root of an image, unpacked below `folder` if it was not; its files belong to `user`. Blocks.

    Raises:
        ImageError: it is damaged, leads out of its root, is too large, or the disk is full.
    """
    target = folder / f"{image.digest}-{user if user is not None else 'own'}"
    if target.is_dir():
        os.utime(target)  # a collection sees that it is in use
        return target
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        path.chmod(0o755)
        _unpack(image, path, user)
        try:
            path.rename(target)
        except OSError:  # another run was faster
            if not target.is_dir():
                raise
    except OSError as exc:
        raise ImageError(f"the image {str(image.path)!r} cannot be unpacked to {str(folder)!r}: {exc}") from None
    finally:
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)
    return target


def _zstd(path: Path) -> Any:
    """Return the library that reads zstd: Python's own from 3.14 on; ImageError where there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise ImageError(
        f"the image {str(path)!r} is packed with zstd, which needs `pip install 'agentorchestra[reading]'`; install "
        "that, or save the image with gzip"
    )


@contextlib.contextmanager
def _plain(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """Give a layer as a plain tar; ImageError for one that is damaged."""
    head = raw.read(4)
    raw.seek(0)
    plain: Any = raw
    errors: tuple[type[Exception], ...] = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error)
    if head.startswith(b"\x1f\x8b"):
        plain = gzip.GzipFile(fileobj=raw)
    elif head == b"\x28\xb5\x2f\xfd":
        library = _zstd(path)
        plain, errors = library.ZstdFile(raw), (*errors, library.ZstdError)
    try:
        yield plain
    except errors as exc:
        raise ImageError(f"the image {str(path)!r} is damaged: {exc}") from None


class _Hashed(io.RawIOBase):
    """A layer as it is read: hashed, and not longer than an image may be."""

    def __init__(self, source: IO[bytes], room: int) -> None:
        self._source, self.digest, self.size, self._room = source, hashlib.sha256(), 0, room

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        self.digest.update(data)
        self.size += len(data)
        if self.size > self._room:
            raise ImageError(f"an image has more than {_MOST_BYTES >> 30} GiB when it is unpacked, which is refused")
        buffer[: len(data)] = data
        return len(data)


def _unpack(image: Image, root: Path, user: int | None) -> None:
    room = _MOST_BYTES
    modes: dict[Path, int] = {}
    with _archive(image.path) as archive:
        for name, content in zip(image.layers, image.contents, strict=True):
            with archive.open(name) as raw, _plain(raw, image.path) as plain:
                reader = _Hashed(plain, room)
                with tarfile.open(fileobj=io.BufferedReader(reader, 1 << 20), mode="r|") as layer:
                    _Layer(root, user, modes, image.path).unpack(layer)
                while reader.read(1 << 20):
                    pass
            if reader.digest.hexdigest() != content:
                raise ImageError(f"the image {str(image.path)!r} is damaged: {name} is not what its config names")
            room -= reader.size
    _name_this_host(root, user)
    for path, mode in sorted(modes.items(), key=lambda entry: len(entry[0].parts), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.chmod(mode)


def _name_this_host(root: Path, user: int | None) -> None:
    """Write /etc/hosts, which an engine writes when it starts an image: without it nobody knows `localhost`."""
    folder = root / "etc"
    hosts = folder / "hosts"
    if folder.is_symlink() or not folder.is_dir():
        return
    if os.path.lexists(hosts) and (hosts.is_symlink() or not hosts.is_file() or hosts.stat().st_size):
        return
    hosts.write_text(HOSTS)
    hosts.chmod(0o644)
    if user is not None:
        os.chown(hosts, user, user)


class _Layer:
    """One layer on its way into the root, in which nobody else works meanwhile."""

    def __init__(self, root: Path, user: int | None, modes: dict[Path, int], source: Path) -> None:
        self._root, self._user, self._modes, self._source = root, user, modes, source
        self._made: set[Path] = set()

    def unpack(self, layer: tarfile.TarFile) -> None:
        for member in layer:
            parts = self._parts(member.name)
            if not parts:
                continue
            *above, name = parts
            folder = self._folder(above)
            if name == _OPAQUE:
                for path in folder.iterdir():
                    if path not in self._made:
                        _remove(path)
            elif name.startswith(_WHITEOUT):
                if name[len(_WHITEOUT) :] in ("", ".", ".."):
                    raise self._outside(member.name)
                _remove(folder / name[len(_WHITEOUT) :])
            else:
                self._put(layer, member, folder / name)

    def _put(self, layer: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        mode = stat.S_IMODE(member.mode)
        if not (member.isdir() and path.is_dir() and not path.is_symlink()):
            target = self._target(member) if member.islnk() else None
            if target == path:
                return
            _remove(path)
            if member.isdir():
                path.mkdir(mode=0o700)
            elif member.isreg():
                source = layer.extractfile(member)
                assert source is not None
                with path.open("xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                path.chmod(mode)
                os.utime(path, (member.mtime, member.mtime))
            elif member.issym():
                path.symlink_to(member.linkname)
            elif target is not None:
                os.link(target, path, follow_symlinks=False)
            elif member.isfifo():
                os.mkfifo(path, mode)
            else:
                return  # a device: the machine has those that commands need
        if member.isdir():
            self._modes[path] = mode
        self._made.add(path)
        if self._user is not None:
            os.chown(path, self._user, self._user, follow_symlinks=False)
            if not path.is_symlink() and member.isreg():
                path.chmod(mode)  # a new owner takes some rights away

    def _target(self, member: tarfile.TarInfo) -> Path:
        parts = self._parts(member.linkname)
        if not parts:
            raise self._outside(member.linkname)
        target = self._folder(parts[:-1]) / parts[-1]
        if not os.path.lexists(target):
            raise ImageError(
                f"the image {str(self._source)!r} is damaged: {member.name[:200]!r} is another name of "
                f"{member.linkname[:200]!r}, which it does not have"
            )
        return target

    def _parts(self, name: str) -> list[str]:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise self._outside(name)
        return parts

    def _outside(self, name: str) -> ImageError:
        return ImageError(f"the image {str(self._source)!r} is refused: {name[:200]!r} leads out of its root")

    def _folder(self, parts: list[str]) -> Path:
        """Return a folder of the image, made if it is not there; links in it lead within the root only."""
        todo, at, links = [*reversed(parts)], self._root, 0
        while todo:
            part = todo.pop()
            if part == "..":
                at = at if at == self._root else at.parent
                continue
            path = at / part
            if path.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise ImageError(f"the image {str(self._source)!r} is refused: its links lead in a circle")
                target = str(path.readlink())
                at = self._root if target.startswith("/") else at
                todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
                continue
            if not path.is_dir():
                _remove(path)
                path.mkdir(mode=0o755)
                self._made.add(path)
                if self._user is not None:
                    os.chown(path, self._user, self._user)
            at = path
        return at


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
