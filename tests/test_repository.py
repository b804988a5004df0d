"""Rules of the repository itself that no linter knows: what may be committed, and what must be documented."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gofer.transport.bundle import NODE_PACKAGES

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "gofer"
MODULES = sorted(SOURCE.rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))

# Put together from parts, since this file is searched as well.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "files." + "pythonhosted",
    "registry." + "npmjs",
    "deb." + "debian",
    "conda." + "anaconda",
]
MACHINE_FOLDERS = [
    "wo" + "rk",
    "fa" + "rm",
    "opt/" + "pypi",
    "opt/" + "wheels",
    "tmp/" + "x",
    "root/" + r"\.pyenv",
]
MACHINE_PATH = re.compile(rf"(^|file://|[^A-Za-z0-9_./])/({'|'.join(MACHINE_FOLDERS)})(/|-|$)")


@cache
def tracked_texts() -> dict[str, str]:
    """Every text file git tracks, or would if all were added, by its path from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
    paths = [os.fsdecode(name) for name in listing.split(b"\0") if name]
    found = {path: (ROOT / path).read_bytes() for path in paths if (ROOT / path).is_file()}
    return {path: data.decode(errors="replace") for path, data in found.items() if b"\0" not in data}


def lines_matching(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def comments(path: Path) -> Iterator[tuple[int, str]]:
    with tokenize.open(path) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE))


def canonical(requirement: str) -> str:
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Absolute imports anywhere in the file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def make_targets() -> list[str]:
    text = (ROOT / "Makefile").read_text()
    declared = " ".join(re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)).split()
    return [name for name in declared if not name.startswith("$") and name != "ready"]


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=cwd, check=False, capture_output=True, text=True, timeout=60
    )


def test_the_searches_below_have_something_to_search() -> None:
    assert {"pyproject.toml", "Makefile", "src/gofer/_version.py"} <= tracked_texts().keys()
    assert len(LOCKS) == 5
    assert len(MODULES) > 1


@pytest.mark.parametrize("line", ["see /{}/main", "find-links = '/{}/x'", "file:///{}/x", "cd /{}"])
def test_the_machine_path_pattern_finds_what_it_should(line: str) -> None:
    assert MACHINE_PATH.search(line.format("wo" + "rk"))
    assert not MACHINE_PATH.search(line.format("data"))


def test_no_tracked_file_names_a_package_registry() -> None:
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS))
    assert lines_matching(pattern, tracked_texts()) == []


def test_no_tracked_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    assert lines_matching(MACHINE_PATH, tracked_texts()) == []


def test_no_lock_file_holds_an_address() -> None:
    is_lock = re.compile(r"(^|/)requirements|constraints|\.lock$|(^|/)package-lock\.json$")
    locks = {path: text for path, text in tracked_texts().items() if is_lock.search(path)}
    assert locks.keys() >= {f"requirements/{lock.name}" for lock in LOCKS}
    assert lines_matching(re.compile(r"https?://|file:/|--(extra-)?index-url|--find-links"), locks) == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_version_has_its_hashes(lock: Path) -> None:
    entries = re.findall(r"^(\S+==.*(?:\n    .*)*)", lock.read_text(), re.MULTILINE)
    # A package may be pinned twice, for different versions of Python.
    assert len(entries) == len(re.findall(r"^[A-Za-z0-9._-]+==", lock.read_text(), re.MULTILINE)) > 0
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_locks_hold_what_pyproject_asks_for_at_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {
        canonical(name) for name in project["project"]["dependencies"] + project["build-system"]["requires"]
    }
    groups = {canonical(name) for name in project["dependency-groups"]["dev"] if isinstance(name, str)}
    docs = {canonical(name) for name in project["dependency-groups"]["docs"]}
    run, dev = pins(ROOT / "requirements/run.txt"), pins(ROOT / "requirements/dev.txt")
    assert wanted <= run.keys(), "run `make lock`"
    assert wanted | groups <= dev.keys(), "run `make lock`"
    assert run.items() <= dev.items(), "run `make lock`"
    assert docs <= pins(ROOT / "requirements/docs.txt").keys(), "run `make lock`"


def test_every_make_target_is_in_make_help() -> None:
    listed = re.findall(r"^make (\S+) +\S", make("help").stdout, re.MULTILINE)
    assert sorted(listed) == sorted(make_targets())
    assert {"demo", "test", "test-unit", "check", "bench", "drill", "lock", "venv", "clean"} <= set(listed)


def test_make_alone_prints_the_help() -> None:
    assert make().stdout == make("help").stdout


def test_an_old_python_is_refused_by_name(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    old = tmp_path / "bin" / "python3"
    old.parent.mkdir()
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2 || exit 1\n')
    old.chmod(0o755)
    bash = shutil.which("bash") or "bash"
    result = subprocess.run(
        [bash, "scripts/bootstrap.sh"],
        cwd=tmp_path,
        env={"PATH": str(old.parent)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1
    assert "error: gofer needs Python 3.11 or newer, and `python3` is Python 3.9.2" in result.stderr
    assert "hint: " in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    assert re.search(r"^## \[Unreleased\]$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(ast.parse(path.read_bytes()))
    ]
    assert silent == []


def test_every_type_ignore_names_its_error() -> None:
    bare = re.compile(r"#\s*type:\s*ignore(?!\[)")
    found = [
        f"{path}:{number}"
        for path in tracked_texts()
        if path.endswith(".py")
        for number, text in comments(ROOT / path)
        if bare.search(text)
    ]
    assert found == []


def test_the_agent_imports_the_standard_library_and_itself_alone() -> None:
    strangers = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for package in NODE_PACKAGES
        for path in (SOURCE / package).rglob("*.py")
        for number, name in imported_modules(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(tuple(f"gofer.{package}" for package in NODE_PACKAGES))
    ]
    assert strangers == []


def test_tests_of_one_group_meet_one_worker(tmp_path: Path) -> None:
    """Clusters and servers are shared by groups: pytest and pytest-xdist must agree on what a group is."""
    text = "import os, pathlib, pytest\npytestmark = pytest.mark.xdist_group(__name__)\n"
    text += "@pytest.mark.parametrize('number', range(4))\n"
    text += (
        "def test(number):\n    pathlib.Path(f'{os.environ[\"PYTEST_XDIST_WORKER\"]}.{__name__}').touch()\n"
    )
    for name in ("test_a", "test_b"):
        (tmp_path / f"{name}.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert sorted(path.name.split(".")[1] for path in tmp_path.glob("gw*.*")) == ["test_a", "test_b"]
