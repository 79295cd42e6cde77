import django.db.models.deletion
from django.db import migrations, models

# Columns of core_run with an index that another one makes unnecessary: a session's by
# (session, state, id), and the one for LIKE that PostgreSQL gets beside a unique text.
SECOND_INDEXES = (['session_id'], ['public_id'])


def drop_second_indexes(apps, schema_editor):
    """Drop them; SQLite would copy the table for a change of the field."""
    table = apps.get_model('core', 'Run')._meta.db_table
    with schema_editor.connection.cursor() as cursor:
        found = schema_editor.connection.introspection.get_constraints(cursor, table)
    for name, each in found.items():
        plain = each['index'] and not (each['unique'] or each['primary_key'])
        if plain and each['columns'] in SECOND_INDEXES:
            schema_editor.execute(f'DROP INDEX {schema_editor.quote_name(name)}')


def leave_space(apps, schema_editor):
    """Let PostgreSQL keep the new version of a row in its page: then no index changes."""
    if schema_editor.connection.vendor == 'postgresql':
        table = schema_editor.quote_name(apps.get_model('core', 'Run')._meta.db_table)
        schema_editor.execute(f'ALTER TABLE {table} SET (fillfactor = 70)')


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0015_job_steps'),
    ]

    operations = [
        migrations.AddField(
            model_name='workerheartbeat',
            name='places',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='workerheartbeat',
            name='place_seconds',
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.RemoveIndex(model_name='run', name='running_by_lease'),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='run',
                    name='session',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='core.chatsession'),
                ),
            ],
            database_operations=[
                migrations.RunPython(drop_second_indexes, migrations.RunPython.noop),
            ],
        ),
        migrations.RunPython(leave_space, migrations.RunPython.noop),
    ]
