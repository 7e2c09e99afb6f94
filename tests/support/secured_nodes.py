"""Settings of nodes that reach one another over TLS and SASL."""

from pathlib import Path

from tests.support.certificates import authority

NODE_PASSWORD = "between-nodes-7"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = (
    f'{_MODULE} required username="node" password="{NODE_PASSWORD}" user_node="{NODE_PASSWORD}" '
    'user_alice="of-alice";'
)


def key_files(folder: Path) -> dict[str, str]:
    """Writes a key store and a trust store for nodes at 127.0.0.1; returns their settings."""
    identity = authority().identity("node", ("localhost", "127.0.0.1"))
    store, trust = folder / "node.pem", folder / "trust.pem"
    store.write_bytes(identity.key + identity.certificate)
    store.chmod(0o600)
    trust.write_bytes(authority().certificate)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
    }


def secured(folder: Path, *listeners: str) -> dict[str, str]:
    """Returns settings with which listeners of these names work over SASL_SSL, with PLAIN."""
    return key_files(folder) | {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{each.lower()}.plain.sasl.jaas.config": JAAS for each in listeners},
    }
