"""The wrapping Dockerfile: its text, its steps, and what makes two wrappings the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gofer.errors import ConfigError, UsageError
from gofer.ops.images.build import Wrapping, dockerfile, wrapped_name

GOLDEN = Path(__file__).parent / "golden" / "Dockerfile"
BASE = "reg.invalid/me/env:1@sha256:" + "0" * 64
STEPS = ("conda install -y pytorch cudatoolkit=11.3 -c pytorch", "RUN pip install xtlib==0.0.265")


def test_golden() -> None:
    assert dockerfile(Wrapping(BASE, STEPS)) == GOLDEN.read_text()


def runs(text: str) -> list[str]:
    """The RUN instructions, each on one line."""
    lines = text.replace("\\\n", "").splitlines()
    return [" ".join(line.split()) for line in lines if line.startswith("RUN ")]


def test_installer_validator_steps_and_cleaning_come_in_that_order_in_one_layer() -> None:
    (only,) = runs(dockerfile(Wrapping(BASE, STEPS)))
    parts = ["installer.sh", "validator.sh", "conda install -y pytorch", "pip install xtlib", "rm -rf /var"]
    found = [only.index(part) for part in parts]
    assert found == sorted(found)


@pytest.mark.parametrize(
    "step",
    [
        "a || b",
        "a; b",
        "true # why",
        "a & b",
        "cat <<EOF\nx\nEOF",
        "[ -f x ]",
        "--odd",
        "two\nlines",
        "end \\",
    ],
)
def test_a_step_that_a_chain_could_change_stands_alone(step: str) -> None:
    found = runs(dockerfile(Wrapping(BASE, (step,))))
    assert len(found) == 3
    assert json.loads(found[1].removeprefix("RUN ")) == ["/bin/sh", "-ec", step]


@pytest.mark.parametrize("step", ["ENV A=b", "COPY x /y", "WORKDIR /w", "RUN --mount=type=cache,target=/c x"])
def test_a_line_of_a_dockerfile_is_taken_as_it_is(step: str) -> None:
    assert f"\n{step}\n" in dockerfile(Wrapping(BASE, (step,)))


def test_the_chain_stops_at_the_first_failure(tmp_path: Path) -> None:
    """A shell reads the chain as gofer means it: a step that fails is the end, with its status."""
    text = dockerfile(Wrapping(BASE, ("touch before", "false", "touch after")))
    (only,) = runs(text)
    script = only.removeprefix("RUN ")
    for name in ("installations/singularity/installer.sh", "validations/validator.sh"):
        script = script.replace(f"/opt/microsoft/_singularity/{name}", "true")
    script = script.replace("/var/lib/apt/lists", str(tmp_path / "lists"))
    done = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1
    assert (tmp_path / "before").exists()
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize("step", ["FROM other", "  "])
def test_steps_that_cannot_be(step: str) -> None:
    with pytest.raises(ConfigError):
        dockerfile(Wrapping(BASE, (step,)))


@pytest.mark.parametrize("name", ["", "a b", "x\nRUN evil", "-f"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of an image"):
        dockerfile(Wrapping(name))


def test_the_mark_covers_all_it_is_made_of() -> None:
    one = Wrapping(BASE, STEPS)
    others = [
        one._replace(base="other"),
        one._replace(steps=STEPS[:1]),
        one._replace(accelerator="AMD"),
        one._replace(installer="i:2"),
        one._replace(validator="v:2"),
    ]
    assert len({wrapping.mark for wrapping in [one, *others]}) == 6
    assert one.mark == Wrapping(BASE, STEPS).mark
    assert one.mark in dockerfile(one)


@pytest.mark.parametrize(
    ("image", "wrapped"),
    [
        ("reg.invalid:5000/me/env:1", "reg.invalid:5000/me/env:1-sing-abcdefabcdef"),
        ("me/env", "me/env:latest-sing-abcdefabcdef"),
        ("env:v2", "env:v2-sing-abcdefabcdef"),
    ],
)
def test_the_name_of_a_wrapped_image(image: str, wrapped: str) -> None:
    assert wrapped_name(image, "abcdef" * 10) == wrapped
