"""The fixtures of tests/unit/importers."""

from unit.importers.conftest import act as act
from unit.importers.conftest import shop as shop
