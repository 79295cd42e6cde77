"""The named roles of staff: groups of permissions, so that a person's page offers a few words."""

from django.db import migrations

VIEW, CHANGE, ADD, DELETE = "view", "change", "add", "delete"
ROLES = {
    "May read conversations": {
        ("core", "chatsession"): (VIEW,),
        ("core", "run"): (VIEW,),
        ("core", "inboundmessage"): (VIEW,),
        ("core", "delivery"): (VIEW,),
        ("core", "job"): (VIEW,),
        ("core", "storedfile"): (VIEW,),
        ("channels_app", "sourcefeedback"): (VIEW,),
    },
    "May run operations": {
        ("core", "channelaccount"): (VIEW,),
        ("core", "chatsession"): (VIEW, CHANGE),
        ("core", "run"): (VIEW, CHANGE),
        ("core", "inboundmessage"): (VIEW, CHANGE),
        ("core", "delivery"): (VIEW, CHANGE),
        ("core", "job"): (VIEW,),
        ("core", "storedfile"): (VIEW, CHANGE),
        ("core", "skill"): (VIEW, CHANGE),
        ("axes", "accessattempt"): (VIEW, DELETE),
    },
    "May manage people": {
        ("core", "user"): (VIEW, ADD, CHANGE, DELETE),
        ("core", "channelidentity"): (VIEW,),
        ("allowlist", "unknownrequest"): (VIEW,),
        ("allowlist", "blockpattern"): (VIEW,),
        ("allowlist", "apikey"): (VIEW, DELETE),
    },
    "May read the audit": {
        ("allowlist", "auditentry"): (VIEW,),
        ("axes", "accessattempt"): (VIEW,),
    },
}


def make_roles(apps, schema_editor):
    """A group for each role. Permissions that ``migrate`` makes at its end are made here first."""
    alias = schema_editor.connection.alias
    types = apps.get_model("contenttypes", "ContentType").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    groups = apps.get_model("auth", "Group").objects.using(alias)
    for name, rights in ROLES.items():
        group, _ = groups.get_or_create(name=name)
        for (app, model), actions in rights.items():
            kind, _ = types.get_or_create(app_label=app, model=model)
            for action in actions:
                permission, _ = permissions.get_or_create(
                    content_type=kind,
                    codename=f"{action}_{model}",
                    defaults={"name": f"Can {action} {model}"},
                )
                group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("allowlist", "0006_notices_until_delivered"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.RunPython(make_roles, migrations.RunPython.noop),
    ]
