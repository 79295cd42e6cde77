"""The admin form of an account, built from the fields that its channel declares ([C1])."""

import secrets as random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from channels_app import registry
from channels_app.admin.secret_key import opened
from channels_app.base import Account, Channel, Field, TellsIdentity
from core.admin.base import ChangedFieldsOnly, ModelForm
from core.models import ChannelAccount, Delivery, InboundMessage

ANOTHER = (
    "This is of another account at the platform, and there are messages of the present one. Add it "
    "as an account of its own, and disable this one."
)
INPUT = {"class": "dashboard-input"}


class AccountForm(ChangedFieldsOnly, ModelForm[ChannelAccount]):
    """Edit an account; secrets are write-only. ``declared``: the fields of its channel."""

    declared: Sequence[Field] = ()
    secret_name = forms.CharField(
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs=INPUT),
        help_text="The name of a secret to set or remove.",
    )
    secret_value = forms.CharField(
        required=False,
        max_length=4000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", **INPUT}),
        help_text="Stored encrypted. If empty, the secret of that name is removed.",
    )

    class Meta:
        model = ChannelAccount
        fields = ("channel", "name", "enabled", "config")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Fill the declared fields; settings without a field are shown as JSON."""
        super().__init__(*args, **kwargs)
        self.known, self.can_open = opened(self.instance)
        config, known = self.instance.config, self.known
        for each in self.declared:
            shown = self.fields[input_name(each)]
            if each.secret:
                shown.help_text = f"{each.help} {secret_help(each, known=each.name in known)}"
            else:
                shown.initial = config.get(each.name, each.default if each.choices else "")
        names = {each.name for each in self.declared if not each.secret}
        if "config" in self.fields:
            rest = {key: value for key, value in config.items() if key not in names}
            self.initial["config"] = rest
            self.fields["config"].help_text = "Settings without a field of their own, as JSON."

    def clean(self) -> dict[str, Any]:
        """Merge the settings; refuse to enable an account with an incomplete configuration."""
        data = super().clean() or {}
        if data.get("secret_value") and not data.get("secret_name"):
            raise ValidationError({"secret_name": "Enter the name of the secret."})
        data["config"] = self.merged(data)
        channel = self.channel(data)
        if channel is not None:
            self.refuse_another(channel, self.account_as_saved(data))
        if channel is not None and self.as_stored(data).get("enabled"):
            problems = channel.config.problems(self.account_as_saved(data))
            if problems:
                raise ValidationError({"enabled": [f"Not yet: {each}" for each in problems]})
            self.refuse_shared(self.account_as_saved(data))
        self.instance.config = data["config"]
        return data

    def merged(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the settings as they will be stored: of an account those that the page changes."""
        stored, changed = self.instance.config, set(self.changed_data)
        is_new = self.instance.pk is None
        own = {each.name: input_name(each) for each in self.declared if not each.secret}
        rest = {key: value for key, value in stored.items() if key not in own}
        merged = dict(data.get("config") or {}) if is_new or "config" in changed else rest
        for name, field in own.items():
            value = str(data.get(field) or "").strip()
            if not is_new and field not in changed:
                value = stored.get(name, "")
            if value:
                merged[name] = value
        return merged

    def refuse_another(self, channel: Channel, account: Account) -> None:
        """Refuse another account of the platform once this one has messages: ids could repeat."""
        if not isinstance(channel.config, TellsIdentity) or not has_messages(self.instance):
            return
        before = replace(account, config=self.instance.config, secrets=self.known)
        was, is_now = channel.config.identity(before), channel.config.identity(account)
        if was and is_now and was != is_now:
            single = next((each for each in self.declared if each.single), None)
            self.add_error(input_name(single) if single else None, ANOTHER)

    def refuse_shared(self, account: Account) -> None:
        """Add an error to each ``single`` field whose value another enabled account has."""
        single = [each for each in self.declared if each.single]
        others = ChannelAccount.objects.filter(channel=account.channel, enabled=True)
        for other in others.exclude(pk=self.instance.pk).order_by("id") if single else ():
            theirs = {**other.config, **opened(other)[0]}
            for each in single:
                mine = account.secrets.get(each.name) or account.config.get(each.name)
                if mine and mine == theirs.get(each.name):
                    words = f"{other} has the same {each.label.lower()}: disable one of the two."
                    self.add_error(input_name(each), words)

    def channel(self, data: dict[str, Any]) -> Channel | None:
        """Return the plugin; an existing account keeps its channel, which is not in the form."""
        return registry.get(str(data.get("channel") or self.instance.channel))

    def given_secrets(self, data: dict[str, Any]) -> dict[str, str]:
        """Return the secrets that this form sets, by name; an empty value removes one."""
        given: dict[str, str] = {}
        for each in self.declared:
            name = input_name(each)
            if not each.secret or name not in self.data:
                continue
            value = str(data.get(name) or "").strip()
            if not value and each.made and self.can_open and each.name not in self.known:
                # Kept in ``data``: saving the account calls this again.
                value = data[name] = random.token_urlsafe(32)
            if value:
                given[each.name] = value
        if data.get("secret_name"):
            given[data["secret_name"]] = data.get("secret_value") or ""
        return given

    def account_as_saved(self, data: dict[str, Any]) -> Account:
        """Return the account as the plugin will get it after saving."""
        return Account(
            id=self.instance.pk or 0,
            channel=str(data.get("channel") or self.instance.channel),
            name=data.get("name", ""),
            config=data["config"],
            secrets=self.known | self.given_secrets(data),
        )


def has_messages(account: ChannelAccount) -> bool:
    """Return whether messages of an account have ids of its platform."""
    if account.pk is None:
        return False
    received = InboundMessage.objects.filter(account=account, body_digest="")
    sent = Delivery.objects.filter(account=account)
    return any(rows.exclude(external_message_id="").exists() for rows in (received, sent))


def input_name(field: Field) -> str:
    return f"field_{field.name}"


def fields_of(channel_id: str) -> Sequence[Field]:
    """Return the fields that a channel declares; empty without a plugin."""
    channel = registry.get(channel_id) if channel_id else None
    return channel.config.fields if channel is not None else ()


def form_for(channel_id: str) -> type[AccountForm]:
    """Build the form class for an account of a channel."""
    declared = fields_of(channel_id)
    inputs: dict[str, Any] = {input_name(each): form_field(each) for each in declared}
    return type("ChannelAccountForm", (AccountForm,), {**inputs, "declared": declared})


def form_field(field: Field) -> forms.Field:
    """Build one input. None is required: the channel checks for missing values on enabling."""
    if field.choices:
        choices = [(each, each or "no") for each in field.choices]
        return forms.ChoiceField(
            choices=choices,
            label=field.label,
            help_text=field.help,
            required=False,
            widget=forms.Select(attrs=INPUT),
        )
    attrs = {**INPUT, "placeholder": field.default}
    widget: forms.Widget = forms.TextInput(attrs=attrs)
    if field.secret:
        widget = forms.PasswordInput(attrs={"autocomplete": "new-password", **INPUT})
    return forms.CharField(
        label=field.label, help_text=field.help, required=False, max_length=4000, widget=widget
    )


def secret_help(field: Field, *, known: bool) -> str:
    """Describe the effect of leaving a secret's input empty."""
    if known:
        return "Already set. Leave empty to keep it."
    return (
        "If empty, the gateway generates one." if field.made else "Stored encrypted, never shown."
    )
