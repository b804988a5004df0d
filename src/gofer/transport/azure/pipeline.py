"""Makes the pipeline of azure-core for requests.

Imported with the first request, because azure-core is slow.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from azure.core.pipeline import Pipeline
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    HttpLoggingPolicy,
    RedirectPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SensitiveHeaderCleanupPolicy,
    UserAgentPolicy,
)

from gofer.objects.retry_policy import retry_after_s
from gofer.transport.azure.wire import WireTransport

if TYPE_CHECKING:
    from gofer.transport.azure.arm import ServicePatience
    from gofer.transport.azure.credential import AzureCredential

_SECRET_HEADERS = ["Authorization", "x-ms-authorization-auxiliary", "x-azureml-token"]


class _Retry(RetryPolicy[Any, Any]):
    """azure-core's policy, except that a service that asks for a very long pause is not retried."""

    def __init__(self, patience: ServicePatience) -> None:
        super().__init__(
            retry_total=patience.tries,
            retry_connect=min(patience.tries, 3),
            retry_read=patience.tries,
            retry_status=patience.tries,
            retry_backoff_factor=patience.first_s,
            retry_backoff_max=patience.most_s,
        )
        self._longest_after_s = patience.longest_after_s

    def is_retry(self, settings: Any, response: Any) -> bool:
        after_s = retry_after_s({"retry-after": response.http_response.headers.get("retry-after") or ""})
        if after_s is not None and after_s > self._longest_after_s:
            return False
        return bool(super().is_retry(settings, response))


def make(
    credential: AzureCredential,
    scope: str,
    patience: ServicePatience,
    *,
    transport: WireTransport | None,
    agent: str,
    logger: logging.Logger,
) -> tuple[Pipeline[Any, Any], WireTransport]:
    """A new pipeline that uses the given connections, or new ones."""
    sender = transport or WireTransport(silence_timeout_s=patience.silence_s)
    policies: list[Any] = [
        RequestIdPolicy(),
        UserAgentPolicy(base_user_agent=agent),
        RedirectPolicy(redirect_max=5),
        _Retry(patience),
        BearerTokenCredentialPolicy(credential, scope),
        # After the bearer policy: this policy removes the token when a redirect leads to another host.
        SensitiveHeaderCleanupPolicy(blocked_redirect_headers=_SECRET_HEADERS),
    ]
    if logger.isEnabledFor(logging.INFO):
        policies.append(HttpLoggingPolicy(logger))
    return Pipeline(sender, policies), sender
