"""The fixtures of tests/snapshot."""

from snapshot.conftest import desk as desk
