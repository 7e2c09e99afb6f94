import pytest

from bowstring.security.jaas import JaasError, parse_jaas, parse_login

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_of_a_login():
    login = parse_login(
        f'{PLAIN} required\n  username="admin" // who\n password="a\\"b;=c" /* secret */ user_al-ice=word;'
    )
    assert login.module == PLAIN
    assert login.module_name == "PlainLoginModule"
    assert login.options == {"username": "admin", "password": 'a"b;=c', "user_al-ice": "word"}


@pytest.mark.parametrize(
    ("text", "value"),
    [(r'"\\ \n \101"', "\\ \n A"), ("'single'", "single"), ('""', ""), ("12.5", "12.5"), ('"ä€"', "ä€")],
)
def test_values(text, value):
    assert parse_login(f"M required o={text};").options == {"o": value}


def test_several_modules():
    assert [each.module for each in parse_jaas("A required; B optional x=y;")] == ["A", "B"]
    with pytest.raises(JaasError, match="2 login modules; one is allowed"):
        parse_login("A required; B optional;")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no login module"),
        ("  ", "no login module"),
        ("M", "no control flag"),
        ("M always;", "no control flag"),
        ("M required", "semicolon"),
        ("M required o=secret", "semicolon"),
        ("M required o;", "no value"),
        ("M required o=;", "no value"),
        ("M required =x;", "no name"),
        ('M required o="secret;', "quotation mark at character 14"),
        ('"secret" required;', "before a quoted text"),
    ],
)
def test_malformed_lines(text, why):
    with pytest.raises(JaasError, match=why) as caught:
        parse_login(text)
    assert "secret" not in str(caught.value)


def test_values_are_not_shown():
    assert repr(parse_login('M required password="secret";')) == "Login(M, options: password)"
