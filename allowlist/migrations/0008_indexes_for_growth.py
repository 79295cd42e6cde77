from django.db import migrations, models

from core.migrations._without_lock import AddIndex


class Migration(migrations.Migration):

    atomic = False  # the index is built without blocking the writers of the table

    dependencies = [
        ('allowlist', '0007_roles'),
    ]

    operations = [
        AddIndex(
            model_name='apikey',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('revoked_at__isnull', True)), fields=['expires_at'], name='keys_by_expiry'),
        ),
        AddIndex(
            model_name='unknownrequest',
            index=models.Index(fields=['-last_seen_at', '-id'], name='requests_by_time'),
        ),
    ]
