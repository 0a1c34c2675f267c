package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the zones of every machine, also of one that has none

	"github.com/robfig/cron/v3"

	"github.com/skein-project/skein/cluster/flow"
)

// horizon is how far ahead a time is looked for: a 29 February that is a century's end
// may be eight years away.
const horizon = 9 * 366

// star marks a field of a line that is *.
const star = 1 << 63

// Spec is a crontab line in a time zone.
type Spec struct {
	bits *cron.SpecSchedule
	zone *time.Location
	// elapsed: each time at which the clock on the wall reads so counts, not one a day.
	elapsed bool
}

// Parse reads a crontab line, as "30 2 * * *" or "@daily", and the name of a time zone,
// as Europe/Berlin; none is UTC. It refuses lines that are never due.
func Parse(line, zone string) (Spec, error) {
	line = strings.TrimSpace(line)
	switch {
	case len(line) > flow.MaxCron:
		return Spec{}, flow.Invalidf("cron: line of %d bytes, at most %d are allowed", len(line), flow.MaxCron)
	case strings.Contains(line, "="):
		return Spec{}, flow.Invalidf("cron %q: the time zone is not part of the line", line)
	case strings.HasPrefix(line, "@every"):
		return Spec{}, flow.Invalidf("cron %q: no time of the day; want five fields, as */10 * * * *", line)
	case len(zone) > flow.MaxZone, zone == "Local":
		return Spec{}, flow.Invalidf("zone %.64q: want the name of a time zone, as Europe/Berlin or UTC", zone)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return Spec{}, flow.Invalidf("zone %q: want the name of a time zone, as Europe/Berlin or UTC", zone)
	}
	read, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(line)
	if err != nil {
		return Spec{}, flow.Invalidf("cron %q: %s; want minute, hour, day of the month, month and day of the week", line, err)
	}
	bits, ok := read.(*cron.SpecSchedule)
	if !ok {
		return Spec{}, flow.Invalidf("cron %q: no time of the day", line)
	}
	s := Spec{bits: bits, zone: loc, elapsed: bits.Hour&star != 0}
	if f := strings.Fields(line); len(f) == 5 {
		s.elapsed = strings.ContainsAny(f[1], "*?/")
	}
	if bits.Minute == 0 || bits.Hour == 0 || s.Next(time.Unix(0, 0)).IsZero() {
		return Spec{}, flow.Invalidf("cron %q is never due", line)
	}
	return s, nil
}

// String names the zone.
func (s Spec) String() string { return fmt.Sprintf("in %s", s.zone) }

// Next is the first time after t at which s is due; zero: there is none.
func (s Spec) Next(t time.Time) time.Time {
	// The day before has times that a gap moves into this one.
	y, m, d := t.In(s.zone).AddDate(0, 0, -1).Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // days and times on the wall stand as those of UTC
	for range horizon {
		if s.onDay(day) {
			if at := s.within(day, t); !at.IsZero() {
				return at
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// within is the first time after t that s names on a day.
func (s Spec) within(day, t time.Time) time.Time {
	if s.elapsed {
		return s.read(day, t)
	}
	for hour := range 24 {
		for minute := range 60 {
			if s.bits.Hour>>hour&1 == 0 || s.bits.Minute>>minute&1 == 0 {
				continue
			}
			wall := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			if at := s.first(wall); at.After(t) {
				return at
			}
		}
	}
	return time.Time{}
}

// read is the first time after t on a day at which the clock on the wall reads as s has
// it.
func (s Spec) read(day, t time.Time) time.Time {
	at, end := s.first(day), s.first(day.AddDate(0, 0, 1))
	if skip := t.Sub(at); skip > 0 {
		at = at.Add(skip.Truncate(time.Minute))
	}
	for ; at.Before(end); at = at.Add(time.Minute) {
		wall := s.wall(at)
		if at.After(t) && s.bits.Hour>>wall.Hour()&1 != 0 && s.bits.Minute>>wall.Minute()&1 != 0 && wall.YearDay() == day.YearDay() {
			return at
		}
	}
	return time.Time{}
}

// onDay reports whether s names a day. If both the day of the month and that of the week
// are said, one of them is enough.
func (s Spec) onDay(day time.Time) bool {
	if s.bits.Month>>day.Month()&1 == 0 {
		return false
	}
	dom, dow := s.bits.Dom>>day.Day()&1 != 0, s.bits.Dow>>day.Weekday()&1 != 0
	if s.bits.Dom&star != 0 || s.bits.Dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}

// wall is what the clock on the wall reads at t, as a time of UTC.
func (s Spec) wall(t time.Time) time.Time {
	_, offset := t.In(s.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// first is when the clock on the wall first reads wall, or later if it never does: it is
// put forward over it.
func (s Spec) first(wall time.Time) time.Time {
	y, m, d := wall.Date()
	at := time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, s.zone)
	begin, end := at.ZoneBounds()
	switch reads := s.wall(at); {
	case reads.After(wall):
		return begin.UTC() // of the time behind the gap
	case reads.Before(wall):
		return end.UTC()
	}
	if begin.IsZero() {
		return at.UTC()
	}
	// The clock may have read so before it was put back.
	_, offset := begin.Add(-time.Second).Zone()
	if before := wall.Add(-time.Duration(offset) * time.Second); before.Before(begin) {
		return before
	}
	return at.UTC()
}
