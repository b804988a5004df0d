"""Small implementations of `az`, `docker` and other programs, with state, in a folder on the PATH.

Each program keeps its state in files next to it, which later calls read. Each program records every
call with its arguments and its input, so that a test can prove that no argument had a secret. The programs
refuse options that the real ones do not have. `docker` follows `docker COMMAND --help` of 28.2.2 (samples/),
`az` follows azure-cli 2.32 and newer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

_HEAD = """#!{python} -IS
import json, os, sys, time
from pathlib import Path
STATE = Path({state!r})
def load(): return json.loads(STATE.read_text())
def save(state): STATE.write_text(json.dumps(state))
def fail(words, status=1):
    sys.stderr.write(words + "\\n"); sys.exit(status)
def note(**call):
    with open(str(STATE) + ".calls", "a") as file: file.write(json.dumps(call) + "\\n")
def parse(words, flags, valued):
    found, rest = {{}}, []
    words = iter(words)
    for word in words:
        if word in flags: found[word] = True
        elif word in valued: found[word] = next(words)
        elif word.startswith("-") and word != "-": fail("unknown flag: " + word, 125)
        else: rest.append(word)
    return found, rest
"""

_DOCKER = """
words = sys.argv[1:]
state = load()
read = sys.stdin.read() if "--password-stdin" in words else None
note(words=words, read=read)
if not state["daemon"]:
    fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
verb, rest = words[0], words[1:]
def build():
    found, rest_ = parse(rest, ["--quiet", "--pull"], ["--file", "--tag", "--label", "--build-arg"])
    if len(rest_) != 1: fail('"docker build" requires exactly 1 argument.', 125)
    text = Path(found["--file"]).read_text()
    lines = text.replace("\\\\\\n", " ").splitlines()
    base = [line.split()[1] for line in lines if line.startswith("FROM ")][-1]
    if base not in state["registry"] and base not in state["local"]:
        fail("pull access denied for " + base)
    labels = dict(line[6:].split("=", 1) for line in lines if line.startswith("LABEL "))
    labels = {key: json.loads(value) for key, value in labels.items()}
    for line in lines:
        if line.startswith("RUN ") and "false-step" in line: fail("process returned a non-zero code: 1")
    state["local"][found["--tag"]] = labels
def push():
    found, (name,) = parse(rest, ["--quiet"], ["--platform"])
    if name not in state["local"]: fail("An image does not exist locally with the tag: " + name)
    server = name.split("/")[0]
    if server not in state["logins"]: fail("unauthorized: authentication required")
    state["registry"][name] = state["local"][name]
def pull():
    found, (name,) = parse(rest, ["--quiet"], ["--platform"])
    if name not in state["registry"]: fail("Error response from daemon: manifest unknown")
    state["local"][name] = state["registry"][name]
    print(name)
def login():
    found, rest_ = parse(rest, ["--password-stdin"], ["--username", "--password"])
    server = rest_[0] if rest_ else "docker.io"
    if state["passwords"].get(server) != [found["--username"], read]:
        fail("Error response from daemon: Get https://" + server + "/v2/: unauthorized")
    state["logins"].append(server)
    print("Login Succeeded")
def image():
    if rest[0] != "inspect": fail("unknown docker command: image " + rest[0], 125)
    found, (name,) = parse(rest[1:], [], ["--format"])
    if name not in state["local"]: fail("Error response from daemon: No such image: " + name)
    form = found["--format"]
    head, tail = '{{index .Config.Labels "', '"}}'
    assert form.startswith(head) and form.endswith(tail), form
    print(state["local"][name].get(form[len(head):-len(tail)], ""))
def info(): print("Server Version: 28.2.2")
verbs = dict(build=build, push=push, pull=pull, login=login, image=image, info=info)
if verb not in verbs: fail("docker: unknown command: docker " + verb)
verbs[verb]()
save(state)
"""

_AZ = """
words = sys.argv[1:]
state = load()
folder = Path(os.environ.get("AZURE_CONFIG_DIR") or Path(os.environ["HOME"], ".azure"))
read = sys.stdin.read() if "@-" in words else None
cloud = os.environ.get("AZURE_CLOUD_NAME", "AzureCloud")
note(words=words, read=read, folder=str(folder), cloud=cloud)
folder.mkdir(parents=True, exist_ok=True)
profile = folder / "azureProfile.json"
def signed():
    try: return json.loads(profile.read_text(encoding="utf-8-sig"))["subscriptions"]
    except OSError: return []
