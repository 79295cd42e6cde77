"""Commands of the installation as a whole."""
