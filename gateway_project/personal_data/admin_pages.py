"""On a person's page: the export of their data, and the page that forgets them."""

import logging
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_POST

from allowlist import audit
from allowlist.admin.audited import decides
from allowlist.admin.people import UserAdmin, may_touch
from allowlist.unfinished_forgetting import left_behind
from core.models import User
from gateway_project.personal_data import exporting, forgetting
from gateway_project.personal_data.targets import Archive

logger = logging.getLogger(__name__)

PIECE_BYTES = 256 * 1024
CLEANING = (
    "Being cleaned by a worker, since people were forgotten: the files of the database and of "
    "the broker. This line is gone when that is done."
)


class PersonAdmin(UserAdmin):
    """People, whose data owners export and remove."""

    pages = {"export": "<int:pk>/export/", "forget": "<int:pk>/forget/"}

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the buttons of personal data to those who may use them."""
        person = self.get_object(request, unquote(object_id))
        shown = {"may_act": may_act(request, person), **(extra_context or {})}
        response: HttpResponse = super().change_view(request, object_id, form_url, shown)
        return response

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Say on the list whether something of forgotten people is still to be cleaned."""
        if request.method == "GET" and decides(request) and left_behind():
            self.message_user(request, CLEANING, messages.WARNING)
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    @method_decorator(require_POST)
    def export_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """Download all data of a person: a zip, made in a file that has no name on the disk."""
        person = chosen(request, pk)
        now = timezone.now()
        try:
            file = exported(person, now=now)
        except OSError as error:
            logger.exception("an export could not be written")
            words = f"The export could not be written: {error.strerror or error}."
            self.message_user(request, words, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:core_user_change", args=[person.pk]))
        size = file.tell()
        file.seek(0)
        audit.record(
            actor=audit.actor_of(request.user),
            action="person.exported",
            subject=f"user:{person.pk} {person}",
            now=now,
        )
        sent = PiecesOneByOne if isinstance(request, ASGIRequest) else PiecesAtOnce
        answer = StreamingHttpResponse(sent(file), content_type="application/zip")
        name = f"{exporting.fit(person.username)}-{now:%Y-%m-%d}.zip"
        disposition = content_disposition_header(as_attachment=True, filename=name)
        answer.headers["Content-Disposition"] = disposition or "attachment"
        answer.headers["Content-Length"] = str(size)
        return answer

    @method_decorator(require_http_methods(["GET", "POST"]))
    def forget_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show what goes with a person; remove it once their name is typed."""
        person = chosen(request, pk)
        if person.pk == request.user.pk:
            raise PermissionDenied
        refusal, wrong = forgetting.refusal(person), False
        if request.method == "POST" and not refusal:
            wrong = request.POST.get("name", "").strip() != person.username
            if not wrong:
                return self.carry_out(request, person)
        context = self.admin_site.each_context(request) | {
            "title": f"Forget {person}",
            "person": person,
            "counts": forgetting.counts(person),
            "refusal": refusal,
            "wrong": wrong,
        }
        status = 400 if wrong or (refusal and request.method == "POST") else 200
        return TemplateResponse(request, "dashboard/forget_person.html", context, status=status)

    def carry_out(self, request: HttpRequest, person: User) -> HttpResponse:
        """Remove all of a person; say what happened on the list of people. Workers do the rest."""
        try:
            forgetting.remove(person, actor=audit.actor_of(request.user))
        except (forgetting.NotForgotten, OperationalError) as error:
            self.message_user(
                request,
                f"Not finished: {error} Go on with `manage.py person forget NAME`.",
                messages.ERROR,
            )
        else:
            self.message_user(
                request, "All is removed. Backups that were made before still have this person."
            )
        return HttpResponseRedirect(reverse("admin:core_user_changelist"))


def exported(person: User, *, now: datetime) -> IO[bytes]:
    """Return a zip with all data of a person, at its end. Raises OSError when the disk is full."""
    file = tempfile.TemporaryFile(dir=settings.GATEWAY_HOME)  # noqa: SIM115 - closed when sent
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            exporting.export(person, Archive(archive), now=now)
    except OSError:
        file.close()
        raise
    return file


def chosen(request: HttpRequest, pk: int) -> User:
    """Return the person; a user who may not act on their data gets 403."""
    person = get_object_or_404(User, pk=pk)
    if not may_act(request, person):
        raise PermissionDenied
    return person


def may_act(request: HttpRequest, person: User | None) -> bool:
    """Return whether the user, an owner, may export and forget this person."""
    is_own = person is not None and person.pk == request.user.pk
    return decides(request) and (is_own or may_touch(request, person))


class Pieces:
    """The rest of a file in parts; closed by Django with its response."""

    def __init__(self, file: IO[bytes]) -> None:
        self.close = file.close
        self._read = partial(file.read, PIECE_BYTES)


class PiecesAtOnce(Pieces):
    """Pieces for a server without an event loop."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._read, b"")


class PiecesOneByOne(Pieces):
    """Pieces as they are sent: Django would collect those of a plain iterator first."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await sync_to_async(self._read)():
            yield piece
