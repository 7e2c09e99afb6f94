"""bowstring.registry.api.request_target: contexts, aliases and parameters, by Confluent's rules."""

import pytest

from bowstring.registry.api.request_target import read_target
from bowstring.web.http_error import HttpError


def read(target, resolve=lambda subject: subject):
    path, _, query = target.partition("?")
    found = read_target(path.encode(), query.encode(), resolve)
    return "/".join(found.parts), found.query


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", "", []),
        ("//subjects///a/", "subjects/a", []),
        ("/subjects/a%2Fb", "subjects/a/b", []),
        ("/subjects?a=1&a=%20+x&b", "subjects", [("a", "1"), ("a", "  x"), ("b", "")]),
        ("/contexts", "contexts", []),
        ("/contexts/", "contexts", []),
        ("/contexts/.", "", []),
        ("/contexts/.c", "contexts/:.c:", []),
        ("/contexts/c", "contexts/:.c:", []),
        ("/contexts/:.c:/subjects/a/versions", "subjects/:.c:a/versions", []),
        ("/contexts/.c/subjects/:.d:a", "subjects/:.d:a", []),
        ("/contexts/.c/subjects/:*:a", "subjects/:*:a", []),
        ("/contexts/./subjects/a", "subjects/a", []),
        ("/contexts/.c/compatibility/subjects/a/versions/1", "compatibility/subjects/:.c:a/versions/1", []),
        ("/contexts/.c/config", "config/:.c:", []),
        ("/contexts/.c/config/a", "config/:.c:a", []),
        ("/contexts/.c/mode", "mode/:.c:", []),
        ("/contexts/./mode", "mode", []),
        ("/contexts/.c/subjects", "subjects", [("subjectPrefix", ":.c:")]),
        ("/contexts/.c/schemas?subjectPrefix=a", "schemas", [("subjectPrefix", ":.c:a")]),
        ("/contexts/.c/schemas/ids/1", "schemas/ids/1", [("subject", ":.c:")]),
        ("/contexts/.c/schemas/ids/1?subject=:.d:x", "schemas/ids/1", [("subject", ":.d:x")]),
        ("/contexts/.c/schemas/ids/1/versions?subject=x&deleted=true", "schemas/ids/1/versions",
         [("deleted", "true"), ("subject", ":.c:x")]),
    ],
)  # fmt: skip
def test_contexts_move_from_the_path_into_names(target, path, query):
    assert read(target) == (path, query)


def test_aliases_are_resolved_where_confluent_does():
    asked = []

    def resolve(subject):
        asked.append(subject)
        return "real"

    assert read("/subjects/nick/versions", resolve) == ("subjects/real/versions", [])
    assert read("/compatibility/subjects/nick/versions", resolve)[0] == "compatibility/subjects/real/versions"
    assert read("/schemas/ids/1?subject=nick", resolve)[1] == [("subject", "real")]
    assert read("/contexts/.c/subjects/nick", resolve)[0] == "subjects/real"
    assert asked == ["nick", "nick", "nick", ":.c:nick"]
    for target in (
        "/config/nick",
        "/mode/nick",
        "/subjects",
        "/schemas/ids/1/subjects",
        "/schemas?subject=nick",
    ):
        read(target, resolve)
    assert len(asked) == 4


@pytest.mark.parametrize(
    "target",
    [
        "/subjects/%ff",
        "/subjects/%c3",
        "/subjects?a=%ff",
        "/subjects?" + "&x" * 500,
        "/contexts/a:b/subjects",
    ],
)
def test_what_cannot_be_read_is_refused(target):
    with pytest.raises(HttpError) as refusal:
        read(target)
    assert refusal.value.status == 400


def test_numbers_and_flags():
    found = read_target(b"/x", b"a=%2B5&b=-7&c=TRUE&d=yes&e=1e3&f=", str)
    assert (found.number("a", 1), found.number("b", 1), found.number("none", 1)) == (5, -7, 1)
    assert (found.flag("c"), found.flag("d"), found.flag("none")) == (True, False, False)
    for name in "efd":
        with pytest.raises(HttpError) as refusal:
            found.number(name, 1)
        assert refusal.value.status == 404
