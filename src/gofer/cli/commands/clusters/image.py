"""`gofer image`: the container images that targets can name, listed, shown, and prepared for Singularity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, Option, json_option, offers, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, render_facts, screen_width
from gofer.ops.images.wrap import WrapRequest, image_facts, image_rows, wrap
from gofer.ops.runs.target_views import images_of
from gofer.ops.session import Session
from gofer.text import format_local_time

if TYPE_CHECKING:
    from gofer.ops.images.wrap import ImageResult


_COLUMNS = [
    Column("NAME"),
    Column("IMAGE", flexible=True),
    Column("WRAPPED", flexible=True),
    Column("USED BY"),
]
_SERVICE_COLUMNS = [
    Column("NAME"),
    Column("KIND"),
    Column("LINE OF THE TARGET", flexible=True),
    Column("CONTENTS", flexible=True),
]
_WORDS = {
    "known": "wrapped before, and not wrapped again",
    "kept": "remembered as built and pushed by you",
    "built": "built here, and not pushed yet",
    "pushed": "built and pushed",
    "written": "not built",
}


class _ListImagesOptions(TypedDict):
    target: str | None
    as_json: bool


def list_images(**given: Unpack[_ListImagesOptions]) -> int:
    """A table, or JSON; empty when no file has images, or the service of the target has none."""
    if given["target"]:
        return _list_service_images(given["target"], as_json=given["as_json"])
    with Session() as session:
        rows = image_rows(session)
    if given["as_json"]:
        print_json(rows)
        return 0
    cells = [[str(row["name"]), str(row["image"]), _wrapped(row), _names(row["used_by"])] for row in rows]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width()))
    return 0


def _list_service_images(target: str, *, as_json: bool) -> int:
    with Session(target=target) as session:
        found = images_of(session, target)
    if as_json:
        print_json([image._asdict() for image in found])
        return 0
    cells = [[image.name, image.kind, image.setting, image.contents] for image in found]
    sys.stdout.write(render(_SERVICE_COLUMNS, cells, fit=screen_width()))
    if not found:
        print_message(f"the service of `{target}` offers no images")
    return 0


def _wrapped(row: dict[str, object]) -> str:
    if row["wrapped"]:
        return f"{row['wrapped']}{'' if row['is_pushed'] else ' (not pushed)'}"
    return "wanted" if row["sing_wrap"] else "-"


def _names(names: object) -> str:
    return ", ".join(names) if isinstance(names, list) and names else "-"


list_command = Command(
    "list",
    list_images,
    [
        target_option(
            "List the images that the service of this target offers",
            default_text="the images under `dockers:`",
        ),
        json_option(),
    ],
    help="List the images under `dockers:`: the full name of each, the wrapped one for Singularity where "
    "there is one (`wanted` where runs need one), and the targets that use it. With `-t TARGET`, list the "
    "images and environments that the service of the target offers, each with the line that names it in the "
    "target.",
)


class _ShowImageOptions(TypedDict):
    name: str
    as_json: bool


def show_image(**given: Unpack[_ShowImageOptions]) -> int:
    """Facts, or JSON. The password is shown by where it is kept."""
    with Session() as session:
        facts = image_facts(session, given["name"])
    if given["as_json"]:
        print_json(facts)
    else:
        sys.stdout.write(
            render_facts([(key, _text(value)) for key, value in facts.items() if value not in (None, [])])
        )
    return 0


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_local_time(value)
    return "\n".join(str(one) for one in value) if isinstance(value, list) else str(value)


show_command = Command(
    "show",
    show_image,
    [click.Argument(["name"], metavar="NAME", shell_complete=offers("images")), json_option()],
    help="Show one image of `dockers:`: its whole name, its steps, and the wrapped image where there is one.",
)


class _WrapImageOptions(TypedDict):
    name: str
    push: bool
    out: Path | None
    accelerator: str
    tag: str | None
    installer: str | None
    validator: str | None
    is_built: bool
    as_json: bool


def wrap_image(**given: Unpack[_WrapImageOptions]) -> int:
    """The wrapped image's name on stdout once there is one; 1 when building it is left to the person."""
    usual = WrapRequest(given["name"])
    request = usual._replace(
        push=given["push"],
        out=given["out"],
        accelerator=given["accelerator"],
        tag=given["tag"],
        installer=given["installer"] or usual.installer,
        validator=given["validator"] or usual.validator,
        is_built=given["is_built"],
    )
    with Session() as session:
        outcome = wrap(session, request)
    if given["as_json"]:
        print_json(outcome._asdict())
    else:
        _print_summary(outcome)
    return 1 if outcome.done == "written" else 0


def _print_summary(outcome: ImageResult) -> None:
    print_message(f"Dockerfile: {outcome.dockerfile}")
    print_message(f"{outcome.image}: {_WORDS[outcome.done]}{f' ({outcome.why})' if outcome.why else ''}")
    if outcome.next:
        print_message("what is left to do:")
        for line in outcome.next:
            print_message(f"  {line}")
    if outcome.done != "written":
        sys.stdout.write(outcome.image + "\n")


wrap_command = Command(
    "wrap",
    wrap_image,
    [
        click.Argument(["name"], metavar="NAME", shell_complete=offers("images")),
        Flag("--push", "Push the wrapped image to its registry"),
        Option(
            "--out",
            "The folder for the Dockerfile; steps may COPY the files in it",
            default_text="a folder of gofer",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
        ),
        Option(
            "--accelerator",
            "The maker of the GPUs that the image is for",
            type=click.Choice(["NVIDIA", "AMD"], case_sensitive=False),
            default="NVIDIA",
        ),
        Option(
            "--tag",
            "The whole name of the wrapped image",
            default_text="the image's name with `-sing-` and a mark after the tag",
            metavar="IMAGE",
        ),
        Option(
            "--installer",
            "The image with the service's installer",
            default_text="that of the service",
            metavar="IMAGE",
        ),
        Option(
            "--validator",
            "The image with the service's tests",
            default_text="that of the service",
            metavar="IMAGE",
        ),
        Flag("--built is_built", "You built and pushed it yourself: only remember it"),
        json_option(),
    ],
    help="Prepare an image of `dockers:` for Singularity: write the Dockerfile of the wrapped image and, "
    "where docker or podman runs, build it, and push it with `--push`. An image with the same `sha256` "
    "and steps is not wrapped again. Without docker and podman gofer prints the commands to run "
    "elsewhere and exits with 1.",
)
