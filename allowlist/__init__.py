"""The allowlist: the rule, unknown requests, keys, the audit; pages of people, keys and the audit
in the admin (that of unknown requests is in `channels_app.admin`).
"""
