"""The fixtures of tests/unit/tracking."""

from unit.tracking.conftest import ledger as ledger
