"""The fixtures of tests/transfer that need no server."""

from transfer.conftest import folder as folder
from transfer.conftest import open_kind as open_kind
from transfer.conftest import store as store
