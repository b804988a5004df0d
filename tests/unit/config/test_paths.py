"""Where gofer's own files lie."""

from __future__ import annotations

import os
from pathlib import Path

from gofer.config.paths import Paths

HOST = os.uname().nodename


def test_the_home_folder_holds_everything_by_default() -> None:
    paths = Paths.from_environment({"HOME": "/home/ada"})
    assert paths == Paths(
        config_file=Path("/home/ada/.config/gofer/config.yaml"),
        secrets_file=Path("/home/ada/.config/gofer/secrets.json"),
        ledger_file=Path("/home/ada/.local/state/gofer/ledger.db"),
        queue_home=Path("/home/ada/.local/state/gofer/engine") / HOST,
        cache_dir=Path("/home/ada/.cache/gofer"),
        store_dir=Path("/home/ada/.local/share/gofer/store"),
    )


def test_xdg_variables_move_each_kind_of_file() -> None:
    paths = Paths.from_environment(
        {
            "HOME": "/home/ada",
            "XDG_CONFIG_HOME": "/c",
            "XDG_STATE_HOME": "/s",
            "XDG_CACHE_HOME": "/k",
            "XDG_DATA_HOME": "/d",
        }
    )
    assert paths.config_file == Path("/c/gofer/config.yaml")
    assert paths.ledger_file == Path("/s/gofer/ledger.db")
    assert paths.cache_dir == Path("/k/gofer")
    assert paths.store_dir == Path("/d/gofer/store")


def test_a_relative_xdg_folder_is_ignored_as_the_specification_asks() -> None:
    paths = Paths.from_environment({"HOME": "/home/ada", "XDG_CONFIG_HOME": "here"})
    assert paths.config_file == Path("/home/ada/.config/gofer/config.yaml")


def test_gofer_home_holds_everything_and_wins_over_xdg() -> None:
    paths = Paths.from_environment({"GOFER_HOME": "/g", "HOME": "/home/ada", "XDG_STATE_HOME": "/s"})
    assert paths == Paths(
        config_file=Path("/g/config.yaml"),
        secrets_file=Path("/g/secrets.json"),
        ledger_file=Path("/g/ledger.db"),
        queue_home=Path("/g/engine") / HOST,
        cache_dir=Path("/g/cache"),
        store_dir=Path("/g/store"),
    )


def test_a_relative_gofer_home_is_made_absolute() -> None:
    assert Paths.from_environment({"GOFER_HOME": "here"}).cache_dir == Path.cwd() / "here" / "cache"


def test_without_home_the_user_database_is_used() -> None:
    assert Paths.from_environment({}).config_file.is_absolute()


def test_reading_paths_creates_nothing(tmp_path: Path) -> None:
    Paths.from_environment({"GOFER_HOME": str(tmp_path / "home")})
    assert not (tmp_path / "home").exists()
