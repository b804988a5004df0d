"""What of a project stays behind is said, can be taken along, and secrets go only as secrets."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from home import Home


@pytest.fixture
def project(home: Home) -> Path:
    """A project with a data set, a secret, a built module and a link that leads outside."""
    folder = home.folder
    for path, text in {
        ".gitignore": "*.jpg\n/data/\n.env\n*.so\n__pycache__/\n",
        ".env": "KEY=abcdefgh\n",
        "server.pem": "private",
        "ext.so": "x",
        "data/train ü.bin": "numbers",
        "data/more/a": "12345",
        "__pycache__/a.pyc": "x",
        "pkg/__init__.py": "",
        "pkg/.gitignore": "generated.py\n",
        "pkg/generated.py": "VALUE = 7\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for number in range(5):
        for path in (f"sets/images/{number}.jpg", f"sets/labels/{number}.txt"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("x")
    (home.root / "shared").mkdir()
    (folder / "imgs").symlink_to("../shared")
    return folder


def test_files_that_are_left_out_are_reported_once(home: Home, project: Path) -> None:
    first = home.gofer("submit", "true").err
    assert "left out by .gitignore: " in first
    assert "data/ (2 files, 12 B)" in first
    assert "*.jpg in sets/ (5 files, 5 B; 5 other files of sets/ are sent)" in first
    assert "left out by pkg/.gitignore: pkg/generated.py" in first
    assert "left out because it looks like a secret: server.pem" in first
    assert "`imgs` is a link to `../shared`, outside of the project: it will be broken in the run" in first
    assert "__pycache__" not in first
    again = home.gofer("submit", "true").err
    assert "left out as before: data/" in again
    assert "5 files" not in again
    (project / "pkg" / ".gitignore").unlink()
    assert "left out by .gitignore: data/ (2 files, 12 B)" in home.gofer("submit", "true").err


def test_both_sides_are_listed_before_anything_is_sent(home: Home, project: Path) -> None:
    done = home.gofer("submit", "--dry-run", "true")
    assert '"snapshot": null' in done.out
    assert "  sets/labels/3.txt (1 B)" in done.err
    assert "left out: data/ (2 files, 12 B); `/data/` of .gitignore" in done.err
    assert "left out: .env; `.env` of .gitignore" in done.err
    assert "left out: server.pem; looks like a secret" in done.err


def test_why_names_the_rule_and_the_line_to_write(home: Home, project: Path) -> None:
    home.gofer("submit", "-Q", "--wait", "cat", "data/train ü.bin", status=None)
    why = home.gofer("why", "last").out
    assert "`data/train ü.bin` is in the project and was left out by the line `/data/` of .gitignore" in why
    assert "write `include: [data/]` into gofer.yaml, or submit with `--include data/`" in why
    home.gofer("submit", "-Q", "--wait", "python", "-c", "open('.env')", status=None)
    assert "`.env` is in the project and was left out by the line `.env`" in home.gofer("why", "last").out
    home.gofer("submit", "-Q", "--wait", "python", "-c", "import pkg.generated", status=None)
    assert "by the line `generated.py` of pkg/.gitignore" in home.gofer("why", "last").out
    home.gofer("submit", "-Q", "--wait", "ls", "imgs/x", status=None)
    (home.root / "shared" / "x").touch()
    assert "`imgs` is a link to `../shared`" in home.gofer("why", "last").out
    home.gofer("submit", "-Q", "--wait", "cat", "never-there", status=None)
    assert "include" not in home.gofer("why", "last").out


def test_why_names_the_packages_of_node(home: Home) -> None:
    """`npm install` puts them into a folder that projects ignore."""
    for path in (
        "node_modules/.bin/mocha",
        "node_modules/@scope/pad/index.js",
        "dist/server.js",
        "web/page.js",
    ):
        (home.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (home.folder / path).touch(0o755)
    (home.folder / ".gitignore").write_text("node_modules/\ndist/\n")
    (home.folder / "gofer.yaml").touch()
    for line, path, name in (
        ("sh -c mocha", "node_modules/.bin/mocha", "node_modules/"),
        ("bash -c mocha", "node_modules/.bin/mocha", "node_modules/"),
        (
            "echo \"Error: Cannot find module '@scope/pad'\"; false",
            "node_modules/@scope/pad",
            "node_modules/",
        ),
        (
            "echo \"Cannot find package '@scope/pad' imported\"; false",
            "node_modules/@scope/pad",
            "node_modules/",
        ),
        ("echo \"Error: Cannot find module '$PWD/dist/server.js'\"; false", "dist/server.js", "dist/"),
    ):
        home.gofer("submit", "-Q", "--wait", "sh", "-c", line, status=None)
        why = home.gofer("why", "last").out
        assert f"`{path}` is in the project and was left out by the line `{name}` of .gitignore" in why
        assert f"`--include {name}`" in why
    home.gofer("submit", "-Q", "--wait", "bash", "-c", "mocha", status=None, cwd=home.folder / "web")
    assert "`node_modules/.bin/mocha` is in the project" in home.gofer("why", "last").out
    home.gofer("submit", "-Q", "--wait", "sh", "-c", "no-such-program", status=None)
    assert "include" not in home.gofer("why", "last").out


def test_why_names_what_configure_made(home: Home) -> None:
    """`./configure` writes files that projects ignore, and make needs them."""
    (home.folder / "Makefile").write_text("check: config.h ; cat config.h\n")
    (home.folder / "config.h").write_text("x\n")
    (home.folder / ".gitignore").write_text("config.h\n")
    home.gofer("submit", "-Q", "--wait", "make", "check", status=None)
    assert (
        "`config.h` is in the project and was left out by the line `config.h`"
        in home.gofer("why", "last").out
    )
    (home.folder / ".gitignore").write_text("/Makefile\n")
    for words in (["make"], ["make", "check"]):
        home.gofer("submit", "-Q", "--wait", *words, status=None)
        why = home.gofer("why", "last").out
        assert "`Makefile` is in the project and was left out by the line `/Makefile`" in why
    done = home.gofer("submit", "--wait", "--include", "Makefile", "make", "never-there", status=None)
    assert (done.status, "include" in home.gofer("why", "last").out) == (2, False)


def test_the_line_to_write_is_right_from_a_folder_below_the_top(home: Home, project: Path) -> None:
    (project / "sub dir").mkdir()
    (project / "sub dir" / ".gitignore").write_text("*.w\n")
    (project / "sub dir" / "my [1].w").write_text("weights")
    (project / "sub dir" / "plain one.w").write_text("plain")
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    below = project / "sub dir"
    for name in ("my [1].w", "plain one.w", "../data/more/a"):
        home.gofer("submit", "-Q", "--wait", "cat", name, cwd=below, status=None)
        why = home.gofer("why", "last", cwd=below).out
        assert "into the gofer.yaml at the top of the project, or submit with `--include " in why
        line = re.search(r"write `include: \[(.*)\]` into", why)
        option = re.search(r"submit with `(--include .*)`", why)
        assert line and option
        done = home.gofer("submit", "-f", *shlex.split(option[1]), "cat", name, cwd=below)
        assert done.out.rstrip("\n") == (project / "sub dir" / name).read_text()
        (project / "gofer.yaml").write_text(f"include: [{line[1]}]\n")
        done = home.gofer("submit", "-f", "cat", name, cwd=below)
        assert done.out.rstrip("\n") == (project / "sub dir" / name).read_text()
        (project / "gofer.yaml").unlink()


def test_a_pattern_for_a_folder_above_is_read_from_there(home: Home, project: Path) -> None:
    (project / "gofer.yaml").write_text("")
    done = home.gofer("submit", "-f", "--include", "../data/more/", "find", "../data", cwd=project / "pkg")
    assert done.out.split() == ["../data", "../data/more", "../data/more/a"]
    refused = home.gofer("submit", "--include", "../../shared/", "true", cwd=project / "pkg", status=1).err
    assert "`--include ../../shared/` leads out of the project" in refused
    home.configure("include: [../shared/]\n")
    assert "`include: ../shared/` leads out of the project" in home.gofer("submit", "true", status=1).err


def test_secrets_are_named_one_by_one(home: Home) -> None:
    names = [".env", ".netrc", "a.pem", "b.key", "id_rsa"]
    for name in names:
        (home.folder / name).write_text("x")
    message = home.gofer("submit", "true").err
    line = next(
        line for line in message.splitlines() if line.startswith("left out because it looks like a secret: ")
    )
    assert sorted(line.partition(": ")[2].split(", ")) == names
    assert "`--include` takes along a secret that it names in full" in message
    assert "PATTERN" not in message


def test_a_folder_that_cannot_be_read_is_not_called_empty(tmp_path: Path) -> None:
    prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    home = Home(tmp_path, prefix=prefix)
    (home.folder / "closed").mkdir()
    (home.folder / "closed" / "x").write_text("x")
    (home.folder / ".goferignore").write_text("closed/\n")
    (home.folder / "closed").chmod(0)
    try:
        message = home.gofer("submit", "--wait", "--no-code", "true").err
        message += home.gofer("submit", "--wait", "true").err
    finally:
        (home.folder / "closed").chmod(0o700)
    assert "left out by .goferignore: closed/ (not counted)" in message


def test_links_that_lead_into_the_project_by_its_full_path_or_in_circles(home: Home) -> None:
    folder = home.folder
    (folder / "ckpt").mkdir()
    (folder / "ckpt" / "3").write_text("three")
    (folder / "latest").symlink_to(folder / "ckpt" / "3")
    (folder / "relative").symlink_to("ckpt/3")
    for name, target in (("a", "b"), ("b", "a"), ("self", "self"), ("here", ".")):
        (folder / name).symlink_to(target)
    done = home.gofer("submit", "-f", "find", ".", "-type", "l")
    assert sorted(done.out.split()) == ["./a", "./b", "./here", "./latest", "./relative", "./self"]
    assert f"`latest` is a link to `{folder}/ckpt/3`, your own folder by its full path" in done.err
    assert "it leads there, not to the run's copy" in done.err
    assert "relative" not in done.err.replace("by a relative path", "")


def test_patterns_take_files_along_but_no_secrets(home: Home, project: Path) -> None:
    home.configure("include: [data/more/, '*.jpg', '*.png', sets/none.csv, '*.pem', '.en*']\n")
    done = home.gofer("submit", "-f", "--include", "set/", "find", ".", "-type", "f")
    unmatched = [line for line in done.err.splitlines() if "matches no file that is sent" in line]
    assert [line.split("`")[1] for line in unmatched] == ["--include set/", "include: sets/none.csv"]
    assert "./data/more/a" in done.out
    assert "./sets/images/4.jpg" in done.out
    assert "train" not in done.out
    assert ".pem" not in done.out
    assert ".env" not in done.out
    # From a folder below the top, the patterns of the command line are those of that folder.
    done = home.gofer("submit", "-f", "--include", "generated.py", "ls", cwd=project / "pkg")
    assert "generated.py" in done.out
    run = done.out and home.gofer("resubmit", "-Q", "last").out.split()[0]
    home.wait(run)
    assert "generated.py" in home.log(run)


def test_a_secret_that_is_named_travels_as_one(home: Home, project: Path) -> None:
    home.configure("include: [.env]\n")
    words = ["stat", "-c", "%a %n", ".env", "pkg/id_deploy"]
    (project / "pkg" / "id_deploy").write_text("private key")
    done = home.gofer("submit", "-f", "--include", "pkg/id_deploy", *words, env={"TZ": "UTC"})
    assert "sent as a secret of the run: `.env`, `pkg/id_deploy`" in done.err
    assert "left out by .gitignore: data/ (2 files, 12 B), ext.so," in done.err
    assert done.out.splitlines()[:2] == ["600 .env", "600 pkg/id_deploy"]
    kept = [path for path in home.path.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in kept}
    assert not [path for path, data in contents.items() if b"abcdefgh" in data or b"private key" in data]


def test_a_secret_that_git_tracks_is_code(home: Home, project: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    (project / "test.key").write_text("for tests")
    (project / ".env.example").write_text("KEY=")
    subprocess.run(["git", "add", "test.key", ".env.example"], cwd=project, check=True)
    subprocess.run(["git", "add", "-f", ".env"], cwd=project, check=True)
    done = home.gofer("submit", "-f", "ls", "-A")
    assert {"test.key", ".env.example"} <= set(done.out.split())
    assert ".env" not in done.out.split()
    assert "server.pem" not in done.out.split()
    assert "`test.key`: looks like a secret, and is sent as code because git tracks it" in done.err
    assert "git tracks it" not in home.gofer("submit", "true").err


def test_counting_has_an_end(home: Home, project: Path) -> None:
    for number in range(20_100):
        (project / "data" / str(number)).touch()
    first = home.gofer("submit", "true").err
    assert re.search(r"data/ \(more than [\d,]+ files, ", first), first
    assert os.path.exists(project / "data" / "0")


def test_init_names_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    prefix = ["setpriv", "--bounding-set", "-dac_override"] if os.getuid() == 0 else []
    home = Home(tmp_path, prefix=prefix)
    home.folder.chmod(0o500)
    try:
        refused = home.gofer("init", status=1).err
    finally:
        home.folder.chmod(0o700)
    assert f"cannot write `{home.folder}/gofer.yaml`: Permission denied" in refused
    assert "make the folder writable" in refused
    assert "GOFER_HOME" not in refused
