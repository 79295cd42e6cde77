"""The OpenAPI document: every route is in it, and nothing answers otherwise than it says."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client
from django.urls import URLPattern

from channels_app.client_api.responses import endpoints, fields
from core.database import transactions
from gateway_project.asgi import ROUTES, application
from gateway_project.urls import VIEWS
from tests import ROOT
from tests.gateways import Gateway
from tests.loops import end_tasks
from tests.redteam import gateway_data

MAX_SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))  # of each part that has no end
MOST_SECONDS = 600  # of the cases that a schema names, beside other tests
HERE = Path(__file__).parent
EVERY_SCOPE = """
from allowlist import keys
from allowlist.models import ApiKey
from core.models import User
user = User.objects.create(username="ada", is_owner=True, is_staff=True)
print(keys.create(name="fuzzer", user=user, scopes=ApiKey.Scope.values)[1])
"""
UNDOCUMENTED = {
    r"(?s)^/*v1(?:/.*)?$",
    r"(?s)^v1/messages/.*$",
    r"^v1/responses/(?:compact|input_tokens)$",
    r"^/*(?:(?:(?:api/|openai/)?v1/|openai/)?"
    r"(?:(?:chat/)?completions|responses|messages|models|embeddings|audio/[a-z]+)"
    r"|api/chat/completions)/?$",
}


METHODS = ("get", "post", "put", "patch", "delete", "trace")


@pytest.fixture
def document(db: None) -> dict[str, Any]:
    """Return the document as clients read it."""
    answer = Client().get("/api/schema", headers={"Accept": "application/json"})
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """(path, method): operation."""
    return {
        (path, method): found
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    }


def test_every_endpoint_is_in_the_document_with_its_methods(document: dict[str, Any]) -> None:
    """[D9] A route that is added without its description fails here; so does a method."""
    paths = {re.sub(r"\{[^}]+\}", "x", path): found for path, found in document["paths"].items()}
    for route in ROUTES:
        if str(route.pattern) in UNDOCUMENTED:
            continue
        found = [methods for sample, methods in paths.items() if answering(sample) is route]
        assert found, route.pattern
        for methods in found:
            assert set(methods) == {each.lower() for each in methods_of(route)} - {"head"}, route


def answering(sample: str) -> URLPattern | None:
    """Return the route of the endpoint that answers this address."""
    return next((each for each in ROUTES if each.pattern.match(sample.lstrip("/"))), None)


def methods_of(route: URLPattern) -> tuple[str, ...]:
    """Return the methods of a consumer, or of a view for programs."""
    consumer = getattr(route.callback, "consumer_class", None)
    view = next((each.callback for each in VIEWS if each.pattern is route.pattern), None)
    found: tuple[str, ...] = (consumer or view).methods  # type: ignore[union-attr]
    return found


def test_the_document_has_a_server_and_describes_its_tags(document: dict[str, Any]) -> None:
    """[D9] The rules of the usual linters, for the whole document."""
    assert document["servers"][0]["url"]
    names = [tag["name"] for tag in document["tags"]]
    assert len(set(names)) == len(names)
    assert all(tag["description"] for tag in document["tags"])
    used = {tag for found in operations(document).values() for tag in found["tags"]}
    assert used == set(names)


def test_every_operation_has_a_summary_one_tag_and_an_id_of_its_own(
    document: dict[str, Any],
) -> None:
    """[D9] The rules of the usual linters, for each operation."""
    found = operations(document)
    ids = [each["operationId"] for each in found.values()]
    assert len(set(ids)) == len(ids)
    for where, each in found.items():
        assert where[1] in METHODS, where
        assert each["summary"].endswith("."), where
        assert len(each["summary"]) < 80, where
        assert len(each["tags"]) == 1, where
        named = {p["name"] for p in each.get("parameters", ()) if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", where[0])), where


def test_w75_the_bounds_of_responses_are_those_of_their_endpoints(
    document: dict[str, Any],
) -> None:
    """[W75] They are written twice."""
    found = {
        each["name"]: each["schema"]
        for path in ("/v1/responses/{response}", "/v1/responses/{response}/input_items")
        for each in document["paths"][path]["get"]["parameters"]
    }
    assert found["include[]"]["items"]["enum"] == sorted(fields.INCLUDED)
    is_limit = re.compile(found["limit"]["pattern"]).search
    assert is_limit(str(endpoints.MOST_ITEMS))
    assert not is_limit(str(endpoints.MOST_ITEMS + 1))


def test_every_refusal_that_an_operation_can_give_is_documented(document: dict[str, Any]) -> None:
    """[D9] By what the operation has: a key, a body, an id in its path, a handler of our own."""
    for (path, method), each in operations(document).items():
        refused = {"400", "405", "429"}
        if not path.startswith("/api/"):
            refused.add("503")
        if each.get("security", [{}]) not in ([], [{}]):
            refused |= {"401", "403"}
        if "requestBody" in each:
            refused |= {"408", "413"}
            refused |= {"415"} - ({"415"} if path == "/files" else set())
        if "{" in path:
            refused.add("404")
        if any(p["name"] == "Idempotency-Key" for p in each.get("parameters", ())):
            refused.add("422")
        assert refused <= set(each["responses"]), (path, method, refused - set(each["responses"]))
        for status, response in each["responses"].items():
            assert response["description"].endswith("."), (path, method, status)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/inbound", "409"), ("/v1/chat/completions", "499"), ("/v1/messages", "499")],
)
def test_the_status_of_a_stopped_answer_is_in_the_document(
    path: str, status: str, document: dict[str, Any]
) -> None:
    assert status in operations(document)[path, "post"]["responses"]


async def asked(method: str, path: str, key: str = "") -> httpx.Response:
    """Send one request to the whole application, in this process."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app=application)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, headers=headers)
    finally:
        await end_tasks()
        await asyncio.to_thread(transactions.close_pool)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/inbound", "/v1/models"])
