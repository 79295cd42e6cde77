"""Tools that search the web and read its pages."""
