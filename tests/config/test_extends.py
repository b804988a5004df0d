"""`extends:` reads shared settings from other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from home import Home


def show(home: Home, name: str, folder: Path | None = None) -> str:
    lines = home.gofer("config", "show", cwd=folder or home.folder).out.splitlines()
    return next(" ".join(line.split()) for line in lines if line.split()[:1] == [name])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_file_wins_over_those_that_it_extends(home: Home) -> None:
    lab = home.root / "the lab"
    write(lab / "base.yaml", "job: {retries: 1, gpus: 0, tags: {team: x, from: base}}\ninclude: [data/]\n")
    write(lab / "more.yaml", "extends: base.yaml\njob: {retries: 2, name: more}\n")
    write(lab / "last.yaml", "job: {name: last}\n")
    home.configure(
        "extends: ['../the lab/more.yaml', '../the lab/last.yaml']\njob: {tags: {from: project}}\n"
    )
    assert show(home, "job.retries").endswith("more.yaml:2")
    assert show(home, "job.name").startswith("job.name last")
    (home.folder / "data").mkdir()
    (home.folder / "data" / "a").write_text("1\n")
    (home.folder / ".gitignore").write_text("data/\n")
    assert home.gofer("submit", "-f", "cat", "data/a").out == "1\n"
    assert home.view("last")["tags"] == {"team": "x", "from": "project"}
    # From a folder below, too.
    (home.folder / "deep").mkdir()
    assert show(home, "job.retries", home.folder / "deep").endswith("more.yaml:2")
    assert str(lab / "base.yaml") in home.gofer("doctor", status=None).out


def test_the_file_of_the_person_may_extend_another(home: Home) -> None:
    write(home.path / "config.yaml", "extends: ~/shared.yaml\n")
    write(Path(home.environ["HOME"]) / "shared.yaml", "job: {retries: 3}\n")
    assert show(home, "job.retries").endswith("shared.yaml:1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("extends: none.yaml", "gofer.yaml:1: `extends`: there is no file"),
        ("extends: gofer.yaml", "gofer.yaml:1: a file extends itself: `gofer.yaml` extends `gofer.yaml`"),
        (
            "extends: a.yaml",
            "a.yaml:1: a file extends itself: `gofer.yaml` extends `a.yaml` extends `gofer.yaml`",
        ),
        ("extends: [wrong.yaml]", "wrong.yaml:2: unknown key `jobs`"),
        ("extends: {a: b}", "gofer.yaml:1: `extends` must be"),
    ],
)
def test_what_cannot_be_extended_is_refused(home: Home, text: str, words: str) -> None:
    (home.folder / "a.yaml").write_text("extends: gofer.yaml\n")
    (home.folder / "wrong.yaml").write_text("job: {retries: 1}\njobs: {}\n")
    home.configure(text + "\n")
    assert words in home.gofer("submit", "true", status=2).err
