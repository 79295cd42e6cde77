"""Old rows are removed by the owner's rules; without a rule, event logs are folded only.

rule ─► selection (a queryset) ─► counted by a dry run, or removed in batches
"""
