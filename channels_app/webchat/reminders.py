"""The page of a person's reminders: list, form, actions; the buttons under one; their time zone."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from allowlist import own_actions
from channels_app.asgi import http
from channels_app.schedules import buttons, lists, places
from channels_app.webchat import reminder_form, reminder_rows, views
from channels_app.webchat.reminder_form import FieldError, Fields
from core.conversations.schedules import changes, rules
from core.conversations.schedules.changes import Grant, RuleError
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id, public_id
from core.models import Message, Occurrence, Schedule, User

P = ParamSpec("P")

CHANGED = gettext_noop(
    "This reminder was changed elsewhere since the page was opened. Saved again, it is as shown "
    "here."
)
SAID = {
    **lists.SAID,
    "zone": gettext_noop("Your time zone was changed. Reminders that exist keep theirs."),
}
# The zones of browsers that hide theirs: Firefox and those that are made of it.
HIDDEN = {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Atlantic/Reykjavik"}
# Where no field is at fault, the sentence stands above the form.
WHOLE = "__all__"


def for_people(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Wrap a view of a page: without a session it leads to sign-in and back."""

    @wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            back = request.get_full_path() if request.method == "GET" else reverse("reminders")
            return redirect_to_login(back, settings.LOGIN_URL)
        return view(request, *args, **kwargs)

    return never_cache(wrapped)


def own(request: HttpRequest, name: str) -> Schedule:
    """Return the person's own schedule. Raises Http404, also for another person's."""
    found = changes.own(views.person(request), name)
    if found is None:
        raise Http404
    return found


@require_safe
@for_people
def page(request: HttpRequest) -> HttpResponse:
    """Show the person's reminders, and what became of the latest ones."""
    return list_page(request)


def list_page(
    request: HttpRequest, *, problem: str = "", beside: str = "", zone: str | None = None
) -> HttpResponse:
    """Return the page; ``problem`` is shown at the reminder ``name``, or at the typed ``zone``."""
    user = views.person(request)
    told, told_beside = ("", "") if problem else news(request)
    context = {
        "current": reminder_rows.current(user),
        "over": reminder_rows.over(user),
        "zone": user.time_zone if zone is None else zone,
        "wants_time_zone": not user.time_zone,
        "zone_here": reminder_rows.zone_of(user).key,
        "zones": reminder_rows.names_of_zones(),
        "told": told,
        "problem": problem if zone is None else "",
        "beside": beside or told_beside,
        "zone_problem": problem if zone is not None else "",
    }
    return render(request, "webchat/reminders.html", context, status=422 if problem else 200)


def news(request: HttpRequest) -> tuple[str, str]:
    """Return what the last action did, in words, and the reminder beside which that is shown."""
    action, name = request.GET.get("said", ""), request.GET.get("of", "")
    if action != "saved":
        said = SAID.get(action, "")
        return gettext(said) if said else "", name
    user = views.person(request)
    schedule = changes.own(user, name)
    if schedule is None:
        return "", ""
    zone = reminder_rows.zone_of(user)
    return reminder_rows.saved(schedule, zone, now=timezone.now()), name


def back(said: str, name: str = "") -> HttpResponse:
    """Redirect to the list, at a reminder, where the words for ``said`` are shown."""
    beside = f"&of={name}#r-{name}" if name else ""
    return redirect(f"{reverse('reminders')}?said={said}{beside}")


@require_http_methods(["GET", "HEAD", "POST"])
@for_people
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new reminder, or store it: for the person's latest web chat."""
    user, now = views.person(request), timezone.now()
    before = reminder_form.of_new(zone=user.time_zone, now=now)
    if request.method != "POST":
        return form_page(request, before)
    fields = reminder_form.posted(request.POST, before=before)
    try:
        wish = reminder_form.wish_of(fields)
        with atomic_write():
            session = places.web_chat(user)
            made = changes.create(
                user=user,
                session=session,
                wish=wish,
                grant=Grant(),
                now=now,
                made_by=made_by(user, request.POST.get("form", "")),
            )
            store_first_zone(user, made.time_zone)
    except (FieldError, RuleError) as error:
        return form_page(request, fields, error=error)
    return back("saved", made.public_id)


def made_by(user: User, form: str) -> str | None:
    """Return the key of one showing of the form: pressed twice, it makes one reminder."""
    return f"web:{user.pk}:{form}" if is_public_id(form) else None


