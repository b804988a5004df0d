"""The first command that `gofer why` names after a failure works when it is typed.

The project's folder has a space in its name, and the command is typed below its top.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from home import Home

CALLER = "from lib.m import g\n\ng()\n"
LIBRARY = "def g():\n    raise ValueError('bad')\n"


@pytest.fixture
def folder(home: Home) -> Path:
    """The folder `exp` of a project."""
    top = home.root / "my project"
    for path, text in {
        "gofer.yaml": "job: {setup: 'test ! -e no-set-up'}\n",
        ".gitignore": ".env\nbig data/\n",
        ".env": "KEY=abcdefgh\n",
        "src/mylib/__init__.py": "",
        "exp/big data/a": "x",
        "exp/lib/m.py": LIBRARY,
        "exp/main.py": CALLER,
        "exp/crlf.sh": "#!/bin/sh\r\ntrue\r\n",
        "exp/by env.sh": "#!/usr/bin/env bash\r\n",
        "exp/plain.sh": "#!/bin/sh\ntrue\n",
    }.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(text.encode())
    for name in ("crlf.sh", "by env.sh"):
        (top / "exp" / name).chmod(0o755)
    return top / "exp"


def fail(home: Home, folder: Path, *words: str) -> dict[str, Any]:
    """Submit a run that fails, and the answer of `gofer why`."""
    home.gofer("submit", "-Q", "--wait", *words, cwd=folder, status=None)
    found: dict[str, Any] = json.loads(home.gofer("why", "--json", "last", cwd=folder).out)
    assert found["state"] == "failed", found
    return found


def type_line(home: Home, line: str, cwd: Path) -> str:
    """Type a line of the answer in a real shell, and wait for the run that it submits. Its state."""
    before = home.view("last")["id"]
    typed = ["bash", "-c", line]
    done = subprocess.run(
        typed, cwd=cwd, env=home.environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    run = home.view("last")["id"]
    assert run != before, f"{line} submitted nothing: {done.stdout}"
    state: str = home.wait(run)[0]["state"]
    return state


class Case(NamedTuple):
    command: list[str]
    words: str
    step: str
    mend: Callable[[Path], object] = lambda folder: None


CASES = {
    "secret": Case(["cat", "../.env"], "left out by the line `.env` of .gitignore", "--include ../.env"),
    "ignored": Case(["cat", "big data/a"], "left out by the line `big data/`", "--include 'big data/'"),
    "crlf": Case(["./crlf.sh"], "`crlf.sh` has Windows line ends", "sed -i 's/\\r$//' crlf.sh && gofer"),
    "crlf-env": Case(["./by env.sh"], "`by env.sh` has Windows line ends", "'by env.sh' && gofer"),
    "crlf-inside": Case(["sh", "-c", "./crlf.sh"], "`crlf.sh` has Windows line ends", "crlf.sh && gofer"),
    "not-executable": Case(
        ["sh", "-c", "./plain.sh"], "`plain.sh` is not executable", "chmod +x plain.sh &&"
    ),
    "typo": Case(["bash", "-c", "pythn -V"], "did you mean `python`?", "bash -c 'python -V'"),
    "typo-in-script": Case(
        ["sh", "typo.sh"],
        "there is no program `pythn` (line 1 of typo.sh); did you mean `python`?",
        "gofer resubmit ",
        lambda folder: (folder / "typo.sh").write_text("python -V\n"),
    ),
    "src": Case(["python", "-c", "import mylib"], "`mylib` is in `src/`", "-e PYTHONPATH=../src"),
    "exception": Case(
        ["python", "main.py"],
        "`ValueError: bad` at lib/m.py, line 2",
        "gofer resubmit ",
        lambda folder: (folder / "lib/m.py").write_text("def g():\n    pass\n"),
    ),
    "set-up": Case(
        ["true"],
        "correct `setup:` (gofer.yaml:1) first",
        "gofer submit -t local true",
        lambda folder: (folder / "no-set-up").unlink(),
    ),
    "time-limit": Case(
        ["--time-limit", "2s", "sh", "-c", "sleep 2.2"], "limit of 2s", "-limit 4s sh -c 'sleep 2.2'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_line_of_the_cause_works(home: Home, folder: Path, name: str) -> None:
    case = CASES[name]
    if name == "set-up":
        (folder / "no-set-up").touch()
    if name == "typo-in-script":
        (folder / "typo.sh").write_text("pythn -V\n")
    found = fail(home, folder, *case.command)
    assert case.words in found["why"]
    assert case.step in found["next"][0]
    case.mend(folder)
    assert type_line(home, found["next"][0], folder) == "succeeded"


def test_the_line_names_the_folder_where_it_has_to_be_typed(home: Home, folder: Path) -> None:
    fail(home, folder, "cat", "../.env")
    line = json.loads(home.gofer("why", "--json", "last").out)["next"][0]
    assert line.startswith(f"cd '{folder}' && gofer submit ")
    assert type_line(home, line, home.root) == "succeeded"


def test_a_command_of_several_lines_can_be_pasted(home: Home, folder: Path) -> None:
    fail(home, folder, "sh", "-c", "echo 'a\tb'\ncat ../.env\n")
    shown = home.gofer("why", "last", cwd=folder).out.partition("next:\n  ")[2]
    line, _, rest = shown.partition("\n  gofer logs ")
    assert rest and line.startswith("gofer submit ")
    assert type_line(home, line, folder) == "succeeded"
    assert home.log("last") == "a\tb\nKEY=********\n"


def test_a_group_says_the_cause_of_its_example(home: Home, folder: Path) -> None:
    words = ["--each", "f=../.env,main.py", "cat", "{f}"]
    group = home.gofer("submit", "-Q", "--wait", *words, cwd=folder, status=None).out.strip()
    found = json.loads(home.gofer("why", "--json", group, cwd=folder).out)
    assert "left out by the line `.env` of .gitignore" in found["reasons"][0]["why"]
    assert found["next"][0] == f"gofer why {group[-6:]}-0"


def test_tracebacks_have_the_paths_of_the_project(home: Home, folder: Path) -> None:
    """Relative to the folder in which `gofer why` is typed, and absolute for files outside of it."""
    fail(home, folder, "python", "main.py")
    near, above = home.gofer("why", "last", cwd=folder).out, home.gofer("why", "last", cwd=folder.parent).out
    other = home.gofer("why", "last", cwd=folder / "lib").out
    assert '  File "main.py", line 3, in <module>\n' in near
    assert '  File "exp/lib/m.py", line 2, in g\n' in above
    assert f'  File "{folder}/main.py", line 3' in other and '  File "m.py", line 2, in g\n' in other
    rows = home.gofer("submit", "-Q", "--wait", "--each", "i=1", "python", "main.py", cwd=folder, status=None)
    row = home.gofer("why", f"{rows.out.strip()}-0", cwd=folder).out
    assert '  File "lib/m.py", line 2, in g\n' in row
    assert row.endswith(
        f"next:\n  gofer resubmit --failed {rows.out.strip()[-6:]}\n  gofer logs {rows.out.strip()[-6:]}-0\n"
    )
