package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Bounds of asking all hosts for a check of their logs.
const (
	verifyAllTime  = 30 * time.Minute
	verifyAtOnce   = 8
	verifyPause    = 200 * time.Millisecond
	verifyPauseMax = 2 * time.Second
)

// hostLog is what one host says of its log.
type hostLog struct {
	Node  cluster.NodeID `json:"node"`
	State string         `json:"state"` // ok, bad, differs, behind or unreached
	// Heads is a short digest of the ends of all chains: equal where hosts hold
	// the same events.
	Heads  string        `json:"heads,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Check  *api.LogCheck `json:"check"`
}

// What hostLog.State says.
const (
	logOK        = "ok"
	logBad       = "bad"
	logDiffers   = "differs"
	logBehind    = "behind" // for longer than replication takes
	logUnreached = "unreached"
)

// verifyAll lets every member check its log, and compares what they say. Hosts
// that lack what others hold get it within settle.
func verifyAll(a *cli.App, ctx context.Context, settle time.Duration) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	limit := verifyAllTime
	if a.TimeoutSet {
		limit = a.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := c.Members(ctx)
	if err != nil {
		return err
	}
	hosts := make([]hostLog, len(m.Members))
	slots := make(chan struct{}, verifyAtOnce)
	var asking sync.WaitGroup
	for i, x := range m.Members {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			hosts[i] = verifyOn(a, ctx, c, x)
		})
	}
	asking.Wait()
	awaitEqual(a, ctx, c, m.Members, hosts, settle)
	compareLogs(hosts)
	if err := a.Show(verifyAllView(hosts, a.Output == "table")); err != nil {
		return err
	}
	return judgeLogs(a, hosts)
}

// verifyOn starts a check on one host and waits for its end.
func verifyOn(a *cli.App, ctx context.Context, c *api.Client, m api.Member) hostLog {
	h := hostLog{Node: m.Node, State: logUnreached}
	if m.State == cluster.Dead && !m.Self {
		h.Reason = "it is dead"
		return h
	}
	var run uint64
	for pause := verifyPause; ; pause = min(2*pause, verifyPauseMax) {
		check, err := askCheck(a, ctx, c, m.Node, run)
		again := run > 0 && api.Temporary(err) || api.IsCode(err, api.CodeOverloaded)
		switch {
		case err == nil && !check.Running:
			return judged(h, check)
		case err == nil:
			run = check.Run
		case !again:
			h.Reason = err.Error()
			return h
		}
		select {
		case <-ctx.Done():
			h.Reason = "it did not come to an end in time"
			return h
		case <-time.After(pause):
		}
	}
}

// askCheck asks once, with the time of one request.
func askCheck(a *cli.App, ctx context.Context, c *api.Client, node cluster.NodeID, run uint64) (api.LogCheck, error) {
	ctx, cancel := context.WithTimeout(ctx, max(a.Timeout, cli.DefaultTimeout))
	defer cancel()
	return c.CheckLog(ctx, node, run)
}

func judged(h hostLog, check api.LogCheck) hostLog {
	h.Check, h.State = &check, logOK
	if h.Reason = check.Bad(); h.Reason != "" {
		h.State = logBad
	}
	if check.Result != nil && check.Result.OK {
		h.Heads = headsDigest(check.Result.Sources)
	}
	return h
}

// headsDigest is equal for equal chains.
func headsDigest(list []api.LogSource) string {
	b, err := json.Marshal(list)
	if err != nil {
		panic("skein: heads cannot be encoded: " + err.Error())
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))[:12]
}

// compareLogs finds hosts that hold the same events and have another state:
// the few among many are the ones that differ.
func compareLogs(hosts []hostLog) {
	votes := map[string]map[cluster.Hash]int{}
	for _, h := range hosts {
		if h.State == logOK {
			if votes[h.Heads] == nil {
				votes[h.Heads] = map[cluster.Hash]int{}
			}
			votes[h.Heads][h.Check.Result.StateHash]++
		}
	}
	for i, h := range hosts {
		if h.State != logOK {
			continue
		}
		of := votes[h.Heads]
		if len(of) == 1 {
			continue
		}
		mine, total := of[h.Check.Result.StateHash], 0
		for _, n := range of {
			total += n
		}
		if 2*mine <= total {
			hosts[i].State = logDiffers
			hosts[i].Reason = fmt.Sprintf("same events, another state than %s", present.Plural(total-mine, "other host"))
		}
	}
}

// verifyAllView shows the logs; short: only the beginning of the hashes.
func verifyAllView(hosts []hostLog, short bool) cli.View {
	return cli.View{
		Body: struct {
			Hosts []hostLog `json:"hosts"`
		}{hosts}, Items: cli.Items(hosts),
		Table: func() present.Table {
			t := present.NewTable("HOST", "LOG", "EVENTS", "HEADS", "STATE", "FIRST_BAD", "REASON").Leaving("STATE", "HEADS", "EVENTS")
			for _, h := range hosts {
				events, state, bad := present.Unknown, present.Unknown, present.Unknown
				if h.Check != nil && h.Check.Result != nil {
					r := h.Check.Result
					events = fmt.Sprint(r.Events)
					if r.OK {
						state = r.StateHash.String()
						if short {
							state = state[:12]
						}
					}
					if r.BadSource != nil {
						bad = fmt.Sprintf("%s:%d", r.BadSource, r.BadSeq)
					}
				}
				t.Add(string(h.Node), h.State, events, present.OrDash(h.Heads), state, bad, present.OrDash(h.Reason))
			}
			return t
		},
	}
}

// judgeLogs is the exit code, with words.
func judgeLogs(a *cli.App, hosts []hostLog) error {
	in := func(states ...string) (list []string) {
		for _, h := range hosts {
			if slices.Contains(states, h.State) {
				list = append(list, string(h.Node))
			}
		}
		return list
	}
	if missing := in(logUnreached); len(missing) > 0 {
		a.Note("not checked: %s", strings.Join(missing, ", "))
		a.Code = cli.ExitDegraded
	}
	groups := map[string]bool{}
	for _, h := range hosts {
		if h.Heads != "" {
			groups[h.Heads] = true
		}
	}
	if len(groups) > 1 {
		a.Note("not all hosts hold the same events yet: states are compared where they do")
	}
	behind := in(logBehind)
	if bad := in(logBad, logDiffers); len(bad) > 0 {
		return cli.Failf(cli.ExitFailed, "the event log is not sound on %s", strings.Join(bad, ", ")).
			WithHint("see REASON, and `skein log verify` on that host")
	}
	if len(behind) > 0 {
		return cli.Failf(cli.ExitFailed, "the event log on %s lacks what other hosts hold, for longer than replication takes", strings.Join(behind, ", ")).
			WithHint("see REASON, and `skein status` on the hosts that it names")
	}
	return nil
}
