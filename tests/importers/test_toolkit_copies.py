"""Data that a job of the toolkit's first format had copied to the node: folders, and their old paths."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from subprocess import CompletedProcess
from uuid import uuid4

import pytest
from unit.importers.printed import TOOLKIT_1
from unit.importers.shop import Shop, fates, tree


@pytest.mark.parametrize(
    ("subdirs", "folders"),
    [
        ("voc; coco", {"voc": "me/data/voc", "coco": "me/data/coco"}),
        (
            "train/images;val/images",
            {"train-images": "me/data/train/images", "val-images": "me/data/val/images"},
        ),
        (
            "a/b;c/b;a-b;a-b",
            {"a-b-2": "me/data/a/b", "c-b": "me/data/c/b", "a-b": "me/data/a-b"},
        ),
        ("x/y/im;x-y/im", {"x-y-im": "me/data/x/y/im", "x-y-im-2": "me/data/x-y/im"}),
        ("", {"data": "me/data"}),
    ],
)
def test_every_copied_folder_has_a_name_of_its_own(shop: Shop, subdirs: str, folders: dict[str, str]) -> None:
    shop.put("job.json", TOOLKIT_1.replace("voc; coco", subdirs))
    plan = shop.plan("job.json")
    found = tree(plan)["targets"]["msrresrchvc"]["folders"]
    assert {name: one["path"] for name, one in found.items()} == folders
    assert {one["mode"] for one in found.values()} == {"copy"}
    why = fates(plan)["experiment.data_subdir" if subdirs else "experiment.data_dir"].why
    assert [f"`{path}` is `./{name}`" in why for name, path in folders.items()] == [True] * len(folders)


@pytest.fixture
def data_name() -> Iterator[str]:
    """A name that nobody has below /tmp, which is where the toolkit puts data."""
    name = f"gofer test's {uuid4().hex}"
    yield name
    place = Path("/tmp", name)
    if place.is_symlink():
        place.unlink()
    else:
        rmtree(place, ignore_errors=True)


@pytest.mark.parametrize(
    ("subdirs", "folder", "was"),
    [("", None, ""), ("voc; train/images", "voc", "voc"), ("a/images;b/images", "b-images", "b/images")],
)
def test_the_paths_that_data_had_lead_to_it(
    shop: Shop, data_name: str, subdirs: str, folder: str | None, was: str
) -> None:
    shop.put("job.json", TOOLKIT_1.replace("me/data", f"me/{data_name}").replace("voc; coco", subdirs))
    plan = shop.plan("job.json")
    folders = tree(plan)["targets"]["msrresrchvc"]["folders"]
    setup = tree(plan, "first-try.yaml")["setup"].partition("pip install")[0]
    assert f"`/tmp/{data_name}" in fates(plan)["experiment.data_dir"].why
    there, elsewhere = shop.folder / "there", shop.folder / "elsewhere"
    for code in (there, elsewhere):
        for name in folders:
            (code / name).mkdir(parents=True)

    def prepare(code: Path) -> CompletedProcess[str]:
        argv = ["bash", "-euo", "pipefail", "-c", setup]
        return subprocess.run(argv, cwd=code, capture_output=True, text=True, timeout=30, check=False)

    assert [prepare(there).returncode for _ in range(2)] == [0, 0]
    mine = there / (folder or next(iter(folders)))
    (mine / "a.txt").write_text("x")
    assert Path("/tmp", data_name, was, "a.txt").read_text() == "x"
    # Another run with other data on the same machine must not be given these.
    refused = prepare(elsewhere)
    assert refused.returncode == 1
    assert "is something else here: name ./" in refused.stderr
    rmtree(there)
    assert prepare(elsewhere).returncode == 0


def test_data_that_was_not_copied_needs_no_path(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1.replace('"copy_data": true', '"copy_data": false'))
    assert tree(shop.plan("job.json"), "first-try.yaml")["setup"].startswith("pip install")


def test_without_a_folder_of_data_none_was_copied(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1.replace("me/data", ""))
    plan = shop.plan("job.json")
    assert "folders" not in tree(plan)["targets"]["msrresrchvc"]
    assert fates(plan)["experiment.data_subdir"].why == "no data was copied"
