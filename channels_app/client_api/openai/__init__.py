"""The endpoints for clients of the OpenAI chat completions API (contract D5)."""