@require_http_methods(["GET", "HEAD", "POST"])
@for_people
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Show the form of a reminder, or change it."""
    schedule, now = own(request, name), timezone.now()
    before = reminder_form.of_schedule(schedule, now=now)
    version = schedule.changed_at.isoformat()
    if request.method != "POST":
        return form_page(request, before, name=name, version=version)
    fields = reminder_form.posted(request.POST, before=before)
    try:
        if request.POST.get("version", version) != version:
            raise RuleError(gettext(CHANGED))
        wish = reminder_form.wish_of(fields, before=before)
        changes.change(schedule=schedule, wish=wish, now=now)
    except (FieldError, RuleError) as error:
        return form_page(request, fields, name=name, version=version, error=error)
    return back("saved", name)


def form_page(
    request: HttpRequest,
    fields: Fields,
    *,
    name: str = "",
    version: str = "",
    error: FieldError | RuleError | None = None,
) -> HttpResponse:
    """Return the form page; ``error`` is shown at its field. ``version``: the stored reminder's."""
    field = error.field if isinstance(error, FieldError) else WHOLE
    context = {
        "fields": fields,
        # Of the first showing of the form: a changed time stays one after an error.
        "at_before": request.POST.get("at_before", fields.at),
        "name": name,
        "version": version,
        "form": request.POST.get("form") or public_id(),
        "errors": {field: str(error)} if error else {},
        "whole": str(error) if error and field == WHOLE else "",
        "zones": reminder_rows.names_of_zones(),
        "most_characters": changes.TEXT_CHARACTERS,
        "most_minutes": reminder_form.MOST_MINUTES,
    }
    return render(request, "webchat/reminder_form.html", context, status=422 if error else 200)


@require_POST
@for_people
def act(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Pause, resume or delete a reminder."""
    schedule = own(request, name)
    if action not in lists.CHANGES:
        raise Http404
    try:
        lists.CHANGES[action](schedule, timezone.now())
    except RuleError as error:
        return list_page(request, problem=str(error), beside=name)
    return back(action, "" if action == "delete" else name)


@require_POST
@for_people
def change_zone(request: HttpRequest) -> HttpResponse:
    """Set the person's time zone: a name of IANA, or a city."""
    user, typed = views.person(request), request.POST.get("zone", "").strip()[:64]
    try:
        zone = reminder_form.zone_of(typed)
    except RuleError as error:
        return list_page(request, problem=str(error), zone=typed)
    views.change_setting(user, "time_zone", zone)
    return back("zone")


@require_POST
@views.for_signed_in
def browser_zone(request: HttpRequest) -> views.Json:
    """Take a browser's time zone, unless the person has one or the browser hides it."""
    given = http.parse_object(request.body).get("time_zone")
    if not isinstance(given, str):
        raise views.BadRequestError("time_zone must be a string.")
    try:
        zone = rules.zone_named(given).key
    except RuleError as error:
        raise views.BadRequestError(str(error)) from error
    if zone in HIDDEN:
        return {"ok": True, "stored": False}
    with atomic_write():
        stored = store_first_zone(views.person(request), zone)
    return {"ok": True, "stored": stored}


def store_first_zone(user: User, zone: str) -> bool:
    """Make a time zone the person's if they have none; return whether it was stored."""
    if not User.objects.filter(pk=user.pk, time_zone="").update(time_zone=zone):
        return False
    own_actions.setting_changed(user=user, name="time_zone", change=("", zone))
    return True


@require_POST
@views.for_signed_in
def press(request: HttpRequest, run_id: str) -> views.Json | HttpResponse:
    """Handle ``{"choice": "done" | "later" | "tomorrow"}`` under a reminder that a run showed."""
    choice = http.parse_object(request.body).get("choice")
    if not isinstance(choice, str) or choice not in buttons.LABELS:
        raise views.BadRequestError(f"choice is one of {', '.join(buttons.LABELS)}.")
    user = views.person(request)
    if not is_public_id(run_id):
        return views.refusal(404, gettext(buttons.OVER))
    if not Occurrence.objects.filter(run__public_id=run_id, schedule__user=user).exists():
        return views.refusal(404, gettext(buttons.OVER))
    with atomic_write():
        said = buttons.press(user=user, choice=choice, run_id=run_id, now=timezone.now())
        answered = Occurrence.objects.filter(
            run__public_id=run_id, acknowledged_at__isnull=False
        ).exists()  # one that is paused keeps its buttons
        shown = Message.objects.filter(run__public_id=run_id, data__has_key="reminder")
        for row in shown if answered else ():
            if "pressed" not in row.data:
                row.data = {**row.data, "pressed": said}
                row.save(update_fields=["data"])
    return {"ok": True, "said": said}
