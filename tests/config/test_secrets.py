"""The file of secrets: private, whole, and safe with several writers."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gofer.config.secrets import Secrets
from gofer.errors import CredentialError, UnknownName, UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "gofer" / "secrets.json"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_set_get_list_remove(path: Path) -> None:
    secrets = Secrets(path)
    assert secrets.names() == []
    secrets.set("b", "dummy-b")
    secrets.set("a.x-1_", "dummy\nlines é")
    secrets.set("b", "dummy-b2")
    assert Secrets(path).names() == ["a.x-1_", "b"]
    assert Secrets(path).get("b") == "dummy-b2"
    assert Secrets(path).get("a.x-1_") == "dummy\nlines é"
    secrets.remove("b")
    assert Secrets(path).names() == ["a.x-1_"]


def test_file_and_folder_are_private_whatever_the_umask(path: Path) -> None:
    old = os.umask(0)
    try:
        Secrets(path).set("a", "dummy")
    finally:
        os.umask(old)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert {mode(file) for file in path.parent.iterdir()} == {0o600}


def test_an_open_folder_is_closed_before_a_secret_goes_in(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o777)
    Secrets(path).set("a", "dummy")
    assert mode(path.parent) == 0o700


@pytest.mark.parametrize("open_mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_use_is_not_read(path: Path, open_mode: int) -> None:
    secrets = Secrets(path)
    secrets.set("a", "dummy-value")
    path.chmod(open_mode)
    for act in (
        lambda: secrets.get("a"),
        secrets.names,
        lambda: secrets.set("b", "x"),
        lambda: secrets.remove("a"),
    ):
        with pytest.raises(CredentialError, match="others can read or write") as caught:
            act()
        assert caught.value.hint == f"`chmod 600 {path}`"
        assert "dummy-value" not in caught.value.message
    path.chmod(0o600)
    assert secrets.get("a") == "dummy-value"


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "-a", "a\n", "é", "x" * 129, "a}"])
def test_odd_names_are_refused(path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a secret"):
        Secrets(path).set(name, "dummy")
    assert not path.exists()


@pytest.mark.parametrize("value", ["", "dummy\0value"])
def test_values_no_variable_can_hold_are_refused_unsaid(path: Path, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        Secrets(path).set("a", value)
    assert "dummy" not in caught.value.message
    assert not path.exists()


def test_removing_what_is_not_there(path: Path) -> None:
    Secrets(path).set("token", "dummy")
    with pytest.raises(UnknownName, match="no secret `tokn`") as caught:
        Secrets(path).remove("tokn")
    assert caught.value.hint == "did you mean `token`?"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b'{"a": "dummy-value"', b"\xff"])
def test_a_damaged_file_is_neither_used_nor_overwritten(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    for act in (lambda: Secrets(path).get("a"), lambda: Secrets(path).set("a", "dummy")):
        with pytest.raises(CredentialError, match="is damaged") as caught:
            act()
        assert "dummy-value" not in caught.value.message
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialError, match="cannot write"):
        Secrets(tmp_path / "file" / "secrets.json").set("a", "dummy")


def test_many_writers_at_once_keep_every_secret(path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from gofer.config.secrets import Secrets
        for i in range(5):
            Secrets(Path(sys.argv[1])).set(f"w{sys.argv[2]}-{i}", "dummy")
        """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(n)], env=environ) for n in range(6)
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 6
    assert len(Secrets(path).names()) == 30
    assert json.loads(path.read_bytes())
    assert {file.name for file in path.parent.iterdir()} == {"secrets.json", "secrets.json.lock"}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path: Path) -> None:
    Secrets(path).set("a", "dummy-a")
    code = """if True:
        import resource, sys
        from pathlib import Path
        from gofer.config.secrets import Secrets
        from gofer.errors import CredentialError
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
        try:
            Secrets(Path(sys.argv[1])).set("b", "dummy-b")
        except CredentialError as error:
            print(error.message)
        """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"cannot write `{path}`: File too large\n"
    assert Secrets(path).names() == ["a"]
    assert {file.name for file in path.parent.iterdir()} == {"secrets.json", "secrets.json.lock"}


def test_a_lock_that_is_never_let_go_is_given_up_on(path: Path) -> None:
    Secrets(path).set("a", "dummy")
    with open(path.with_name("secrets.json.lock")) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CredentialError, match="another gofer has held"):
            Secrets(path, lock_timeout_s=0.1).set("b", "dummy")
    assert Secrets(path).names() == ["a"]


def test_an_unreadable_path_is_one_clear_error(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(CredentialError, match=r"cannot read .*: Is a directory"):
        Secrets(path).names()
