"""A run on Slurm that writes more than `keep`: its working copy stays on the site until `prune` takes it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import SshHosts
from home import Home
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM
WRITES = (
    "mkdir -p ck empty outputs; head -c 3000 /dev/zero > ck/big; ln -s ck/big last; echo o > outputs/o; "
    "echo more >> train.txt; echo s > .env"
)
FILES = ["ck/big", "last", "outputs/o", "train.txt"]


def prunable(home: Home, *words: str) -> list[dict[str, Any]]:
    answer = json.loads(home.gofer("prune", "--json", *words).out)
    return [one for one in answer["items"] if one["kind"] == "working copy"]


def age(copy: Path, days: float) -> None:
    at = time.time() - days * 86400
    os.utime(copy, (at, at))


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def check_fetched(folder: Path) -> None:
    files = folder / "files"
    assert files_of(files) == FILES and (files / "empty").is_dir()
    assert os.readlink(files / "last") == "ck/big" and (files / "ck/big").stat().st_size == 3000
    assert (files / "train.txt").read_text() == "code\nmore\n"


def test_the_copy_stays_is_fetched_and_goes_after_two_weeks(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    (home.folder / "train.txt").write_text("code\n")
    done = home.gofer("submit", "--wait", "--keep", "2k", "sh", "-c", WRITES)
    run = home.view("last")
    (copy,) = (home.far / "slurm" / "kept").iterdir()
    assert run["came_home"]["copies"] == [{"node": 0, "path": str(copy)}]
    name = run["short_id"]
    assert done.err.splitlines()[-1].endswith(
        f"`gofer extract {name} DIR`; more than `keep` allows stays on node 0 in {copy}"
    )
    log = home.log(run["id"])
    stays = f"beside the code than `keep` allows; the working copy stays in {copy}\n"
    assert log.startswith("gofer: ") and log.endswith(stays) and log.count("\n") == 1
    home.gofer("extract", name, str(tmp_path / "out"))
    check_fetched(tmp_path / "out")

    age(copy, 13)
    assert prunable(home, "--dry-run") == []
    age(copy, 15)
    (item,) = prunable(home, "--dry-run")
    assert (item["name"], item["removed"]) == (copy.name, False) and copy.exists()
    shown = home.gofer("prune", "--dry-run").out
    assert "working copy" in shown and "its run wrote more than `keep` allows" in shown
    (item,) = prunable(home, "-y")
    assert item["removed"] and not copy.exists() and prunable(home, "-y") == []

    left = home.gofer("extract", name, str(tmp_path / "later"), status=1)
    assert left.err.splitlines()[-1] == (
        f"error: files did not come: the working copy of node 0 in {copy} cannot be fetched: it is not on "
        "this machine, or it was removed, by hand or by `gofer prune`, which does so after 14 days"
    )
    assert files_of(tmp_path / "later" / "files") == ["outputs/o"]


def test_the_next_attempt_begins_with_the_copy(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    script = "cat n 2>/dev/null; echo step >> n; head -c 3000 /dev/zero > big; [ $GOFER_ATTEMPT = 2 ]"
    words = ["submit", "-Q", "--no-code", "--wait", "--keep", "2k", "--retries", "1", "sh", "-c", script]
    run = home.gofer(*words).out.strip()
    assert home.log(run).startswith("step\ngofer: ")
    copies = {path.name: (path / "n").read_text() for path in (home.far / "slurm" / "kept").iterdir()}
    assert copies[f"{run}.2.0"] == "step\nstep\n"


def test_the_rows_of_a_group_keep_so_much_together(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    home.environ |= {"GOFER_KEEP": "4k", "GOFER_KEEP_GROUP": "7k"}
    words = ["--each", "x=1..4", "sh", "-c", "head -c 3000 /dev/zero > big"]
    group = home.gofer("submit", "-Q", "--wait", *words).out.strip()
    assert len(list((home.far / "slurm" / "kept").iterdir())) == 2
    home.gofer("extract", group, str(tmp_path / "out"))
    sizes = [(tmp_path / "out" / str(row) / "files" / "big").stat().st_size for row in range(4)]
    assert sizes == [3000] * 4


def home_of_a_laptop(root: Path, login: SshHosts, store: str) -> Home:
    """A home that reaches the site over SSH alone; `store` is the entry of its store, or empty."""
    home = Home(root)
    home.environ["PATH"] = f"{login.bin}:{home.environ['PATH']}"
    home.environ.pop("SLURM_CONF", None)
    options = (
        f"kind: slurm, login: login, gpus_per_node: 4, scratch: {root}{', store: blob' if store else ''}"
    )
    stores = f"stores: {{blob: {{{store}}}}}\n" if store else ""
    home.configure(f"targets:\n  lab: {{{options}}}\n{stores}target: lab\n")
    (home.folder / "train.txt").write_text("code\n")
    return home


def test_the_copy_of_a_site_behind_a_login_node(tmp_path: Path, slurm: Slurm, slurm_login: SshHosts) -> None:
    """The copy goes with its run, whatever its age."""
    home = home_of_a_laptop(tmp_path, slurm_login, "")
    home.gofer("submit", "--wait", "--keep", "2k", "sh", "-c", WRITES)
    run = home.view("last")
    home.gofer("extract", run["id"], str(tmp_path / "out"))
    check_fetched(tmp_path / "out")
    (copy,) = (slurm_login.machines["login"].home / ".gofer" / "slurm" / "kept").glob(f"{run['id']}.*")
    assert prunable(home, "-y", "--older-than", "0s") == [] and copy.exists()
    (item,) = prunable(home, "-y", "--older-than", "0s", "--runs")
    assert (item["removed"], item["why"]) == (True, "its run is being removed") and not copy.exists()


@pytest.mark.net
def test_the_copy_is_fetched_where_the_store_is_elsewhere(
    tmp_path: Path, slurm: Slurm, slurm_login: SshHosts, azurite: Azurite
) -> None:
    """The store is no folder of the site, and so does not say which machine has the copy."""
    account = azurite.one
    values = {"url": f"az://{account.new_container()}/pre", "account": account.name}
    values |= {"key": "${env:DUMMY_KEY}", "endpoint": account.endpoint}
    store = ", ".join(f"{name}: '{value}'" for name, value in values.items())
    home = home_of_a_laptop(tmp_path, slurm_login, store)
    home.environ["DUMMY_KEY"] = account.key
    home.gofer("submit", "-Q", "--keep", "2k", "sh", "-c", WRITES)
    home.gofer("wait", "last", "--timeout", "100")
    home.gofer("extract", "last", str(tmp_path / "out"))
    check_fetched(tmp_path / "out")
