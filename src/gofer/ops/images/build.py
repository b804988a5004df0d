"""Build an image that wraps another one for Singularity: the text of its Dockerfile, and the few commands of
docker or podman.

Singularity runs an image only if its own software is installed in it and its own tests have passed. Both come
from images that the service publishes. The installation may replace Python packages, so the person's own
steps come last.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gofer.errors import ConfigError, CredentialError, GoferError, UsageError
from gofer.text import quote_command
from gofer.transport import process
from gofer.transport.process import attend

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
_PROGRAMS = ("docker", "podman")
_ASK_S = 30.0
# Images commonly have tens of gigabytes, and a build installs software.
_BUILD_S = 4 * 3600.0


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


class Builder:
    """A builder program that works on this machine. Methods block; the program's output goes to stderr."""

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        self.program = program
        self._environ = dict(environ)

    def sign_in(self, server: str | None, username: str, password: str) -> None:
        """Sign in to a registry for later commands. The password goes through stdin, never on a command
        line.
        """
        words = ["login", "--username", username, "--password-stdin", *([server] if server else [])]
        if self._attend(words, input_text=password) != 0:
            raise CredentialError(
                f"`{self.program} login` was refused by {server or 'Docker Hub'} for `{username}`",
                hint="check `username:` and `password:` of the image under `dockers:`",
            )

    def build(self, folder: str, name: str) -> None:
        """Build the image from the folder's Dockerfile."""
        self._must(build_words(folder, name))

    def push(self, name: str) -> None:
        self._must(push_words(name))

    def label(self, name: str, label: str, *, fetch: bool) -> str | None:
        """The value of a label of a local image, or with `fetch` of the image in its registry; None when
        there is none.
        """
        form = f'{{{{index .Config.Labels "{label}"}}}}'
        words = [self.program, "image", "inspect", "--format", form, name]
        found = process.run(words, timeout_s=_ASK_S, env=self._environ)
        if found.status == 0:
            return found.stdout.decode(errors="replace").strip() or None
        if fetch and self._quiet(["pull", "--quiet", name]) == 0:
            return self.label(name, label, fetch=False)
        return None

    def _must(self, words: Sequence[str]) -> None:
        status = self._attend(words)
        if status != 0:
            raise GoferError(
                f"`{quote_command([self.program, *words])}` ended with status {status}",
                hint="see its output above; `gofer image wrap` continues where it stopped",
            )

    def _attend(self, words: Sequence[str], input_text: str | None = None) -> int:
        return attend([self.program, *words], timeout_s=_BUILD_S, env=self._environ, input_text=input_text)

    def _quiet(self, words: Sequence[str]) -> int:
        return process.run([self.program, *words], timeout_s=_BUILD_S, env=self._environ).status


def build_words(folder: str, name: str) -> list[str]:
    """As they follow the program's name."""
    return ["build", "--file", os.path.join(folder, "Dockerfile"), "--tag", name, folder]


def push_words(name: str) -> list[str]:
    """As they follow the program's name."""
    return ["push", name]


def find_builder(environ: Mapping[str, str]) -> tuple[Builder | None, str]:
    """The first program that works, or None and the reason. docker without a running daemon does not work."""
    problems = []
    for name in _PROGRAMS:
        if shutil.which(name, path=environ.get("PATH", os.defpath)) is None:
            continue
        asked = process.run([name, "info"], timeout_s=_ASK_S, env=environ)
        if asked.status == 0:
            return Builder(name, environ), ""
        problems.append(f"`{name} info`: {_last_line(asked.stderr or asked.stdout)}")
    return None, "; ".join(problems) or "neither docker nor podman is on the PATH"


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it printed nothing"
