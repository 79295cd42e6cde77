"""The endpoints for clients of the Anthropic Messages API."""
