"""`gofer image wrap`: an image made fit for Singularity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gofer.cli.completion import images
from gofer.cli.options import Command, Flag, Option, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.images.wrap import WrapRequest, wrap
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.ops.images.wrap import ImageResult

_WORDS = {
    "known": "wrapped before, and not wrapped again",
    "kept": "remembered as built and pushed by you",
    "built": "built here, and not pushed yet",
    "pushed": "built and pushed",
    "written": "not built",
}


def run(**given: Any) -> int:
    """The wrapped image's name on stdout once there is one; 1 when building it is left to the person."""
    as_json = given.pop("as_json")
    bases = {key: given.pop(key) for key in ("installer", "validator")}
    request = WrapRequest(**given, **{key: name for key, name in bases.items() if name})
    with Session() as session:
        outcome = wrap(session, request)
    if as_json:
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


command = Command(
    "wrap",
    run,
    [
        click.Argument(["name"], metavar="NAME", shell_complete=images),
        Flag("--push", "Push the wrapped image to its registry"),
        Option(
            "--out",
            "The folder for the Dockerfile; steps may COPY the files in it",
            default_text="a folder of gofer's own",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
        ),
        Option(
            "--accelerator",
            "Whose GPUs the image is for",
            type=click.Choice(["NVIDIA", "AMD"], case_sensitive=False),
            default="NVIDIA",
        ),
        Option(
            "--tag",
            "The whole name of the wrapped image",
            default_text="the image's name with `-sing-` and a mark behind the tag",
            metavar="IMAGE",
        ),
        Option(
            "--installer",
            "The image that holds the service's installer",
            default_text="that of the service",
            metavar="IMAGE",
        ),
        Option(
            "--validator",
            "The image that holds the service's tests",
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
