"""The fixtures of tests/unit/config."""

from unit.config.conftest import desk as desk
