"""Finds the credentials of users in the image of the cluster."""

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ImageSource
from bowstring.engine.security.sasl_mechanisms import Credentials
from bowstring.engine.security.sasl_scram import CredentialOf, TokenOf
from bowstring.engine.security.token_secret import TokenLogins, secret_of
from bowstring.security.scram import ScramCredential, ScramMechanism


def credentials_of(metadata: ImageSource, configs: BrokerConfigs) -> Credentials:
    """Returns the credentials that the image has when a client logs in."""
    secret = secret_of(configs)

    def of_user(mechanism: ScramMechanism) -> CredentialOf:
        def find(name: str) -> ScramCredential | None:
            record = metadata.image.scram.get(name, mechanism.number)
            if record is None:
                return None
            return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

        return find

    def of_token(mechanism: ScramMechanism) -> TokenOf:
        return (lambda token_id: None) if secret is None else TokenLogins(metadata, secret, mechanism).find

    return Credentials(of_user, of_token)
