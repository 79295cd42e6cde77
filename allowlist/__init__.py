"""Who may speak: the rule, unknown requests, keys and the audit."""
