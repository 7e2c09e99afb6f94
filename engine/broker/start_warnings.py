"""Warns at a start about what the configs and the metadata promise and this broker does not do."""

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.requests.listeners import Listener, told_elsewhere
from bowstring.engine.security.exposed_files import exposed_files


def warn_at_start(
    configs: BrokerConfigs,
    image: ClusterImage,
    *,
    listeners: list[Listener],
    advertised: list[Listener],
) -> None:
    """Logs a warning for each config without effect, each advertised address of another host, and each kind
    of record that is kept without effect.
    """
    for name in configs.without_effect():
        event_log.warning(
            "a config is accepted and reported, but has no effect yet; remove it to silence this warning",
            config=name,
        )
    for name, path in exposed_files(configs.static).items():
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
    for what, count in (("access control entries", len(image.acls)),):
        if count:
            event_log.warning(
                f"the metadata log holds {what}, which this broker keeps but does not enforce; do not "
                "rely on them",
                count=count,
            )
