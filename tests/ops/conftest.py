"""The fixtures of tests/unit/ops."""

from unit.ops.conftest import desk as desk
