"""Usage in the admin: sums, plots, ranges, CSV."""

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import AsyncRequestFactory, Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from channels_app.admin.language_models import usage_csv
from core.conversations import budgets
from core.models import ChannelAccount, ModelCall, User

pytestmark = pytest.mark.django_db
PAGE, CSV = "admin:core_modelcall_usage", "admin:core_modelcall_csv"
EVIL = '=HYPERLINK("http://evil.example","x")'


def today() -> date:
    """Return the owner's day."""
    return budgets.day_of(timezone.now())


def called(days_ago: int = 0, **changed: Any) -> ModelCall:
    """Store a call of 1,000 + 100 tokens for a cent."""
    values = {"prompt_tokens": 1000, "completion_tokens": 100, "cost": 10_000_000}
    day = today() - timedelta(days=days_ago)
    return ModelCall.objects.create(**{"model_name": "large", "day": day, **values, **changed})


@pytest.fixture
def calls(telegram: ChannelAccount) -> dict[str, User]:
    """Store calls of two people; return them."""
    ann = User.objects.create(username="ann", display_name="Ann")
    evil = User.objects.create(username="evil", display_name=EVIL)
    called(user=ann, account_id=telegram.pk)
    called(1, user=ann, account_id=telegram.pk, model_name="small", cost=1_000_000)
    called(2, user=evil, failure="quota", estimated=True, account_id=987_654)
    called(40, user=ann, cost=5_000_000_000)
    called(user=ann, state="open", cost=9_000_000_000)
    return {"ann": ann, "evil": evil}


def csv_of(answer: Any) -> list[list[str]]:
    """Return the rows of a download."""
    assert answer.streaming
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.usefixtures("calls")
def test_a_range_is_summed_by_person_assistant_model_channel_and_day(browser: Client) -> None:
    """Open calls and other days are left out."""
    answer = browser.get(reverse(PAGE))
    shown = answer.content.decode()
    figures = answer.context["figures"]
    assert (figures.cost, figures.tokens, figures.calls) == ("$0.02", "3,300", "3")
    assert (figures.failed, figures.estimated) == ("1", "1")
    by = {
        each["by"]: [(row.name, row.cost) for row in each["rows"]]
        for each in answer.context["tables"]
    }
    assert by["person"] == [("Ann", "$0.01"), (EVIL, "$0.01")]
    assert by["model"] == [("large", "$0.02"), ("small", "$0.001")]
    assert by["channel"][0] == ("telegram/main", "$0.01")
    assert [name for name, _ in by["day"]] == [
        f"{today() - timedelta(days=back)}" for back in range(3)
    ]
    assert "=HYPERLINK(&quot;" in shown
    assert "Model calls" not in shown  # it is called Usage in the menu, and in its own head
    plot = json.loads(answer.context["chart"])
    assert len(plot["labels"]) == 30
    assert [each["label"] for each in plot["datasets"]] == ["large", "small"]
    assert plot["datasets"][0]["data"][-3:] == [0.01, 0, 0.01]


def test_a_long_table_is_cut_and_the_rest_is_in_the_csv(browser: Client) -> None:
    """The hundred that used the most are shown, ninety of them folded."""
    for number in range(103):
        person = User.objects.create(username=f"p{number}")
        called(user=person, cost=1_000_000_000 * (number + 1))
    answer = browser.get(reverse(PAGE))
    people = answer.context["tables"][0]
    assert [row.name for row in people["rows"]][:2] == ["p102", "p101"]
    assert (len(people["rows"]), len(people["more"]), people["left"]) == (10, 90, 3)
    shown = answer.content.decode()
    assert "93 more" in shown
    assert "3 more in the CSV." in shown
    assert len(csv_of(browser.get(reverse(CSV), {"by": "person"}))) == 104


@pytest.mark.usefixtures("calls")
def test_other_measures_and_ranges(browser: Client) -> None:
    first = f"{today() - timedelta(days=60)}"
    answer = browser.get(reverse(PAGE), {"first": first, "measure": "tokens"})
    assert answer.context["figures"].calls == "4"
    plot = json.loads(answer.context["chart"])
    assert plot["datasets"][0]["data"][-1] == 1100
    for each in answer.context["ranges"]:
        assert browser.get(reverse(PAGE), each).status_code == 200
    empty = browser.get(reverse(PAGE), {"first": "2020-01-01", "last": "2020-01-02"})
    assert "No model was called in these days." in empty.content.decode()


@pytest.mark.usefixtures("calls")
def test_a_plot_names_the_dearest_models_and_sums_the_rest(browser: Client) -> None:
    for number in range(6):
        called(model_name=f"m{number}", cost=10**9 * (number + 1))
    plot = json.loads(browser.get(reverse(PAGE)).context["chart"])
    names = [each["label"] for each in plot["datasets"]]
    assert names == ["m5", "m4", "m3", "m2", "other models"]
    assert sum(each["data"][-1] for each in plot["datasets"]) == pytest.approx(21.01)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"first": "yesterday"}, "first"),
        ({"last": "2026-02-30"}, "last"),
        ({"first": "2026-02-02", "last": "2026-02-01"}, "last"),
        ({"first": "2020-01-01", "last": "2026-01-01"}, "first"),
        ({"first": "0001-01-01", "last": "9999-12-31"}, "first"),
        ({"measure": "fame"}, "measure"),
    ],
)
def test_a_wrong_range_has_its_error_beside_its_field(
    browser: Client, query: dict[str, str], field: str
) -> None:
    for name, status in ((PAGE, 200), (CSV, 400)):
        answer = browser.get(reverse(name), query)
        assert answer.status_code == status
        assert list(answer.context["form"].errors) == [field]
        assert "dashboard-error" in answer.content.decode()