def test_trace_is_405_at_every_route(path: str) -> None:
    """Also at public ones; ``Allow`` lists the methods."""
    answer = asyncio.run(asked("TRACE", path))
    assert answer.status_code == 405
    assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/sign-in", "/admin/", "/admin/login/", "/api/sessions"])
def test_trace_is_405_at_every_page(path: str) -> None:
    """Django lets some views answer any method."""
    assert asyncio.run(asked("TRACE", path)).status_code == 405


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["a%0Ab", "%0A", "a/b", "%F0%9F%98%80", "%22", "%2E%2E"])
def test_an_odd_name_of_a_model_is_answered_in_openais_shape(name: str) -> None:
    """A line end does not lead out of the route, to a page of HTML."""
    key = gateway_data.build().tokens["own"]
    answer = asyncio.run(asked("GET", f"/v1/models/{name}", key))
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.fixture(scope="module")
def fuzzed(module_gateways: Callable[..., Gateway]) -> tuple[Gateway, str]:
    """Return a gateway without limits, and a key of its owner with every scope."""
    gateway = module_gateways(
        RATE_PER_MINUTE_USER="0", RATE_PER_MINUTE_ADDRESS="0", WRONG_KEYS_PER_MINUTE="1000000"
    )
    return gateway, gateway.manage("shell", "-v", "0", "-c", EVERY_SCOPE).strip()


def fuzz(fuzzed: tuple[Gateway, str], folder: Path, *options: str, seconds: int) -> dict[str, Any]:
    """Run the fuzzer with all checks, seeded, for a bounded time; return its report."""
    gateway, token = fuzzed
    report = folder / "report.json"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "st"),
            f"--config-file={HERE / 'schemathesis.toml'}",
            "run",
            f"{gateway.base_url}/api/schema?format=json",
            "--checks=all",
            f"--header=Authorization: Bearer {token}",
            f"--max-time={seconds}",
            "--seed=1",
            "--request-timeout=20",
            "--continue-on-failure",
            "--generation-database=none",
            "--warnings=off",
            f"--report-json-path={report}",
            "--no-color",
            *options,
        ],
        cwd=folder,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": str(HERE / "fuzzing.py"),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.slow
@pytest.mark.timeout(2 * MOST_SECONDS)
def test_a_fuzzer_finds_no_500_and_nothing_undocumented(
    fuzzed: tuple[Gateway, str], tmp_path: Path
) -> None:
    """[D9] Each limit of each schema at every operation, none left out; then generated requests."""
    found = fuzz(fuzzed, tmp_path, "--phases=examples,coverage", seconds=MOST_SECONDS)
    assert found["operations"]["tested"] == found["operations"]["total"], found["operations"]
    assert fuzz(fuzzed, tmp_path, "--phases=fuzzing", "--max-examples=12", seconds=MAX_SECONDS)


@pytest.mark.slow
def test_w75_a_fuzzer_follows_the_ids_of_one_operation_to_the_next(
    fuzzed: tuple[Gateway, str], tmp_path: Path
) -> None:
    """[W75] Sequences: a created object is read, changed and deleted by its id, then it is gone."""
    assert fuzz(fuzzed, tmp_path, "--phases=stateful", "--max-examples=6", seconds=MAX_SECONDS)
