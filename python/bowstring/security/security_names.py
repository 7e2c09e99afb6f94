"""Lists the settings of TLS and SASL of clients: their names in Kafka's Java clients, librdkafka
(confluent-kafka) and kafka-python.

A setting has one name here, Kafka's or librdkafka's; the others lead to it. Dots and underscores are the
same.
"""

from __future__ import annotations

from typing import NamedTuple


class SecurityName(NamedTuple):
    """One setting.

    Attributes:
        name: under which the code looks it up.
        meaning: for the reference page.
        others: further names of it.
        secret: the value must not be shown.
    """

    name: str
    meaning: str
    others: tuple[str, ...] = ()
    secret: bool = False


SECURITY_NAMES = (
    SecurityName("security.protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    # Whom to trust
    SecurityName(
        "ssl.ca.location",
        "PEM file, or folder of PEM files, of the authorities that sign brokers' certificates; default: "
        "the system's",
        ("ssl.cafile",),
    ),
    SecurityName("ssl.ca.pem", "the same as text"),
    SecurityName("ssl.truststore.location", "the same as PKCS12, JKS or PEM file, as Java's clients name it"),
    SecurityName("ssl.truststore.type", "PKCS12, JKS or PEM"),
    SecurityName("ssl.truststore.password", "password of the trust store", secret=True),
    SecurityName("ssl.truststore.certificates", "PEM text of the authorities, as Java's clients name it"),
    SecurityName(
        "ssl.endpoint.identification.algorithm",
        "https (default): the broker's certificate must have its host name; none or empty: it need not",
        ("ssl.check.hostname",),
    ),
    SecurityName(
        "enable.ssl.certificate.verification",
        "false trusts any certificate: for experiments only; default true",
    ),
    # The client's own certificate
    SecurityName("ssl.certificate.location", "PEM file with the client's certificate", ("ssl.certfile",)),
    SecurityName("ssl.certificate.pem", "the same as text"),
    SecurityName("ssl.key.location", "PEM file with its private key", ("ssl.keyfile",)),
    SecurityName("ssl.key.pem", "the same as text", secret=True),
    SecurityName("ssl.key.password", "password of the private key", ("ssl.password",), secret=True),
    SecurityName("ssl.keystore.location", "PKCS12, JKS or PEM file with certificate and key"),
    SecurityName("ssl.keystore.type", "PKCS12, JKS or PEM"),
    SecurityName("ssl.keystore.password", "password of the key store", secret=True),
    SecurityName("ssl.keystore.key", "PEM text of the key, as Java's clients name it", secret=True),
    SecurityName("ssl.keystore.certificate.chain", "PEM text of the certificate, as Java's clients name it"),
    SecurityName("ssl.enabled.protocols", "TLSv1.2,TLSv1.3 (default), or one of them"),
    SecurityName("ssl.cipher.suites", "names of ciphers, separated by commas or colons", ("ssl.ciphers",)),
    # SASL
    SecurityName(
        "sasl.mechanism",
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (Kerberos)",
        ("sasl.mechanisms",),
    ),
    SecurityName("sasl.username", "user name of PLAIN and SCRAM", ("sasl.plain.username",)),
    SecurityName("sasl.password", "its password", ("sasl.plain.password",), secret=True),
    SecurityName(
        "sasl.jaas.config",
        "a line of Java's login modules with user name and password, or keytab and principal",
        secret=True,
    ),
    SecurityName("sasl.kerberos.service.name", "first part of the brokers' principals; default kafka"),
    SecurityName(
        "sasl.kerberos.domain.name",
        "host in the brokers' principals, if it is not the one the client connects to",
    ),
    SecurityName(
        "sasl.kerberos.keytab",
        "file with the client's key; default: the ticket cache (KRB5CCNAME, which kinit fills)",
    ),
    SecurityName(
        "sasl.kerberos.principal",
        "the client's principal; default: that of the ticket cache, or the first of the keytab",
    ),
    SecurityName("sasl.oauthbearer.token", "a bearer token", secret=True),
    SecurityName(
        "sasl.oauthbearer.token.function",
        "a function that returns a bearer token, or (token, its end in seconds since the epoch)",
        ("oauth.cb", "sasl.oauth.token.provider"),
    ),
    SecurityName(
        "sasl.oauthbearer.method", "default or oidc, as librdkafka names the client-credentials grant"
    ),
    SecurityName(
        "sasl.oauthbearer.token.endpoint.url",
        "where the client-credentials grant gets tokens (https://…), or a file with the token (file:///…)",
    ),
    SecurityName(
        "sasl.oauthbearer.client.id",
        "the client's id at the token endpoint",
        ("sasl.oauthbearer.client.credentials.client.id",),
    ),
    SecurityName(
        "sasl.oauthbearer.client.secret",
        "its secret",
        ("sasl.oauthbearer.client.credentials.client.secret",),
        secret=True,
    ),
    SecurityName("sasl.oauthbearer.scope", "what to request from the token endpoint"),
    SecurityName("sasl.oauthbearer.extensions", "SASL extensions, as name=value,name=value"),
    SecurityName(
        "https.ca.location", "PEM file of the authorities that sign the token endpoint's certificate"
    ),
    SecurityName("https.ca.pem", "the same as text"),
    SecurityName("sasl.login.read.timeout.ms", "limit of one request to the token endpoint; default 10000"),
)
CANONICAL = {other: row.name for row in SECURITY_NAMES for other in (row.name, *row.others)}
SECRETS = frozenset(other for row in SECURITY_NAMES if row.secret for other in (row.name, *row.others))
