"""The OpenAPI document: every route is in it, and nothing answers otherwise than it says."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from gateway_project.asgi import ROUTES
from tests import people
from tests.gateways import Gateway
from tests.settings import TEST_DATABASE

MAX_SECONDS = 60 if TEST_DATABASE == "sqlite" else 30
HERE = Path(__file__).parent
UNDOCUMENTED = {r"/v1(/.*)?"}


@pytest.mark.django_db
def test_every_lean_route_is_in_the_document() -> None:
    """[D9] A door that is added without its description fails here."""
    paths = Client().get("/api/schema", headers={"Accept": "application/json"}).json()["paths"]
    samples = [re.sub(r"\{[^}]+\}", "x", path) for path in paths]
    for route in ROUTES:
        if route.path not in UNDOCUMENTED:
            assert any(re.fullmatch(route.path, sample) for sample in samples), route.path


@pytest.mark.slow
def test_a_fuzzer_finds_no_500_and_nothing_undocumented(
    start_gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    """[D9] Generated requests at every operation, seeded, for a bounded time."""
    gateway = start_gateway(
        RATE_PER_MINUTE_USER="0", RATE_PER_MINUTE_ADDRESS="0", WRONG_KEYS_PER_MINUTE="1000000"
    )
    token = people.make(gateway)["owner"]
    report = tmp_path / "report.json"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "st"),
            f"--config-file={HERE / 'schemathesis.toml'}",
            "run",
            f"{gateway.base_url}/api/schema?format=json",
            "--checks=all",
            f"--header=Authorization: Bearer {token}",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=12",
            f"--max-time={MAX_SECONDS}",
            "--seed=1",
            "--request-timeout=20",
            "--continue-on-failure",
            "--generation-database=none",
            "--warnings=off",
            f"--report-json-path={report}",
            "--no-color",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": str(HERE / "fuzzing.py"),
            "PYTHONPATH": str(HERE.parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS + 60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert json.loads(report.read_text())
