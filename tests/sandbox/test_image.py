"""Images that are read and unpacked without an engine: every form, every kind of entry, every refusal."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ImageError
from agentorchestra.sandbox.ground import IMAGE_USER
from agentorchestra.sandbox.image import read_image, unpack
from tests.sandbox.images import Change, add, second, write_image

OWNER = IMAGE_USER if os.geteuid() == 0 else None


def lower(tar: tarfile.TarFile) -> None:
    add(tar, "usr/lib", type=tarfile.DIRTYPE, mode=0o755)
    add(tar, "lib", type=tarfile.SYMTYPE, linkname="/usr/lib")
    add(tar, "etc/motd", b"motd")
    add(tar, "app/lost.txt", b"lost")
    add(tar, "app/old/x", b"x")
    add(tar, "app/closed", type=tarfile.DIRTYPE, mode=0o500)
    add(tar, "app/closed/in", b"in", mode=0o640)
    add(tar, "tmp", type=tarfile.DIRTYPE, mode=0o1777)
    add(tar, "dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)


@pytest.mark.parametrize("form", ["layout", "layout.tar", "docker.tar"])
def test_every_form_and_every_kind_of_entry(form: str, tmp_path: Path) -> None:
    image = read_image(write_image(tmp_path / "image", (lower, second), form=form))
    assert (image.work, image.user, image.environment) == ("/app", "", {"GREETING": "hello"})
    root = unpack(image, tmp_path / "images", OWNER)
    app = root / "app"
    assert sorted(one.name for one in app.iterdir()) == ["closed", "motd", "old", "run.sh", "same.sh"]
    assert [one.name for one in (app / "old").iterdir()] == ["y"]
    assert (root / "usr/lib/through-a-link").read_text() == "usr/lib\n" and (root / "lib").is_symlink()
    assert str((app / "motd").readlink()) == "/etc/motd" and not (root / "dev/null").exists()
    assert (app / "run.sh").samefile(app / "same.sh") and (app / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert [one.stat().st_mode & 0o7777 for one in (root / "tmp", app / "closed", app / "closed/in")] == [
        0o1777,
        0o500,
        0o640,
    ]
    if OWNER is not None:
        assert {one.lstat().st_uid for one in (root / "lib", app, app / "old/y", root / "etc")} == {OWNER}
    assert unpack(image, tmp_path / "images", OWNER) == root
    assert [one.name for one in (tmp_path / "images").iterdir()] == [root.name]
    assert (tmp_path / "images").stat().st_mode & 0o777 == 0o700


def test_layers_packed_with_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zstd = pytest.importorskip("backports.zstd", reason="needs pip install 'agentorchestra[reading]'")
    folder = write_image(tmp_path / "image", (lower, second), pack=zstd.compress)
    image = read_image(folder)
    assert (unpack(image, tmp_path / "images", OWNER) / "app/run.sh").read_bytes().startswith(b"#!")
    (folder / image.layers[1]).write_bytes((folder / image.layers[1]).read_bytes()[:-9] + b"damaged!!")
    with pytest.raises(ImageError, match="is damaged"):
        unpack(image, tmp_path / "others", OWNER)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(ImageError, match=r"packed with zstd, which needs `pip install 'agentorchestra\[reading\]'`"):
        unpack(image, tmp_path / "others", OWNER)


def _leads_out(**entry: Any) -> Change:
    def change(tar: tarfile.TarFile) -> None:
        add(tar, "up", type=tarfile.SYMTYPE, linkname="../../../..")
        add(tar, **entry)

    return change


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "../outside"},
        {"name": "/outside"},
        {"name": "a/../../outside"},
        {"name": "a/.wh..."},
        {"name": "a", "type": tarfile.LNKTYPE, "linkname": "../outside"},
        {"name": "a", "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"},
    ],
    ids=str,
)
def test_what_leads_out_of_the_root_is_refused(entry: dict[str, Any], tmp_path: Path) -> None:
    image = read_image(write_image(tmp_path / "image", (_leads_out(**entry),)))
    with pytest.raises(ImageError, match=r"is refused: .* leads out of its root"):
        unpack(image, tmp_path / "images", OWNER)
    assert [*(tmp_path / "images").iterdir()] == [] and not (tmp_path / "outside").exists()


def test_links_of_an_image_lead_within_it(tmp_path: Path) -> None:
    image = read_image(write_image(tmp_path / "image", (_leads_out(name="up/found", data=b"inside"),)))
    root = unpack(image, tmp_path / "images", OWNER)
    assert (root / "found").read_text() == "inside"

    def circle(tar: tarfile.TarFile) -> None:
        add(tar, "a", type=tarfile.SYMTYPE, linkname="b")
        add(tar, "b", type=tarfile.SYMTYPE, linkname="a")
        add(tar, "a/file")

    with pytest.raises(ImageError, match="its links lead in a circle"):
        unpack(read_image(write_image(tmp_path / "circle", (circle,))), tmp_path / "images", OWNER)


def test_what_is_no_image_for_this_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"'/nowhere/x.tar' does not exist; give a tar or a folder"):
        read_image(Path("/nowhere/x.tar"))
    (tmp_path / "text").write_text("no image")
    with pytest.raises(ImageError, match=r"is no image: .*; make one with `docker save -o FILE NAME`"):
        read_image(tmp_path / "text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImageError, match=r"it has no 'manifest.json'; an OCI layout has index.json"):
        read_image(tmp_path / "empty")
    other = write_image(tmp_path / "other", (lower,), architecture="s390x")
    with pytest.raises(ImageError, match=r"is for linux/s390x, and this machine is linux/.*; get the image for"):
        read_image(other)
    index = tmp_path / "other/index.json"
    listed = json.loads(index.read_text())
    listed["manifests"][0]["platform"] = {"os": "linux", "architecture": "riscv64"}
    index.write_text(json.dumps(listed))
    with pytest.raises(ImageError, match="is for linux/riscv64, and this machine"):
        read_image(other)


def test_a_damaged_image_is_refused(tmp_path: Path) -> None:
    folder = write_image(tmp_path / "image", (lower, second))
    image = read_image(folder)
    (folder / image.layers[1]).write_bytes((folder / image.layers[0]).read_bytes())
    with pytest.raises(ImageError, match=r"is damaged: .* is not what its config names"):
        unpack(image, tmp_path / "images", OWNER)
    (folder / image.layers[1]).write_bytes((folder / image.layers[0]).read_bytes()[:200])
    with pytest.raises(ImageError, match="is damaged"):
        unpack(image, tmp_path / "images", OWNER)
    config = next(one for one in (folder / "blobs/sha256").iterdir() if b"diff_ids" in one.read_bytes())
    config.write_bytes(config.read_bytes() + b" ")
    with pytest.raises(ImageError, match="does not have the digest of its name"):
        read_image(folder)
