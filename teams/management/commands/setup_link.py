"""`setup_link`: print the path with which the first person makes an account, or nothing once somebody has one."""

from typing import Any

from django.core.management.base import BaseCommand

from teams.services import setup_link


class Command(BaseCommand):
    help = "Print the one-time path that makes the first account; nothing once anybody has an account."

    def handle(self, *args: Any, **options: Any) -> None:
        path = setup_link()
        if path:
            self.stdout.write(path)
