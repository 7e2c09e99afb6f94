"""Finds the credentials of users in the image of the cluster."""

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ImageSource
from bowstring.engine.security.sasl_mechanisms import Credentials
from bowstring.engine.security.sasl_scram import CredentialOf, DecoyOf, TokenOf
from bowstring.engine.security.scram_decoys import ScramDecoys
from bowstring.engine.security.token_secret import TokenLogins, secret_of, token_salt
from bowstring.security.scram import DEFAULT_ITERATIONS, ScramCredential, ScramMechanism


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

    def of_nobody(mechanism: ScramMechanism) -> DecoyOf:
        decoys = ScramDecoys(metadata, mechanism)

        def find(name: str, is_token: bool) -> ScramCredential:
            decoy = decoys.of(name)
            if not is_token or secret is None:
                return decoy
            salt = token_salt(secret, mechanism, name)
            return ScramCredential(salt, decoy.stored_key, decoy.server_key, DEFAULT_ITERATIONS)

        return find

    return Credentials(of_user, of_token, of_nobody)
