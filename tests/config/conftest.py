"""The fixtures of tests/unit/config."""

from unit.config.conftest import project as project
