//! Tests of the cooldown on its own.

use super::*;
use CooldownState::{Closed, Open, Reopening};

const fn at(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn cooldown() -> Cooldown {
    Cooldown::new(CooldownSettings { max: secs(20), lease: secs(5), ..CooldownSettings::default() })
}

#[test]
fn a_throttle_closes_until_its_time_and_at_most_max() {
    // Specification 16.2.1, 16.2.3.
    let mut it = cooldown();
    assert!(it.on_throttled(at(0), Some(secs(10)), 3, 0, at(1)));
    assert_eq!((it.state(at(2)), it.closed_for(at(2))), (Closed, Some(secs(9))));
    assert_eq!(it.admit(at(2)), Err(secs(9)));
    assert_eq!(it.state(at(11)), Reopening);
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(100)), 3, 0, at(0));
    assert_eq!(it.closed_for(at(0)), Some(secs(20)));
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(10)), 3, u64::MAX, at(0));
    assert_eq!(it.closed_for(at(0)), Some(secs(11)), "a tenth more at most");
}

#[test]
fn closings_in_a_row_double_without_a_time_and_a_good_answer_ends_the_row() {
    // Specification 16.2.2.
    let mut it = cooldown();
    let mut now = at(0);
    for span in [1, 2, 4, 8, 16, 20, 20] {
        assert!(it.on_throttled(now, None, 1, 0, now));
        assert_eq!(it.closed_for(now), Some(secs(span)));
        now = now.after(secs(span)).after(secs(1));
    }
    let place = it.admit(now).unwrap();
    assert!(it.on_good(now, place, 1, now));
    assert_eq!(it.state(now), Open);
    now = now.after(secs(1));
    it.on_throttled(now, None, 1, 0, now);
    assert_eq!(it.closed_for(now), Some(secs(1)));
}

#[test]
fn attempts_from_before_a_closing_may_put_its_end_off_but_never_double_it() {
    // Specification 16.2.4, 16.5.3.
    let mut it = cooldown();
    it.on_throttled(at(0), None, 3, 0, at(5));
    assert!(!it.on_throttled(at(5), None, 3, 0, at(5)), "its closing was the answer to this one too");
    assert!(!it.on_throttled(at(1), Some(Duration::from_millis(500)), 3, 0, at(5)));
    assert_eq!(it.closed_for(at(5)), Some(secs(1)));
    assert!(it.on_throttled(at(1), Some(secs(4)), 3, 0, at(5)));
    assert_eq!(it.closed_for(at(5)), Some(secs(4)));
    let place = it.admit(at(9)).unwrap();
    assert!(it.on_throttled(at(1), Some(secs(4)), 3, 0, at(10)), "also during slow start");
    assert!(!it.has(place, at(10)), "the places of the slow start before are gone");
    it.on_throttled(at(14), None, 3, 0, at(15));
    assert_eq!(it.closed_for(at(15)), Some(secs(2)), "the second in a row");
}

#[test]
fn places_double_per_round_trip_up_to_the_limit() {
    // Specification 16.5.2, 16.5.4.
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(1)), 10, 0, at(0));
    let mut now = at(1);
    for places in [1, 2, 4] {
        let taken: Vec<_> = (0..places).map(|_| it.admit(now).unwrap()).collect();
        assert!(it.admit(now).is_err(), "no more than {places}");
        let started = now;
        now = now.after(secs(1));
        for place in taken {
            assert!(!it.on_good(started, place, 10, now));
        }
    }
    let two = [it.admit(now).unwrap(), it.admit(now).unwrap()];
    assert!(!it.on_good(now, two[0], 10, now));
    assert!(it.on_good(now, two[1], 10, now), "ten places: open");
    assert_eq!(it.admit(now), Ok(Place::NONE));
    assert!(!it.on_good(now, two[1], 10, now));
}

#[test]
fn any_other_end_frees_the_place_and_adds_none() {
    // Specification 16.5.2, 16.5.4.
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(1)), 10, 0, at(0));
    for _ in 0..3 {
        let place = it.admit(at(1)).unwrap();
        assert_eq!(it.admit(at(1)), Err(secs(5)));
        it.free(place);
        it.free(place);
        assert_eq!(it.places(), (1, 0));
    }
}

