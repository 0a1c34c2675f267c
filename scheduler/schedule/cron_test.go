package schedule

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/flow"
)

func spec(t testing.TB, line, zone string) Spec {
	t.Helper()
	s, err := Parse(line, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// times lists when s is due from one time to before another, as the clock on the wall
// has it.
func times(s Spec, from, to time.Time) string {
	var out []string
	for at := s.Next(from.Add(-time.Second)); !at.IsZero() && at.Before(to); at = s.Next(at) {
		out = append(out, at.In(s.zone).Format("02T15:04-07"))
	}
	return strings.Join(out, " ")
}

// TestClocksChange: on both days on which the clocks change a fixed hour is due once, and
// what has an hour of * or a step goes by elapsed time.
func TestClocksChange(t *testing.T) {
	for _, c := range []struct{ line, zone, from, to, want string }{
		// Berlin: from 2:00 to 3:00 on 29 March 2026, from 3:00 to 2:00 on 25 October.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28", "2026-03-31", "28T02:30+01 29T03:00+02 30T02:30+02"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24", "2026-10-27", "24T02:30+02 25T02:30+02 26T02:30+01"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", "29T03:00+02"},
		{"30 2,3 * * *", "Europe/Berlin", "2026-03-29", "2026-03-30", "29T03:00+02 29T03:30+02"},
		{"0 1-3 * * *", "Europe/Berlin", "2026-10-25", "2026-10-26", "25T01:00+02 25T02:00+02 25T03:00+01"},
		{"30 * 29 3 *", "Europe/Berlin", "2026-03-29", "2026-03-29T05:00:00+02:00", "29T00:30+01 29T01:30+01 29T03:30+02 29T04:30+02"},
		{"30 * 25 10 *", "Europe/Berlin", "2026-10-25", "2026-10-25T04:00:00+01:00", "25T00:30+02 25T01:30+02 25T02:30+02 25T02:30+01 25T03:30+01"},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-25", "2026-10-25T05:00:00+01:00", "25T00:00+02 25T02:00+02 25T02:00+01 25T04:00+01"},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-29T07:00:00+02:00", "29T00:00+01 29T04:00+02 29T06:00+02"},
		{"*/20 * * * *", "Europe/Berlin", "2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "29T01:40+01 29T03:00+02 29T03:20+02"},
		// Lord Howe puts its clocks by half an hour, Havana at midnight, Apia left out a day.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-05T00:00:00Z", "04T02:30+11 05T02:15+11"},
		{"0 0 * * *", "America/Havana", "2026-03-07T12:00:00-05:00", "2026-03-09T12:00:00-04:00", "08T01:00-04 09T00:00-04"},
		{"30 0 * * *", "America/Havana", "2026-10-31T12:00:00-04:00", "2026-11-02T12:00:00-05:00", "01T00:30-04 02T00:30-05"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00", "29T12:00-10 31T00:00+14 31T12:00+14"},
		// Days of the month and of the week, month's and century's ends.
		{"0 9 13 * 5", "", "2026-11-01", "2026-11-15", "06T09:00+00 13T09:00+00"},
		{"0 9 * * 1-5", "", "2026-11-06", "2026-11-10", "06T09:00+00 09T09:00+00"},
		{"0 0 29 2 *", "", "2096-03-01", "2104-03-01", "29T00:00+00"},
		{"@weekly", "UTC", "2026-11-01", "2026-11-09", "01T00:00+00 08T00:00+00"},
		{"@hourly", "Europe/Berlin", "2026-10-25T01:00:00+02:00", "2026-10-25T04:00:00+01:00", "25T01:00+02 25T02:00+02 25T02:00+01 25T03:00+01"},
	} {
		s := spec(t, c.line, c.zone)
		parse := func(text string) time.Time {
			if at, err := time.ParseInLocation(time.DateOnly, text, s.zone); err == nil {
				return at
			}
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		if got := times(s, parse(c.from), parse(c.to)); got != c.want {
			t.Errorf("%s in %s from %s:\ngot  %s\nwant %s", c.line, c.zone, c.from, got, c.want)
		}
	}
}

// TestAgainstEveryMinute holds the times against a twin that looks at each minute.
func TestAgainstEveryMinute(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "UTC"}
	lines := []string{"30 2 * * *", "0 0 * * *", "*/15 * * * *", "5 */3 * * *", "59 23 * * 0", "0,15 1,2,3 * 3,4,10,11 *", "10 2-3 1-7 * 0"}
	for range 40 {
		line, zone := lines[rng.IntN(len(lines))], zones[rng.IntN(len(zones))]
		s := spec(t, line, zone)
		from := time.Date(2026, time.Month(3+7*rng.IntN(2)), rng.IntN(31), rng.IntN(24), rng.IntN(60), 0, 0, time.UTC)
		want := ""
		// A clock on the wall that has reached a time for the first time: once for each time
		// of a fixed hour, whenever it reads so for the others.
		reached := s.wall(from.Add(-time.Minute))
		for at := from; at.Before(from.Add(4 * 24 * time.Hour)); at = at.Add(time.Minute) {
			wall, due := s.wall(at), false
			if s.elapsed {
				due = s.names(wall)
			} else {
				for w := reached.Add(time.Minute); !w.After(wall); w = w.Add(time.Minute) {
					due = due || s.names(w)
				}
			}
			if wall.After(reached) {
				reached = wall
			}
			if due {
				want += at.In(s.zone).Format("02T15:04-07 ")
			}
		}
		// One that begins within a time that comes twice cannot tell.
		if _, o := from.In(s.zone).Zone(); o != offsetAt(s, from.Add(-3*time.Hour)) {
			continue
		}
		if got := times(s, from, from.Add(4*24*time.Hour)); got != strings.TrimSpace(want) {
			t.Errorf("%s in %s from %s:\ngot  %s\nwant %s", line, zone, from, got, want)
		}
	}
}

func offsetAt(s Spec, t time.Time) int { _, o := t.In(s.zone).Zone(); return o }

func (s Spec) names(wall time.Time) bool {
	return s.onDay(wall) && s.bits.Hour>>wall.Hour()&1 != 0 && s.bits.Minute>>wall.Minute()&1 != 0
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ line, zone, want string }{
		{"0 0 30 2 *", "", "never due"},
		{",", "", "five fields|exactly 5"},
		{", * * * *", "", "never due"},
		{"* * * *", "", "exactly 5"},
		{"61 * * * *", "", "above maximum"},
		{"* * * * * *", "", "exactly 5"},
		{"@every 5m", "", "no time of the day"},
		{"@nix", "", "nix"},
		{"TZ=UTC", "", "time zone is not part"},
		{"TZ=UTC 1 2 * * *", "", "time zone is not part"},
		{"", "", "empty"},
		{strings.Repeat("1,", 200), "", "bytes"},
		{"1 2 * * *", "Mars/Olympus", "name of a time zone"},
		{"1 2 * * *", "../../etc/passwd", "name of a time zone"},
		{"1 2 * * *", "Local", "name of a time zone"},
	} {
		_, err := Parse(c.line, c.zone)
		ok := false
		for want := range strings.SplitSeq(c.want, "|") {
			ok = ok || err != nil && strings.Contains(err.Error(), want)
		}
		if !ok || !errors.Is(err, flow.ErrInvalid) {
			t.Errorf("%q in %q: %v, want %s", c.line, c.zone, err, c.want)
		}
	}
}

// TestDue: what is over gets a run, or counts as missed.
func TestDue(t *testing.T) {
	s := spec(t, "0 * * * *", "")
	at := func(h, m, sec int) time.Time { return time.Date(2026, 11, 24, h, m, sec, 0, time.UTC) }
	day := 24 * time.Hour
	for _, c := range []struct {
		why          string
		after, now   time.Time
		p            Policy
		runs, missed int
		last         time.Time
	}{
		{"nothing is over", at(1, 0, 0), at(1, 59, 59), Policy{flow.MissedAll, day}, 0, 0, time.Time{}},
		{"on time", at(1, 0, 0), at(2, 0, 0), Policy{flow.MissedSkip, day}, 1, 0, at(2, 0, 0)},
		{"not again", at(2, 0, 0), at(2, 0, 0), Policy{flow.MissedAll, day}, 0, 0, time.Time{}},
		{"a new holder took a while", at(1, 0, 0), at(2, 0, 55), Policy{flow.MissedSkip, day}, 1, 0, at(2, 0, 0)},
		{"skipped", at(1, 0, 0), at(4, 30, 0), Policy{flow.MissedSkip, day}, 0, 3, at(4, 0, 0)},
		{"skipped, but for the last", at(1, 0, 0), at(4, 0, 30), Policy{flow.MissedSkip, day}, 1, 2, at(4, 0, 0)},
		{"the last", at(1, 0, 0), at(4, 30, 0), Policy{flow.MissedLast, day}, 1, 2, at(4, 0, 0)},
		{"all", at(1, 0, 0), at(4, 30, 0), Policy{flow.MissedAll, day}, 3, 0, at(4, 0, 0)},
		{"longer ago than the window", at(1, 0, 0), at(4, 30, 0), Policy{flow.MissedAll, 100 * time.Minute}, 2, 0, at(4, 0, 0)},
		{"too many", at(1, 0, 0).Add(-6 * day), at(4, 30, 0), Policy{flow.MissedAll, 7 * day}, 1, 6*24 + 2, at(4, 0, 0)},
		{"the clock was put back", at(9, 0, 0), at(4, 30, 0), Policy{flow.MissedAll, day}, 0, 0, time.Time{}},
	} {
		got := s.Due(c.after, c.now, c.p)
		if len(got.At) != c.runs || got.Missed != c.missed || !got.Last.Equal(c.last) || c.runs > 0 && !got.At[c.runs-1].Equal(c.last) {
			t.Errorf("%s: %+v", c.why, got)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	s := spec(b, "30 2 * * *", "Europe/Berlin")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		at = s.Next(at)
	}
}
