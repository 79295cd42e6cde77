"""Shared by HTTP endpoints: the base consumer, the frame of a view, authentication, throttling,
strict JSON, quota.
"""
