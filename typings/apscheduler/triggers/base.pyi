"""What every trigger can do."""

from abc import ABCMeta
from datetime import datetime

class BaseTrigger(metaclass=ABCMeta):
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None: ...
