"""The allowlist: the rule, unknown requests, keys, the audit, and their pages in the admin."""
