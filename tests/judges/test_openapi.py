"""Redocly's linter on the document of the REST interface and of the endpoints for programs."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.judges import baselines
from tests.judges.conftest import HERE
from tests.npm import Packages

LINT_SECONDS = 120
OFFLINE = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


def linted(judges: Packages, document: Path) -> list[dict[str, Any]]:
    """Return the problems of a document by the recommended rules; errors and warnings."""
    rules = shutil.copy(HERE / "redocly.yaml", document.parent / "redocly.yaml")
    program = judges.folder / "node_modules" / "@redocly" / "cli" / "bin" / "cli.js"
    done = subprocess.run(
        [judges.node, program, "lint", document, f"--config={rules}", "--format=json"],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        timeout=LINT_SECONDS,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stdout[-2000:] + done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["problems"]
    return found


def said(problem: dict[str, Any]) -> str:
    """Return a problem as one line."""
    where = ", ".join(each.get("pointer", "") for each in problem["location"])
    return f"{problem['severity']} {problem['ruleId']}: {problem['message']} {where}"


@pytest.mark.slow
@pytest.mark.django_db
def test_w72_the_linter_finds_nothing_in_the_document(judges: Packages, tmp_path: Path) -> None:
    """[W72] No error and no warning of the recommended rules."""
    answer = Client().get("/api/schema", headers={"Accept": "application/json"})
    document = tmp_path / "openapi.json"
    document.write_bytes(answer.content)
    found = linted(judges, document)
    baselines.check("openapi.problems", len(found), detail="\n".join(map(said, found)))


@pytest.mark.slow
def test_w72_the_linter_sees_a_wrong_document(judges: Packages, tmp_path: Path) -> None:
    """[W72] An operation without an answer is an error: the rules are on."""
    document = tmp_path / "openapi.json"
    wrong: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": {"title": "x", "version": "1"},
        "paths": {"/x": {"get": {}}},
    }
    document.write_text(json.dumps(wrong))
    rules = {each["ruleId"] for each in linted(judges, document)}
    assert {"operation-summary", "security-defined", "info-license"} <= rules
