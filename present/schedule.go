package present

import "github.com/skein-project/skein/api"

// Schedules shows when workflows run by themselves.
func Schedules(list api.Schedules) Table {
	type S = api.Schedule
	observed := list.ObservedAt
	return tableOf(list.Schedules,
		col("NAME", Text, 0, func(s S) Cell { return word(s.Name) }),
		col("CRON", Text, 0, func(s S) Cell { return word(s.Cron) }),
		col("ZONE", Text, 2, func(s S) Cell { return word(s.Zone) }),
		col("NEXT", Time, 0, func(s S) Cell {
			switch {
			case s.Paused:
				return word("paused")
			case len(s.Next) == 0:
				return word("")
			}
			return at(s.Next[0], observed)
		}),
		col("LAST", Text, 1, func(s S) Cell {
			if len(s.Last) == 0 {
				return word("")
			}
			return word(cameOf(s.Last[0]))
		}),
		col("OPEN", Number, 3, func(s S) Cell { return whole(s.OpenRuns) }),
		col("OVERLAP", Text, 4, func(s S) Cell { return word(s.Overlap) }),
		col("MISSED", Text, 5, func(s S) Cell { return word(s.Missed) }),
		col("OWNER", Text, 2, func(s S) Cell { return word(s.Owner) }),
		col("ID", Text, 6, func(s S) Cell { return Cell{Text: string(s.ID)[:min(len(s.ID), 9)], Exact: string(s.ID)} }),
	)
}

// cameOf says what came of a time of a schedule.
func cameOf(t api.ScheduleTime) string {
	if t.Run != "" {
		return "run " + ShortRun(t.Run)
	}
	return "no run: " + t.Skipped
}

// ScheduleTimes shows what came of the latest times of a schedule.
func ScheduleTimes(s api.Schedule) Table {
	type T = api.ScheduleTime
	return tableOf(s.Last,
		col("AT", Time, 0, func(t T) Cell { return at(t.At, s.ObservedAt) }),
		col("RUN", Text, 0, func(t T) Cell { return Cell{Text: ShortRun(t.Run), Exact: string(t.Run)} }),
		col("LATE", Time, 1, func(t T) Cell { late := t.LoggedAt.Sub(t.At).Seconds(); return span(&late) }),
		col("MISSED", Number, 2, func(t T) Cell { return whole(t.Missed) }),
		col("SKIPPED", Text, 0, func(t T) Cell { return word(t.Skipped) }),
	)
}
