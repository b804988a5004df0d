from __future__ import annotations

from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
