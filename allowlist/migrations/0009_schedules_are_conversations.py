"""Staff who may read conversations read schedules as well, and what became of them."""

from django.db import migrations

ROLE = "May read conversations"
MODELS = ("schedule", "occurrence")


def let_read(apps, schema_editor):
    """Add the permissions, if the role is there. ``migrate`` makes permissions at its end."""
    alias = schema_editor.connection.alias
    types = apps.get_model("contenttypes", "ContentType").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    for group in apps.get_model("auth", "Group").objects.using(alias).filter(name=ROLE):
        for model in MODELS:
            kind, _ = types.get_or_create(app_label="core", model=model)
            permission, _ = permissions.get_or_create(
                content_type=kind,
                codename=f"view_{model}",
                defaults={"name": f"Can view {model}"},
            )
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("allowlist", "0008_indexes_for_growth"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.RunPython(let_read, migrations.RunPython.noop),
    ]
