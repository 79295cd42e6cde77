"""Sessions, messages, runs, files and unknown requests over REST [D9].

Objects of other users answer like missing ones.
"""

from typing import Any, TypeVar, cast

from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.defaults import page_not_found
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import generics, mixins, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from allowlist import unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from channels_app.agent_sessions import sessions as agent_sessions
from channels_app.api import serializers
from channels_app.api.permissions import MayChat, MayDecide, MaySend
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import decisions, source_feedback
from core.conversations import assistants, inbox, runs, sessions
from core.database.queries import only
from core.database.transactions import atomic_write
from core.files import storage
from core.lib.ids import is_public_id
from core.models import Assistant, ChatSession, LanguageModel, Message, Run, StoredFile, User
from core.providers import catalogue

M = TypeVar("M", bound=Model)
RUN_FILTERS = [
    OpenApiParameter("state", enum=Run.State.values),
    OpenApiParameter("session_id", str),
]


def person(request: Request) -> User:
    """Return the authenticated user; the permission classes allow only users."""
    return cast(User, request.user)


@csrf_exempt  # needs no authentication
def nothing_here(request: HttpRequest, rest: str) -> JsonResponse:
    """Answer 404 for any other address under ``/api/``."""
    del request, rest
    body = {"ok": False, "status": 404, "error": "There is no such address."}
    return JsonResponse(body, status=404)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 404: with a page, unless a program asks for an address that there is not."""
    is_page = "text/html" in request.headers.get("Accept", "")
    if is_page or not isinstance(exception, Resolver404):
        return page_not_found(request, exception)
    return nothing_here(request, "")


class OwnRows(viewsets.GenericViewSet[M]):
    """Base of views on the user's own rows, each found by its public id."""

    permission_classes = (MayChat,)
    lookup_url_kwarg: str

    def own(self) -> Q:
        """Return the condition of a row of the user."""
        return Q(user=person(self.request))

    def get_queryset(self) -> QuerySet[M]:
        return super().get_queryset().filter(self.own())

    def get_object(self) -> M:
        """Return the row of the address, or 404, also for an id that no row can have."""
        public_id = self.kwargs[self.lookup_url_kwarg]
        found = None
        if is_public_id(public_id):
            found = self.get_queryset().filter(public_id=public_id).first()
        if found is None:
            raise Http404
        return found


class OwnRowsById(OwnRows[M]):
    """The user's own rows, in the order of ``user_id, -id``."""

    def own(self) -> Q:
        return only("user_id", person(self.request).pk)


class Sessions(OwnRows[ChatSession], viewsets.ModelViewSet[ChatSession]):
    """Your sessions, newest first."""

    serializer_class = serializers.SessionSerializer
    queryset = (
        ChatSession.objects.filter(closed_at__isnull=True)
        .select_related("account")
        .order_by("-last_message_at", "-id")
    )
    lookup_url_kwarg = "session_id"
    http_method_names = ("get", "post", "patch", "delete", "head", "options")

    def perform_create(self, serializer: Any) -> None:
        given = dict(serializer.validated_data)
        title = given.pop("title", "")
        with atomic_write():
            made = inbox.open_session(
                user=person(self.request), account=builtin_account("http"), title=title
            )
            assistants.pick(made, **given)
            serializer.instance = made

    def perform_destroy(self, instance: ChatSession) -> None:
        """Delete it with its contents, as "Delete" in the web chat does."""
        sessions.delete(session=instance)


class Assistants(viewsets.GenericViewSet[Any], mixins.ListModelMixin):
    """The assistants that you may choose, by name."""

    permission_classes = (MayChat,)
    serializer_class = serializers.AssistantSerializer
    queryset = Assistant.objects.none()

    def filter_queryset(self, queryset: Any) -> Any:
        """Return those that the owner offers to the caller."""
        return assistants.offered_to(catalogue.current(), serializers.requester(self.request))


class Models(viewsets.GenericViewSet[Any], mixins.ListModelMixin):
    """The models that you may choose, by label."""

    permission_classes = (MayChat,)
    serializer_class = serializers.OfferedModelSerializer
    queryset = LanguageModel.objects.none()

    def filter_queryset(self, queryset: Any) -> Any:
        """Return those that the owner offers to the caller."""
        known = catalogue.current()
        return [
            {"name": assistants.name_of_model(known, each.id), "label": each.label}
            for each in assistants.models_offered_to(known, serializers.requester(self.request))
        ]


