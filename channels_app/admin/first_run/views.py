"""The pages of the first run. Forms work without a script; with one they stay on the page.

A post that accepts JSON is answered with ``{"errors": {field: [text]}}``, ``{"next": address}`` or
``{"models": [name]}``.
"""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.conf import settings
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from channels_app.admin.first_run import model_step, phone_step
from channels_app.admin.first_run.model_step import ModelStepForm
from channels_app.admin.first_run.phone_step import PhoneStepForm
from channels_app.owner import setup_steps
from core.models import User
from core.providers.listing import find_ollama

View = Callable[[HttpRequest], HttpResponse]
FIRST_WORDS = gettext_lazy("Hello! What can you do for me?")


def for_first_owner(view: View) -> View:
    """Wrap a page of the first run: sign-in first, 404 for everyone but the first owner."""

    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated:
            return HttpResponseRedirect(f"{settings.LOGIN_URL}?next={request.path}")
        if not setup_steps.is_for(request.user):
            raise Http404
        return view(request)

    return never_cache(wrapped)


@require_GET
@for_first_owner
def overview(request: HttpRequest) -> HttpResponse:
    """Lead to the first open step; without one, show what is done and what was skipped."""
    setup_steps.begin(now=timezone.now())
    steps = setup_steps.steps(owner(request))
    found = next((each for each in steps if each.state == "open"), None)
    if found is not None:
        return redirect(f"first-run-{found.name}")
    return page(request, "overview", {"is_complete": all(each.state == "done" for each in steps)})


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("key")
@for_first_owner
def model(request: HttpRequest) -> HttpResponse:
    """Ask for a provider, a key and a model. POST: ``do=list`` lists the provider's models, else
    the model is tried, stored, and put at the head of the default assistant's chain.
    """
    if request.method != "POST":
        setup_steps.begin(now=timezone.now())
        found = asyncio.run(find_ollama())
        names = [each.name for each in found.models] if found is not None else []
        form = ModelStepForm(initial=model_step.first_values(found))
        return page(request, "model", model_context(form, found=found, names=names))
    form = ModelStepForm(request.POST)
    names = []
    if request.POST.get("do") == "list":
        names = model_step.listed(form)
        if wants_json(request):
            return answer(form, {"models": names})
    elif model_step.try_and_save(form, owner=owner(request), now=timezone.now()):
        return onward(request, "model")
    elif wants_json(request):
        return answer(form, {})
    return page(request, "model", model_context(form, names=names))


def model_context(form: ModelStepForm, **more: Any) -> dict[str, Any]:
    """Return what the page of the model shows besides the form."""
    kind = form["kind"].value()
    return {
        "form": form,
        "kinds": model_step.KINDS,
        "chosen": model_step.BY_KIND.get(kind or "", model_step.KINDS[0]),
        "current": setup_steps.own_model(),
        "is_embedded": settings.LLM_IS_EMBEDDED,
        **more,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@for_first_owner
def message(request: HttpRequest) -> HttpResponse:
    """Show a chat for a first message. POST: it was answered."""
    if request.method == "POST":
        return onward(request, "message")
    context = {"model": setup_steps.answering(owner(request)), "words": FIRST_WORDS}
    return page(request, "message", context)


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("token")
@for_first_owner
def phone(request: HttpRequest) -> HttpResponse:
    """Ask for a bot's token. POST: it is tried and stored; then the page says how to write to it,
    with a code that links the owner (``do=code``).
    """
    if request.method != "POST":
        return phone_page(request, PhoneStepForm())
    match request.POST.get("do", ""):
        case "finish":
            return onward(request, "phone")
        case "code":
            code = phone_step.link_command(owner=owner(request), now=timezone.now())
            return phone_page(request, PhoneStepForm(), code=code)
    form = PhoneStepForm(request.POST)
    if phone_step.try_and_save(form, owner=owner(request), now=timezone.now()):
        return gone(request, reverse("first-run-phone"))
    return answer(form, {}) if wants_json(request) else phone_page(request, form)


def phone_page(request: HttpRequest, form: PhoneStepForm, *, code: str = "") -> HttpResponse:
    """Return the page of the third step."""
    shown = {"form": form, "code": code, **phone_step.context(owner=owner(request))}
    return page(request, "phone", shown)


@require_GET
@for_first_owner
def phone_state(request: HttpRequest) -> HttpResponse:
    """Return the bot's state at the platform, whether the owner is linked, and the valid code."""
    return JsonResponse(phone_step.state(owner=owner(request), now=timezone.now()))


@require_POST
@for_first_owner
def skip(request: HttpRequest) -> HttpResponse:
    """Skip the step that the form names; go on to the next one."""
    name = request.POST.get("step", "")
    if name not in setup_steps.NAMES:
        raise Http404
    setup_steps.mark(name, "skipped", now=timezone.now())
    return HttpResponseRedirect(following(request, name))


@require_POST
@for_first_owner
def dismiss(request: HttpRequest) -> HttpResponse:
    """Offer the first run no longer; go to the chat, or back to the dashboard."""
    setup_steps.dismiss(now=timezone.now())
    return redirect("admin:index" if request.POST.get("back") == "dashboard" else "chat")


def owner(request: HttpRequest) -> User:
    return cast("User", request.user)


def wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"


def answer(form: ModelStepForm | PhoneStepForm, more: dict[str, Any]) -> JsonResponse:
    """Return the errors of a form, or ``more`` without any."""
    return JsonResponse({"errors": form.errors} if form.errors else more)


def onward(request: HttpRequest, name: str) -> HttpResponse:
    """Record a step as done and go on to the next open one."""
    setup_steps.mark(name, "done", now=timezone.now())
    return gone(request, following(request, name))


def gone(request: HttpRequest, address: str) -> HttpResponse:
    """Lead to an address, in the form that was asked for."""
    return JsonResponse({"next": address}) if wants_json(request) else HttpResponseRedirect(address)


def following(request: HttpRequest, name: str) -> str:
    """Return the address of the first open step after ``name``, else of the overview."""
    steps = setup_steps.steps(owner(request))
    later = steps[setup_steps.NAMES.index(name) + 1 :]
    found = next((each for each in later if each.state == "open"), None)
    return reverse(f"first-run-{found.name}" if found is not None else "first-run")


def page(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    """Return a page of the first run; one with errors is answered 422."""
    user = owner(request)
    form = context.get("form")
    steps = setup_steps.steps(user)
    is_start = all(each.state == "open" for each in steps)
    shown = {"here": name, "steps": steps, "is_start": is_start, "person": user.pk, **context}
    status = 422 if form is not None and form.is_bound and form.errors else 200
    return render(request, f"first_run/{name}.html", shown, status=status)
