"""Your schedules over REST."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import generics, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from channels_app.api.permissions import MayChat
from channels_app.api.schedule_serializers import OccurrenceSerializer, ScheduleSerializer
from channels_app.api.serializers import key_of
from channels_app.api.views import OwnRows, checked_state, person
from channels_app.asgi.http import MAX_IDEMPOTENCY_KEY
from channels_app.schedules import places, rights
from core.conversations.inbox import body_digest
from core.conversations.schedules import changes
from core.conversations.schedules.changes import OPEN, Grant, OtherRequestError, RuleError
from core.database.queries import only
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.models import Occurrence, Schedule, User

NO_ZONE = "is missing: your time zone is not known. Give one such as Europe/Berlin."
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "maxLength": MAX_IDEMPOTENCY_KEY},
    OpenApiParameter.HEADER,
)
STATES = [OpenApiParameter("state", enum=Schedule.State.values)]


class Refused(APIException):
    """A rule or a change that cannot be; the reason is a sentence."""

    status_code = 400


class OtherRequest(APIException):
    """The idempotency key of an earlier request with another body."""

    status_code = 422
    default_detail = "Idempotency-Key: was used with another request."


@contextmanager
def refusing() -> Iterator[None]:
    """Answer 400 for a RuleError in the block, 422 for a key of another request; its transaction is
    rolled back.
    """
    try:
        with atomic_write():
            yield
    except RuleError as error:
        raise Refused(str(error)) from error
    except OtherRequestError as error:
        raise OtherRequest from error


@extend_schema_view(list=extend_schema(parameters=STATES))
class Schedules(OwnRows[Schedule], viewsets.ModelViewSet[Schedule]):
    """Your schedules, newest first; those that have ended with ``state=ended``."""

    serializer_class = ScheduleSerializer
    queryset = Schedule.objects.select_related("user", "account").order_by("-id")
    lookup_url_kwarg = "schedule_id"
    http_method_names = ("get", "post", "patch", "delete", "head", "options")

    def get_queryset(self) -> QuerySet[Schedule]:
        """Limit a list to the states that are asked for, without any to those that are open."""
        mine = super().get_queryset()
        if self.action != "list":
            return mine
        asked = self.request.query_params.getlist("state")
        for state in asked:
            mine = mine.filter(state=checked_state(state, Schedule.State.values))
        return mine if asked else mine.filter(state__in=OPEN)

    @extend_schema(parameters=[IDEMPOTENCY])
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make a schedule. The same request again with its ``Idempotency-Key`` makes no other
        one: it returns the first, as it is now.
        """
        return super().create(request, *args, **kwargs)

    def perform_create(self, serializer: Any) -> None:
        """Store it for the web chat, with the key as its grant; 400 for what cannot be."""
        user = person(self.request)
        if not (user.time_zone or "time_zone" in serializer.validated_data):
            raise ValidationError({"time_zone": [NO_ZONE]})
        made_by, digest = repeat_key(self.request, user)
        with refusing():
            serializer.instance = changes.create(
                user=user,
                session=places.web_chat(user),
                wish=serializer.wish(zone=user.time_zone),
                grant=Grant(via_key=key_of(self.request)),
                now=timezone.now(),
                made_by=made_by,
                request=digest,
            )

    def perform_update(self, serializer: Any) -> None:
        """Change what is given. A text that comes with a key ends with that key."""
        row, key = serializer.instance, key_of(self.request)
        if not serializer.validated_data:
            return
        with refusing():
            wish = serializer.wish(zone=row.time_zone)
            changed = changes.change(schedule=row, wish=wish, now=timezone.now())
            if key and changed.via_key != key and "text" in serializer.validated_data:
                Schedule.objects.filter(pk=row.pk).update(via_key=key)
        serializer.instance = changed

    def perform_destroy(self, instance: Schedule) -> None:
        """End it; its occurrences can still be read."""
        changes.end(schedule=instance)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, schedule_id: str) -> Response:
        """Pause it; return it. One that is not active stays as it is."""
        row = self.get_object()
        changes.pause(schedule_ids=[row.pk], why=Schedule.Why.PERSON)
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, schedule_id: str) -> Response:
        """Resume it from its next time on; return it."""
        row, now = self.get_object(), timezone.now()
        with refusing():
            found = rights.resume(row, now=now)
        return Response(self.get_serializer(found).data)


class Occurrences(generics.ListAPIView[Occurrence]):
    """The occurrences of a schedule, newest first."""

    permission_classes = (MayChat,)
    serializer_class = OccurrenceSerializer
    queryset = Occurrence.objects.select_related("run").order_by("schedule_id", "-nominal_at")

    def get_queryset(self) -> QuerySet[Occurrence]:
        name = self.kwargs["schedule_id"]
        mine = Schedule.objects.filter(user=person(self.request))
        row = mine.filter(public_id=name).first() if is_public_id(name) else None
        if row is None:
            raise Http404
        return super().get_queryset().filter(only("schedule_id", row.pk))


def repeat_key(request: Request, user: User) -> tuple[str | None, str]:
    """Return under which key a repeated request finds its schedule, and the digest of the request;
    None and "" without an ``Idempotency-Key``.
    """
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        return None, ""
    if len(key) > MAX_IDEMPOTENCY_KEY:
        words = f"is longer than {MAX_IDEMPOTENCY_KEY} characters."
        raise ValidationError({"Idempotency-Key": [words]})
    return f"api:{user.pk}:{body_digest(key)}", body_digest(request.data)
