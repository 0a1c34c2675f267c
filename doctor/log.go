package doctor

import (
	"cmp"
	"time"

	"github.com/skein-project/skein/eventlog/stamps"
)

func judgeForks(f Cluster) verdict {
	if len(f.Chains.Forks) == 0 {
		return good("no host signed two histories")
	}
	var list []verdict
	for _, fork := range f.Chains.Forks {
		list = append(list, warning("%s signed two histories of its chain %s, from event %d on: none of that counts", fork.Source.Node, fork.Source, fork.Seq).
			advise("was its disk restored from a backup, or copied? Then all is well again: it goes on with a new chain. "+
				"If it is not explained, its key is in other hands: `skein remove %s`", fork.Source.Node))
	}
	return worse(list, good("no host signed two histories"))
}

// judgeAhead names chains that were written with a clock that was ahead.
func judgeAhead(f Cluster) verdict {
	none := good("no chain runs ahead of the clocks")
	var list []verdict
	for _, c := range f.Chains.Ahead {
		left := (c.Ahead - stamps.Limit).Round(time.Second)
		if c.Own {
			list = append(list, failure("%s", c).
				advise("set the clock of this host: run chrony or systemd-timesyncd. Once it agrees with a majority this host takes back what it wrote "+
					"and goes on with a new chain; else it ends by itself in %s", left))
			continue
		}
		list = append(list, warning("%s", c).
			advise("`skein doctor` on %s says what is wrong with its clock. Once that agrees with a majority it takes back what it wrote "+
				"and goes on with a new chain; else it ends by itself in %s", c.Source.Node, left))
	}
	return worse(list, none)
}

// judgeLogCheck reports how the last check of the whole log went. Such a check runs
// once a day and on request.
func judgeLogCheck(f Cluster) verdict {
	const ask = "`skein log verify --all-hosts`"
	switch c := f.LogCheck; {
	case c == nil:
		return skipped("not checked since the start: it is once a day, or by %s", ask)
	case c.Error != "":
		return warning("the last check of the whole log broke off: %s", c.Error).advise("begin another one: %s", ask)
	case c.Bad() != "":
		hint := c.Result.Hint
		if hint == "" {
			hint = "restart the daemon, which folds its log again; keep a copy of the state directory for a report"
		}
		return failure("%s", c.Bad()).advise("%s", hint)
	default:
		return good("%d events are good, checked %s ago", c.Result.Events, f.Wall.Sub(*c.EndedAt).Round(time.Second))
	}
}

// judgeSnapshots judges whether snapshots are taken, and agree among hosts.
func judgeSnapshots(f Cluster) verdict {
	st, every := f.Snapshots, f.Snapshots.Every
	switch {
	case st.Mismatch != "":
		return failure("this host folds the log to another state than others: %s", st.Mismatch).
			advise("run `skein log verify --all-hosts`; do versions differ? A host that alone differs is to be set up anew")
	case st.RefusedEvents > 0 && len(st.Refused) > 0:
		last := st.Refused[len(st.Refused)-1]
		return failure("%d events have no effect since they would change what a snapshot holds, the last %s of %s, event %d: %s",
			st.RefusedEvents, cmp.Or(string(last.Kind), "a fork"), last.Source, last.Seq, last.Reason).
			advise("its host acted without the log of a majority: was it restored from a backup, or do two hosts share an identity?")
	case st.Trouble != "":
		return warning("the last snapshot failed: %s", st.Trouble).
			advise("are all voters up, and has each room on its disk? Until it works the log only grows")
	case every > 0 && st.Since > 3*uint64(every):
		return warning("%d events since the last snapshot, one is due after %d", st.Since, every).
			advise("`skein log snapshot` takes one, or says why not")
	case len(st.Kept) == 0:
		return good("none needed yet, %d events", st.Since)
	}
	last := st.Kept[len(st.Kept)-1]
	return good("%d events, signed by %d voters; %d since", last.Events, len(last.Signers), st.Since)
}
