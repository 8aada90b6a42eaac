"""Redis' wall clock steps and drifts: slots in hand are not moved by it, and what follows waits until nothing can overlap."""
import pytest

from fleet import HORIZON, S, Fleet, at_least, eventually, now, sleep_until, stretch, when


def stepped(rig, figures, microseconds):
    fleet = Fleet(rig, "20/s", shifted=True)
    fleet.load()
    fleet.flowing()
    epoch = fleet.redis.epoch()
    fleet.clock.step(microseconds)
    step = now()
    for sluice in fleet.replicas:
        sluice.wait_event("redis_clock_step")
    found = max(when(event) for sluice in fleet.replicas for event in sluice.events("redis_clock_step"))
    quiet = found + int(4 * fleet.interval)
    first = fleet.wait_arrivals(3, since=quiet)[0]
    sleep_until(now() + 2 * S)
    epochs = fleet.redis.epoch() - epoch
    figures(most=fleet.strict(), of=20, new_epochs=epochs, found_by_all_after_ms=found - step, resumed_after_ms=first - found)
    assert epochs == 1
    assert first - found <= HORIZON + fleet.interval + S // 2


@pytest.mark.quick
def test_five_seconds_forward_make_one_epoch_however_many_notice(rig, figures):
    stepped(rig, figures, 5_000_000)


@pytest.mark.quick
def test_five_seconds_back_do_not_take_five_seconds(rig, figures):
    stepped(rig, figures, -5_000_000)


@pytest.mark.parametrize("steps", [(20_000,), (-20_000,), (2_000,), (2_000, 2_000, -2_000, 20_000, -20_000)])
def test_small_steps(rig, figures, steps):
    fleet = Fleet(rig, "20/s", shifted=True)
    fleet.load()
    fleet.flowing()
    for microseconds in steps:
        fleet.clock.step(microseconds)
        sleep_until(now() + 3 * S)
    figures(most=fleet.strict(), of=20, epochs=fleet.redis.epoch())


def test_small_steps_after_a_quiet_second(rig, figures):
    """What nobody asks about nobody sees: the next slots must not trust the old bounds."""
    fleet = Fleet(rig, "20/500ms", shifted=True)
    for microseconds in (2_500, 2_500, 2_500, -2_500, 2_500):
        fleet.load(20, 20)
        for load in fleet.loads:
            load.exit_code(30)
        fleet.loads.clear()
        fleet.clock.step(microseconds)
    fleet.load(20, 20)
    for load in fleet.loads:
        load.exit_code(30)
    figures(most=fleet.strict(), of=20, arrivals=len(fleet.stamps()))


def test_a_clock_that_runs_fast_by_500_ppm_is_no_step(rig, figures):
    fleet = Fleet(rig, "20/s", shifted=True)
    fleet.load()
    fleet.flowing()
    epoch = fleet.redis.epoch()
    fleet.clock.run_fast(500)
    used = at_least(0.975, fleet, stretch(fleet, 45))
    figures(most=fleet.strict(), of=20, used=used, new_epochs=fleet.redis.epoch() - epoch)
    assert fleet.redis.epoch() == epoch
