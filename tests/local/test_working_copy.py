"""The working copy of a run does what the person's own folder does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from home import Done, Home

MAKEFILE = "prog: source\n\tcp source prog\nrun: prog\n\t@cat prog\n"
SHOW_KEY = "ls -l key | cut -c 1-10; stat -c %Y key"


def finish(home: Home, *words: str) -> str:
    """What a run with this folder's code writes."""
    run = home.gofer("submit", "-Q", "--wait", *words).out.strip()
    return home.log(run)


def test_make_builds_what_is_older_than_its_source(home: Home) -> None:
    (home.folder / "Makefile").write_text(MAKEFILE)
    for name, seconds in (("prog", 1_700_000_001), ("source", 1_700_000_002)):
        (home.folder / name).write_text(f"{name}\n")
        os.utime(home.folder / name, (seconds, seconds))
    assert finish(home, "make", "run") == "cp source prog\nsource\n"
    (home.folder / "prog").touch()
    assert finish(home, "make", "run") == "prog\n"


def test_times_and_modes_are_those_of_the_run_in_rows_repeats_and_extracts(home: Home) -> None:
    key = home.folder / "key"
    key.write_text("not a real key")
    key.chmod(0o600)
    os.utime(key, (1_600_000_001, 1_600_000_001))
    group = home.gofer("submit", "-Q", "--wait", "--each", "i=1..2", "sh", "-c", SHOW_KEY).out.strip()
    os.utime(key, (1_600_000_002, 1_600_000_002))
    key.chmod(0o640)
    again = home.gofer("resubmit", "-Q", "--same-code", "--json", f"{group}-1").out
    home.wait(json.loads(again)[0]["id"])
    runs = [f"{group}-0", f"{group}-1", json.loads(again)[0]["id"] + "-0"]
    assert [home.log(run) for run in runs] == ["-rw-------\n1600000001\n"] * 3
    assert finish(home, "sh", "-c", SHOW_KEY) == "-rw-r-----\n1600000002\n"
    home.gofer("extract", f"{group}-0", str(home.root / "out"))
    status = (home.root / "out" / "code" / "key").stat()
    assert (status.st_mode & 0o777, status.st_mtime) == (0o600, 1_600_000_001)


def test_an_extract_counts_what_submit_counted(home: Home) -> None:
    """Links to folders, too."""
    (home.folder / "data").mkdir()
    (home.folder / "data" / "x").write_text("x")
    (home.folder / "train").symlink_to("data")
    (home.folder / "x").symlink_to("data/x")
    message = home.gofer("submit", "--wait", "true").err
    assert "code: 3 files" in message
    assert (
        f"3 code files in {home.root / 'out' / 'code'}\n"
        in home.gofer("extract", "last", str(home.root / "out")).err
    )


SHOW_IMPORT = "import mypkg; print(mypkg.__file__, mypkg.V)"


