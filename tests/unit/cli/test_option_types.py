"""The types of a command's options are those of its options on the command line."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import click
import pytest

from gofer.cli import commands


def declared() -> Iterator[tuple[str, click.Command, type]]:
    """Each command whose function takes typed options, and their types."""
    for module in pkgutil.walk_packages(commands.__path__, "gofer.cli.commands."):
        loaded = importlib.import_module(module.name)
        for command in [one for one in vars(loaded).values() if isinstance(one, click.Command)]:
            annotation = getattr(command.callback, "__annotations__", {}).get("given", "")
            if annotation.startswith("Unpack["):
                owner = importlib.import_module(str(command.callback.__module__))
                yield f"{module.name} {command.name}", command, getattr(owner, annotation[7:-1])


COMMANDS = {name: (command, options) for name, command, options in declared()}


def test_commands_have_typed_options() -> None:
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_has_a_type_and_no_other_has(name: str) -> None:
    command, options = COMMANDS[name]
    assert {one.name for one in command.params if one.expose_value} == set(options.__annotations__)


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_and_repeated_options_have_their_types(name: str) -> None:
    command, options = COMMANDS[name]
    for one in command.params:
        if one.expose_value and one.name is not None:
            kind = options.__annotations__[one.name]
            text = getattr(kind, "__forward_arg__", str(kind))
            is_flag = isinstance(one.type, click.types.BoolParamType)
            is_many = one.nargs == -1 or (isinstance(one, click.Option) and one.multiple)
            assert (text == "bool") is is_flag, one.name
            assert text.startswith("tuple[") is is_many, one.name
