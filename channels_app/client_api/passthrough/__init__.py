"""Embeddings, transcription and speech: requests that a provider of models answers itself."""
