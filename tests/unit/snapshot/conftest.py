"""The fixtures of tests/snapshot."""

from snapshot.conftest import project as project
