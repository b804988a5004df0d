"""The fixtures of tests/data that need no server."""

from data.conftest import project as project
