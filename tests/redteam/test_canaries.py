"""Canaries: secrets that are planted, used at every endpoint, and searched for everywhere."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings as active
from django.db import connection
from django.test import Client

from allowlist import sign_in
from core.lib import encryption
from core.models import ChannelAccount
from gateway_project.logs import JsonFormatter
from tests.redteam import gateway_data
from tests.redteam.gateway_data import WHO, GatewayData
from tests.redteam.matrix import API, ENDPOINTS, PAGES
from tests.redteam.test_matrix import ADMIN, ask

pytestmark = pytest.mark.usefixtures("fresh_counters")

PASSWORD = "canary-Password-7d1f"
BOT = "424242:CanaryTokenOfTheBot00000000000000000"
HOOK = "canary-webhook-secret"
METRICS = "canary-metrics-token"
MODEL = "canary-model-key"
# Django keeps the key of a session in clear, as its design has it; docs/security.md says so.
KNOWN = {("django_session", "session_key")}


def texts_of_the_database() -> Iterator[tuple[str, str, str]]:
    """Yield table, column and value of everything that is stored, as text."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            columns = [each[0] for each in cursor.description]
            for row in cursor.fetchall():
                for column, value in zip(columns, row, strict=True):
                    data = bytes(value) if isinstance(value, (bytes, memoryview)) else value
                    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
                    yield table, column, text


def texts_of_the_broker() -> Iterator[str]:
    """Yield everything that the broker holds."""
    client = redis.Redis.from_url(active.REDIS_URL, decode_responses=True)
    try:
        for key in client.scan_iter(count=1000):
            yield str(key)
            kind = client.type(key)
            if kind == "list":
                yield " ".join(client.lrange(key, 0, -1))  # type: ignore[arg-type]
            elif kind == "hash":
                yield str(client.hgetall(key))
            elif kind == "string":
                yield str(client.get(key))
    finally:
        client.close()


def ask_every_endpoint(gateway: GatewayData) -> list[str]:
    """Send every row in every role, wrong passwords, misplaced keys; return the responses."""
    said: list[str] = []
    for rows in {**PAGES, **API, **ENDPOINTS}.values():
        for row in rows:
            for who in sorted(WHO, key=lambda each: each == "own"):
                answer = ask(gateway, who, row)
                said.append(answer.body.decode("utf-8", "replace") + str(answer.headers))
    token = gateway.tokens["own"]
    places = (f"/inbound?key={token}", f"/v1/models?api_key={token}")
    said += [gateway.ask("anonymous", "GET", where).body.decode() for where in places]
    said += [gateway.ask("own", "POST", "/inbound", f'{{"text": "{token}'.encode()).body.decode()]
    pages = ["/" + re.sub(r"<[^>]*>", "1", re.split(r"\^?\(\?P", route)[0]) for route in ADMIN]
    said += [gateway.ask("owner", "GET", page).body.decode("utf-8", "replace") for page in pages]
    browser = Client(SERVER_NAME=gateway_data.HOST)
    for name, word in (("own", PASSWORD), ("own", PASSWORD + "x"), (PASSWORD, "x")):
        browser.post("/sign-in", {"username": name, "password": word})
    return said


def test_rlog4_no_planted_secret_is_found_anywhere(
    caplog: pytest.LogCaptureFixture, settings: Any, transactional_db: None
) -> None:
    """[RLOG4] [RO9] Logs, answers, admin pages, every column of every table, the broker."""
    caplog.set_level(logging.DEBUG)
    settings.METRICS_TOKEN, settings.LLM_API_KEY = METRICS, MODEL
    gateway = gateway_data.build()
    own = gateway.people["own"]
    own.set_password(PASSWORD)
    own.save()
    bot = ChannelAccount.objects.get(channel="telegram")
    bot.secrets = encryption.encrypt({"token": BOT, "webhook_secret": HOOK})
    bot.save()
    from django.utils import timezone

    link = sign_in.create(user=own, now=timezone.now())
    said = ask_every_endpoint(gateway)
    bare = Client(SERVER_NAME=gateway_data.HOST)
    assert bare.get(f"/sign-in/{link}").status_code == 200
    assert bare.post(f"/sign-in/{link}").status_code == 302
    secrets = {
        **gateway.tokens,
        "password": PASSWORD,
        "bot": BOT,
        "hook": HOOK,
        "metrics": METRICS,
        "model": MODEL,
        "link": link,
        "signing key": active.SECRET_KEY,
        "encryption key": active.GATEWAY_ENCRYPTION_KEYS[0],
    }
    logged = "\n".join(JsonFormatter().format(record) for record in caplog.records)
    assert len(logged) > 1000
    assert len(said) > 200
    stored = list(texts_of_the_database())
    assert any(table == "core_run" for table, _, _ in stored)
    queued = "\n".join(texts_of_the_broker())
    for name, secret in secrets.items():
        assert secret not in logged, f"{name} in the log"
        assert not [text for text in said if secret in text], f"{name} in an answer"
        assert secret not in queued, f"{name} in the broker"
        for table, column, text in stored:
            # A wrong password that was typed as a name is what its typist made public.
            if (table, column) not in KNOWN and not table.startswith("axes_"):
                assert secret not in text, f"{name} in {table}.{column}"


def test_the_search_finds_planted_canaries(transactional_db: None) -> None:
    """The greps above are not blind."""
    gateway = gateway_data.build()
    gateway.people["own"].display_name = BOT
    gateway.people["own"].save()
    assert [column for _, column, text in texts_of_the_database() if BOT in text] == [
        "display_name"
    ]
    client = redis.Redis.from_url(active.REDIS_URL)
    client.lpush("canary-list", BOT)
    assert BOT in "\n".join(texts_of_the_broker())
    client.delete("canary-list")
    client.close()


def test_rlog1_a_sender_cannot_forge_a_line_of_the_log() -> None:
    """[RLOG1]"""
    record = logging.LogRecord(
        "x", logging.INFO, "", 0, "denied %s", ("a\n2026-01-01 INFO approved\r\x1b[2J\u2028",), None
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "\r" not in line
    assert line.isascii()


def test_rlog4_a_key_does_not_show_its_secret(db: None) -> None:
    """[RLOG4] Neither its row's text nor its fields hold the token."""
    from allowlist.models import ApiKey

    gateway = gateway_data.build()
    for key in ApiKey.objects.all():
        for token in gateway.tokens.values():
            assert token not in str(vars(key)) + repr(key) + str(key)
