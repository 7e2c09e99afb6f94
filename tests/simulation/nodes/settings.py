"""Clients that change SCRAM credentials and client quotas, and the quotas of a simulated plane, which limit nothing."""

from bowstring.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    describe_client_quotas,
)
from tests.simulation.nodes.credentials import list_credentials

# Others change those of a, b and c.
USERS = ("d", "e")
FEWEST = 4096

ENTITIES = (
    (("user", "a"),),
    (("user", None),),
    (("client-id", "b"),),
    (("ip", "10.0.0.1"), ("user", "a")),  # refused
)
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "no_such_quota")
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


class SimulatedQuotas:
    """In the place of PlaneQuotas."""

    limits_time = limits_bytes = False

    def __init__(self, plane):
        plane.quotas = self
        self.rules = []

    def set(self, rules):
        self.rules = sorted(rules, key=repr)

    def rates(self, most):
        return []


async def change_credentials(client):
    """Sets and removes credentials, and tells the rules what was acknowledged."""
    random = client.random
    users = random.sample(USERS, random.randrange(1, 3))
    upsertions, deletions, changes = [], [], {}
    for user in users:
        mechanism = random.choice([1, 2])
        iterations = None if random.random() < 0.3 else FEWEST + next(client.clients.numbers)
        changes[user] = ((user, mechanism), iterations)
        if iterations is None:
            deletions.append(
                alter_user_scram_credentials.ScramCredentialDeletion(name=user, mechanism=mechanism)
            )
        else:
            upsertions.append(
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    name=user,
                    mechanism=mechanism,
                    iterations=random.choice([iterations] * 4 + [1]),
                    salt=random.randbytes(8),
                    salted_password=random.randbytes(32),
                )
            )
    if random.random() < 0.1:
        deletions += deletions[:1]  # refused
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=deletions, upsertions=upsertions
    )
    began = client.clients.kernel.now
    answer = await client.ask(request, port=client.a_port(request))
    codes = {} if answer is None else {each.user: each.error_code for each in answer.results}
    for user, (key, value) in changes.items():
        client.world.tell("credential_changed", key, value, began, codes.get(user))


async def change_quotas(client):
    """Sets and removes quotas of one entity, and tells the rules what was acknowledged."""
    random = client.random
    entity = random.choice(ENTITIES)
    changes = {
        key: None if random.random() < 0.3 else float(next(client.clients.numbers))
        for key in random.sample(KEYS, random.choice([1, 1, 2]))
    }
    request = alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.AlterClientQuotasRequestEntryData(
                entity=[
                    alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[
                    alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ],
        validate_only=random.random() < 0.1,
    )
    began = client.clients.kernel.now
    answer = await client.ask(request, port=client.a_port(request))
    if not request.validate_only:
        code = None if answer is None else answer.entries[0].error_code
        for key, value in changes.items():
            client.world.tell("quota_changed", (entity, key), value, began, code)


def list_quotas(client):
    random = client.random
    kind = random.choice(["user", "client-id", "ip", "no-such-type"])
    match = random.choice([EXACT, DEFAULT, SPECIFIED])
    return describe_client_quotas.DescribeClientQuotasRequest(
        components=[
            describe_client_quotas.ComponentData(
                entity_type=kind, match_type=match, match="a" if match == EXACT else None
            )
        ],
        strict=random.random() < 0.5,
    )


SETTINGS = [(3, change_credentials), (3, change_quotas), (1, list_credentials), (1, list_quotas)]
