"""Random requests about SCRAM credentials, delegation tokens and logging in. Listeners here are plain: they refuse
tokens, and log-ins that come too late.
"""

from bowstring.protocol.messages import (
    alter_user_scram_credentials,
    create_delegation_token,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)

USERS = ("a", "b", "c")


def change_credentials(client):
    random = client.random
    users = random.sample(USERS, random.randrange(1, 3))
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[
            alter_user_scram_credentials.ScramCredentialDeletion(name=user, mechanism=random.choice([1, 2]))
            for user in users[:1]
            if random.random() < 0.3
        ],
        upsertions=[
            alter_user_scram_credentials.ScramCredentialUpsertion(
                name=user,
                mechanism=random.choice([1, 2]),
                iterations=random.choice([4096, 8192, 1]),
                salt=random.randbytes(8),
                salted_password=random.randbytes(32),
            )
            for user in users
        ],
    )


def list_credentials(client):
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=client.random.choice(
            [None, [describe_user_scram_credentials.UserName(name=client.random.choice(USERS))]]
        )
    )


def create_token(client):
    return create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1)


def renew_token(client):
    return renew_delegation_token.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)


def expire_token(client):
    return expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)


def list_tokens(client):
    return describe_delegation_token.DescribeDelegationTokenRequest(owners=None)


def choose_mechanism(client):
    return sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")


def log_in(client):
    return sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0a\0b")


CREDENTIALS = [
    (3, change_credentials),
    *((1, each) for each in (list_credentials, create_token, renew_token, expire_token)),
    *((1, each) for each in (list_tokens, choose_mechanism, log_in)),
]
