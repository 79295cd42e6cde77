"""The files in docs/operations/ name only numbers that ``/metrics`` has [X85] [X86]."""

import json
import re
from typing import Any

import pytest
import yaml
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from channels_app.ops import health
from core.models import Alert, Budget, BudgetPeriod, ModelCall, ModelTrouble, User
from core.providers import catalogue
from tests import ROOT
from tests.architecture import sources

pytestmark = pytest.mark.django_db
FOLDER = ROOT / "docs" / "operations"
NAME = re.compile(r"\blatchkey_\w+")
LABEL = re.compile(
    r"\bby \(([\w, ]+)\)|(\w+)\s*(?:=~|!~|!=|=)\s*\"|\{\{ ?\$labels\.(\w+)|\{\{(\w+)\}\}"
)


@pytest.fixture
def exposed(db: None) -> dict[str, set[str]]:
    """Return the names of all numbers of ``/metrics``, with their labels."""
    today = timezone.localdate()
    user = User.objects.create(username="ada")
    ModelCall.objects.create(user=user, model_name="m", day=today, prompt_tokens=5, cost=7)
    ModelTrouble.objects.create(code="timeout", count=2)
    Alert.objects.create(name="disk:here", seen_at=timezone.now(), told_at=timezone.now())
    budget = Budget.objects.create(unit="tokens", period="day", limit=10)
    BudgetPeriod.objects.create(budget=budget, start=today, spent=5, measure="tokens/day")
    catalogue.current()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(health.metrics_text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    assert not [name for name in found if name.endswith("_created")], (
        "the time of the scrape is no start"
    )
    return found


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    made = yaml.safe_load((FOLDER / "prometheus-rules.yaml").read_text())
    return [rule for group in made["groups"] for rule in group["rules"]]


def dashboard() -> list[tuple[str, str]]:
    """Return the expressions of the dashboard with their legends."""
    made = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    assert made["panels"]
    return [
        (each["expr"], each["legendFormat"])
        for panel in made["panels"]
        for each in panel["targets"]
    ]


def labels_of(text: str) -> set[str]:
    """Return the labels that an expression or a text names."""
    found = {name for match in LABEL.findall(text) for part in match for name in part.split(",")}
    return {name.strip() for name in found} - {""}


def test_x85_the_rules_and_the_dashboard_name_only_numbers_and_labels_that_exist(
    exposed: dict[str, set[str]],
) -> None:
    texts = [f"{each['expr']} {each['annotations']['summary']}" for each in rules()]
    texts += [f"{expr} {legend}" for expr, legend in dashboard()]
    for text in texts:
        names = NAME.findall(text)
        assert names or "up{" in text, text
        known = {label for name in names for label in exposed[name]} | {"job"}
        assert labels_of(text) <= known, text


def test_x85_the_dashboard_shows_every_number(exposed: dict[str, set[str]]) -> None:
    shown = {name for expr, _ in dashboard() for name in NAME.findall(expr)}
    assert shown == set(exposed)


def test_x85_documents_name_only_numbers_that_exist(exposed: dict[str, set[str]]) -> None:
    for path, text in sources.documents():
        named = re.findall(r"`(latchkey_\w+)[`{]", text) if "/metrics" in text else []
        assert set(named) - exposed.keys() == set(), path


def test_x86_each_alert_has_a_meaning_and_a_cure_in_the_readme() -> None:
    text = (FOLDER / "README.md").read_text()
    listed = re.findall(r"^\| (Latchkey\w+) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)
    assert listed == [each["alert"] for each in rules()]
    for each in rules():
        assert set(each) == {"alert", "expr", "for", "labels", "annotations"}
        assert each["labels"]["severity"] in {"critical", "warning", "info"}
        assert re.fullmatch(r"\d+[mhd]", each["for"])


def test_x86_troubles_that_the_owner_was_told_of_are_numbers(db: None) -> None:
    now = timezone.now()
    for name, told_at in (("key:1", now), ("key:2", now), ("disk:here", None)):
        Alert.objects.create(name=name, seen_at=now, told_at=told_at)
    text = health.metrics_text().decode()
    assert 'latchkey_alerts{kind="key"} 2.0' in text
    assert 'latchkey_alerts{kind="disk"} 0.0' in text
