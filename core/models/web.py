"""Services that search the web for the tool ``web_search``."""

from django.db import models

from core.lib.encryption import decrypt
from core.lib.text import visible_line


class SearchProvider(models.Model):
    """A service that searches the web. Of the enabled ones the first that answers is used.

    ``base_url`` is empty for a vendor's own address. ``language``: a code as in ``de``; empty for
    the service's choice. ``check_result`` is the outcome of the last test.
    """

    class Kind(models.TextChoices):
        SEARXNG = "searxng", "SearXNG"
        BRAVE = "brave", "Brave Search"
        TAVILY = "tavily", "Tavily"

    class SafeSearch(models.TextChoices):
        DEFAULT = "", "as the service does by itself"
        OFF = "off", "off"
        MODERATE = "moderate", "moderate"
        STRICT = "strict", "strict"

    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.SEARXNG)
    name = models.CharField(max_length=64, unique=True)
    base_url = models.CharField("address", max_length=500, blank=True)
    allow_private = models.BooleanField("the address may be inside the network", default=False)
    secrets = models.TextField(blank=True, editable=False, help_text="Encrypted; never shown.")
    language = models.CharField(max_length=16, blank=True)
    safe_search = models.CharField(
        max_length=16, choices=SafeSearch.choices, default=SafeSearch.DEFAULT, blank=True
    )
    position = models.PositiveSmallIntegerField("order", default=1)
    enabled = models.BooleanField(default=True)
    check_result = models.CharField(max_length=500, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("position", "id")
        verbose_name = "search provider"

    def __str__(self) -> str:
        return visible_line(self.name, 64)

    def open_secrets(self) -> dict[str, str]:
        """Return the decrypted secrets (``key``). Raises DecryptError when the key was changed."""
        return decrypt(self.secrets)
