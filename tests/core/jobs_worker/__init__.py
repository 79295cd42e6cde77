"""Long tasks: jobs, plugins, documents, files, the fallback."""
