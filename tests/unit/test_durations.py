from __future__ import annotations

from expunge._durations import format_duration


def test_durations_are_easy_to_read():
    assert [format_duration(s) for s in (0.04, 9.96, 119, 120, 7199, 7200, 2e5, 4.4e8)] == [
        "0.0 s",
        "10.0 s",
        "119 s",
        "2.0 min",
        "120 min",
        "2.0 h",
        "2.3 days",
        "14 years",
    ]


def test_an_unknown_duration_is_a_dash():
    assert format_duration(None) == "–"
