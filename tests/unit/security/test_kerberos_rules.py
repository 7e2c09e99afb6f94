"""Rules that make names of users of principals: as Kafka's."""

import pytest

from bowstring.engine.configs import ConfigError
from bowstring.engine.security.kerberos_rules import KerberosNameError, KerberosRules

REALM = "REALM.COM"


def name_of(principal, *rules):
    return KerberosRules(rules, REALM).name_of(principal)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
    ],
)
def test_the_first_rule_that_applies_counts(principal, name):
    rules = [rf"RULE:[{n}:$1](App\..*)s/App\.(.*)/$1/g" for n in (1, 2)]
    assert name_of(principal, *rules, "DEFAULT") == name


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("User@REALM.COM", "user"),
        ("TestABC/host@FOO.COM", "test"),
        ("ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        ("App.SERVICE-name/example.com@REALM.COM", "service-name"),
        ("User/root@REALM.COM", "user"),
    ],
)
def test_names_in_small_and_in_capital_letters(principal, name):
    rules = [
        "RULE:[1:$1]/L",
        "RULE:[2:$1](Test.*)s/ABC///L",
        "RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L",
        r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g/L",
        "RULE:[2:$1]/L",
        "DEFAULT",
    ]
    assert name_of(principal, *rules) == name
    assert (
        name_of(principal, *(rule.removesuffix("L") + "U" * (rule[-1] == "L") for rule in rules))
        == name.upper()
    )


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@OTHER.COM", ["DEFAULT"]),
        ("alice@REALM.COM", ["RULE:[2:$1]"]),
        ("alice@REALM.COM", ["RULE:[1:$1](bob)"]),
        ("a/b/c@REALM.COM", ["DEFAULT"]),
        (r"alice\/admin@REALM.COM", ["DEFAULT"]),
        (r"alice\@OTHER.COM@REALM.COM", ["DEFAULT"]),
        ("alice", ["DEFAULT"]),
        ("alice@REALM.COM", ["RULE:[1:$1@$0]"]),
        ("alice/admin@REALM.COM", ["RULE:[2:$1/$2]", "DEFAULT"]),
        ("alice@REALM.COM", ["RULE:[1:$1]s/.*//"]),
        ("@REALM.COM", ["DEFAULT"]),
    ],
)
def test_principals_without_a_name(principal, rules):
    with pytest.raises(KerberosNameError):
        name_of(principal, *rules)


def test_the_realm_is_parameter_0_and_substitution_is_once_without_g():
    assert name_of("alice@OTHER.COM", "RULE:[1:$0.$1]") == "OTHER.COM.alice"
    assert name_of("eve@X.COM", r"RULE:[1:$1@$0](.*@X\.COM)s/@.*/-x/") == "eve-x"
    assert name_of("aXbXc@REALM.COM", "RULE:[1:$1]s/X/-/") == "a-bXc"
    assert name_of("aXbXc@REALM.COM", "RULE:[1:$1]s/X/-/g") == "a-b-c"
    assert (
        name_of("kafka/h1@REALM.COM", r"RULE:[2:$1-$2](kafka-.*)s/(?<svc>\w+)-(.*)/$2_${svc}_$12/")
        == "h1_kafka_kafka2"
    )


@pytest.mark.parametrize(
    "rule",
    [
        *("default", "DEFAUL", "DEFAULT/L", "DEFAULT/g", "rule:[1:$1]", "rule:[1:$1]/L/U", "RULE:[1:$1/L"),
        *("RULE:[1:$1]/l", "RULE:[1:$1]/LU", "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g", "RULE:[:$1]", ""),
        *("RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](+)", "RULE:[1:$1]s/a/$1/", "RULE:[1:$1]s/a/${x}/"),
    ],
)
def test_malformed_rules_are_named(rule):
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        KerberosRules([rule], REALM)
