"""Users sign in with the broker's SCRAM credentials and see what its rules allow."""

import pytest
from playwright.sync_api import expect

from bench.console.pages import running_console
from tests.system.console.shown_cluster import PASSWORD, USER
from tests.system.console.visits import NARROW, WIDE, visit


@pytest.fixture(scope="module")
def guarded(cluster, tmp_path_factory):
    """A console whose users sign in."""
    config = tmp_path_factory.mktemp("console") / "client.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n")
    with running_console(cluster.signed_in_servers, "--write", "--command-config", str(config)) as console:
        yield console


def sign_in(seen, user, password):
    """Signs in by keyboard: the name has the focus."""
    seen.page.keyboard.type(user)
    seen.page.keyboard.press("Tab")
    seen.page.keyboard.type(password)
    seen.page.keyboard.press("Enter")


def test_a_user_sees_the_topics_that_the_rules_allow(browser, guarded):
    with visit(browser, guarded.url) as seen:
        seen.open("/topics?q=o")
        assert seen.page.url.startswith(f"{guarded.url}/sign-in")
        for scheme, width in (("light", WIDE), ("dark", NARROW)):
            seen.look(scheme=scheme, width=width)
            assert seen.violations() == [] and seen.too_wide() == []
            seen.screenshot(f"sign-in-{scheme}-{width}")
        sign_in(seen, USER, PASSWORD)
        expect(seen.page.locator("h1")).to_have_text("Topics")
        assert seen.page.url == f"{guarded.url}/topics?q=o", "goes on to the page that was asked for"
        body = seen.page.inner_text("body")
        assert "orders" in body and "hostile" not in body and "greetings" not in body
        assert PASSWORD not in seen.page.content()
        (cookie,) = seen.page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert seen.page.evaluate("document.cookie") == ""
        seen.page.get_by_role("button", name="Sign out").click()
        expect(seen.page.locator("h1")).to_have_text("Sign in")
        seen.page.goto(f"{guarded.url}/topics")
        assert seen.page.url.startswith(f"{guarded.url}/sign-in")
        assert seen.errors == []


def test_a_wrong_password_is_refused_in_a_sentence(browser, guarded):
    with visit(browser, guarded.url) as seen:
        seen.open("/topics")
        sign_in(seen, USER, "wrong")
        expect(seen.page.get_by_role("alert")).to_contain_text("refused")
        assert "wrong" not in seen.page.content()
        assert seen.violations() == []
