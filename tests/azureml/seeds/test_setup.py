"""What ACT did on a node before the command: a run of its files has that too."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from azureml.seeds.layout import OlderToolHome

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]

USE = "import demo, os\nprint('demo', demo.VERSION, 'rank', os.environ['RANK'])\n"
COMPILE = """\
#!/bin/bash -eu
echo "compiling with $# words: $*"
printf '%s|' "$@" > compiled
"""


@pytest.fixture
def act(older_home: OlderToolHome) -> OlderToolHome:
    older_home.act()
    return older_home


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of the nodes' own: what a run installs must not reach that of the tests."""
    folder = tmp_path_factory.mktemp("interpreter")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    return folder / "bin/python"


def add(older_home: OlderToolHome, lines: str) -> None:
    path = older_home.folder / "aux_data/aml/aml.yaml"
    path.write_text(path.read_text() + lines)


def write_wheel(folder: Path) -> str:
    """A package that can be installed without any index; its path in the project."""
    path = folder / "wheels/demo-1.0-py3-none-any.whl"
    path.parent.mkdir()
    about = "demo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("demo.py", "VERSION = '1.0'\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(
            f"{about}/RECORD", f"demo.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n"
        )
    return f"./{path.relative_to(folder)}"


def set_up_log(older_home: OlderToolHome, run_id: str) -> str:
    older_home.gofer("extract", run_id, f"out-{run_id}")
    return (older_home.folder / f"out-{run_id}/logs/1/node-0/setup.log").read_text()


def test_a_package_of_requirements_txt_can_be_imported(act: OlderToolHome, interpreter: Path) -> None:
    add(act, f"interpreter_path: {interpreter}\n")
    act.write("requirements.txt", write_wheel(act.folder) + "\n")
    act.write("use.py", USE)
    run_id = act.gofer("submit", "--wait", str(interpreter), "use.py").out.strip()
    assert act.log(run_id) == "demo 1.0 rank 0\n"
    result = set_up_log(act, run_id)
    # Once for the four processes of the node, and seen.
    assert result.count(f"+ {interpreter} -m pip install") == 1
    assert "Successfully installed demo-1.0" in result


def test_packages_take_the_place_of_the_requirements_step(act: OlderToolHome) -> None:
    """Without `interpreter_path` the list is built once and fetched later; the compile script runs inside."""
    act.write("requirements.txt", write_wheel(act.folder) + "\n")
    act.write("use.py", USE)
    act.write("compile.aml.sh", "python -c 'import demo; print(\"compiled with\", demo.VERSION)'\n")
    first = act.gofer("submit", "--wait", "python", "use.py")
    assert "packages: requirements.txt (pip)" in first.err
    assert act.log(first.out.strip()) == "demo 1.0 rank 0\n"
    output = set_up_log(act, first.out.strip())
    assert output.count("pip install") == 1
    assert output.index("the packages are ready") < output.index("compiled with 1.0")
    again = act.gofer("submit", "--wait", "python", "use.py").out.strip()
    assert act.log(again) == "demo 1.0 rank 0\n"
    output = set_up_log(act, again)
    assert "pip install" not in output
    assert "from the store" in output
    assert "compiled with 1.0" in output


@pytest.mark.parametrize(
    ("options", "compiled"), [((), "from the file|"), (("-ca", "with 'two words'"), "with 'two words'|")]
)
def test_the_compile_script_runs_with_its_argument(
    act: OlderToolHome, options: tuple[str, ...], compiled: str
) -> None:
    """One argument, however many words are in it; and no right to execute is needed."""
    add(act, "compile_args: from the file\n")
    act.write("compile.aml.sh", COMPILE)
    run_id = act.gofer(*options, "submit", "--wait", "cat", "compiled").out.strip()
    assert act.log(run_id) == compiled
    assert f"compiling with 1 words: {compiled[:-1]}\n" in set_up_log(act, run_id)


def test_without_arguments_the_compile_script_gets_none(act: OlderToolHome) -> None:
    act.write("compile.aml.sh", COMPILE)
    run_id = act.gofer("submit", "--wait", "cat", "compiled").out.strip()
    assert act.log(run_id) == "|"
    assert "compiling with 0 words: \n" in set_up_log(act, run_id)


def test_node_setup_prints_nothing_without_either_file(act: OlderToolHome) -> None:
    run_id = act.gofer("submit", "--wait", "nvidia-smi").out.strip()
    assert "rank-3.log" in (shown := act.gofer("q", run_id).out)
    assert "setup.log" not in shown
    assert set_up_log(act, run_id) == ""


@pytest.mark.parametrize(
    ("name", "text", "status", "fault"),
    [
        ("requirements.txt", "./nowhere-1.0-py3-none-any.whl\n", 1, "nowhere-1.0-py3-none-any.whl"),
        ("compile.aml.sh", "echo no such compiler >&2\nexit 7\n", 7, "no such compiler"),
    ],
)
def test_a_failure_ends_the_run_and_says_how_to_do_without(
    act: OlderToolHome, interpreter: Path, name: str, text: str, status: int, fault: str
) -> None:
    add(act, f"interpreter_path: {interpreter}\n")
    act.write(name, text)
    done = act.gofer("submit", "--wait", "echo", "started", status=1)
    run_id = done.out.strip()
    run = act.view(run_id)
    assert (run["state"], run["reason"]) == ("failed", "set-up")
    assert f"set-up ended with {status}: " in run["detail"]
    assert f"{name} failed; `gofer submit --setup ''` runs without it" in run["detail"]
    shown = act.gofer("q", run_id).out
    assert fault in shown
    assert "rank-0.log" not in shown
    assert fault in act.gofer("why", run_id).out
    again = act.gofer("submit", "--setup", "", "--wait", "echo", "started").out.strip()
    assert act.log(again) == "started\n"


def test_a_set_up_of_ones_own_takes_its_place(act: OlderToolHome) -> None:
    act.write("compile.aml.sh", "exit 7\n")
    act.write("gofer.yaml", "job: {setup: echo mine > mine}\n")
    run_id = act.gofer("submit", "--wait", "cat", "mine").out.strip()
    assert act.log(run_id) == "mine\n"


def test_the_target_that_an_import_writes_does_the_same(act: OlderToolHome) -> None:
    add(act, "compile_args: imported\n")
    act.write("compile.aml.sh", COMPILE)
    act.gofer("config", "import", "aux_data/aml/aml.yaml")
    act.keep("vigeastblob_account-key", act.accounts[0].key)
    assert "targets:\n  aml:" in (act.folder / "gofer.yaml").read_text()
    run_id = act.gofer("submit", "--wait", "cat", "compiled").out.strip()
    assert act.log(run_id) == "imported|"


def test_what_initc_did_is_done_by_the_nodes(act: OlderToolHome) -> None:
    done = act.gofer("initc")
    assert "nothing is compiled here: each node runs `compile.aml.sh` before the command" in done.err
    assert "the code of" in done.err


def test_without_a_custom_image_the_service_has_its_own(older_home: OlderToolHome) -> None:
    older_home.act()
    file = older_home.folder / "aux_data/aml/aml.yaml"
    file.write_text(file.read_text().replace("use_custom_docker: true", "use_custom_docker: false"))
    run = older_home.ended(older_home.gofer("submit", "python", "train.py").out)
    assert run["state"] == "succeeded", run
    body = older_home.azure.arm("GET", f"/jobs/{run['id']}")[1]
    assert "/environments/acpt-pytorch-2.2-cuda12.1/versions/" in body["properties"]["environmentId"]
