"""A stand-in for the Azure command line, signed in to nothing: its token is good for the emulator."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path

_PROGRAM = """#!{python}
import json, sys, time
if sys.argv[1:3] != ["account", "get-access-token"] or {signed_out}:
    sys.exit("ERROR: Please run 'az login' to setup account.")
ends = time.time() + 3600
print(json.dumps({{"accessToken": {token!r}, "expires_on": int(ends), "tokenType": "Bearer",
    "expiresOn": time.strftime("%Y-%m-%d %H:%M:%S.000000", time.localtime(ends)),
    "subscription": "dummy", "tenant": "dummy"}}))
"""


def install_az(folder: Path, *, signed_in: bool = True) -> str:
    """Put an `az` into `folder`, to be found along the PATH; the token it prints."""
    token = unsigned_token()
    path = folder / "az"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(_PROGRAM.format(python=sys.executable, token=token, signed_out=not signed_in))
    path.chmod(0o755)
    # As `az` does at every login and logout, in the home that tests give it.
    profile = folder / ".azure" / "azureProfile.json"
    profile.parent.mkdir(exist_ok=True)
    profile.write_text(json.dumps({"subscriptions": [{"id": "dummy"}] if signed_in else []}))
    return token


def unsigned_token() -> str:
    """A JWT that Azurite takes with `--oauth basic`, which looks at claims and not at the signature."""
    now = int(time.time())
    claims = {
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
        "iss": "https://sts.windows.net/11111111-1111-1111-1111-111111111111/",
        "aud": "https://storage.azure.com",
        "oid": "22222222-2222-2222-2222-222222222222",
        "tid": "11111111-1111-1111-1111-111111111111",
    }
    parts = [{"alg": "none", "typ": "JWT"}, claims]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, "ZHVtbXktc2lnbmF0dXJl"])
