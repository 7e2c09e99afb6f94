"""Schemas in Spark's DDL, read without a JVM."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.spark.ddl import parse_ddl


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("a INT", "struct<a:int>"),
        ("a int, b: string", "struct<a:int,b:string>"),
        ("`a b` BIGINT NOT NULL, c DECIMAL(10,2)", "struct<a b:bigint,c:decimal(10,2)>"),
        (
            "s STRUCT<x: INT, y: ARRAY<STRUCT<z: DOUBLE>>>",
            "struct<s:struct<x:int,y:array<struct<z:double>>>>",
        ),
        ("m MAP<STRING, ARRAY<INT>>, t TIMESTAMP", "struct<m:map<string,array<int>>,t:timestamp>"),
        ("d decimal, e tinyint, f timestamp_ntz", "struct<d:decimal(10,0),e:tinyint,f:timestamp_ntz>"),
    ],
)
def test_ddl(text, simple):
    assert parse_ddl(text).simpleString() == simple


def test_not_null():
    assert not parse_ddl("a INT NOT NULL").fields[0].nullable


@pytest.mark.parametrize(
    "text", ["", "a", "a INT b INT", "a COLOUR", "a ARRAY<INT", "a INT,", "(a INT)", "a INT $"]
)
def test_what_is_no_ddl(text):
    with pytest.raises(ConfigError, match="not valid DDL"):
        parse_ddl(text)