#[test]
fn a_place_is_a_lease() {
    // Specification 16.5.5.
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(1)), 10, 0, at(0));
    let lost = it.admit(at(1)).unwrap();
    assert_eq!(it.admit(at(5)), Err(secs(1)));
    let next = it.admit(at(6)).unwrap();
    assert!(!it.has(lost, at(6)) && it.has(next, at(6)));
    assert!(!it.on_good(at(1), lost, 2, at(7)), "it adds no place");
    assert_eq!(it.places(), (1, 1));
    assert!(it.on_good(at(6), next, 2, at(7)));
}

#[test]
fn a_lenient_one_closes_at_the_second_throttle_without_a_time() {
    // Specification 4.2.
    let lenient = CooldownSettings { lenient: true, ..CooldownSettings::default() };
    let mut it = Cooldown::new(lenient);
    assert!(!it.on_throttled(at(0), None, 1, 0, at(0)));
    it.on_good(at(0), Place::NONE, 1, at(1));
    assert!(!it.on_throttled(at(1), None, 1, 0, at(1)), "a good answer came between");
    assert!(it.on_throttled(at(2), None, 1, 0, at(2)));
    let mut it = Cooldown::new(lenient);
    assert!(it.on_throttled(at(0), Some(secs(1)), 1, 0, at(0)), "the server has named a time");
}

#[test]
fn numbers_of_places_begin_again_and_memory_is_bounded() {
    let mut it = Cooldown::new(CooldownSettings { lease: secs(100_000), ..CooldownSettings::default() });
    it.on_throttled(at(0), Some(secs(1)), 10, 0, at(0));
    let mut now = at(1);
    for n in 0..140_000 {
        let place = it.admit(now).unwrap();
        assert!(place != Place::NONE && it.has(place, now), "{n}");
        it.free(place);
        now = now.after(Duration::from_micros(1));
    }
    it.limit = u32::MAX;
    let held = it.admit(now).unwrap();
    for _ in 1..MOST_PLACES {
        let place = it.admit(now).unwrap();
        it.free(place);
    }
    assert!(it.admit(now).is_err() && it.leases.len() == MOST_PLACES);
    it.free(held);
    assert!(it.admit(now).is_ok() && it.leases.len() == 1);
}

#[test]
fn new_settings_cut_a_closing_and_a_clock_set_back_prolongs_none() {
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(20)), 1, u64::MAX, at(0));
    it.retune(CooldownSettings { max: secs(2), ..it.settings() }, at(1));
    assert_eq!(it.closed_for(at(1)), Some(Duration::from_micros(2_200_000)));
    let mut it = cooldown();
    it.on_throttled(at(1_000), Some(secs(10)), 1, 0, at(1_000));
    assert_eq!(it.admit(at(1)), Err(secs(10)), "the clock was set back by more than it may swing");
    assert!(it.admit(at(11)).is_ok());
}

#[test]
fn closings_and_the_time_closed_are_counted() {
    // Specification 16.6.4.
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(10)), 3, 0, at(1));
    assert_eq!((it.closings(), it.closed_time(at(1))), (1, secs(0)));
    assert_eq!(it.closed_time(at(5)), secs(4));
    it.on_throttled(at(0), Some(secs(10)), 3, 0, at(6));
    assert_eq!((it.closings(), it.closed_time(at(6))), (1, secs(5)), "its end is put off");
    assert_eq!((it.closed_time(at(16)), it.closed_time(at(90))), (secs(15), secs(15)));
    let place = it.admit(at(20)).unwrap();
    it.on_good(at(20), place, 1, at(21));
    it.on_throttled(at(22), Some(secs(10)), 3, 0, at(23));
    assert_eq!((it.closings(), it.closed_time(at(25))), (2, secs(17)));
    it.retune(CooldownSettings { max: secs(0), ..it.settings() }, at(26));
    assert_eq!((it.closed_time(at(26)), it.closed_time(at(90))), (secs(18), secs(18)), "it is cut");
    let mut it = cooldown();
    assert!(it.on_shared_closing(secs(4), 1, 3, at(0)), "another process of the fleet has closed it");
    assert_eq!((it.closings(), it.closed_time(at(2)), it.closed_time(at(9))), (1, secs(2), secs(4)));
    let mut it = cooldown();
    it.on_throttled(at(0), Some(secs(10)), 3, 0, at(0));
    it.reset(at(3));
    assert_eq!((it.closed_time(at(3)), it.closed_time(at(9))), (secs(3), secs(3)));
}
