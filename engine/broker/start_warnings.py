"""Warns at a start about what the configs and the metadata promise and this broker does not do."""

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.listener_configs import PLAINTEXT, listener_protocols
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.network.broker_addresses import inter_broker_listener
from bowstring.engine.requests.listeners import Listener, is_loopback, told_elsewhere
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.security.principals import ANONYMOUS


def warn_of_anonymous_nodes(configs: BrokerConfigs, authorizer: Authorizer) -> None:
    """Logs a warning for each listener through which nodes reach one another without a principal, although
    the authorizer does not allow everyone everything. They are User:ANONYMOUS there, as in Kafka.
    """
    if authorizer.rules is None or authorizer.rules.is_super_user(ANONYMOUS):
        return
    protocols = listener_protocols(configs)
    names = [inter_broker_listener(configs), *configs.value("controller.listener.names")]
    for name in dict.fromkeys(names):
        if protocols.get(name.upper(), PLAINTEXT) == PLAINTEXT:
            event_log.warning(
                "nodes reach one another through a listener without authentication, so they are "
                "User:ANONYMOUS, whom the authorizer refuses; let the listener use SSL or SASL, or add "
                "User:ANONYMOUS to super.users, which lets everyone who reaches a listener without "
                "authentication do everything",
                listener=name,
            )


def warn_of_open_metrics(listener: Listener) -> None:
    """Logs a warning if metrics are served to other machines on the address of a listener that protects."""
    if (listener.has_sasl or listener.has_tls) and not is_loopback(listener.host):
        event_log.warning(
            "metrics are served to other machines without authentication and in plain text; they name "
            "topics, groups and clients. Let a firewall allow only those who scrape them, or remove "
            "bowstring.metrics.port",
            host=listener.host or "all interfaces",
        )


def warn_at_start(
    configs: BrokerConfigs,
    image: ClusterImage,
    *,
    listeners: list[Listener],
    advertised: list[Listener],
) -> None:
    """Logs a warning for each config without effect, each advertised address of another host, and rules
    of access control that nobody enforces.
    """
    for name in configs.without_effect():
        event_log.warning(
            "a config is accepted and reported, but has no effect yet; remove it to silence this warning",
            config=name,
        )
    for name, path in _exposed_files(configs).items():
        event_log.warning(
            "other users of this machine can read a file with a private key; take the right from them with "
            "chmod o-r",
            config=name,
            file=path,
        )
    for told in told_elsewhere(listeners, advertised):
        event_log.warning(
            "clients get an advertised address on which this broker does not listen; run a proxy or a "
            "tunnel from that address, or set listeners too",
            advertised=told,
            listeners=",".join(str(each.host) for each in listeners),
        )
    if image.acls and not configs.value("authorizer.class.name"):
        event_log.warning(
            "the metadata log holds access control entries, but this broker has no authorizer, so it does "
            "not enforce them; set authorizer.class.name",
            count=len(image.acls),
        )


def _exposed_files(configs: BrokerConfigs) -> dict[str, str]:
    endings = ("keystore.location", "private.key.file", "sasl.jaas.config")
    if not any(name.endswith(endings) for name in configs.static):
        return {}
    from bowstring.engine.security.exposed_files import exposed_files  # which a plain broker does not need

    return exposed_files(configs.static)
