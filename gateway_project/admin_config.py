"""``django.contrib.admin`` with our site. Imported before the models are: it names, not imports."""

from django.contrib.admin.apps import AdminConfig


class GatewayAdminConfig(AdminConfig):
    """The admin of the owner."""

    default_site = "gateway_project.admin_site.GatewayAdminSite"
