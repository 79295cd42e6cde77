"""Operations that change the indexes of large tables without blocking their writers.

On PostgreSQL they need a migration with ``atomic = False``: an index is built and removed
CONCURRENTLY. SQLite creates an index in one pass over the table, and no table is copied.
"""

from django.db import migrations, models


class AddIndex(migrations.AddIndex):
    """Create an index; one that an interrupted attempt left behind is replaced."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        name = schema_editor.quote_name(self.index.name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            schema_editor.execute(f"DROP INDEX IF EXISTS {name}")
            schema_editor.add_index(model, self.index)


class WithoutOwnIndex(migrations.AlterField):
    """Remove the index of a foreign key that another index begins with.

    On SQLite, Django's own operation copies the whole table for that.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        connection = schema_editor.connection
        if not self.allow_migrate_model(connection.alias, model):
            return
        concurrently = " CONCURRENTLY" if connection.vendor == "postgresql" else ""
        column = model._meta.get_field(self.name).column
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
        for name, about in found.items():
            if about["index"] and not about["unique"] and about["columns"] == [column]:
                schema_editor.execute(f"DROP INDEX{concurrently} {schema_editor.quote_name(name)}")

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        field = model._meta.get_field(self.name)
        schema_editor.execute(schema_editor._create_index_sql(model, fields=[field]))
