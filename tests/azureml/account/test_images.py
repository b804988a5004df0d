"""`gofer image`: images under `dockers:`, wrapped once, pushed with a password that is on no command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from azureml.account.programs import Program, install_docker
from home import Home

from gofer.config.sections import DockerSection

DIGEST = "0123456789abcdef" * 4
BASE = f"reg.invalid/me/env:1@sha256:{DIGEST}"
PASSWORD = "dummy-registry-password"
SETTINGS = f"""
dockers:
  mine:
    image: me/env:1
    registry: reg.invalid
    sha256: {DIGEST}
    sing_wrap: true
    post_sing_steps: ["pip install x"]
    username: me
    password: ${{secret:reg}}
  plain: {{image: "python:3.11"}}
"""


@pytest.fixture
def docker(home: Home, tmp_path: Path) -> Program:
    home.configure(SETTINGS)
    secret = home.path / "secrets.json"
    secret.parent.mkdir(parents=True)
    secret.touch(0o600)
    secret.write_text(json.dumps({"reg": PASSWORD}))
    return install_docker(
        tmp_path / "bin", passwords={"reg.invalid": ["me", PASSWORD]}, registry={BASE: {}, "python:3.11": {}}
    )


def wrap(home: Home, *words: str, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gofer("image", "wrap", *words, "--json", status=status).out)
    return found


def test_built_and_pushed_once(home: Home, docker: Program) -> None:
    first = wrap(home, "mine", "--push")
    assert (first["done"], first["is_pushed"]) == ("pushed", True)
    assert first["image"] == f"reg.invalid/me/env:1-sing-{first['mark'][:12]}"
    assert docker.state["registry"][first["image"]] == {"gofer.wrapping": first["mark"]}
    assert docker.verbs.count("build") == 1
    calls = len(docker.calls)
    assert wrap(home, "mine", "--push")["done"] == "known"
    assert len(docker.calls) == calls


def test_the_password_goes_by_stdin_and_nowhere_else(home: Home, docker: Program) -> None:
    done = home.gofer("image", "wrap", "mine", "--push")
    (login,) = [call for call in docker.calls if call["words"][0] == "login"]
    assert login["read"] == PASSWORD
    assert not [call for call in docker.calls if PASSWORD in " ".join(call["words"])]
    assert PASSWORD not in done.out + done.err
    assert PASSWORD not in home.gofer("image", "show", "mine").out
    assert not [
        path
        for path in home.path.rglob("*")
        if path.is_file() and path.name != "secrets.json" and PASSWORD.encode() in path.read_bytes()
    ]


def test_only_options_that_docker_has(home: Home, docker: Program) -> None:
    """The stand-in is held to the real one: every word given to it is an option there."""
    home.gofer("image", "wrap", "mine", "--push")
    (home.path / "images.json").unlink()
    docker.set(local={})
    home.gofer("image", "wrap", "mine", "--push")
    known = json.loads((Path(__file__).parent / "samples" / "docker-28.2.2-options.json").read_text())
    used = set()
    for call in docker.calls:
        words = call["words"]
        verb = " ".join(words[:2]) if words[0] == "image" else words[0]
        used.add(verb)
        assert {word for word in words if word.startswith("--")} <= set(known[verb]), words
    assert used == set(known)


def test_a_password_that_is_refused(home: Home, docker: Program) -> None:
    docker.set(passwords={"reg.invalid": ["me", "another"]})
    done = home.gofer("image", "wrap", "mine", "--push", status=1)
    assert "`docker login` was refused by reg.invalid for `me`" in done.err
    assert "build" not in docker.verbs


def test_built_first_and_pushed_later(home: Home, docker: Program) -> None:
    first = wrap(home, "mine")
    assert (first["done"], first["is_pushed"], first["next"]) == (
        "built",
        False,
        ["gofer image wrap mine --push"],
    )
    assert "(not pushed)" in home.gofer("image", "list").out
    assert wrap(home, "mine")["done"] == "known"
    assert wrap(home, "mine", "--push")["done"] == "pushed"
    assert docker.verbs.count("build") == 1


def test_another_person_finds_it_in_the_registry_by_its_label(home: Home, docker: Program) -> None:
    image = wrap(home, "mine", "--push")["image"]
    (home.path / "images.json").unlink()
    docker.set(local={})
    again = wrap(home, "mine", "--push")
    assert (again["done"], again["image"]) == ("known", image)
    assert docker.verbs.count("build") == 1


def test_an_image_of_that_name_with_another_label_is_not_taken_for_it(home: Home, docker: Program) -> None:
    image = wrap(home, "mine", "--push")["image"]
    (home.path / "images.json").unlink()
    docker.set(local={}, registry={**docker.state["registry"], image: {"gofer.wrapping": "other"}})
    assert wrap(home, "mine", "--push")["done"] == "pushed"
    assert docker.verbs.count("build") == 2


def test_other_steps_make_another_image(home: Home, docker: Program) -> None:
    first = wrap(home, "mine")
    home.configure(SETTINGS.replace("pip install x", "pip install y"))
    second = wrap(home, "mine")
    assert (second["done"], docker.verbs.count("build")) == ("built", 2)
    assert first["image"] != second["image"]


def test_without_a_digest_it_is_wrapped_each_time(home: Home, docker: Program) -> None:
    wrap(home, "plain")
    again = home.gofer("image", "wrap", "plain")
    assert docker.verbs.count("build") == 2
    assert "it has no `sha256:`" in again.err


def test_a_step_that_fails_leaves_no_record(home: Home, docker: Program) -> None:
    home.configure(SETTINGS.replace("pip install x", "false-step"))
    done = home.gofer("image", "wrap", "mine", status=1)
    assert "non-zero code" in done.err
    assert "ended with status 1" in done.err
    assert not (home.path / "images.json").exists()


def test_a_daemon_that_is_away_and_a_podman_that_works(home: Home, docker: Program, tmp_path: Path) -> None:
    docker.set(daemon=False)
    result = wrap(home, "mine", status=1)
    assert result["done"] == "written"
    assert "Cannot connect to the Docker daemon" in result["why"]
    podman = install_docker(tmp_path / "bin", name="podman", registry={BASE: {}})
    podman.set(passwords={"reg.invalid": ["me", PASSWORD]})
    assert wrap(home, "mine")["done"] == "built"
    assert "build" in podman.verbs


def test_without_docker_it_says_what_to_run(home: Home, docker: Program, tmp_path: Path) -> None:
    docker.path.unlink()
    done = home.gofer("image", "wrap", "mine", "--out", "wrapping", status=1)
    assert done.out == ""
    assert "neither docker nor podman is on the PATH" in done.err
    assert "docker build --file wrapping/Dockerfile --tag reg.invalid/me/env:1-sing-" in done.err
    assert f"FROM {BASE}\n" in (home.folder / "wrapping" / "Dockerfile").read_text()
    assert wrap(home, "mine", "--built")["is_pushed"]
    assert wrap(home, "mine")["done"] == "known"


def test_options_reach_the_dockerfile(home: Home, docker: Program) -> None:
    options = ["--accelerator", "amd", "--installer", "i.invalid/i:1", "--validator", "v.invalid/v:1"]
    found = wrap(home, "mine", *options, "--tag", "reg.invalid/me/other:9")
    text = Path(found["dockerfile"]).read_text()
    assert "SINGULARITY_IMAGE_ACCELERATOR=AMD" in text
    assert "FROM i.invalid/i:1 AS installer\nFROM v.invalid/v:1 AS validator\n" in text
    assert found["image"] == "reg.invalid/me/other:9"
    assert "reg.invalid/me/other:9" in docker.state["local"]


def test_a_file_of_the_persons_own_is_left_alone(home: Home, docker: Program) -> None:
    own = home.folder / "Dockerfile"
    own.write_text("FROM scratch\n")
    done = home.gofer("image", "wrap", "mine", "--out", ".", status=2)
    assert "was not written by gofer" in done.err
    assert own.read_text() == "FROM scratch\n"


def test_an_image_that_is_not_there(home: Home, docker: Program) -> None:
    done = home.gofer("image", "wrap", "mien", status=2)
    assert "there is no image `mien` under `dockers:`" in done.err
    assert "did you mean `mine`?" in done.err


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{sha256: abc, image: x}", "`dockers.a.sha256`"),
        ("{sing_wrap: true}", "`dockers.a` needs the key `image`"),
        ("{image: x, password: plain-text-word}", "`dockers.a.password`"),
        ("{image: x, sing-wrap: true}", "did you mean `sing_wrap`?"),
        ("{image: '-f'}", "`dockers.a.image`"),
    ],
)
def test_entries_that_cannot_be(home: Home, entry: str, words: str) -> None:
    home.configure(f"dockers: {{a: {entry}}}\n")
    done = home.gofer("image", "list", status=2)
    assert words in done.err
    assert "gofer.yaml:1" in done.err
    assert "plain-text-word" not in done.err


def test_the_page_has_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "images.md").read_text()
    result = set(re.findall(r"^\| `dockers\.NAME\.(\w+)` \|", page, re.MULTILINE))
    assert result == set(DockerSection.__struct_fields__)


def test_listed_and_shown(home: Home, docker: Program) -> None:
    rows = json.loads(home.gofer("image", "list", "--json").out)
    assert [(row["name"], row["image"], row["wrapped"]) for row in rows] == [
        ("mine", "reg.invalid/me/env:1", None),
        ("plain", "python:3.11", None),
    ]
    shown = home.gofer("image", "show", "mine").out
    assert "pip install x" in shown
    assert "${secret:reg}" in shown
    assert docker.calls == []
