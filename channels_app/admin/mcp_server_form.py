"""The form of an MCP server: its address, and its key, which is written and never shown."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from channels_app.admin.secret_key import PRIVATE_HELP, KeyForm, key_help
from core.lib import encryption
from core.models import McpServer
from core.providers import addresses
from core.tools.mcp.oauth import pages

HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
# Headers that belong to the connection or to the protocol.
RESERVED = ("accept", "connection", "content-", "cookie", "host", "mcp-", "transfer-encoding")
MOST_SECONDS = 600
SHORT_NAME = "<short name>"


class McpServerForm(KeyForm[McpServer]):
    authentication = forms.ChoiceField(
        choices=McpServer.Authentication.choices,
        required=False,
        widget=UnfoldAdminSelectWidget(),
        help_text=(
            "With OAuth, people sign in at the server with a link. A change, and a change of the "
            "address, removes the accounts that are connected."
        ),
    )
    url = forms.CharField(
        label="Address",
        max_length=500,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Of its Streamable HTTP endpoint, as in https://mcp.example.com/mcp",
    )

    client_secret = forms.CharField(
        label="Client secret",
        required=False,
        max_length=4000,
        strip=True,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Of this client id. Stored encrypted and never shown; empty keeps what is set.",
    )

    class Meta:
        model = McpServer
        fields = (
            "name",
            "slug",
            "url",
            "allow_private",
            "authentication",
            "key_header",
            "client_id",
            "seconds",
            "enabled",
            "assistants",
            "people",
        )
        help_texts = {
            "slug": "A part of the names of its tools, as in mcp_shed_read. It stays.",
            "allow_private": PRIVATE_HELP,
            "client_id": (
                "For OAuth, only where the server registers no clients by itself. Its redirect "
                "address is {0}"
            ),
            "key_header": "Leave empty to send the key as “Authorization: Bearer …”.",
            "seconds": "A call that takes longer is given up.",
            "assistants": "Those that may use its tools. Nothing chosen: all that have all tools.",
            "people": "Those that may use its tools. Nothing chosen: all people on the allowlist.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Say whether a key is set."""
        super().__init__(*args, **kwargs)
        if "key" not in self.fields:  # only shown
            return
        has_key = bool(self.known.get("key"))
        self.fields["key"].help_text = key_help("", known=has_key, can_open=self.can_open)
        if "client_id" in self.fields:
            about = self.fields["client_id"]
            address = pages.callback(self.instance.slug or SHORT_NAME)
            about.help_text = str(about.help_text).format(address)
        if not self.instance.secrets:
            self.fields.pop("remove_key", None)

    def clean_key(self) -> str:
        """Refuse what no header can hold; spaces around a key are left out."""
        key = str(self.cleaned_data.get("key") or "").strip(" \t")
        if not key.isascii() or (key and not key.isprintable()) or " " in key:
            raise ValidationError("A key has no spaces, no line breaks and no special characters.")
        return key

    def clean_authentication(self) -> str:
        """Take what is set where a form of before OAuth says nothing."""
        given = self.cleaned_data.get("authentication")
        return str(given or self.instance.authentication)

    def sealed(self) -> tuple[str, str]:
        """Return the encrypted secrets and the change of the key; empty fields keep theirs."""
        data, known = self.cleaned_data, dict(self.known)
        happened = ""
        if data.get("key"):
            known["key"], happened = data["key"], "key_set"
        elif data.get("remove_key"):
            known.pop("key", None)
            happened = "key_removed"
        if data.get("client_secret"):
            known["client_secret"], happened = data["client_secret"], happened or "key_set"
        elif not self.row.client_id:
            known.pop("client_secret", None)
        if data.get("client_secret") or "client_id" in self.changed_data:
            known.pop("issuer", None)  # the next sign-in says whose client it is
        if known == self.known and self.can_open:
            return self.row.secrets, ""
        if not happened and not self.can_open:
            return self.row.secrets, ""
        return encryption.encrypt(known), happened

    def clean_key_header(self) -> str:
        """Refuse headers that are not for keys."""
        name = str(self.cleaned_data.get("key_header") or "").strip()
        if name and not HEADER.fullmatch(name):
            raise ValidationError("The name of a header has letters, digits and hyphens only.")
        if name.lower().startswith(RESERVED):
            raise ValidationError("This header belongs to the connection.")
        return name

    def clean_seconds(self) -> int:
        """Refuse what no person waits for."""
        seconds = int(self.cleaned_data["seconds"])
        if not 1 <= seconds <= MOST_SECONDS:
            raise ValidationError(f"Enter a number from 1 to {MOST_SECONDS}.")
        return seconds

    def clean(self) -> dict[str, Any]:
        """Add what is wrong with the address beside it."""
        data = super().clean() or {}
        will = self.as_stored(data)
        if will.get("url"):
            private = bool(will.get("allow_private"))
            words = addresses.problem(will["url"], private=private, resolve=self.resolve)
            if words:
                self.add_error("url", words)
        return data
