"""Packages of runs on this machine: real pip, wheels without a network, faults on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import PATIENCE_S, Home, until
from packages.wheels import CondaStandIn, write_wheel
from pythons import pythons

SHOW = "import sys, json, alpha, demo.code; print(json.dumps([sys.prefix, alpha.VERSION, demo.code.NUMBER]))"
SHOW_PREFIX = "import sys; print(sys.prefix)"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A project in a folder with a space and a letter beyond ASCII."""
    one = Home(tmp_path)
    one.folder = tmp_path / "mein Prüfling"
    one.folder.mkdir()
    yield one
    one.close()


@pytest.fixture
def conda(home: Home) -> CondaStandIn:
    found = CondaStandIn(home.root)
    home.environ["PATH"] = os.pathsep.join([str(found.bin), home.environ["PATH"]])
    (home.folder / "environment.yml").write_text("dependencies: []\n")
    return found


def write_project(folder: Path, *, number: int = 1) -> None:
    package = folder / "src" / "demo"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "code.py").write_text(
        f"import sys, alpha, beta\nNUMBER = {number}\n"
        "def main():\n    print('own command', alpha.VERSION, sys.argv[1:])\n"
    )
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["beta"]\n'
        '[project.scripts]\nown = "demo.code:main"\n'
    )
    (folder / "requirements.txt").write_text("-r base.txt\n-e .\n")
    (folder / "base.txt").write_text("alpha\n")
    write_wheel(folder / "wheels", "alpha", "1.0")
    write_wheel(folder / "wheels", "alpha", "2.0")
    write_wheel(folder / "wheels", "beta", "1.0", requires=["alpha<2"])


def run(home: Home, *words: str, env: dict[str, str] | None = None, status: int | None = 0) -> dict[str, Any]:
    done = home.gofer("submit", "--wait", "--json", *words, status=status, env=env)
    found: dict[str, Any] = json.loads(done.out)
    found["said"] = done.err
    return found


def steps(home: Home, run_id: str) -> list[str]:
    return [one["step"] for one in home.events(run_id) if one["event"] == "packages"]


def setup_log(home: Home, run_id: str) -> str:
    path = home.run_folder(run_id) / "attempts/1/node-0/setup.log"
    return path.read_text() if path.exists() else ""


def environments(home: Home) -> list[Path]:
    return sorted((home.queue_home / "packages").glob("*/*/env"))


def test_the_packages_of_a_project_are_built_once_and_the_project_is_the_runs_own(home: Home) -> None:
    write_project(home.folder)
    home.configure("job: {packages: auto, wheels: wheels}\n")
    first = run(home, "--setup", "own from set-up", "python", "-c", SHOW)
    assert "packages: requirements.txt (pip)" in first["said"]
    prefix, version, number = json.loads(home.log(first["id"]))
    assert (version, number) == ("1.0", 1)
    assert prefix.endswith("/.venv")
    assert prefix.startswith(str(home.path / "w"))
    log = setup_log(home, first["id"])
    assert log.index("-m pip install") < log.index("own command 1.0 ['from', 'set-up']")
    assert steps(home, first["id"]) == ["building", "built"]
    # The next run imports its own copy of the project, from the same environment, and builds nothing.
    write_project(home.folder, number=2)
    version = (
        "from importlib.metadata import entry_points, version; print(version('demo'), len(entry_points()))"
    )
    script = f". .venv/bin/activate; .venv/bin/python -c '{SHOW}'; own 'a b'; echo $GOFER_PACKAGES_FILE"
    second = run(home, "sh", "-c", f'{script}; python -c "{version}"')
    shown, own, file, known = home.log(second["id"]).splitlines()
    assert known.startswith("1 ")
    assert json.loads(shown)[1:] == ["1.0", 2]
    assert (own, file) == ("own command 1.0 ['a b']", "requirements.txt")
    assert steps(home, second["id"]) == []
    assert setup_log(home, second["id"]) == ""
    (env,) = environments(home)
    assert not any(path.stat().st_mode & 0o222 for path in env.rglob("*") if not path.is_symlink())
    # What the list includes counts, and other lists have other environments.
    (home.folder / "base.txt").write_text("alpha==1.0\n")
    third = run(home, "python", "-c", SHOW)
    assert steps(home, third["id"]) == ["building", "built"]
    assert len(environments(home)) == 2


