"""A project folder and a user's home for tests of settings, and two kinds of target as examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from gofer.config.paths import Paths
from gofer.config.settings import Settings, load
from gofer.errors import ConfigError


class LocalKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """This machine."""

    gpus: Annotated[int, Meta(ge=0)] | None = None
    gpus_per_node: int | None = None
    cpus: int | None = None


class LabKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cluster with one option of every type."""

    login: str
    token: str | None = None
    partition: Literal["gpu", "cpu"] = "gpu"
    share: float = 1.0
    exclusive: bool = False
    hosts: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    limit: int | str = 0

    def __post_init__(self) -> None:
        if self.share > 10:
            raise ValueError("a share is at most 10")


KINDS: Mapping[str, type[msgspec.Struct]] = {"local": LocalKind, "lab": LabKind}


class ConfigProject:
    """A user's home and a project folder, each with its settings file."""

    kinds = KINDS

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.folder = root / "work" / "project"
        self.folder.mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "GOFER_HOME": str(self.home / "gofer")}
        self.paths = Paths.from_environment(self.environ)

    def configure(self, text: str) -> None:
        (self.folder / "gofer.yaml").write_text(dedent(text))

    def configure_user(self, text: str) -> None:
        self.paths.config_file.parent.mkdir(parents=True, exist_ok=True)
        self.paths.config_file.write_text(dedent(text))

    def load(self, **variables: str) -> Settings:
        environ = {**self.environ, **variables}
        return load(self.folder, paths=self.paths, environ=environ, kinds=KINDS)

    def refusal(self, text: str | None = None) -> ConfigError:
        """The error that loading ends with, its place cut to the file's name."""
        if text is not None:
            self.configure(text)
        with pytest.raises(ConfigError) as caught:
            self.load()
        error = caught.value
        error.message = error.message.replace(f"{self.folder}/", "").replace(f"{self.home}/gofer/", "")
        return error
