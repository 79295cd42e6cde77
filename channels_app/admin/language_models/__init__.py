"""Pages of the admin for providers, models, assistants, budgets and usage."""

from channels_app.admin.language_models import assistants, budgets, models, providers, usage_pages

__all__ = ["assistants", "budgets", "models", "providers", "usage_pages"]