def test_a_changed_environment_is_built_again_and_running_users_keep_the_old_one(home: Home) -> None:
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "requirements.txt").write_text("alpha\n")
    home.configure("job: {packages: pip, wheels: wheels}\n")
    user = home.gofer("submit", "-Q", "sh", "-c", "echo here; cat .venv/marker; read x < gate").out.strip()
    home.until_logged(user, "here")
    (env,) = environments(home)
    env.chmod(0o755)
    site = next(env.glob("lib/python*/site-packages"))
    site.chmod(0o755)
    (site / "added.py").touch()
    again = run(home, "python", "-c", "import alpha, sys; sys.exit('added' in dir())")
    assert "packages were installed into it" in setup_log(home, again["id"])
    assert steps(home, again["id"]) == ["rebuilding", "building", "built"]
    assert env in environments(home)
    home.gofer("abort", user)
    home.wait(user)


def test_of_two_runs_one_builds_and_the_other_waits(home: Home, conda: CondaStandIn) -> None:
    conda.hold()
    first = home.gofer("submit", "-Q", "--packages", "auto", "python", "-c", "import sys; print(sys.prefix)")
    until(conda.is_held, "the first run builds")
    second = home.gofer("submit", "-Q", "--packages", "auto", "python", "-c", "import sys; print(sys.prefix)")
    ids = [done.out.strip() for done in (first, second)]
    until(lambda: steps(home, ids[1]) == ["waiting"], "the second run waits")
    assert "another run builds these packages" in setup_log(home, ids[1])
    assert "another run" in home.gofer("why", ids[1]).out
    conda.let_go()
    assert [one["state"] for one in home.wait(*ids)] == ["succeeded", "succeeded"]
    assert [steps(home, one) for one in ids] == [["building", "built"], ["waiting"]]
    assert len(environments(home)) == 1


def test_a_build_that_was_killed_is_not_used(home: Home, conda: CondaStandIn) -> None:
    conda.hold()
    killed = home.gofer("submit", "-Q", "--packages", "conda", "true").out.strip()
    until(conda.is_held, "it builds")
    (half,) = environments(home)
    home.kill_all()
    assert (half / "half").is_dir()
    conda.let_go()
    again = run(home, "--packages", "conda", "python", "-c", "import sys; print(sys.prefix)")
    assert again["state"] == "succeeded"
    # The run whose agent was killed is started again too: one of the two built, and the other waited.
    home.wait(killed)
    (env,) = environments(home)
    assert not (env / "half").exists()
    assert [*steps(home, again["id"]), *steps(home, killed)].count("built") == 1


def test_conda_copies_so_that_no_other_environment_becomes_read_only(home: Home, conda: CondaStandIn) -> None:
    done = run(home, "--packages", "auto", "cat", ".venv/share/data")
    assert "packages: environment.yml (conda)" in done["said"]
    assert home.log(done["id"]) == "cached\n"
    (env,) = environments(home)
    assert not (env / "share/data").stat().st_mode & 0o222
    assert conda.cached.stat().st_mode & 0o200
    (home.folder / "environment.yml").write_text("dependencies: [nosuchpackage]\n")
    failed = run(home, "--packages", "auto", "true", status=1)
    words = "PackagesNotFoundInChannelsError: The following packages are missing: - nosuchpackage"
    assert f"conda failed: {words}" in failed["why"]


