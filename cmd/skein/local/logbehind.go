package local

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

const (
	// settleTime is how long hosts may take by default until each holds what the
	// others held at first, settlePause lies between two looks.
	settleTime  = 20 * time.Second
	settlePause = 2 * time.Second
)

// chainEnd is the furthest end of a chain, and a host that has it.
type chainEnd struct {
	api.LogSource
	on cluster.NodeID
}

// chainEnds are the furthest ends of the members' chains on the hosts whose logs
// are good. Chains of hosts that are gone, and forked ones, need not be equal.
func chainEnds(hosts []hostLog) map[event.SourceID]chainEnd {
	out := map[event.SourceID]chainEnd{}
	forked := map[event.SourceID]bool{}
	for _, h := range hosts {
		if h.State != logOK {
			continue
		}
		for _, src := range h.Check.Result.Forked {
			forked[src] = true
		}
		for _, s := range h.Check.Result.Sources {
			member := slices.ContainsFunc(hosts, func(o hostLog) bool { return o.Node == s.Source.Node })
			if old, ok := out[s.Source]; member && (!ok || s.Seq > old.Seq) {
				out[s.Source] = chainEnd{s, h.Node}
			}
		}
	}
	for src := range forked {
		delete(out, src)
	}
	return out
}

// lacking says what a host does not have of ends, empty if it has all.
func lacking(h hostLog, ends map[event.SourceID]chainEnd) string {
	have := map[event.SourceID]api.LogSource{}
	for _, s := range h.Check.Result.Sources {
		have[s.Source] = s
	}
	var out []string
	for src, end := range ends {
		switch s := have[src]; {
		case s.Seq < end.Seq:
			out = append(out, fmt.Sprintf("lacks %s of %s that %s has", present.Plural(int(end.Seq-s.Seq), "event"), src, end.on))
		case s.Seq == end.Seq && s.Hash != end.Hash:
			out = append(out, fmt.Sprintf("event %d of %s is another one than on %s", s.Seq, src, end.on))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// awaitEqual gives the hosts time to hold what the others held at first, and
// marks those that still do not.
func awaitEqual(a *cli.App, ctx context.Context, c *api.Client, members []api.Member, hosts []hostLog, within time.Duration) {
	ends := chainEnds(hosts)
	deadline := time.Now().Add(within)
	for {
		var behind []int
		for i, h := range hosts {
			if h.State == logOK && lacking(h, ends) != "" {
				behind = append(behind, i)
			}
		}
		left := time.Until(deadline)
		if len(behind) == 0 {
			return
		}
		if left <= 0 || ctx.Err() != nil {
			for _, i := range behind {
				hosts[i].State, hosts[i].Reason = logBehind, lacking(hosts[i], ends)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(settlePause, left)):
		}
		var asking sync.WaitGroup
		slots := make(chan struct{}, verifyAtOnce)
		for _, i := range behind {
			asking.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				hosts[i] = verifyOn(a, ctx, c, members[i])
			})
		}
		asking.Wait()
	}
}
