from django.db import migrations, models


def drop_index_for_like(apps, schema_editor):
    """Drop the second index that PostgreSQL gets beside a unique text: ids are compared whole."""
    table = apps.get_model('core', 'Run')._meta.db_table
    with schema_editor.connection.cursor() as cursor:
        found = schema_editor.connection.introspection.get_constraints(cursor, table)
    for name, each in found.items():
        plain = each['index'] and not (each['unique'] or each['primary_key'])
        if plain and each['columns'] == ['public_id']:
            schema_editor.execute(f'DROP INDEX {schema_editor.quote_name(name)}')


def leave_space(apps, schema_editor):
    """Let PostgreSQL keep the new version of a row in its page: then no index changes."""
    if schema_editor.connection.vendor == 'postgresql':
        table = schema_editor.quote_name(apps.get_model('core', 'Run')._meta.db_table)
        schema_editor.execute(f'ALTER TABLE {table} SET (fillfactor = 70)')


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0016_indexes_for_growth'),
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
        migrations.RunPython(drop_index_for_like, migrations.RunPython.noop),
        migrations.RunPython(leave_space, migrations.RunPython.noop),
    ]
