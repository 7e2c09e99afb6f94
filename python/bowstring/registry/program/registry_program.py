"""Runs a registry: its node, its API, its metrics."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import sys
from types import TracebackType
from typing import Any, Self

from bowstring.clients.errors import ConfigError
from bowstring.registry.api.access_rules import AccessRules
from bowstring.registry.api.forwarder import Forwarder
from bowstring.registry.api.json_body import write_json
from bowstring.registry.api.media_types import JSON
from bowstring.registry.api.program_routes import ProgramFacts
from bowstring.registry.api.registry_app import ApiSettings, RegistryApp
from bowstring.registry.program.registry_options import RegistryOptions
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.registry_node import NodeSettings, RegistryNode
from bowstring.registry.store.store_target import StoreTarget
from bowstring.web.access_log import AccessLog
from bowstring.web.credentials import LogIns
from bowstring.web.http_metrics import HttpMetrics
from bowstring.web.limits import RateLimit
from bowstring.web.observed import Observed
from bowstring.web.serving import Site

SWITCH_S = 0.001
"""After so long a thread that computes lets others go on; Python's default is 5 ms."""
COLLECTION_THRESHOLDS = (10_000, 20, 20)
"""Of Python's garbage collector: objects, and collections of younger generations."""


class RegistryProgram:
    """A registry from its options; `async with` starts and stops its node.

    Args:
        options: are checked.
        site: where it is served; None for a new one at the address of the options.

    Attributes:
        site: to be served.

    Raises:
        ConfigError: an option is wrong, or the address is in use.
    """

    def __init__(self, options: RegistryOptions, site: Site | None = None) -> None:
        options.check()
        self._options = options
        self._rules = None if options.access_rules is None else AccessRules(options.access_rules)
        self._forwarder = Forwarder(_leader_tls(options))
        self.site = site or Site("registry", options.listening, "registry")
        target = StoreTarget(
            options.bootstrap_servers, dict(options.security) or None, options.topic, options.group_id
        )
        settings = NodeSettings(
            target,
            options.advertised_url or _reachable(self.site),
            eligible=options.eligible,
            replication_factor=options.replication_factor,
        )
        self._node = RegistryNode(settings, lambda: RegistryImage(options.defaults))
        self._node.leader_changed = self._forwarder.leader_is
        self._log_ins: LogIns | None = None
        if options.sign_in:
            self._log_ins = LogIns(options.bootstrap_servers, options.security)

    async def __aenter__(self) -> Self:
        """Reads the schemas.

        Raises:
            ClientError: no broker answers in time, or access is denied.
        """
        try:
            cluster_id, _ = await asyncio.gather(asyncio.to_thread(self._cluster_id), self._node.start())
        except BaseException:
            self._close()
            raise
        self.site.app = self._app(cluster_id)
        _tune_interpreter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Finishes writes, and hands over to another leader."""
        self._close()
        await self._node.stop()

    def _close(self) -> None:
        self.site.close()
        self._forwarder.close()
        if self._log_ins is not None:
            self._log_ins.close()

    def _cluster_id(self) -> str:
        from bowstring.clients.admin.admin import Admin

        options = self._options
        with Admin(options.bootstrap_servers, security=dict(options.security) or None) as admin:
            return admin.describe_cluster().cluster_id

    def _app(self, cluster_id: str) -> Any:
        options, node = self._options, self._node
        metrics = HttpMetrics(
            "bowstring_registry",
            {
                "is_leader": ("Whether this registry decides writes.", lambda: float(node.is_leader)),
                "schemas": ("Versions of all subjects.", lambda: float(node.image.schema_count())),
                "position": ("Offset up to which the topic has been read.", lambda: float(node.position)),
            },
        )

        def health(accept: bytes) -> tuple[int, bytes, bytes]:
            facts = {"leader": node.leader_url, "is_leader": node.is_leader, "position": node.position}
            is_well = node.is_loaded and node.leader_url is not None
            status = {"status": "ready" if is_well else "without a leader"}
            return 200 if is_well else 503, JSON, write_json(status | facts)

        def measured(accept: bytes) -> tuple[int, bytes, bytes]:
            body, kind = metrics.text(accept.decode("latin-1"))
            return 200, kind.encode(), body

        settings = ApiSettings(
            ProgramFacts(cluster_id, options.group_id),
            {b"/health": health, b"/metrics": measured},
            body_bytes_max=options.body_bytes_max,
            rate_limit=RateLimit(options.requests_per_s),
            log_ins=self._log_ins,
            identifies=options.sign_in or options.listening.client_certificates != "none",
            needs_user=options.knows_users,
            rules=self._rules,
        )
        app = RegistryApp(node, settings, self._forwarder)
        return Observed(app, metrics, AccessLog(sys.stderr) if options.access_log else None)


def _tune_interpreter() -> None:
    """Keeps requests quick beside a thread that parses, and beside many schemas."""
    sys.setswitchinterval(SWITCH_S)
    # Schemas that are loaded stay: a collection that looks at 100,000 of them takes 0.1 s.
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


def _reachable(site: Site) -> str:
    """Returns the URL of a site for other machines: the host name where it listens on all addresses."""
    host = site.listening.host.strip("[]")
    if host not in ("", "0.0.0.0", "::"):
        return site.url
    return f"{site.listening.scheme}://{socket.gethostname()}:{site.port}"


def _leader_tls(options: RegistryOptions) -> ssl.SSLContext | None:
    """Returns how to speak to a leader with https: with the registry's own certificate, if it has one.

    Raises:
        ConfigError: a file cannot be read.
    """
    certificate, authorities = options.listening.tls_certificate, options.leader_authorities
    if certificate is None and authorities is None:
        return None
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, options.listening.tls_key)
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (authorities, certificate, options.listening.tls_key)))
        raise ConfigError(f"cannot read {files}: {error}") from error
    return context
