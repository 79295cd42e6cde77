"""``/v1/embeddings`` and ``/v1/audio/…``, passed on to a provider."""
