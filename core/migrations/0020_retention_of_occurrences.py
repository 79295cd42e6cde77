
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0019_schedules'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='occurrence',
            index=models.Index(condition=models.Q(('fired_at__isnull', True), ('look_at__isnull', True)), fields=['nominal_at'], name='unfired_occurrences'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(condition=models.Q(('state', 'ended')), fields=['changed_at'], name='ended_schedules'),
        ),
    ]
