"""Finds the credentials of users in the image of the cluster."""

from bowstring.engine.metadata.image import ImageSource
from bowstring.engine.security.sasl_mechanisms import Credentials
from bowstring.engine.security.sasl_scram import CredentialOf, TokenLogin, TokenOf
from bowstring.security.scram import ScramCredential, ScramMechanism


def credentials_of(metadata: ImageSource) -> Credentials:
    """Returns the credentials that the image has when a client logs in."""

    def of_user(mechanism: ScramMechanism) -> CredentialOf:
        def find(name: str) -> ScramCredential | None:
            record = metadata.image.scram.get(name, mechanism.number)
            if record is None:
                return None
            return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

        return find

    def of_token(mechanism: ScramMechanism) -> TokenOf:
        def find(token_id: str) -> TokenLogin | None:
            return None

        return find

    return Credentials(of_user, of_token)
