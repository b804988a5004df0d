from __future__ import annotations

from services.azure import azure as azure
