#!/usr/bin/env python
"""Django's commands on kvdiag: `bin/kvdiag manage migrate`, `bin/kvdiag manage createsuperuser`, …"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")
    from kvdiag.environment import WrongSetting

    try:
        import kvdiag.settings  # noqa: F401 - every setting is read now, so that a wrong one is one sentence
    except WrongSetting as wrong:
        sys.exit(f"kvdiag: {wrong}")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
