from __future__ import annotations

from aks.conftest import azure as azure
from aks.conftest import home as home
