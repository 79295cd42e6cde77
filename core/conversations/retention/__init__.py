"""Old history, event logs, files and deliveries are removed by the owner's rules.

rule ─► selection (a queryset) ─► counted by a dry run, or removed in batches
"""
