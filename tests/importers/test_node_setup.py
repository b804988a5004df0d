"""The set-up script by itself, under the shell that a node runs it with."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gofer.importers.node_setup import node_setup

NOBODY = 65534
SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 9
shift
[ "$1" = true ] && exit ALLOWED
echo "sudo $1"
shift
exec "$@"
"""


class Node:
    """A folder with code, a folder with programs, and a user with write access to the first only."""

    def __init__(self, root: Path) -> None:
        self.code, self.programs = root / "code", root / "programs"
        for folder in (root, self.code, self.programs):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        self.user = NOBODY if os.getuid() == 0 else os.getuid()
        if os.getuid() == 0:
            os.chown(self.code, NOBODY, NOBODY)
        # A Python whose packages lie where only root may write.
        self.program("python", '[ "$1" = -c ] && echo /usr || echo "pip: $*"')

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def write(self, name: str, text: str) -> None:
        (self.code / name).write_text(text)
        if os.getuid() == 0:
            os.chown(self.code / name, NOBODY, NOBODY)

    def run(self, script: str, **variables: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.code,
            env={"PATH": f"{self.programs}:/usr/bin:/bin", **variables},
            user=self.user if self.user != os.getuid() else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture
def node() -> Iterator[Node]:
    # Not pytest's own folder: nobody else may enter that.
    with tempfile.TemporaryDirectory(prefix="gofer node ") as folder:
        yield Node(Path(folder))


ACT = node_setup("compile.aml.sh", as_root=True)


def test_without_the_files_it_says_and_does_nothing(node: Node) -> None:
    assert node.run(ACT) == (0, "")
    assert list(node.code.iterdir()) == []


def test_packages_come_before_the_compile_script(node: Node) -> None:
    node.write("requirements.txt", "")
    node.write("compile.aml.sh", 'echo "compile: $# $1"\n')
    status, said = node.run(ACT, ACT_COMPILE_ARGS="a  b")
    lines = said.splitlines()
    assert status == 0
    assert lines[1] == "pip: -m pip install --disable-pip-version-check -r requirements.txt"
    assert lines[2:] == ["+ ./compile.aml.sh a  b", "compile: 1 a  b"]


@pytest.mark.parametrize(("allowed", "uses"), [(0, True), (1, False)])
def test_root_is_requested_only_if_it_is_needed_and_possible(node: Node, allowed: int, uses: bool) -> None:
    node.program("sudo", SUDO.replace("ALLOWED", str(allowed)))
    node.write("requirements.txt", "")
    node.write("compile.aml.sh", "echo compiled\n")
    status, said = node.run(ACT)
    assert (status, "compiled\n" in said, "pip: -m pip" in said) == (0, True, True)
    assert said.count("sudo -E\n") == (2 if uses else 0)
    # Packages that lie where this user may write need no root.
    node.program("python", '[ "$1" = -c ] && pwd || echo "pip: $*"')
    assert node.run(ACT)[1].count("sudo -E\n") == (1 if uses else 0)
    assert "sudo" not in node.run(node_setup("compile.aml.sh", as_root=False))[1]


def test_the_status_of_a_failure_is_kept(node: Node) -> None:
    node.write("compile.aml.sh", "exit 7\n")
    status, said = node.run(ACT)
    assert status == 7
    assert said.splitlines()[-1] == "compile.aml.sh failed; `gofer submit --setup ''` runs without it"


def test_an_interpreter_that_is_not_there(node: Node) -> None:
    node.write("requirements.txt", "")
    status, said = node.run(node_setup("compile.aml.sh", "/no where/python", as_root=True))
    assert status == 127
    assert said.splitlines()[-1] == "/no where/python failed; `gofer submit --setup ''` runs without it"


def test_packages_that_are_built_are_not_installed_again(node: Node) -> None:
    node.write("requirements.txt", "six\n")
    node.write("compile.sh", "echo compiled")
    status, said = node.run(node_setup("compile.sh", as_root=True), GOFER_PACKAGES_FILE="requirements.txt")
    assert (status, said.count("pip:"), said.count("compiled")) == (0, 0, 1)
