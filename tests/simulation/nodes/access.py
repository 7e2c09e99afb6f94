"""Random requests about rules of access control. Clients are super users here, so that the rules deny nothing."""

from bowstring.protocol.messages import create_acls, delete_acls, describe_acls

TOPIC, LITERAL, PREFIXED, ANY = 2, 3, 4, 1
PRINCIPALS = ("User:a", "User:b", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.0/8")


def _filter(client):
    random = client.random
    return {
        "resource_type_filter": random.choice([ANY, TOPIC]),
        "resource_name_filter": random.choice([None, random.choice(client.topics)]),
        "pattern_type_filter": random.choice([ANY, 2, LITERAL, PREFIXED]),
        "principal_filter": random.choice([None, *PRINCIPALS]),
        "host_filter": random.choice([None, None, *HOSTS]),
        "operation": random.choice([ANY, ANY, 3]),
        "permission_type": random.choice([ANY, ANY, 2, 3]),
    }


def add_rules(client):
    random = client.random
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=TOPIC,
                resource_name=random.choice(["", *client.topics]),
                resource_pattern_type=random.choice([LITERAL, PREFIXED]),
                principal=random.choice(PRINCIPALS),
                host=random.choice(HOSTS),
                operation=random.choice([2, 3, 4]),
                permission_type=random.choice([2, 3]),
            )
            for _ in range(random.randrange(1, 6))
        ]
    )


def remove_rules(client):
    return delete_acls.DeleteAclsRequest(
        filters=[
            delete_acls.DeleteAclsFilter(**_filter(client)) for _ in range(client.random.randrange(1, 3))
        ]
    )


def list_rules(client):
    return describe_acls.DescribeAclsRequest(**_filter(client))


ACCESS = [(3, add_rules), (1, remove_rules), (1, list_rules)]
