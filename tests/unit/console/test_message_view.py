"""Values as HTML: whatever bytes are in them, the page has only its own elements and visible characters."""

import json
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.clients.records import Record
from bowstring.console.message_view import hex_lines, preview_of, time_text, views
from bowstring.console.rendering import environment
from bowstring.console.values_text import visible
from bowstring.search.record_search import FoundRecord
from bowstring.search.value_decoder import ValueDecoder

ELEMENTS = {"details", "summary", "ul", "li", "span", "pre", "p"}
texts = st.text(st.sampled_from("<>&\"'`a/=\x00\x1b\x9b\u202e\u2067\ufeff\U000e0041\n") | st.characters())
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)
data = st.none() | st.binary() | texts.map(lambda text: text.encode(errors="replace")) | trees.map(
    lambda tree: json.dumps(tree).encode()
)  # fmt: skip


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.names = set(), set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        self.names |= {name for name, _ in attrs}


def view_of(value, key=None, headers=(), view="tree"):
    record = Record("t", 0, 0, 0, 0, key, value, headers)
    return views([FoundRecord(record, -1 if value is None else len(value), -1)], ValueDecoder(), view)[0]


@settings(max_examples=100, deadline=None)
@given(data, data, texts, st.sampled_from(["tree", "text", "hex"]))
def test_values_are_data(value, key, name, view):
    shown = view_of(value, key, ((name, key),), view)
    template = "{{ shown.body }}|{{ shown.preview }}|{{ shown.key }}|{{ shown.headers[0][0] }}"
    html = environment().from_string(template).render(shown=shown)
    page = Elements(html)
    assert page.found <= ELEMENTS and page.names <= {"class", "open"}
    assert visible(html) == html


def test_sizes_are_bounded():
    wide = view_of(json.dumps({f"f{number}": "x" * 10_000 for number in range(2_000)}).encode())
    assert wide.is_cut and len(wide.body) < 3_000_000
    many = views(
        [FoundRecord(Record("t", 0, 0, 0, 0, None, b"x" * 65_536, ()), 65_536, -1)] * 200,
        ValueDecoder(),
        "text",
    )
    assert sum(len(each.body) for each in many) < 1_100_000
    assert many[-1].is_cut and "open the record alone" in many[-1].body
    headers = view_of(b"", headers=[("h", b"x" * 100_000)] * 500)
    assert headers.headers_left == 450 and len(headers.headers[0][1]) < 200


def test_previews():
    assert preview_of(None) is None and preview_of(b"") == ""
    assert preview_of(b"a\n\tb\x1b") == "a␊␉b␛"
    assert preview_of(b"\xff\x00") == "0xff00"
    assert preview_of("é".encode() * 10_000) == "é" * 160 + "…"
    assert preview_of(b"\xff" * 10_000) == "0x" + "ff" * 79 + "…"


def test_times():
    assert time_text(-1) == "–"
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1 << 62) == str(1 << 62)


def test_hex():
    assert hex_lines(b"") == ""
    assert hex_lines(b"<b>\x00\xff" + b"a" * 12) == (
        "00000000  3c 62 3e 00 ff 61 61 61  61 61 61 61 61 61 61 61  <b>..aaaaaaaaaaa\n"
        "00000010  61                                                a"
    )
