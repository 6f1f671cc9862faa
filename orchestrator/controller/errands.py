"""What the leader does for the tenants, beside keeping their runs going: their schedules, and their webhooks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from orchestrator.controller.deliver import DELIVER_EVERY, DELIVER_SLOWEST, FORGET_DELAY, FORGET_EVERY, Deliver
from orchestrator.controller.lead import Leadership
from orchestrator.controller.loop import Loop
from orchestrator.controller.posting import Poster
from orchestrator.controller.schedule import SCHEDULE_EVERY, SCHEDULE_SLOWEST, FireSchedules, Submit
from orchestrator.runs.delivering import Deliveries
from orchestrator.runs.schedules import Schedules
from orchestrator.settings import Settings
from orchestrator.vault import Vault


@dataclass(frozen=True)
class Errands:
    """What they need of who makes the controller, which neither submits runs nor knows the settings."""

    settings: Settings
    submit: Submit

    def loops(self, engine: Engine, leadership: Leadership) -> list[Loop]:
        """The loops of these errands, which do nothing while another controller leads."""
        deliveries = Deliveries(engine)
        poster = Poster(allow_private=self.settings.webhook_allow_private)
        deliver = Deliver(deliveries, poster.post, Vault(self.settings).open)
        fire = FireSchedules(Schedules(engine), self.submit)

        def forget() -> None:
            deliveries.forget_old()

        return [
            Loop("schedules", leadership.led(fire.look), seconds=SCHEDULE_EVERY, slowest=SCHEDULE_SLOWEST),
            Loop("webhooks", leadership.led(deliver.look), seconds=DELIVER_EVERY, slowest=DELIVER_SLOWEST),
            Loop("old deliveries", leadership.led(forget), seconds=FORGET_EVERY, slowest=FORGET_EVERY, delay=FORGET_DELAY),
        ]
