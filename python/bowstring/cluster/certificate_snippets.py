"""Writes the settings that use a directory of certificates, for brokers and clients."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bowstring.cluster.certificates import AUTHORITY, BROKER
from bowstring.cluster.secret_files import write_secret

SERVER = """\
# Add this to server.properties: clients reach the broker through TLS at port 9093.
# `ssl.client.auth=required` lets in only clients with a certificate of this authority.
listeners=TLS://localhost:9093,CONTROLLER://localhost:9094
advertised.listeners=TLS://localhost:9093
listener.security.protocol.map=TLS:SSL,CONTROLLER:SSL
inter.broker.listener.name=TLS
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location={broker}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.client.auth=requested
# The certificate of CN=alice is the user alice.
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT
"""

CLIENT = """\
# For clients of Java, Kafka's tools and Bowstring: --command-config. librdkafka has ssl.ca.location for the
# file of ssl.truststore.location.
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""

OWN_CERTIFICATE = """\
# librdkafka has ssl.certificate.location and ssl.key.location, both for this file.
ssl.keystore.type=PEM
ssl.keystore.location={own}
"""


def write_snippets(directory: Path, clients: Iterable[str]) -> list[Path]:
    """Writes server.properties, client.properties, and NAME.properties for each client, where they are not
    there yet; returns them all.

    Args:
        directory: where the certificates are.
        clients: names of clients with a certificate.
    """
    where = directory.absolute()
    authority = where / AUTHORITY
    texts = {
        "server.properties": SERVER.format(broker=where / BROKER, authority=authority),
        "client.properties": CLIENT.format(authority=authority),
    }
    for name in clients:
        own = OWN_CERTIFICATE.format(own=where / f"{name}.pem")
        texts[f"{name}.properties"] = texts["client.properties"] + own
    for name, text in texts.items():
        if not (directory / name).exists():  # someone may have added to it
            write_secret(directory / name, text.encode())
    return [directory / name for name in texts]
