#!/usr/bin/env python
"""Django's command line for the gateway."""

import os
import sys

from gateway_project import home


def main() -> None:
    """Run one management command; the first makes the installation's folder and secrets."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    home.ensure()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
