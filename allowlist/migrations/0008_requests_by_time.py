from django.db import migrations, models

from core.migrations._without_lock import AddIndex


class Migration(migrations.Migration):

    atomic = False  # the index is built without blocking the writers of the table

    dependencies = [
        ('allowlist', '0007_roles'),
    ]

    operations = [
        AddIndex(
            model_name='unknownrequest',
            index=models.Index(fields=['-last_seen_at', '-id'], name='requests_by_time'),
        ),
    ]
