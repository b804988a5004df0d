"""The fixtures of tests/unit/ops."""

from unit.ops.conftest import project as project
