"""The Dockerfile that wraps an image for Singularity: pure text from plain facts.

Singularity runs an image only if its own software is installed in it and its own tests have passed. Both come
from images that the service publishes. The installation may replace Python packages, so the person's own
steps come last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gofer.errors import ConfigError, UsageError

INSTALLER = "singularitybase.azurecr.io/installer/base/singularity-installer:20220218T112740648"
VALIDATOR = "singularitybase.azurecr.io/validations/base/singularity-tests:20220309T233405410"
ACCELERATORS = ("NVIDIA", "AMD")
LABEL = "gofer.wrapping"
HEAD = "# Made by `gofer image wrap`"

_HOME = "/opt/microsoft/_singularity"
_INSTRUCTION = re.compile(
    r"(ADD|ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|LABEL|MAINTAINER|ONBUILD|RUN|SHELL|STOPSIGNAL"
    r"|USER|VOLUME|WORKDIR)\s+(.*)",
    re.DOTALL,
)
# Text that may change its meaning between the `&&` of a chain, or at the start of a RUN.
_DELICATE = re.compile(r"[|;&#\n\r]|<<|\\\Z|\A(--|\[)")
# Not every image has conda or pip, and an old pip has no `cache` command.
_CLEANING = (
    "rm -rf /var/lib/apt/lists/*",
    "if command -v conda > /dev/null; then conda clean --yes --all; fi",
    "if command -v pip > /dev/null; then pip cache purge || true; fi",
)


class Wrapping(NamedTuple):
    """Everything that a wrapped image is made of. Equal wrappings need only one build."""

    base: str
    steps: tuple[str, ...] = ()
    accelerator: str = "NVIDIA"
    installer: str = INSTALLER
    validator: str = VALIDATOR

    @property
    def mark(self) -> str:
        """A digest that identifies this wrapping."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()


class _Shell(NamedTuple):
    """A shell command that may be joined with others in one RUN."""

    text: str


def dockerfile(wrapping: Wrapping) -> str:
    """The whole Dockerfile. ConfigError for an invalid step, UsageError for an invalid image name."""
    for name in (wrapping.base, wrapping.installer, wrapping.validator):
        if not re.fullmatch(r"[A-Za-z0-9]\S*", name):
            raise UsageError(f"{name!r} is not the name of an image")
    head = [
        f"{HEAD}: the last image named here, made fit for Singularity.",
        f"FROM {wrapping.installer} AS installer",
        f"FROM {wrapping.validator} AS validator",
        f"FROM {wrapping.base}",
        "",
        "# What the service installs, and the tests that it asks of an image.",
        f"COPY --from=installer /installer {_HOME}/installations/",
        f"COPY --from=validator /validations {_HOME}/validations/",
        "",
        "# The tests look for the software of this maker.",
        f"ENV SINGULARITY_IMAGE_ACCELERATOR={wrapping.accelerator}",
        "",
        "# Install, test, put back what that replaced, and leave no caches behind.",
    ]
    tail = ["", "# By this gofer knows the image again.", f'LABEL {LABEL}="{wrapping.mark}"']
    return "\n".join([*head, *_body(wrapping.steps), *tail]) + "\n"


def _body(steps: Sequence[str]) -> Iterator[str]:
    """The lines of the steps. Adjacent commands share one RUN, so that files that a later command
    removes take no space in the image.
    """
    first = (
        f"{_HOME}/installations/singularity/installer.sh",
        f"{_HOME}/validations/validator.sh",
    )
    chain: list[str] = []
    for item in (*map(_Shell, first), *map(_step, steps), *map(_Shell, _CLEANING)):
        if isinstance(item, _Shell):
            chain.append(item.text)
            continue
        if chain:
            yield _run(chain)
            chain = []
        yield item
    yield _run(chain)


def _run(chain: Sequence[str]) -> str:
    return "RUN " + " \\\n    && ".join(chain)


def _step(text: str) -> _Shell | str:
    """A step as a shell command that can be joined with others, or as a separate instruction."""
    found = _INSTRUCTION.fullmatch(text.strip())
    if found and found[1] == "FROM":
        raise ConfigError(
            f"the step `{text.strip()}` would start another image", hint="`image:` says what is wrapped"
        )
    if found and (found[1] != "RUN" or _DELICATE.search(found[2].strip())):
        return text.strip()
    command = (found[2] if found else text).strip()
    if not command:
        raise ConfigError("a step of `post_sing_steps` is empty", hint="take it out")
    if _DELICATE.search(command):
        # In this form Docker passes the command to the shell unchanged.
        return f"RUN {json.dumps(['/bin/sh', '-ec', command])}"
    return _Shell(command)


def wrapped_name(image: str, mark: str) -> str:
    """The default name of a wrapped image: the name of the image, with the mark added to its tag."""
    head, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{head}{slash}{name}:{(tag or 'latest')[:100]}-sing-{mark[:12]}"