def test_the_build_is_seen_while_it_runs_and_stdout_stays_the_commands(
    home: Home, conda: CondaStandIn
) -> None:
    conda.hold()
    following = home.start("submit", "-f", "--packages", "conda", "echo", "trained")
    assert following.stderr is not None
    lines = iter(following.stderr.readline, b"")
    assert any(line.startswith(b"[setup] conda env create --quiet -p ") for line in lines)
    conda.let_go()
    out, err = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, out) == (0, b"trained\n")
    assert b"gofer: the packages are ready" in err


def test_a_variable_of_the_shell_chooses_and_an_option_counts_more(home: Home, conda: CondaStandIn) -> None:
    (home.folder / "sub").mkdir()
    shell = {"GOFER_PACKAGES": "auto"}
    built = run(home, "python", "-c", SHOW_PREFIX, env=shell)
    assert "packages: environment.yml (conda)" in built["said"]
    assert home.log(built["id"]).strip().endswith("/.venv")
    plain = run(home, "--packages", "none", "python", "-c", SHOW_PREFIX, env=shell)
    assert "packages" not in plain["said"]
    home.configure("job: {packages: none}\n")
    assert "packages: environment.yml" in run(home, "true", env=shell)["said"]
    assert "packages" not in run(home, "true")["said"]
    home.configure("targets: {local: {job: {packages: conda}}}\n")
    assert "packages: environment.yml" in run(home, "true")["said"]
    refused = home.gofer("submit", "true", env={"GOFER_PACKAGES": "poetry"}, status=2)
    assert "poetry" in refused.err


def test_wheels_that_an_ignore_rule_leaves_out_are_named_at_submit(home: Home) -> None:
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "requirements.txt").write_text("alpha\n")
    (home.folder / ".gitignore").write_text("wheels/\n")
    refused = home.gofer("submit", "--packages", "auto", "--wheels", "wheels", "true", status=1)
    assert "`wheels: wheels` is not part of the code that would be sent" in refused.err
    words = [
        "--packages",
        "auto",
        "--wheels",
        "wheels",
        "--include",
        "wheels/*",
        "python",
        "-c",
        "import alpha",
    ]
    assert run(home, *words)["exit_code"] == 0


def test_a_build_that_fails_says_why_and_leaves_nothing(home: Home) -> None:
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "requirements.txt").write_text("alpha\nnosuchpackage\n")
    failed = run(home, "--packages", "auto", "--wheels", "wheels", "true", status=1)
    assert (failed["state"], failed["reason"]) == ("failed", "set-up")
    assert "the packages of requirements.txt could not be installed" in failed["why"]
    assert "nosuchpackage" in failed["why"]
    assert environments(home) == []
    (home.folder / "environment.yml").write_text("dependencies: []\n")
    failed = run(home, "--packages", "conda", "true", status=1, env={"PATH": "/usr/bin:/bin"})
    assert "there is no conda, mamba or micromamba in the PATH" in failed["why"]
    failed = run(home, "--packages", "pip", "--wheels", "/nowhere", "true", status=1)
    assert "`wheels: /nowhere` names a folder that the node does not have" in failed["why"]
    refused = home.gofer("submit", "--packages", "uv", "--no-code", "true")
    assert "packages" not in refused.err
    (home.folder / "requirements.txt").unlink()
    refused = home.gofer("submit", "--packages", "pip", "true", status=1)
    assert "`packages: pip` needs one of `requirements.txt`, `pyproject.toml`" in refused.err
    refused = home.gofer("submit", "--packages", "poetry", "true", status=2)
    assert "poetry" in refused.err


def test_without_a_list_and_by_default_nothing_is_built(home: Home) -> None:
    plain = run(home, "--packages", "auto", "python", "-c", "import sys; print(sys.executable)")
    assert home.log(plain["id"]).strip() == sys.executable
    (home.folder / "requirements.txt").write_text("nosuchpackage\n")
    plain = run(home, "true")
    assert "packages" not in plain["said"]
    assert not (home.queue_home / "packages").exists()


