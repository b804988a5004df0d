"""Why the container of a pod does not start: Kubernetes' words in plain ones, and what helps. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from gofer.backends.kubernetes.state.job_facts import PodFacts


class Patience(NamedTuple):
    """How long a run may be unable to start before it has failed: with an image that cannot be pulled, and
    with a container that cannot be started.
    """

    image_s: float = 600.0
    start_s: float = 120.0


USUAL_PATIENCE = Patience()


class StartTrouble(NamedTuple):
    """A container that does not start. `limit_s` is after what time the run has failed."""

    words: str
    limit_s: float


_IMAGE, _START, _AT_ONCE = "image", "start", "at once"
_TROUBLES = {
    "ErrImagePull": ("its image cannot be pulled", _IMAGE),
    "ImagePullBackOff": ("its image cannot be pulled", _IMAGE),
    "ImageInspectError": ("its image cannot be read", _IMAGE),
    "InspectFailed": ("its image cannot be read", _IMAGE),
    "RegistryUnavailable": ("the registry of its image does not answer", _IMAGE),
    "SignatureValidationFailed": ("the signature of its image is not accepted", _AT_ONCE),
    "InvalidImageName": ("the name of its image is not valid", _AT_ONCE),
    "ErrImageNeverPull": ("its image is not on the node, and `pull_policy` is Never", _AT_ONCE),
    "CreateContainerConfigError": ("its container cannot be configured", _START),
    "CreateContainerError": ("its container cannot be created", _START),
    "PreCreateHookError": ("its container cannot be created", _START),
    "RunContainerError": ("its container cannot be started", _START),
    "StartError": ("its container cannot be started", _START),
    "ContainerCannotRun": ("its container cannot be started", _START),
    "PreStartHookError": ("its container cannot be started", _START),
    "PostStartHookError": ("the start hook of its container failed", _START),
}

# Parts of the sentences of the kubelet and of the container runtime, with what helps.
_HINTS = (
    (("executable file not found",), "the image has no such program; set `python:` or `python_image:`"),
    (("exec format error",), "the image is made for another processor; choose another `image:`"),
    (("runasnonroot", "run as root"), "the image runs as root; set `security: image`"),
    (("couldn't find key", "secret "), "a Secret that its pod names is incomplete or missing"),
    (("configmap ",), "a ConfigMap that its pod names is incomplete or missing"),
    (("no such file or directory",), "the image has no such file; set `python:` or `python_image:`"),
)
_PULL_HINTS = (
    (("not found", "manifest unknown", "does not exist"), "there is no such image; correct `image:`"),
    (
        ("unauthorized", "authentication required", "denied", "forbidden", " 401", " 403"),
        "the registry wants a login or has no such image; set `pull_secret:` or correct `image:`",
    ),
    (
        ("no such host", "i/o timeout", "connection refused", "deadline exceeded", "dial tcp"),
        "the node cannot reach the registry; correct `image:`, or ask who runs the cluster",
    ),
    (("toomanyrequests", "rate limit"), "the registry allows no more pulls now"),
)
# The kubelet names the pod again in what it says of its container.
_AGAIN = re.compile(r" \(pod: \"[^\"]*\", container: [^)]*\)")
# The layers of the runtime between the operation and its cause.
_LAYERS = re.compile(
    r"failed to create containerd task: |failed to create shim task: |OCI runtime create failed: "
)


def trouble_of(word: str, patience: Patience = USUAL_PATIENCE) -> StartTrouble | None:
    """What a word for a container that waits or has ended means; None for a word that is no trouble."""
    found = _TROUBLES.get(word)
    if found is None:
        return None
    limits_s = {_IMAGE: patience.image_s, _START: patience.start_s, _AT_ONCE: 0.0}
    return StartTrouble(found[0], limits_s[found[1]])


def explain_trouble(pod: PodFacts) -> str:
    """Why the container of this pod does not start, what helps, and Kubernetes' own words."""
    word = pod.waiting or pod.ended
    plain, kind = _TROUBLES.get(word, (f"Kubernetes reports `{word}`", _START))
    if kind == _IMAGE and pod.image:
        plain = f"its image `{pod.image}` cannot be pulled{f' on node {pod.node}' if pod.node else ''}"
    hint = advise(pod.words, is_pull=kind == _IMAGE)
    said = _LAYERS.sub("", _AGAIN.sub("", pod.words))
    return f"{plain}{f'; {hint}' if hint else ''}{f' ({said})' if said else ''}"


def advise(words: str, *, is_pull: bool) -> str:
    """What helps; "" where nothing is known."""
    low, known = words.lower(), _PULL_HINTS if is_pull else _HINTS
    return next((hint for parts, hint in known if any(part in low for part in parts)), "")
