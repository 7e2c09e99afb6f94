"""The pages of docs whose code needs Spark, in the session of these tests."""

import pytest

import bowstring
from tests.support.page_run import PageRun, Place
from tests.support.pages import name_of, pages_of


@pytest.mark.parametrize("page", pages_of("spark"), ids=name_of)
def test_a_page(page, spark, tmp_path, monkeypatch):
    """`bowstring.spark.session()` joins the existing session."""
    with bowstring.Broker() as broker:
        monkeypatch.setenv("BOWSTRING_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        PageRun(Place(tmp_path, broker.bootstrap_servers)).run(page)
