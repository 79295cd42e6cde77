"""The third step: a Telegram bot, tried before it is stored, and the code that links its owner."""

from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q
from django.utils.translation import gettext_lazy

from allowlist import audit, link_codes
from channels_app.admin.account_form import AccountForm, form_for
from channels_app.base import ChannelError
from channels_app.owner.setup_steps import PHONE_CHANNEL
from channels_app.worker import account_watcher
from core.database.transactions import atomic_write
from core.lib import encryption
from core.models import ChannelAccount, ChannelIdentity, User

# The fields of the channel's own form whose errors belong to a field of this one.
FIELDS = {"field_token": "token", "field_api_base": "api_base"}
NAME_TAKEN = gettext_lazy(
    "There is a Telegram account of this bot already. Change it in the admin."
)

REFUSED = gettext_lazy("Telegram does not accept this token. Copy the current one from @BotFather.")
UNREACHABLE = gettext_lazy(
    "Telegram cannot be reached. Is this machine online, and is the address right? ({words})"
)


class PhoneStepForm(forms.Form):
    """A bot's token, and the server of the Bot API."""

    token = forms.CharField(
        label=gettext_lazy("Bot token"),
        max_length=4000,
        error_messages={"required": gettext_lazy("Paste the token that @BotFather gave you.")},
    )
    api_base = forms.CharField(label=gettext_lazy("Bot API server"), max_length=500, required=False)


def try_and_save(form: PhoneStepForm, *, owner: User, now: datetime) -> bool:
    """Try the token at its platform and store the account; False with the errors in ``form``."""
    if not form.is_valid():
        return False
    account = account_form(form)
    if not account.is_valid():
        copy_errors(account, form)
        return False
    row = account.save(commit=False)
    secrets = account.given_secrets(account.cleaned_data)
    row.secrets = encryption.encrypt(secrets)
    try:
        row.name = name_of(account_watcher.test_now(row))
    except ChannelError as error:
        form.add_error("token", said_of(error))
        return False
    try:
        store(row, names=sorted(secrets), owner=owner, now=now)
    except IntegrityError:  # also by the first of two clicks at once
        form.add_error("token", str(NAME_TAKEN))
        return False
    return True


def said_of(error: ChannelError) -> str:
    """Return what the owner reads about an error of the platform."""
    if error.trouble == "auth":
        return str(REFUSED)
    return str(error) if error.permanent else str(UNREACHABLE).format(words=error)


def account_form(form: PhoneStepForm) -> AccountForm:
    """Return the channel's own form: with a webhook where the gateway has a public address."""
    data = {
        "channel": PHONE_CHANNEL,
        "name": "first-run",
        "enabled": "on",
        "config": "{}",
        "field_token": form.cleaned_data["token"].strip(),
        "field_api_base": form.cleaned_data["api_base"].strip(),
        "field_mode": "webhook" if settings.GATEWAY_HTTPS else "polling",
        "field_webhook_secret": "",
    }
    return form_for(PHONE_CHANNEL)(data, instance=ChannelAccount(channel=PHONE_CHANNEL))


def copy_errors(account: AccountForm, form: PhoneStepForm) -> None:
    """Show the errors of the channel's form beside the fields of the step."""
    for name, errors in account.errors.items():
        for error in errors:
            form.add_error(FIELDS.get(name, "token"), str(error).removeprefix("Not yet: "))


def name_of(said: str) -> str:
    """Return the name of an account from what the platform says: ``@name (id 7)``."""
    return said.removeprefix("@").partition(" ")[0].lower()[:64]


def store(row: ChannelAccount, *, names: list[str], owner: User, now: datetime) -> None:
    """Store an account, its audit rows, and that a worker is to prepare it."""
    with atomic_write():
        row.save()
        account_watcher.mark_saved(account_id=row.pk)
        data: dict[str, object] = {"channel": row.channel, "config": row.config}
        audit.record_row(row, "added", by=owner, data=data, now=now)
        for name in names:
            audit.record_row(row, "secret_set", by=owner, data={"name": name}, now=now)


def bot() -> ChannelAccount | None:
    """Return the account of the step: the latest one that is enabled."""
    rows = ChannelAccount.objects.filter(channel=PHONE_CHANNEL, enabled=True)
    return rows.order_by("-id").first()


def context(*, owner: User) -> dict[str, Any]:
    """Return what the page shows: the bot, if there is one, and a code that links the owner."""
    row = bot()
    if row is None:
        return {"bot": None}
    return {
        "bot": row,
        "is_known": is_known(row, owner),
        "may_link": settings.LINK_CODES != "off",
        "minutes": settings.LINK_CODE_MINUTES,
    }


def is_known(row: ChannelAccount, owner: User) -> bool:
    """Return whether an address of this account belongs to the owner."""
    of_account = Q(account=row) | Q(account=None, channel=PHONE_CHANNEL)
    return ChannelIdentity.objects.filter(of_account, user=owner).exists()


def state(*, owner: User, now: datetime) -> dict[str, Any]:
    """Return the state of the bot for a page that waits: ``status``, ``text``, ``is_known``, and
    the ``mark`` of the code that still works.
    """
    mark = link_codes.open_mark(user=owner, now=now)
    row = bot()
    if row is None:
        return {"status": "", "text": "", "is_known": False, "mark": mark}
    known = is_known(row, owner)
    return {"status": row.status, "text": row.status_text, "is_known": known, "mark": mark}


def link_command(*, owner: User, now: datetime) -> str:
    """Return the message that links the owner's address; empty where codes are disabled."""
    try:
        return f"/link {link_codes.make(user=owner, via='first run', now=now)}"
    except link_codes.NotAllowed:
        return ""