def write(rows):
    text = json.dumps(dict(installationId="dummy", subscriptions=rows))
    profile.write_text(text, encoding="utf-8-sig")
def login(rest):
    found, more = parse(rest, ["--use-device-code", "--service-principal", "--allow-no-subscriptions"],
        ["--output", "--tenant", "--username", "--password"])
    if more: fail("unrecognized arguments: " + " ".join(more), 2)
    user = dict(name="dummy.person@example.invalid", type="user")
    if "--service-principal" in found:
        secret = read.rstrip() if found["--password"] == "@-" else found["--password"]
        if secret != state["secret"]: fail("AADSTS7000215: Invalid client secret provided.")
        user = dict(name=found["--username"], type="servicePrincipal")
    elif "--use-device-code" in found:
        sys.stderr.write("To sign in, use a web browser to open the page https://example.invalid/devicelogin\\n")
    tenant = found.get("--tenant", state["tenant"])
    write([dict(id=one, name="subscription " + one, state="Enabled", user=user, tenantId=tenant,
        isDefault=at == 0, environmentName=cloud) for at, one in enumerate(state["subscriptions"])])
def token(rest):
    found, _ = parse(rest, [], ["--resource", "--scope", "--output", "--tenant", "--subscription"])
    if not signed(): fail("ERROR: Please run 'az login' to setup account.")
    if state.get("expired"):
        fail("ERROR: AADSTS700082: The refresh token has expired due to inactivity. Interactive "
            "authentication is needed. Please run: az login")
    if state.get("offline"):
        fail("ERROR: HTTPSConnectionPool(host='login.microsoftonline.com', port=443): Max retries exceeded")
    ends = time.time() + 3600
    tenant = found.get("--tenant") or signed()[0]["tenantId"]
    word = state.get("tokens", {}).get(tenant + " " + found.get("--resource", ""), state["token"])
    print(json.dumps(dict(accessToken=word, expires_on=int(ends), tokenType="Bearer",
        expiresOn=time.strftime("%Y-%m-%d %H:%M:%S.000000", time.localtime(ends)))))
if words[:1] == ["login"]: login(words[1:])
elif words[:1] == ["logout"]:
    if not signed(): fail("ERROR: There are no active accounts.")
    profile.unlink()
elif words[:2] == ["account", "clear"]: write([])
elif words[:2] == ["account", "get-access-token"]: token(words[2:])
elif words[:1] == ["version"]:
    print(json.dumps({"azure-cli": state["version"], "azure-cli-core": state["version"],
        "extensions": state["extensions"]}))
else: fail("ERROR: '" + " ".join(words) + "' is misspelled or not recognized by the system.", 2)
"""


class Program(NamedTuple):
    """One installed program; `state` may be changed between calls."""

    path: Path
    state_file: Path

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state_file.read_text())
        return found

    def set(self, **changes: Any) -> None:
        self.state_file.write_text(json.dumps({**self.state, **changes}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every call so far: its words and what it read."""
        path = Path(f"{self.state_file}.calls")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def verbs(self) -> list[str]:
        return [call["words"][0] for call in self.calls]


def install_docker(folder: Path, *, name: str = "docker", **state: Any) -> Program:
    """A docker, or a podman, with an empty registry and a daemon at work."""
    start = {"daemon": True, "local": {}, "registry": {}, "logins": [], "passwords": {}}
    return _install(folder, name, _DOCKER, {**start, **state})


def install_az(folder: Path, **state: Any) -> Program:
    """An Azure command line to which nobody is signed in.

    `tokens` are those for a tenant and a resource, with a blank in between; any other gets `token`.
    """
    start = {
        "version": "2.60.0",
        "extensions": {"ml": "2.26.0", "ssh": "2.0.3"},
        "tenant": "11111111-1111-1111-1111-111111111111",
        "subscriptions": ["sub-one", "sub-two"],
        "secret": "dummy-client-secret",
        "token": "dummy-token-of-az",
    }
    return _install(folder, "az", _AZ, {**start, **state})


def _install(folder: Path, name: str, body: str, state: dict[str, Any]) -> Program:
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / f"{name}.state"
    path = folder / name
    path.write_text(_HEAD.format(python=sys.executable, state=str(state_file)) + body)
    path.chmod(0o755)
    made = Program(path, state_file)
    state_file.write_text(json.dumps(state))
    return made