@pytest.mark.parametrize("query", [{"last": "0001-01-01"}, {"first": "9999-12-31"}])
def test_the_ends_of_the_calendar_are_no_error_of_the_server(
    browser: Client, query: dict[str, str]
) -> None:
    assert browser.get(reverse(PAGE), query).status_code == 200


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("by", ["person", "assistant", "model", "channel", "day"])
def test_a_table_is_downloaded_as_csv_without_formulas(browser: Client, by: str) -> None:
    answer = browser.get(reverse(CSV), {"by": by})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert f'filename="usage-{by}-' in answer.headers["Content-Disposition"]
    head, *rows = csv_of(answer)
    assert head[0] == by
    assert head[-1] == "dollars"
    assert sum(float(row[-1]) for row in rows) == pytest.approx(0.021)
    assert sum(int(row[1]) for row in rows) == 3
    if by == "person":
        assert f"'{EVIL}" in [row[0] for row in rows]


@pytest.mark.usefixtures("calls")
def test_everything_is_downloaded_as_csv(browser: Client) -> None:
    """Also with a group that does not exist."""
    for query in ({}, {"by": "../../etc"}):
        answer = browser.get(reverse(CSV), query)
        assert 'filename="usage-all-' in answer.headers["Content-Disposition"]
        head, *rows = csv_of(answer)
        assert {"day", "person", "model", "dollars"} <= set(head)
        assert len(rows) == 3
        assert f"'{EVIL}" in [cell for row in rows for cell in row]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " ="])
def test_a_cell_that_would_be_a_formula_is_a_text(start: str) -> None:
    assert usage_csv.cell(f"{start}1+1") == f"'{start}1+1"
    assert usage_csv.cell("plain") == "plain"
    assert usage_csv.cell(-5) == -5


@pytest.mark.parametrize("is_async", [True, False])
def test_a_file_is_streamed_in_parts(is_async: bool, rf: RequestFactory) -> None:
    """Rows are taken as the download goes on, not before; also by the asynchronous server."""
    taken = 0

    def rows() -> Iterator[tuple[object, ...]]:
        nonlocal taken
        for number in range(2000):
            taken = number
            yield (number, "x")

    request = AsyncRequestFactory().get("/") if is_async else rf.get("/")
    answer = usage_csv.response(request, rows(), name="a.csv")
    assert answer.is_async is is_async

    async def read() -> list[bytes]:
        parts = aiter(answer)
        first = [await anext(parts), await anext(parts)]
        assert taken < 1000
        return first + [each async for each in parts]

    if is_async:
        parts = asyncio.run(read())
    else:
        content = iter(answer)
        parts = [next(content), next(content)]
        assert taken < 1000
        parts += content
    text = b"".join(parts).decode("utf-8-sig")
    assert text.splitlines() == [f"{number},x" for number in range(2000)]


@pytest.mark.usefixtures("calls")
def test_single_calls_are_listed_read_only(browser: Client) -> None:
    list_ = reverse("admin:core_modelcall_changelist")
    shown = browser.get(list_).content.decode()
    assert "quota" in shown
    assert "(estimated)" in shown
    row = ModelCall.objects.order_by("id").first()
    assert row is not None
    assert browser.get(reverse("admin:core_modelcall_change", args=[row.pk])).status_code == 200
    assert browser.post(reverse("admin:core_modelcall_change", args=[row.pk])).status_code == 403


def test_a_price_that_is_not_known_is_not_called_estimated(browser: Client) -> None:
    called(cost=0, estimated=True)
    shown = browser.get(reverse("admin:core_modelcall_changelist")).content.decode()
    assert "(estimated)" not in shown


def test_usage_needs_its_permission(client: Client) -> None:
    """Staff without it see neither page nor file; with it alone, both."""
    sam = User.objects.create(username="sam", is_staff=True)
    client.force_login(sam)
    for name in (PAGE, CSV):
        assert client.get(reverse(name)).status_code == 403
    sam.user_permissions.set(Permission.objects.filter(codename="view_modelcall"))
    for name in (PAGE, CSV):
        assert client.get(reverse(name)).status_code == 200


def test_a_price_that_is_not_known_is_no_zero(browser: Client) -> None:
    called(cost=0)
    html = browser.get(reverse(PAGE)).content.decode()
    assert "no price is known, or it is zero" in html
    assert "$0.00" not in html
    assert "$0.00" not in browser.get(reverse("admin:core_modelcall_changelist")).content.decode()
