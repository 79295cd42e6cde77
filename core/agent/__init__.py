"""The loop between the model and the tools; approvals of calls; the prompt; the fallback for a
promised tool call.
"""
