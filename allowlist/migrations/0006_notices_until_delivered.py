from django.db import migrations, models
from django.db.models import F, Q


def sent_so_far(apps, schema_editor):
    """What was noted as told was sent on its way at that moment."""
    requests = apps.get_model("allowlist", "UnknownRequest").objects.using(
        schema_editor.connection.alias
    )
    requests.filter(notified_at__isnull=False).update(notice_at=F("notified_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("allowlist", "0005_told_and_answered_requests"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="unknownrequest", name="told_requests"),
        migrations.AddField(
            model_name="unknownrequest",
            name="notice_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="unknownrequest",
            index=models.Index(
                condition=Q(("notice_at__isnull", False)),
                fields=["notice_at"],
                name="told_requests",
            ),
        ),
        migrations.AddIndex(
            model_name="unknownrequest",
            index=models.Index(
                condition=Q(
                    ("notice_at__isnull", False),
                    ("notified_at__isnull", True),
                    ("state", "pending"),
                ),
                fields=["notice_at"],
                name="untold_requests",
            ),
        ),
        # Last: PostgreSQL may refuse to index what the same transaction has changed.
        migrations.RunPython(sent_so_far, migrations.RunPython.noop),
    ]
