"""Backups of an installation while it runs, their verification, and their restore (decision 207).

GATEWAY_HOME/backups/
    2026-11-25T22-10-00Z/  manifest.json, database, secrets.sealed
    files/<aa>/<sha256>    the contents of stored files, each once over all backups
"""
