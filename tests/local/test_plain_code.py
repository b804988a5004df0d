"""`snapshot: {layout: files}`: the code of a run as plain files in its store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from home import Home
from services.azurite import Azurite
from services.fixtures import azurite as azurite

from gofer.ops.session import Session

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("object-store-runs")]

FILES = {
    "train.py": b"print('first')\n",
    "a folder/\xc3\xbcber uns.txt": b"\xff\x00 odd",
    "a folder/empty": b"",
    "large.bin": b"0123456789abcdef" * (1 << 20) + b"more than one piece",
}


@pytest.fixture(params=["file", "azure"])
def home(home: Home, tmp_path: Path, request: pytest.FixtureRequest, azurite: Azurite) -> Iterator[Home]:
    before = os.umask(0o002)
    store = f"{{url: '{(tmp_path / 'shared disk').as_uri()}'}}"
    (tmp_path / "shared disk").mkdir()
    if request.param == "azure":
        account = azurite.one
        store = f"{{url: az://{account.new_container()}/pre, account: {account.name}, "
        store += f"key: '${{env:DUMMY_KEY}}', endpoint: '{account.endpoint}'}}"
        home.environ["DUMMY_KEY"] = account.key
    targets = "targets:\n  here: {kind: local, store: team}\ntarget: here\n"
    home.configure(f"{targets}stores:\n  team: {store}\nsnapshot:\n  layout: files\n")
    for name, data in FILES.items():
        path = home.folder / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (home.folder / "link").symlink_to("train.py")
    yield home
    os.umask(before)


@pytest.fixture
def plain(home: Home) -> Callable[[str], dict[str, bytes]]:
    """The plain files of a run's code."""

    def read(run: str) -> dict[str, bytes]:
        with Session(home.folder, home.environ, emit=lambda _: None) as session:
            store = session.store("team")
            return {
                one.key.removeprefix(f"code/{run}/"): store.get(one.key) for one in store.list(f"code/{run}")
            }

    return read


def finish(home: Home, *words: str) -> str:
    return home.gofer("submit", "-Q", "--wait", *words).out.strip()


def test_the_files_of_a_run_are_in_the_store_and_go_with_it(
    home: Home, plain: Callable[[str], dict[str, bytes]]
) -> None:
    done = home.gofer("submit", "--wait", "train.py")
    run = done.out.strip()
    assert f"/code/{run}/" in done.err
    found = plain(run)
    assert {name: data for name, data in found.items() if name != "gofer.yaml"} == FILES
    assert json.loads(home.gofer("prune", "--json", "-y", "--older-than", "0s", "--runs").out)
    assert plain(run) == {}


def test_an_array_has_them_once(home: Home, plain: Callable[[str], dict[str, bytes]]) -> None:
    group = finish(home, "--each", "i=1..3", "train.py")
    assert plain(group)["train.py"] == FILES["train.py"]
    assert plain(f"{group}-1") == {}


def test_code_that_was_sent_before_is_as_it_was_sent(
    home: Home, plain: Callable[[str], dict[str, bytes]]
) -> None:
    finish(home, "train.py")
    (home.folder / "train.py").write_text("print('later')\n")
    (home.folder / "large.bin").unlink()
    again = finish(home, "--code", "last", "train.py")
    assert {name: data for name, data in plain(again).items() if name != "gofer.yaml"} == FILES
    assert home.log(again) == "first\n"


def test_without_the_setting_there_are_none(home: Home, plain: Callable[[str], dict[str, bytes]]) -> None:
    text = (home.folder / "gofer.yaml").read_text()
    home.configure(text.replace("layout: files", "layout: packs"))
    assert plain(finish(home, "train.py")) == {}
    home.configure(text.replace("layout: files", "layout: zip"))
    refused = home.gofer("submit", "true", status=2).err
    assert "`snapshot.layout` must be one of `files`, `packs`, not `zip`" in refused
