import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Coalesce

from ._without_lock import AddIndex, WithoutOwnIndex


class Migration(migrations.Migration):

    atomic = False  # indexes are built without blocking the writers of their tables

    dependencies = [
        ('core', '0015_job_steps'),
    ]

    operations = [
        AddIndex(
            model_name='user',
            index=models.Index(condition=models.Q(('is_owner', True)), fields=['id'], name='owners'),
        ),
        AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['id'], name='queued_jobs'),
        ),
        AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'running')), fields=['id'], name='running_jobs'),
        ),
        migrations.RemoveIndex(
            model_name='job',
            name='open_jobs',
        ),
        AddIndex(
            model_name='chatsession',
            index=models.Index(Coalesce('last_message_at', 'created_at').desc(), name='sessions_by_activity'),
        ),
        AddIndex(
            model_name='inboundmessage',
            index=models.Index(condition=models.Q(('state', 'quarantined')), fields=['id'], name='quarantined'),
        ),
        AddIndex(
            model_name='message',
            index=models.Index(fields=['session', 'run', 'id'], name='history_of_session'),
        ),
        AddIndex(
            model_name='message',
            index=models.Index(fields=['created_at', 'role'], name='messages_by_time'),
        ),
        AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['session', 'id'], name='queued_by_session'),
        ),
        AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('cancel_requested_at__isnull', False), ('state', 'queued')), fields=['id'], name='queued_to_cancel'),
        ),
        AddIndex(
            model_name='run',
            index=models.Index(fields=['user', '-id'], name='runs_of_user'),
        ),
        AddIndex(
            model_name='storedfile',
            index=models.Index(fields=['user', '-id'], name='files_of_user'),
        ),
        AddIndex(
            model_name='channelidentity',
            index=models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='identities_by_expiry'),
        ),
        AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='jobs_by_end'),
        ),
        AddIndex(
            model_name='inboundmessage',
            index=models.Index(condition=models.Q(('state', 'ignored')), fields=['received_at'], name='ignored_by_age'),
        ),
        AddIndex(
            model_name='storedfile',
            index=models.Index(condition=models.Q(('purged_at__isnull', True), ('revoked_at__isnull', False)), fields=['id'], name='revoked_files'),
        ),
        AddIndex(
            model_name='storedfile',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('purged_at__isnull', True)), fields=['expires_at'], name='files_by_expiry'),
        ),
        WithoutOwnIndex(
            model_name='message',
            name='session',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='core.chatsession'),
        ),
        WithoutOwnIndex(
            model_name='run',
            name='session',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='core.chatsession'),
        ),
        WithoutOwnIndex(
            model_name='run',
            name='user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        WithoutOwnIndex(
            model_name='storedfile',
            name='user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='files', to=settings.AUTH_USER_MODEL),
        ),
    ]
