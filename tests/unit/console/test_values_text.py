"""Values as text: nothing that they contain changes how a page reads."""

import pytest
from markupsafe import Markup

from bowstring.console.rendering import environment, quoted
from bowstring.console.values_text import count_text, duration_text, rate_text, size_text, visible


def test_control_characters_are_symbols():
    assert visible("a\x1b[31mb\x00\x7f\n\tc") == "a\u241b[31mb\u2400\u2421\n\tc"
    assert visible("abc\u202etxt.exe") == "abc\\u202etxt.exe"
    assert visible("\x9b\udc80") == "\\u009b\\udc80"


def test_templates_escape_and_show():
    text = environment().from_string('<p title="{{ v }}">{{ v }}</p>{{ m }}')
    html = text.render(v='<script>"\x1b', m=Markup("<b>"))
    assert html == '<p title="&lt;script&gt;&#34;\u241b">&lt;script&gt;&#34;\u241b</p><b>'


def test_names_in_addresses_are_one_segment():
    assert quoted("a/b?c#d e%") == "a%2Fb%3Fc%23d%20e%25"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (size_text(None), "–"),
        (size_text(1023), "1023 B"),
        (size_text(1536), "1.5 KiB"),
        (size_text(2**60), "1024.0 PiB"),
        (count_text(1234567), "1\u202f234\u202f567"),
        (rate_text(0.0), "0/s"),
        (rate_text(12345), "12.3 k/s"),
        (duration_text(-1), "forever"),
        (duration_text(604_800_000), "7 d"),
        (duration_text(90_061_000), "1 d 1 h"),
        (duration_text(5), "5 ms"),
    ],
)
def test_figures(text, expected):
    assert text == expected