def edit_while_held(home: Home, *words: str, path: str = "src/mypkg/__init__.py") -> str:
    """What a run writes whose code is edited after the submission and before the command starts."""
    gate = home.root / "gate"
    gate.unlink(missing_ok=True)
    cores = str(len(os.sched_getaffinity(0)))
    first = home.submit("--cpus", cores, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(first, "started")
    (home.folder / path).write_text("V = 'as submitted'\n")
    run = home.gofer("submit", "-Q", *words).out.strip()
    (home.folder / path).write_text("V = 'edited after submit'\n")
    gate.touch()
    home.wait(first, run)
    return home.log(run)


def make_package(home: Home) -> None:
    (home.folder / "src" / "mypkg").mkdir(parents=True)
    (home.folder / "scripts").mkdir()
    (home.folder / "scripts" / "t.py").write_text(SHOW_IMPORT)


def make_environment(folder: Path) -> Path:
    """A Python environment, and where its packages are."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    return next((folder / "lib").glob("python3*/site-packages"))


def test_an_editable_install_and_a_path_variable_lead_to_the_copy(home: Home) -> None:
    make_package(home)
    project, copies = str(home.folder), str(home.path / "w")
    home.environ["PYTHONPATH"] = f"{project}/src:/nonexistent"
    result = edit_while_held(home, "python", "scripts/t.py")
    assert result.startswith(copies) and result.endswith("as submitted\n")
    (home.root / "by link").symlink_to(home.folder)
    home.environ["PYTHONPATH"] = f"{home.root}/by link/src"
    result = edit_while_held(home, "python", "scripts/t.py")
    assert result.startswith(copies) and result.endswith("as submitted\n")
    del home.environ["PYTHONPATH"]
    site = make_environment(home.root / "env")
    home.environ["PATH"] = f"{home.root}/env/bin:" + home.environ["PATH"]
    pointer = site / "__editable__.mypkg-0.1.pth"
    pointer.write_text(f"{project}/src\n")
    result = edit_while_held(home, "python", "scripts/t.py")
    assert result.startswith(copies) and result.endswith("as submitted\n")
    pointer.write_text("import __editable___mypkg_0_1_finder; __editable___mypkg_0_1_finder.install()\n")
    mapping = {"mypkg": f"{project}/src/mypkg", "elsewhere": "/nonexistent/elsewhere"}
    finder = site / "__editable___mypkg_0_1_finder.py"
    finder.write_text(f"MAPPING: dict[str, str] = {mapping!r}\ndef install(): pass\n")
    result = edit_while_held(home, "sh", "-c", "python scripts/t.py; echo $PYTHONPATH")
    assert "as submitted" in result and result.splitlines()[1].startswith(copies)
    finder.write_text(f"MAPPING = {{'mypkg': '{project}/src/another'}}\n")
    assert "leads Python to your folder" in home.gofer("submit", "--wait", "true").err


def test_a_compiled_module_that_stays_behind_is_named(home: Home) -> None:
    """An editable install imports it from the folder; packages often go on without it, and more slowly."""
    make_package(home)
    site = make_environment(home.root / "env")
    home.environ["PATH"] = f"{home.root}/env/bin:" + home.environ["PATH"]
    (home.folder / "src" / "mypkg" / "fast.so").write_text("compiled")
    (home.folder / "other.so").write_text("compiled")
    (home.folder / ".gitignore").write_text("*.so\n")
    words = ["submit", "--wait", "true"]
    assert "compiled" not in home.gofer(*words).err
    (site / "__editable__.mypkg-0.1.pth").write_text(f"{home.folder}/src\n")
    for _ in range(2):
        message = home.gofer(*words).err
        assert (
            "the run imports the project without `src/mypkg/fast.so`, which is compiled and left out"
            in message
        )
    assert "hint: `--include '*.so'` includes such modules" in message
    assert "compiled" not in home.gofer("submit", "--setup", "true", *words[1:]).err
    assert "compiled" not in home.gofer("submit", "--include", "*.so", *words[1:]).err


def test_what_leads_past_the_copy_is_named_with_its_cure(home: Home) -> None:
    make_package(home)
    script = home.folder / "scripts" / "t.py"
    script.write_text("print(1)")
    done = home.gofer("submit", "--wait", "python", str(script))
    assert f"`{script}` is in your folder, not in the run's copy of it" in done.err
    assert "write `scripts/t.py`" in done.err
    (home.folder / "run.sh").write_text("true || pip install -q -e . && echo fine\n")
    done = home.gofer("submit", "--wait", "sh", "run.sh")
    assert "`pip install -q -e .` changes an environment" in done.err
    assert "warning" not in home.gofer("submit", "--wait", "python", "scripts/t.py").err
    run = home.gofer("submit", "-Q", "--wait", "sh", "-c", "echo $PYTHONPATH; : pip install -e .").out.strip()
    assert home.log(run).strip().endswith("/src")


def test_the_projects_own_environment_works_by_relative_path(home: Home) -> None:
    make_environment(home.folder / ".venv")
    (home.folder / "t.py").write_text("import sys; print(sys.prefix)")
    (home.folder / "run.sh").write_text(". .venv/bin/activate\npython t.py\n")
    assert finish(home, ".venv/bin/python", "t.py").strip().endswith("/.venv")
    assert finish(home, "sh", "run.sh").strip() == f"{home.folder}/.venv"
    rows = home.gofer("submit", "-Q", "--wait", "--each", "i=1..2", ".venv/bin/python", "t.py").out.strip()
    assert home.log(f"{rows}-1").strip().endswith("/.venv")
    assert (home.folder / ".venv" / "pyvenv.cfg").exists()
    script = "ls -d .venv; : uv run; echo $UV_PROJECT_ENVIRONMENT"
    run = home.gofer("submit", "-Q", "--wait", "sh", "-c", script, status=None).out.strip()
    assert "No such file" in home.log(run)  # uv makes its own
    hidden = home.folder / "bin"
    hidden.mkdir()
    (hidden / "tool").write_text("#!/bin/sh\n")
    (hidden / "tool").chmod(0o755)
    (home.folder / ".gitignore").write_text("bin/\n.venv/\n")
    # The line of the hint does what it says: below an ignored folder a line of .goferignore would not.
    refused = home.gofer("submit", "bin/tool", status=1).err
    assert "write `include: [bin/tool]` into gofer.yaml, or submit with `--include bin/tool`" in refused
    (home.folder / "bin" / "tool").write_text("#!/bin/sh\necho in the run\n")
    assert finish(home, "--include", "bin/tool", "bin/tool") == "in the run\n"
    home.configure("")
    (home.folder / "below").mkdir()
    refused = home.gofer("submit", "../bin/tool", cwd=home.folder / "below", status=1).err
    assert "into the gofer.yaml at the top of the project, or submit with `--include ../bin/tool`" in refused


def test_python_writes_at_once_and_knows_its_commit(home: Home) -> None:
    home.environ.pop("PYTHONUNBUFFERED", None)
    shown = "echo $PYTHONUNBUFFERED/$GOFER_COMMIT/$GOFER_BRANCH/$GOFER_DIRTY/$WANDB_GIT_COMMIT"
    assert finish(home, "sh", "-c", shown) == "1////\n"
    (home.folder / "pyproject.toml").write_text(
        "[project]\nname = 'My-Pkg'\ndynamic = ['version']\n[tool.hatch.version]\nsource = 'vcs'\n"
    )
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v1.2.3"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        subprocess.run(["git", *identity, *words], cwd=home.folder, check=True, timeout=60)
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.check_output(head, cwd=home.folder, timeout=60, text=True).strip()
    versions = "echo $SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG $SETUPTOOLS_SCM_PRETEND_VERSION"
    result = finish(home, "sh", "-c", f"{shown}; {versions}")
    assert result == f"1/{commit}/main/0/{commit}\n1.2.3 1.2.3\n"
    assert f"commit     {commit[:12]} on main\n" in home.gofer("q", "last").out
    (home.folder / "new").write_text("")
    home.environ.update(PYTHONUNBUFFERED="", WANDB_GIT_COMMIT="mine")
    result = finish(home, "sh", "-c", f"{shown}; {versions}")
    assert result.startswith(f"/{commit}/main/1/mine\n1.2.4.dev0+g{commit[:8]}.d")
    # Without a tag it is the first development version; with a git that fails there is none.
    subprocess.run(["git", "tag", "-d", "v1.2.3"], cwd=home.folder, check=True, timeout=60)
    assert f"\n0.1.dev1+g{commit[:8]}.d" in finish(home, "sh", "-c", f"{shown}; {versions}")
    broken = home.root / "broken" / "git"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'fatal: detected dubious ownership' >&2; exit 128\n")
    broken.chmod(0o755)
    home.environ["PATH"] = f"{broken.parent}:{home.environ['PATH']}"
    assert finish(home, "sh", "-c", f"{shown}; {versions}").split("\n", 1)[1] == "\n"


# A user with one right of root, to read all files: the Python of the tests may lie in root's own folder.
ORDINARY_USER = 61003
READ_ALL = ["--bounding-set", "--inh-caps", "--ambient-caps"]
SHOW_LIMITS = "ulimit -Sn; ulimit -Hn; umask; nice; taskset -cp $$ | sed 's/.*: //'; ulimit -v"


def shell_submit(home: Home, limits: str, *words: str) -> Done:
    """A submission from a shell that has set limits of its own."""
    inner = "exec " + " ".join(shlex.quote(word) for word in home.argv("submit", *words))
    done = subprocess.run(
        ["bash", "-c", f"{limits}; {inner}"],
        cwd=home.folder,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Done(0, done.stdout, done.stderr)


def test_limits_are_those_of_the_submitting_shell(home: Home) -> None:
    """The first shell starts the queue; neither its limits nor those of one run reach the next."""
    plain = subprocess.check_output(["bash", "-c", SHOW_LIMITS], timeout=60, text=True).split()
    core = sorted(os.sched_getaffinity(0))[-1]
    narrow = f"ulimit -Sn 300; umask 077; taskset -cp {core} $$ >/dev/null"
    gate = home.root / "gate"
    held = ["sh", "-c", f"{SHOW_LIMITS}; until [ -e {gate} ]; do sleep 0.05; done"]
    first = shell_submit(home, narrow, "--no-code", *held).out.strip()
    home.until_logged(first, "unlimited")
    low = "ulimit -Sn 3000; ulimit -Hn 4000; umask 027; ulimit -v 9000000; renice -n 7 $$ >/dev/null"
    second, third = (
        shell_submit(home, limits, "--no-code", "--setup", "umask", "bash", "-c", SHOW_LIMITS).out.strip()
        for limits in (low, ":")
    )
    home.until_logged(second, "9000000")
    gate.touch()
    home.wait(first, second, third)
    assert home.log(first).split() == ["300", plain[1], "0077", plain[3], str(core), "unlimited"]
    assert home.log(second).split() == ["3000", "4000", "0027", "7", plain[4], "9000000"]
    assert home.log(third).split() == plain


@contextmanager
def ordinary_home() -> Iterator[Home]:
    """A home of another user than root; not in pytest's own folder, which is closed to others."""
    user = ["--reuid", str(ORDINARY_USER), "--regid", str(ORDINARY_USER), "--clear-groups"]
    rights = [word for option in READ_ALL for word in (option, "-all,+dac_read_search")]
    with tempfile.TemporaryDirectory(prefix="gofer-test-limits-") as folder:
        home = Home(Path(folder), prefix=["setpriv", *user, *rights])
        for path in (home.root, *home.root.rglob("*")):
            os.chown(path, ORDINARY_USER, ORDINARY_USER)
        try:
            yield home
        finally:
            home.kill_all()


@pytest.mark.root
def test_a_limit_that_cannot_be_raised_is_reported() -> None:
    """An ordinary user's queue was started by a shell with lower limits, which only root could raise."""
    with ordinary_home() as home:
        gate = home.root / "gate"
        held = ["sh", "-c", f"echo up; until [ -e {gate} ]; do sleep 0.05; done"]
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert own < 10, "the tests themselves run at a low priority"
        low = f"ulimit -Sn 256; ulimit -Hn 256; renice -n {own + 5} $$ >/dev/null"
        first = shell_submit(home, low, "--no-code", *held).out.strip()
        home.until_logged(first, "up")
        submitted = shell_submit(home, "ulimit -Sn 1024", "--no-code", "bash", "-c", "ulimit -Sn; nice")
        assert "warning: the queue was started with lower limits: " in submitted.err
        assert "RLIMIT_NOFILE 1024: no more than 256 is allowed" in submitted.err
        assert f"niceness {own}: no less than {own + 5} is allowed" in submitted.err
        second = submitted.out.strip()
        assert home.wait(second)[0]["state"] == "succeeded"
        assert home.log(second).split() == ["256", str(own + 5)]
        (said,) = [one["problems"] for one in home.events(second) if one["event"] == "limits"]
        assert said == [
            "RLIMIT_NOFILE 1024: no more than 256 is allowed",
            f"niceness {own}: Permission denied",
        ]
        same = shell_submit(home, f"ulimit -Sn 200; renice -n {own + 9} $$ >/dev/null", "--no-code", "true")
        assert "warning" not in same.err
        gate.touch()
        home.wait(first, same.out.strip())


@pytest.mark.root
def test_a_limit_that_root_without_capabilities_cannot_raise_is_reported(home: Home) -> None:
    """Root of a container has the rights to files, but not those to raise limits."""
    home.prefix = ("setpriv", "--bounding-set", "-sys_resource,-sys_nice")
    gate = home.root / "gate"
    held = ["sh", "-c", f"echo up; until [ -e {gate} ]; do sleep 0.05; done"]
    own = os.getpriority(os.PRIO_PROCESS, 0)
    low = f"ulimit -Sn 256; ulimit -Hn 256; renice -n {own + 5} $$ >/dev/null"
    first = shell_submit(home, low, "--no-code", *held).out.strip()
    home.until_logged(first, "up")
    submitted = shell_submit(home, "ulimit -Sn 1024", "--no-code", "bash", "-c", "ulimit -Sn; nice")
    assert "RLIMIT_NOFILE 1024: no more than 256 is allowed" in submitted.err
    assert f"niceness {own}: no less than {own + 5} is allowed" in submitted.err
    gate.touch()
    home.wait(first, submitted.out.strip())
    assert home.log(submitted.out.strip()).split() == ["256", str(own + 5)]


def test_files_are_started_as_a_shell_starts_them(home: Home) -> None:
    bare, windows, lost, binary = (home.folder / name for name in ("bare", "windows", "lost", "binary"))
    bare.write_text('echo "bare $0 $1"; exit 3\n')
    windows.write_bytes(b"#!/bin/sh\r\necho never\r\n")
    lost.write_text("#!/nonexistent/interpreter -x\n")
    binary.write_bytes(b"\x7fNOT\0ELF" * 10)
    for path in (bare, windows, lost, binary):
        path.chmod(0o755)

    def end(*words: str) -> tuple[int, str]:
        run = home.gofer("submit", "-Q", "--wait", *words, status=None).out.strip()
        return home.view(run)["exit_code"], home.log(run)

    assert end("./bare", "a  b") == (3, "bare ./bare a  b\n")
    code, said = end("./windows")
    assert code == 127 and "Windows line end" in said and "sed -i 's/\\r$//' windows" in said
    assert "Windows line end" in home.gofer("why", "last").out
    code, said = end("./lost")
    assert code == 127 and "its interpreter `/nonexistent/interpreter` does not exist" in said
    assert end("./binary") == (126, "gofer: cannot run `./binary`: Exec format error\n")
    done = subprocess.run(
        ["sh", "-c", 'umask 077; exec "$@"', "sh", *home.argv("submit", "-Q", "--wait", "./bare")],
        cwd=home.folder,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, home.log(done.stdout.strip())) == (3, "bare ./bare \n")
