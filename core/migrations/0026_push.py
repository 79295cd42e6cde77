import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0025_mcp_oauth'),
    ]

    operations = [
        migrations.AddField(
            model_name='installation',
            name='secrets',
            field=models.TextField(blank=True, db_default='', default='', editable=False),
        ),
        migrations.AddField(
            model_name='user',
            name='hide_push_text',
            field=models.BooleanField(db_default=False, default=False, verbose_name='hide the text of notifications'),
        ),
        migrations.CreateModel(
            name='PushSubscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session_key', models.CharField(max_length=40)),
                ('endpoint', models.CharField(max_length=1000, unique=True)),
                ('p256dh', models.CharField(max_length=100)),
                ('auth', models.CharField(max_length=32)),
                ('browser', models.CharField(blank=True, max_length=80)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('succeeded_at', models.DateTimeField(blank=True, null=True)),
                ('failures', models.PositiveSmallIntegerField(default=0)),
                ('held_until', models.DateTimeField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_subscriptions', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='PushMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('ref', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('sending', 'Sending'), ('sent', 'Sent'), ('seen', 'Seen'), ('stale', 'Stale'), ('dead', 'Dead')], default='pending', max_length=16)),
                ('attempt', models.PositiveIntegerField(default=0)),
                ('tries', models.PositiveIntegerField(default=0)),
                ('retry_at', models.DateTimeField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField()),
                ('error', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('subscription', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, to='core.pushsubscription')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'pending')), fields=['id'], name='pending_pushes'), models.Index(condition=models.Q(('state', 'sending')), fields=['lease_until'], name='sending_pushes'), models.Index(fields=['expires_at'], name='pushes_by_end')],
                'constraints': [models.UniqueConstraint(fields=('subscription', 'kind', 'ref'), name='pushed_once')],
            },
        ),
    ]
