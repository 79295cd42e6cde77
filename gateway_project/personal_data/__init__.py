"""All data of one person: exported, and forgotten (docs/personal-data.md)."""
