"""The addresses of every page and list of a person and of the owner, with filters and searches."""

from collections.abc import Iterator

from django.contrib import admin
from django.test import Client
from django.urls import reverse

from core.models import ChatSession, Delivery, InboundMessage, Message, Run, Schedule


def addresses(client: Client, session: ChatSession, run: Run) -> Iterator[str]:
    """Yield them. ``client`` is the owner's; ``session`` and ``run`` are a conversation of the
    owner, who has a schedule."""
    yield from ("/", "/chat/sessions", "/chat/sessions?q=number+77", "/chat/sessions?q=77")
    messages = f"/chat/sessions/{session.public_id}/messages"
    own = Message.objects.filter(session=session)
    middle = own[own.count() // 2].pk
    yield from (messages, f"{messages}?before={middle}", f"/trace/{run.public_id}/view")
    api = f"/api/sessions/{session.public_id}"
    yield from ("/api/sessions", "/api/agent-sessions", api, f"{api}/messages", f"{api}/files")
    yield from ("/api/runs", "/api/runs?state=failed", f"/api/runs?session_id={session.public_id}")
    plan = Schedule.objects.filter(user=session.user).latest("pk").public_id
    yield from ("/api/schedules", f"/api/schedules/{plan}", f"/api/schedules/{plan}/occurrences")
    yield from ("/api/schedules?state=ended", f"/api/schedules/{plan}/occurrences?offset=1000")
    yield from (f"/api/runs/{run.public_id}", "/api/files", "/api/requests", "/admin/")
    for each in (run, Delivery.objects.latest("pk"), InboundMessage.objects.latest("pk")):
        yield f"{reverse('admin:message_way')}?kind={each._meta.model_name}&id={each.pk}"
    for model in admin.site._registry:
        yield from of_table(client, model._meta.label_lower.replace(".", "_"), run)


def of_table(client: Client, name: str, run: Run) -> Iterator[str]:
    """Yield the list of a table in the admin, searched, filtered and further back, and the page of
    a row."""
    place = reverse(f"admin:{name}_changelist")
    listed = client.get(place)
    if listed.status_code == 302:  # a model of one row, whose list leads to it
        yield listed.headers["Location"]
        return
    yield from (place, f"{place}?q=word", f"{place}?q={run.public_id}")
    shown = listed.context["cl"]
    if older := getattr(shown, "older", ""):
        yield f"{place}{older}"
    for spec in shown.filter_specs:
        yield from (f"{place}{each['query_string']}" for each in list(spec.choices(shown))[1:3])
    row = next(iter(shown.result_list), None)
    if row is not None:
        yield reverse(f"admin:{name}_change", args=[row.pk])
