"""Rules, users, quotas and delegation tokens of a broker, and whether clients can log in with them."""

from typing import NamedTuple

from bowstring import Admin
from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.clients.admin.client_quotas import QuotaEntity
from bowstring.clients.admin.delegation_tokens import DelegationToken
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from bowstring.clients.errors import AuthenticationError
from tests.support.waiting import wait_until

PASSWORD = "alice-secret"
_MODULES = "org.apache.kafka.common.security"


def settings_of(listener: str) -> dict[str, str]:
    """Returns settings of a broker with an authorizer whose super user alice logs in at a listener."""
    prefix = f"listener.name.{listener.lower()}"
    scram = ("scram-sha-256", "scram-sha-512")
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(["PLAIN", *map(str.upper, scram)]),
        f"{prefix}.plain.sasl.jaas.config": (
            f'{_MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        ),
        **{
            f"{prefix}.{each}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;"
            for each in scram
        },
        "delegation.token.secret.key": "a secret of the directory",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
    }


def login(mechanism: str, name: str, password: str, more: str = "") -> dict[str, str]:
    """Returns the part of a client's security that logs it in; `more` are options of its JAAS line."""
    module = f"{_MODULES}.plain.Plain" if mechanism == "PLAIN" else f"{_MODULES}.scram.Scram"
    line = f'{module}LoginModule required username="{name}" password="{password}"{more};'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": line}


class Guarded(NamedTuple):
    """What administrators see."""

    rules: list[AclBinding]
    users: dict[str, list[ScramCredentialInfo]]
    quotas: dict[QuotaEntity, dict[str, float]]
    tokens: dict[str, DelegationToken]


class Guard:
    """The administration of one broker, by alice.

    Args:
        port: Of the listener where clients log in.
        security: How they connect to it.
    """

    def __init__(self, port: int, **security: str) -> None:
        self._where = f"127.0.0.1:{port}"
        self._security = {"security.protocol": "SASL_PLAINTEXT"} | {
            name.replace("_", "."): value for name, value in security.items()
        }

    def admin(
        self, mechanism: str = "PLAIN", name: str = "alice", password: str = PASSWORD, more: str = ""
    ) -> Admin:
        """Returns a new client that logs in so."""
        return Admin(self._where, security=self._security | login(mechanism, name, password, more))

    def view(self) -> Guarded:
        """Returns all of it."""
        with self.admin() as admin:
            tokens = admin.describe_delegation_tokens()
            return Guarded(
                sorted(admin.describe_acls()),
                admin.describe_user_scram_credentials(),
                admin.describe_client_quotas(),
                {each.token_id: each for each in tokens},
            )

    def add(self, name: str) -> DelegationToken:
        """Adds rules, a user, quotas and a token, all with this name."""
        with self.admin() as admin:
            admin.create_acls(
                [
                    AclBinding("topic", name, "prefixed", f"User:{name}", "*", "read", "deny"),  # type: ignore[arg-type]
                    AclBinding("group", name, "literal", "User:*", "10.0.0.1", "all", "allow"),  # type: ignore[arg-type]
                ]
            )
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, f"{name}-secret")])
            admin.alter_client_quotas({"user": name, "client-id": None}, {"producer_byte_rate": 1e6})
            admin.alter_client_quotas({"ip": "127.0.0.9"}, {"connection_creation_rate": 50 + len(name)})
            token = admin.create_delegation_token(renewers=[f"User:{name}"])
        wait_until(lambda: token.token_id in self.view().tokens and name in self.view().users)
        return token

    def remove(self, name: str, token: DelegationToken) -> None:
        """Removes all of that name but the address' quota."""
        with self.admin() as admin:
            admin.delete_acls([AclBindingFilter(name=name)])
            admin.alter_user_scram_credentials(
                [UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)]
            )
            admin.alter_client_quotas({"user": name, "client-id": None}, {"producer_byte_rate": None})
            admin.renew_delegation_token(token.hmac)
            admin.expire_delegation_token(token.hmac)
        wait_until(lambda: token.token_id not in self.view().tokens and name not in self.view().users)

    def lets_in(self, name: str, token: DelegationToken) -> tuple[bool, bool]:
        """Returns whether the user and the token can log in."""
        own = self.admin("SCRAM-SHA-256", name, f"{name}-secret")
        by_token = self.admin("SCRAM-SHA-256", token.token_id, token.password, ' tokenauth="true"')
        return _gets_in(own), _gets_in(by_token)


def _gets_in(admin: Admin) -> bool:
    with admin:
        try:
            admin.describe_cluster()
        except AuthenticationError:
            return False
    return True
