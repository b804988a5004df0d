"""The fixtures of tests/unit/config/importers."""

from unit.config.importers.conftest import act as act
from unit.config.importers.conftest import shop as shop