def test_the_oldest_python_of_a_node(home: Home) -> None:
    (python, *_) = pythons("3.8")
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["alpha"]\n')
    home.environ["PATH"] = os.pathsep.join([str(python.parent), home.environ["PATH"]])
    words = "import sys, alpha; print(alpha.VERSION, sys.version_info[:2])"
    done = run(home, "--packages", "auto", "--wheels", "wheels", "python", "-c", words)
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert home.log(done["id"]).strip() == f"1.0 {version}"


@pytest.mark.root
def test_a_full_disk_is_named_and_nothing_half_stays(home: Home) -> None:
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "requirements.txt").write_text("alpha\n")
    small = home.queue_home / "packages"
    small.mkdir(parents=True, mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", small], check=True)
    try:
        failed = run(home, "--packages", "pip", "--wheels", "wheels", "true", status=1)
        assert failed["reason"] == "set-up"
        assert f"the disk of {small}" in failed["why"]
        assert "is full" in failed["why"]
        assert environments(home) == []
    finally:
        subprocess.run(["umount", small], check=True)
    assert (
        run(home, "--packages", "pip", "--wheels", "wheels", "python", "-c", "import alpha")["exit_code"] == 0
    )


def test_a_missing_module_or_python_leads_to_packages(home: Home) -> None:
    (home.folder / "mine.py").touch()
    words = "`nosuchmodule` is not installed on the node: `--packages auto` installs what"
    failed = run(home, "python", "-c", "import nosuchmodule", status=1)
    assert f"exited with 1; {words} a requirements.txt lists" in failed["why"]
    assert words in home.gofer("why", failed["id"]).out
    (home.folder / "requirements.txt").write_text("alpha\n")
    failed = run(home, "sh", "-c", "nosuch; python -c 'import nosuchmodule.inner'", status=1)
    assert f"{words} requirements.txt lists" in failed["said"]
    failed = run(home, "sh", "-c", "cd /; PYTHONPATH= python -c 'import mine'", status=1)
    assert "packages" not in failed["why"]
    write_wheel(home.folder / "wheels", "alpha")
    failed = run(
        home, "--packages", "pip", "--wheels", "wheels", "python", "-c", "import nosuchmodule", status=1
    )
    assert "`nosuchmodule` is not among the packages of requirements.txt: add it there" in failed["why"]


def test_prune_removes_environments_that_no_run_used_for_long(home: Home, conda: CondaStandIn) -> None:
    used = home.gofer("submit", "-Q", "--packages", "conda", "sh", "-c", "echo here; sleep 600").out.strip()
    home.until_logged(used, "here")
    (env,) = environments(home)
    last = env.parents[1] / "used"
    os.utime(last, (1000, 1000))
    assert "packages" in home.gofer("prune", "--dry-run").out
    home.gofer("prune", "--yes")
    assert environments(home) == [env]
    home.gofer("abort", used)
    home.wait(used)
    os.utime(last)
    home.gofer("prune", "--yes")
    assert environments(home) == [env]
    os.utime(last, (1000, 1000))
    assert "packages of environment.yml" in home.gofer("prune", "--dry-run").out
    home.gofer("prune", "--yes")
    assert environments(home) == []
    assert not env.parents[1].exists()


def test_what_the_start_of_python_changes_counts_as_built(home: Home) -> None:
    """As on nodes whose Python adds the certificates of the site to a package when it starts."""
    hook = "import os; p = os.path.join(sys.prefix, 'changed'); os.path.exists(p) or open(p, 'w').close()"
    write_wheel(home.folder / "wheels", "alpha", files={"alpha_hook.pth": f"import sys; exec({hook!r})\n"})
    (home.folder / "requirements.txt").write_text("alpha\n")
    home.configure("job: {packages: pip, wheels: wheels}\n")
    runs = [run(home, "ls", ".venv/changed"), run(home, "python", "-c", "import alpha")]
    assert steps(home, runs[1]["id"]) == [], setup_log(home, runs[1]["id"])
