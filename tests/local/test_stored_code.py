"""Code that lies in a store: `--code STORE:PATH`, `code:` of a job file, and `resubmit`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("object-store-runs")]

PLACE = "me/a folder/train"


@pytest.fixture(params=["file", "azure", "s3"])
def home(tmp_path: Path, request: pytest.FixtureRequest, azurite: Azurite, moto: Moto) -> Iterator[Home]:
    """A home with a store `team` that has code, and a project that has other files."""
    made = Home(tmp_path / "one")
    if request.param == "azure":
        account = azurite.one
        store = f"{{url: az://{account.new_container()}/pre, account: {account.name}, "
        store += f"key: '${{env:DUMMY_KEY}}', endpoint: '{account.endpoint}'}}"
        made.environ["DUMMY_KEY"] = account.key
    elif request.param == "s3":
        store = f"{{url: s3://{moto.new_bucket()}/pre, endpoint: '{moto.endpoint}', "
        store += f"access_key: {moto.access_key}, secret_key: '${{env:DUMMY_KEY}}'}}"
        made.environ["DUMMY_KEY"] = moto.secret_key
    else:
        store = f"{{url: '{(tmp_path / 'shared disk').as_uri()}'}}"
        (tmp_path / "shared disk").mkdir()
    made.configure(f"stores:\n  team: {store}\nfolders:\n  data: {{store: team, path: me/data}}\n")
    (made.folder / "other.py").write_text("print('the project')\n")
    yield made


def put(home: Home, name: str, text: str) -> None:
    file = home.root / "put" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if name.endswith(".sh"):
        file.chmod(0o755)
    home.gofer("cp", "-Q", str(file), f"team:{PLACE}/{name}")


def finish(home: Home, *words: str, status: int = 0) -> dict[str, Any]:
    done = home.gofer("submit", "-Q", "--wait", "--json", *words, status=status)
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_a_run_has_the_code_of_the_store_and_nothing_of_the_project(home: Home) -> None:
    put(home, "train.py", "import os; print(sorted(os.listdir()), open('lib/x').read())")
    put(home, "lib/x", "of the store")
    run = finish(home, "--code", f"team:{PLACE}", "train.py")
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "['data', 'lib', 'train.py'] of the store\n"
    assert run["snapshot"]["folder"].endswith(f"/{PLACE}")
    assert f"/{PLACE}" in home.gofer("q", run["id"]).out


def test_a_file_that_is_gone_from_the_store_is_not_in_the_next_run(home: Home) -> None:
    put(home, "train.sh", "#!/bin/sh\nls; touch written")
    put(home, "old", "x")
    first = finish(home, "--code", f"team:{PLACE}", "./train.sh")
    assert home.log(first["id"]) == "data\nold\ntrain.sh\n"
    home.gofer("rm", "-Q", "--yes", f"team:{PLACE}/old")
    put(home, "train.sh", "#!/bin/sh\necho new; ls")
    again = home.gofer("resubmit", "-Q", first["id"]).out.strip()
    same = home.gofer("resubmit", "-Q", "--same-code", first["id"]).out.strip()
    home.gofer("wait", "-Q", again, same)
    assert home.log(again) == "new\ndata\ntrain.sh\n"
    assert home.log(same) == "data\nold\ntrain.sh\n"


def test_a_job_file_says_where_its_code_is(home: Home) -> None:
    put(home, "train.py", "print('from the store')")
    (home.folder / "job.yaml").write_text(f"code: {{store: team, path: {PLACE}}}\ncommand: python train.py\n")
    run = finish(home, "--job", "job.yaml")
    assert home.log(run["id"]) == "from the store\n"
    here = finish(home, "--job", "job.yaml", "--code-folder", ".", "python", "other.py")
    assert home.log(here["id"]) == "the project\n"


def test_a_place_without_code_is_named(home: Home) -> None:
    put(home, "train.py", "")
    typo = home.gofer("submit", "--code", "team:me/a folder/trian", "train.py", status=1).err
    assert f"{PLACE}`?" in typo
    missing = home.gofer("submit", "--code", f"team:{PLACE}", "tran.py", status=1).err
    assert "did you mean `train.py`?" in missing
    assert str(home.root) not in missing.replace((home.root.parent / "shared disk").as_uri(), "")
    both = home.gofer("submit", "--code", f"team:{PLACE}", "--no-code", "train.py", status=2).err
    assert "both say where the code is" in both
    assert home.gofer("list", "--json").out == "[]\n"
    run = finish(home, "--no-code", "sh", "-c", "echo 1 > $GOFER_OUTPUT_DIR/x")["id"]
    outputs = home.gofer("submit", "--code", f"{run}:out", "train.py", status=2).err
    assert f"`--code {run}` takes the code of that run" in outputs


def test_what_a_run_writes_beside_its_code_goes_back_to_the_store(home: Home) -> None:
    script = "read n < ck/step || n=0; mkdir -p ck; echo $((n + 1)) > ck/step; [ $n -lt 2 ]"
    put(home, "train.sh", f"#!/bin/sh\n{script}")
    place = f"{{store: team, path: {PLACE}}}"
    (home.folder / "job.yaml").write_text(
        f"code: {place}\noutputs_to: {place}\nignore: [notes/]\ncommand: ./train.sh\n"
    )
    put(home, "notes/big", "is not code")
    for step in ("1", "2", "3"):
        run = finish(home, "--job", "job.yaml", status=1 if step == "3" else 0)
        assert home.gofer("cat", f"team:{PLACE}/ck/step").out == f"{step}\n"
    # The last one failed, and what it wrote is in the store nevertheless; so are the files of the run.
    assert run["state"] == "failed"
    assert home.gofer("cat", f"{run['id']}:ck/step").out == "3\n"
    assert len(home.gofer("ls", f"team:{PLACE}/").out.splitlines()) == 3
