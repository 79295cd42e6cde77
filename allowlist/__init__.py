"""The allowlist: the rule, unknown requests, keys and the audit."""
