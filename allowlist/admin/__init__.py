"""The allowlist in the admin: people with their identities, API keys, the audit."""

from django.contrib import admin
from django.contrib.auth.models import Group

from allowlist.admin.api_keys import ApiKeyAdmin
from allowlist.admin.lockouts import AccessAttemptAdmin
from allowlist.admin.people import UserAdmin
from allowlist.admin.trail import AuditEntryAdmin

# Permissions are granted per user; groups would be a second place to check.
admin.site.unregister(Group)

__all__ = ["AccessAttemptAdmin", "ApiKeyAdmin", "AuditEntryAdmin", "UserAdmin"]
