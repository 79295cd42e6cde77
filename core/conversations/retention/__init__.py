"""What is old is removed by the owner's rules: history, event logs, files, deliveries.

rule ─► selection (a queryset) ─► counted by a dry run, or removed in batches
"""
