"""What is unsafe or broken in this installation, in plain words, each with its fix."""
