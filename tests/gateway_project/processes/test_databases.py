"""``DATABASE_URL``: the connection follows each part of the URL."""

import os
import socket
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from gateway_project import databases
from tests import settings

USER_TIMEOUT = 18  # TCP_USER_TIMEOUT of Linux
HOME = Path("/home/of/the/gateway")
ON_POSTGRESQL = pytest.mark.skipif(
    settings.TEST_DATABASE != "postgres", reason="SQLite has no server"
)


def test_a_database_file_is_in_the_home_by_default() -> None:
    assert databases.settings_of("sqlite://", home=HOME)["NAME"] == str(HOME / "gateway.sqlite3")
    assert databases.settings_of("sqlite:///a%20b/c", home=HOME)["NAME"] == "/a b/c"
    assert databases.settings_of("sqlite:////a/c", home=HOME)["NAME"] == "/a/c"


def test_a_server_s_address_is_taken_apart_and_unquoted() -> None:
    url = "postgres://ada:p%40ss@db.example.org:5433/la%2Ftch?sslmode=verify-full&connect_timeout=3"
    found = databases.settings_of(url, home=HOME)
    assert [found[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")] == [
        "la/tch",
        "ada",
        "p@ss",
        "db.example.org",
        "5433",
    ]
    asked = {"sslmode": "verify-full", "connect_timeout": "3"}
    assert found["OPTIONS"] == {**databases.PATIENCE, **asked}


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://x", "sqlite://"),
        ("postgres://a:secret-word@h", "DATABASE_URL names no database"),
        ("postgres://a:secret-word@h/n?sslmod=require", "sslmod"),
        ("postgres://a:secret-word@h/n?sslmode", "name=value"),
        ("postgres://a:secret-word@h/n?sslmode=", "name=value"),
        ("postgres://a:secret-word@h/n#?sslmode=require", "name=value"),
        ("postgres://a:secret-word@h/n?sslmode=require&", "name=value"),
        ("postgres://a:secret-word@h/n?sslmode=require&sslmode=disable", "name=value"),
        ("postgres://a:secret-word@h:1/n?port=2", "repeated parameter: port"),
        ("postgres://a:secret-word/more@h/n", "%2F"),
        ("postgres://a:12/secret-word@h/n", "%2F"),
        ("postgres://a:12#secret-word@h/n", "%23"),
        ("postgres://a:secret-word?more@h/n", "%3F"),
        ("postgres://a:secret-word[@h/n", "%5B"),
    ],
)
def test_an_invalid_database_url_stops_the_start_without_naming_the_secret(
    url: str, word: str
) -> None:
    """Silently left out, a mistyped ``sslmode`` would send everything in the clear."""
    with pytest.raises(ImproperlyConfigured) as caught:
        databases.settings_of(url, home=HOME)
    assert word in str(caught.value)
    assert "secret-word" not in str(caught.value)


def test_a_socket_s_folder_is_a_parameter() -> None:
    """As libpq has it; a plus sign is one."""
    found = databases.settings_of("postgres:///n?host=/run/a+b%20c", home=HOME)
    assert (found["HOST"], found["OPTIONS"]["host"]) == ("", "/run/a+b c")


def handler(query: str) -> ConnectionHandler:
    """Connections to this test's own server, with ``query``."""
    url = f"{settings.POSTGRES_URL}/postgres?{query}"
    return ConnectionHandler({"default": databases.settings_of(url, home=HOME)})


@ON_POSTGRESQL
@pytest.mark.django_db
def test_a_server_without_tls_is_refused_when_tls_is_required() -> None:
    with pytest.raises(OperationalError, match="does not support SSL"):
        handler("sslmode=require")["default"].ensure_connection()


@ON_POSTGRESQL
@pytest.mark.django_db
def test_a_connection_notices_that_its_server_has_vanished() -> None:
    """Otherwise a query to a machine without power waits for hours."""
    here = handler("keepalives_count=4")["default"]
    here.ensure_connection()
    with socket.socket(fileno=os.dup(here.connection.fileno())) as wire:
        asked = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, USER_TIMEOUT]
        found = [wire.getsockopt(socket.IPPROTO_TCP, each) for each in asked]
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    here.close()
    assert found == [10, 5, 4, 25_000]