class AgentSessions(
    OwnRows[ChatSession],
    mixins.CreateModelMixin,
    mixins.ListModelMixin,
    mixins.DestroyModelMixin,
):
    """Your sessions for agents; DELETE closes one and deletes its results ([S4])."""

    permission_classes = (MaySend,)
    serializer_class = serializers.AgentSessionSerializer
    queryset = agent_sessions.open_sessions()
    lookup_url_kwarg = "session_id"

    def perform_create(self, serializer: Any) -> None:
        """Open a session; a given chat must be one that the user has used."""
        asked = serializer.validated_data
        user, place = person(self.request), asked["account"]
        try:
            account = agent_sessions.account_named(
                channel=place["channel"], name=place.get("name", "")
            )
            chat = asked.get("chat", "")
            used = ChatSession.objects.filter(user=user, account=account, chat=chat)
            if chat and not used.exists():
                raise agent_sessions.NotOpened("You have no session in this chat.")
            serializer.instance = agent_sessions.open_session(
                user=user, account=account, chat=chat, title=asked.get("title", "")
            )
        except agent_sessions.NotOpened as error:
            raise ValidationError({"channel": [str(error)]}) from error

    def perform_destroy(self, instance: ChatSession) -> None:
        agent_sessions.close(session=instance)


def own_session(view: generics.GenericAPIView[Any]) -> ChatSession:
    """Return the user's own open session of the address. Raises Http404."""
    found = inbox.own_session(user=person(view.request), session_id=view.kwargs["session_id"])
    if found is None:
        raise Http404
    return found


class Messages(generics.ListAPIView[Message]):
    """The transcript of a conversation, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.MessageSerializer
    queryset = Message.objects.select_related("run").order_by("session_id", "-id")

    def get_queryset(self) -> QuerySet[Message]:
        mine = only("session_id", own_session(self).pk)
        return super().get_queryset().filter(mine)


class SessionFiles(generics.ListAPIView[StoredFile]):
    """Files created in a session, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.FileSerializer
    queryset = StoredFile.objects.none()

    def get_queryset(self) -> QuerySet[StoredFile]:
        return storage.finished(session_id=own_session(self).pk)


@extend_schema_view(list=extend_schema(parameters=RUN_FILTERS))
class Runs(OwnRowsById[Run], viewsets.ReadOnlyModelViewSet[Run]):
    """Your runs, newest first, with their results."""

    serializer_class = serializers.RunSerializer
    queryset = Run.objects.select_related("session").order_by("user_id", "-id")
    lookup_url_kwarg = "run_id"

    def get_queryset(self) -> QuerySet[Run]:
        """Limit a list to open sessions and by the query, to nothing for another user's session."""
        mine = super().get_queryset()
        if self.action != "list":
            return mine
        mine = mine.filter(session__closed_at__isnull=True)
        for state in self.request.query_params.getlist("state"):
            mine = mine.filter(state=checked_state(state, Run.State.values))
        session = self.request.query_params.get("session_id", "")
        if session:
            mine = mine.filter(session__public_id=session) if is_public_id(session) else mine.none()
        return mine

    @extend_schema(request=None, responses=serializers.CancelledSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, run_id: str) -> Response:
        """Return whether it was still open."""
        return Response({"cancelled": runs.request_cancel(run=self.get_object())})

    @extend_schema(request=serializers.FeedbackSerializer, responses=serializers.FeedbackSerializer)
    @action(detail=True, methods=["post"], url_path="sources/<str:source_id>/feedback")
    def rate_source(self, request: Request, run_id: str, source_id: str) -> Response:
        """Store the rating; 404 for another user's run or an unknown source."""
        asked = serializers.FeedbackSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        message_id = given.get("message_id", "")
        try:
            verdict = source_feedback.record(
                user=person(request),
                run_id=run_id,
                source_id=source_id,
                verdict=given["verdict"],
                message_id=message_id,
            )
        except LookupError as error:
            raise Http404 from error
        return Response({"verdict": verdict, "message_id": message_id})


def checked_state(state: str, known: list[str]) -> str:
    """Return a state that a list is limited to. Raises ValidationError."""
    if state not in known:
        raise ValidationError({"state": [f"must be one of {', '.join(known)}."]})
    return state


class Files(OwnRowsById[StoredFile], mixins.ListModelMixin):
    """Your files, newest first."""

    serializer_class = serializers.FileSerializer
    queryset = StoredFile.objects.filter(revoked_at__isnull=True).order_by("user_id", "-id")


class UnknownRequests(viewsets.GenericViewSet[UnknownRequest], mixins.ListModelMixin):
    """Requests of unknown senders, newest first."""

    permission_classes = (MayDecide,)
    serializer_class = serializers.UnknownRequestSerializer
    queryset = UnknownRequest.objects.select_related("account").order_by("-last_seen_at", "-id")
    lookup_url_kwarg = "request_id"

    @extend_schema(request=serializers.DecisionSerializer, responses=serializers.VerdictSerializer)
    @action(detail=True, methods=["post"])
    def decision(self, request: Request, request_id: str) -> Response:
        """Return the verdict: this one, or the earlier one."""
        asked = serializers.DecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        try:
            verdict = decisions.decide(
                request=request_id,
                verdict=asked.validated_data["verdict"],
                owner=person(request),
                via="api",
                now=timezone.now(),
            )
        except unknown_requests.RequestNotFound as error:
            raise Http404 from error
        except InvalidIdentity as error:
            raise ValidationError({"verdict": [f"{error}."]}) from error
        return Response(serializers.VerdictSerializer(verdict).data)
