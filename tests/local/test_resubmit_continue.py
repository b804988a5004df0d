"""`gofer resubmit --continue`: the new run starts where the old one ended."""

from __future__ import annotations

import os
from pathlib import Path

from home import Home

# Counts on from what is there, in the folder and in the outputs, and says what it found.
SCRIPT = (
    "cat ck/step note {output}/step 2>/dev/null; mkdir -p ck; echo step >> ck/step; echo step >> $1/step; "
    "echo changed >> note; chmod 755 ck/step; ln -sf ck/step latest; test -e stop || { touch stop; exit 3; }"
)


def start(home: Home, *words: str) -> str:
    """A run that fails the first time; its id."""
    script = SCRIPT.replace("{output}", "$1")
    command = ["sh", "-c", script, "sh", "{output}"]
    return home.gofer("submit", "-Q", "--wait", *words, *command, status=None).out.strip()


def again(home: Home, run: str, *words: str) -> tuple[str, str]:
    """(the new id, what was said) once it has ended."""
    done = home.gofer("resubmit", *words, run)
    new = done.out.strip()
    home.gofer("wait", "-Q", new, status=None)
    return new, done.err


def test_the_files_of_the_old_run_are_in_place(home: Home) -> None:
    (home.folder / "note").write_text("mine\n")
    first = start(home)
    assert home.log(first) == "mine\n"
    fresh, _ = again(home, first)
    assert home.log(fresh) == "mine\n"
    second, said = again(home, first, "--continue")
    assert home.log(second) == "step\nmine\nstep\n"
    name, old = home.view(second)["short_id"], home.view(first)["short_id"]
    assert f"{name} starts with the files and outputs of {old}; the code has its own note" in said
    left = home.run_folder(second)
    assert (left / "files/ck/step").read_text() == (left / "outputs/step").read_text() == "step\nstep\n"
    assert os.access(left / "files/ck/step", os.X_OK)
    assert os.readlink(left / "files/latest") == "ck/step"
    third, _ = again(home, second, "--continue", "--same-code")
    assert home.log(third).count("step") == 4
    assert (home.run_folder(first) / "files/ck/step").read_text() == "step\n"


def test_a_run_whose_node_left_no_list_of_its_files(home: Home) -> None:
    """A lost node writes none, and an older gofer wrote none."""
    first = start(home)
    lists = list((home.run_folder(first) / "attempts").rglob("files.jsonl"))
    assert len(lists) == 1
    lists[0].unlink()
    second, _ = again(home, first, "--continue")
    assert home.log(second) == "step\nchanged\nstep\n"
    assert os.readlink(home.run_folder(second) / "files/latest") == "ck/step"


def test_what_was_too_much_to_keep_is_in_place(home: Home) -> None:
    """If the copy with the files is gone, the run fails with a message and does not start without them."""
    script = (
        "cat ck/step note 2>/dev/null; mkdir -p ck; echo step >> ck/step; echo changed >> note; "
        "head -c 3000 /dev/zero > big"
    )
    (home.folder / "note").write_text("mine\n")
    first = home.gofer("submit", "-Q", "--wait", "--keep", "2k", "sh", "-c", script).out.strip()
    second, said = again(home, first, "--continue")
    assert home.log(second).startswith("step\nmine\ngofer: ")
    assert "the code has its own note" in said
    (old,) = (home.queue_home / "kept").glob(f"{first}.*")
    assert (old / "ck/step").read_text() == "step\n"
    old.rename(old.with_name("elsewhere"))
    third, _ = again(home, first, "--continue")
    view = home.view(third)
    assert (view["state"], view["reason"]) == ("failed", "staging")
    assert f"is not on this machine; `gofer extract {first} DIR` brings them" in view["detail"]


def test_each_row_continues_its_own(home: Home) -> None:
    """Also when only some are repeated, which have other numbers then."""
    words = ["submit", "-Q", "--no-code", "--wait", "--each", "x=0,1,2"]
    script = "cat mine 2>/dev/null; echo {x} > mine; test -e stop || { touch stop; exit {x}; }"
    group = home.gofer(*words, "sh", "-c", script, status=None).out.strip()
    new, _ = again(home, group, "--continue", "--failed")
    assert [home.log(f"{new}-{row}") for row in (0, 1)] == ["1\n", "2\n"]
    one, _ = again(home, f"{group}-2", "--continue")
    assert home.log(f"{one}-0") == "2\n"


def test_set_up_does_not_hide_them_and_another_store_is_refused(home: Home, tmp_path: Path) -> None:
    home.configure("")
    first = start(home, "--setup", "echo made > of-set-up")
    second, _ = again(home, first, "--continue")
    files = home.run_folder(second) / "files"
    assert (files / "ck/step").read_text() == "step\nstep\n"
    assert not (files / "of-set-up").exists()
    other = tmp_path / "other store"
    other.mkdir()
    home.configure(
        f"stores:\n  other: {{url: '{other.as_uri()}'}}\ntargets:\n  there: {{kind: local, store: other}}\n"
    )
    done = home.gofer("resubmit", "--continue", "-t", "there", first, status=None)
    assert done.status != 0
    assert "and the target `there` keeps runs in" in done.err
