"""``django.contrib.admin`` with the gateway's site. Imported before the models: paths only."""

from django.contrib.admin.apps import AdminConfig


class GatewayAdminConfig(AdminConfig):
    default_site = "gateway_project.admin_site.GatewayAdminSite"
