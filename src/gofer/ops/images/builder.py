"""The few commands of docker or podman that gofer uses to build images."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from gofer.errors import CredentialError, GoferError
from gofer.text import quote_command
from gofer.transport import process
from gofer.transport.process import attend

_PROGRAMS = ("docker", "podman")
_ASK_S = 30.0
# Images commonly have tens of gigabytes, and a build installs software.
_BUILD_S = 4 * 3600.0


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
