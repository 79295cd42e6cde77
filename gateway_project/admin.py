"""The page of a person in the admin, with what concerns all their data (Django imports this)."""

from django.contrib import admin

from core.models import User
from gateway_project.personal_data.admin_pages import PersonAdmin

admin.site.unregister(User)
admin.site.register(User, PersonAdmin)
