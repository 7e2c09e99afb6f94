"""What a directory has of rules, users, quotas and delegation tokens, and whether clients can log in with it."""

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

LISTENERS = {"SASL": "SASL_PLAINTEXT"}
_MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required user_alice="alice-secret";'
    ),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "a secret of the directory",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
}


class Guarded(NamedTuple):
    """What administrators see."""

    rules: list[AclBinding]
    users: dict[str, list[ScramCredentialInfo]]
    quotas: dict[QuotaEntity, dict[str, float]]
    tokens: dict[str, DelegationToken]


class Guard:
    """The administration of one broker: its listener in the clear, and the one where clients log in."""

    def __init__(self, bootstrap: str, port: int) -> None:
        self._bootstrap, self._sasl = bootstrap, f"127.0.0.1:{port}"

    def _login(self, mechanism: str, name: str, password: str, more: str = "") -> Admin:
        module = f"{_MODULES}.plain.Plain" if mechanism == "PLAIN" else f"{_MODULES}.scram.Scram"
        login = f'{module}LoginModule required username="{name}" password="{password}"{more};'
        security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        return Admin(self._sasl, security={**security, "sasl.jaas.config": login})

    def view(self) -> Guarded:
        """Returns all of it."""
        with Admin(self._bootstrap) as admin, self._login("PLAIN", "alice", "alice-secret") as alice:
            tokens = alice.describe_delegation_tokens()
            return Guarded(
                sorted(admin.describe_acls()),
                admin.describe_user_scram_credentials(),
                admin.describe_client_quotas(),
                {each.token_id: each for each in tokens},
            )

    def add(self, name: str) -> DelegationToken:
        """Adds rules, a user, quotas and a token, all with this name."""
        with Admin(self._bootstrap) as admin:
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
        with self._login("PLAIN", "alice", "alice-secret") as alice:
            token = alice.create_delegation_token(renewers=[f"User:{name}"])
        wait_until(lambda: token.token_id in self.view().tokens and name in self.view().users)
        return token

    def remove(self, name: str, token: DelegationToken) -> None:
        """Removes all of that name but the address' quota."""
        with Admin(self._bootstrap) as admin:
            admin.delete_acls([AclBindingFilter(name=name)])
            admin.alter_user_scram_credentials(
                [UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)]
            )
            admin.alter_client_quotas({"user": name, "client-id": None}, {"producer_byte_rate": None})
        with self._login("PLAIN", "alice", "alice-secret") as alice:
            alice.expire_delegation_token(token.hmac)
        wait_until(lambda: token.token_id not in self.view().tokens and name not in self.view().users)

    def lets_in(self, name: str, token: DelegationToken) -> tuple[bool, bool]:
        """Returns whether the user and the token can log in."""
        own = self._login("SCRAM-SHA-256", name, f"{name}-secret")
        by_token = self._login("SCRAM-SHA-256", token.token_id, token.password, ' tokenauth="true"')
        return _gets_in(own), _gets_in(by_token)


def _gets_in(admin: Admin) -> bool:
    with admin:
        try:
            admin.describe_cluster()
        except AuthenticationError:
            return False
    return True
