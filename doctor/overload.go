package doctor

import (
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// high reports that a level is one at which a host does less.
func high(level string) bool {
	for l := overload.High; l <= overload.MaxLevel; l++ {
		if l.String() == level {
			return true
		}
	}
	return false
}

// judgeOverload judges whether hosts are so loaded that they do less, and whether some are
// left alone that live and do not answer.
func judgeOverload(f Cluster) verdict {
	var list []verdict
	if high(f.Overload.Level) {
		var refused []string
		for _, l := range f.Overload.Lanes {
			if l.Refuses {
				refused = append(refused, l.Lane)
			}
		}
		list = append(list, warning("this host is %s by %s and refuses %s", f.Overload.Level, f.Overload.Signal, strings.Join(refused, ", ")).
			advise("`skein overload` shows by how much; what else runs on it? (docs/overload.md)"))
	}
	var others []string
	for _, h := range f.Overload.Hosts {
		if h.Node != f.View.Self && high(h.Level) {
			others = append(others, string(h.Node)+" "+h.Level)
		}
	}
	if len(others) > 0 {
		list = append(list, warning("overloaded: %s", strings.Join(others[:min(len(others), 8)], ", ")).advise("`skein overload` on each says by what"))
	}
	var silent []string
	for _, s := range f.Overload.Silent {
		if m, ok := f.View.Member(s.Node); ok && m.Health == cluster.Alive && !slices.Contains(silent, string(s.Node)) {
			silent = append(silent, string(s.Node))
		}
	}
	if len(silent) > 0 {
		list = append(list, warning("alive, and does not answer: %s", strings.Join(silent[:min(len(silent), 8)], ", ")).
			advise("`skein overload` says for what they are left alone, their log why"))
	}
	level := f.Overload.Level
	if level == "" {
		level = overload.Normal.String()
	}
	return worse(list, good("%s", level))
}
