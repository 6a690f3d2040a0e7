"""Images for tests, made of programs of this machine: an OCI layout, a tar of one, and what `docker save` writes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAMS = ("bash", "cat", "chmod", "id", "ln", "ls", "mkdir", "mv", "rm", "stat", "touch", "head", "readlink", "sleep")
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

Change = Callable[[tarfile.TarFile], None]


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", **more: Any) -> None:
    """Add an entry; `type`, `linkname` and `mode` as of tarfile.TarInfo."""
    info = tarfile.TarInfo(name)
    info.mode, info.size = more.pop("mode", 0o644), len(data)
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def system(tar: tarfile.TarFile) -> None:
    """Add a small system: a shell, a few programs, what they are linked with."""
    for folder in ("usr", "usr/bin", "usr/lib", "etc", "app", "root", "tmp", "dev", "proc", "run"):
        add(tar, folder, type=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
    for link, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        add(tar, link, type=tarfile.SYMTYPE, linkname=target)
    for name in PROGRAMS:
        path = shutil.which(name)
        assert path is not None
        tar.add(Path(path).resolve(), f"usr/bin/{name}")
    libraries(tar, [Path(str(shutil.which(name))) for name in PROGRAMS])
    add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/bash\nworker:x:1000:1000::/home/worker:/bin/bash\n")
    add(tar, "etc/motd", b"from the image\n")
    add(tar, "etc/os-release", b'NAME="Small"\n')
    add(tar, "app/task.txt", b"solve it\n")
    add(tar, "app/lost.txt", b"of a lower layer\n")
    add(tar, "app/old/x", b"hidden by an opaque folder\n")


def libraries(tar: tarfile.TarFile, programs: Sequence[Path]) -> None:
    """Add what programs are linked with."""
    linked = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    for one in sorted({one for one in re.findall(r"(/\S+)", linked) if not one.endswith(":") and Path(one).exists()}):
        tar.add(Path(one).resolve(), f"usr{one}" if one.startswith("/lib") else one.lstrip("/"))


def second(tar: tarfile.TarFile) -> None:
    """Add a layer with every kind of entry: a whiteout, an opaque folder, links, a mode."""
    add(tar, "app/.wh.lost.txt")
    add(tar, "app/old", type=tarfile.DIRTYPE, mode=0o755)
    add(tar, "app/old/y", b"of the upper layer\n")
    add(tar, "app/old/.wh..wh..opq")
    add(tar, "app/run.sh", b"#!/bin/bash\ncat /etc/motd\n", mode=0o755)
    add(tar, "app/same.sh", type=tarfile.LNKTYPE, linkname="app/run.sh")
    add(tar, "app/motd", type=tarfile.SYMTYPE, linkname="/etc/motd")
    add(tar, "lib/through-a-link", b"usr/lib\n")


def layer(change: Change) -> bytes:
    """The tar of a layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        change(tar)
    return out.getvalue()


def write_image(
    folder: Path,
    changes: Sequence[Change] = (system, second),
    *,
    form: str = "layout",
    pack: Callable[[bytes], bytes] = gzip.compress,
    **about: Any,
) -> Path:
    """Write an image and return its path.

    Args:
        folder: where it is written.
        changes: what its layers hold.
        form: `layout` (a folder), `layout.tar`, or `docker.tar`.
        pack: packs a layer of a layout.
        about: what its config has besides; `architecture`, `config`.
    """
    layers = [layer(one) for one in changes]
    config: Mapping[str, Any] = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"WorkingDir": "/app", "Env": ["GREETING=hello"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
        **about,
    }
    files: dict[str, bytes] = {}

    def blob(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), "mediaType": "application/octet-stream"}

    written = json.dumps(config).encode()
    if form == "docker.tar":
        files["config.json"] = written
        for number, one in enumerate(layers):
            files[f"{number}/layer.tar"] = one
        names = [f"{number}/layer.tar" for number in range(len(layers))]
        files["manifest.json"] = json.dumps([{"Config": "config.json", "RepoTags": None, "Layers": names}]).encode()
    else:
        manifest = {"schemaVersion": 2, "config": blob(written), "layers": [blob(pack(one)) for one in layers]}
        files["index.json"] = json.dumps({"manifests": [blob(json.dumps(manifest).encode())]}).encode()
        files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    if form == "layout":
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder
    path = folder / form
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            add(tar, name, data)
    return path
