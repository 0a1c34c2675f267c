package duty

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// play is elector, history and scheduler in one; it writes down what is
// asked of them and fails as told.
type play struct {
	mu    sync.Mutex
	lines []string
	fail  map[string]int // by line: how often it fails
	seq   uint64
}

func (p *play) do(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if p.fail[line] > 0 {
		p.fail[line]--
		return errors.New("told to fail")
	}
	p.lines = append(p.lines, line)
	return nil
}

func (p *play) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

func (p *play) View() *coord.View                  { return &coord.View{} }
func (p *play) TermReady(t cluster.Term, e uint64) { _ = p.do("ready %d/%d", t, e) }
func (p *play) Quiesced(t cluster.Term)            { _ = p.do("quiesced %d", t) }
func (p *play) SetVoters(cluster.VoterConfig)      {}
func (p *play) Cut() event.Cut                     { return nil }

func (p *play) CatchUp(_ context.Context, t cluster.Term, _ []cluster.NodeID, need int) error {
	return p.do("catch up %d need %d", t, need)
}

func (p *play) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	if err := p.do("append %s %d", drafts[0].Kind, drafts[0].Term); err != nil {
		return nil, err
	}
	p.seq++
	return []event.Event{{Seq: p.seq}}, nil
}

func (p *play) WaitStable(_ context.Context, seq uint64) (int, error) {
	return 2, p.do("stable %d", seq)
}

func (p *play) Run(ctx context.Context, t cluster.Term) error {
	if err := p.do("schedule %d", t); err != nil {
		return err
	}
	<-ctx.Done()
	_ = p.do("unschedule %d", t)
	return ctx.Err()
}

func (p *play) SetDuty(a lease.Duty) { _ = p.do("duty %t %d", a.Publishing, a.Term) }

func (p *play) note(kind event.Kind, body any) { _ = p.do("note %s %v", kind, body) }

func (p *play) Begin() { _ = p.do("members") }
func (p *play) End()   { _ = p.do("no members") }

func (p *play) Quiesce(context.Context) error { return p.do("quiesce") }

// perform feeds actions to a duty and returns what it did.
func perform(t *testing.T, fail map[string]int, ready bool, actions ...lease.Action) []string {
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		p := &play{fail: fail}
		open := make(chan struct{})
		if ready {
			close(open)
		}
		d := New(Options{
			Ready: open, Elector: p, History: p, Scheduler: p, Publisher: p, Members: p, Note: p.note, Logger: zerolog.Nop(),
		})
		ch := make(chan lease.Action)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = d.Run(ctx, ch) }()
		for _, a := range actions {
			ch <- a
			time.Sleep(10 * time.Second) // of the bubble: everything that can happen has
			synctest.Wait()
		}
		cancel()
		<-done
		lines = p.seen()
	})
	return lines
}

var won = lease.Acquired{
	Term: 3, Grants: []cluster.NodeID{"a", "b"},
	Config: cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeQuorum},
}

// leaving is a configuration on the way out of available mode.
var leaving = cluster.VoterConfig{
	Epoch: 3, Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeQuorum, Slots: []int{0, 1, 2},
}

func TestDuty(t *testing.T) {
	opened := []string{"catch up 3 need 2", "append term_start 3", "stable 1", "members", "ready 3/1", "schedule 3"}
	for name, c := range map[string]struct {
		fail    map[string]int
		waiting bool
		actions []lease.Action
		want    []string
	}{
		"opens the term, then schedules": {
			actions: []lease.Action{won},
			want:    append(slices.Clone(opened), "unschedule 3", "no members"),
		},
		"tries everything again while it holds": {
			fail:    map[string]int{"catch up 3 need 2": 3, "append term_start 3": 2, "stable 1": 2, "schedule 3": 4},
			actions: []lease.Action{won},
			want:    append(slices.Clone(opened), "unschedule 3", "no members"),
		},
		"writes nothing before the own chain is confirmed": {
			waiting: true,
			actions: []lease.Action{won, lease.ConfigStable{Term: 3, Config: won.Config}},
			want:    []string{"no members"},
		},
		"stops when the lease is lost": {
			actions: []lease.Action{won, lease.Lost{Term: 3, Reason: "expired"}},
			want:    append(slices.Clone(opened), "note lease_lost {3 expired}", "unschedule 3", "no members"),
		},
		"gives up a term that never opens": {
			fail:    map[string]int{"catch up 3 need 2": 1 << 30},
			actions: []lease.Action{won, lease.Lost{Term: 3, Reason: "expired"}},
			want:    []string{"note lease_lost {3 expired}", "no members"},
		},
		"flushes before a release": {
			actions: []lease.Action{won, lease.Quiesce{Term: 3, Successor: "b"}},
			want:    append(slices.Clone(opened), "quiesce", "unschedule 3", "no members", "append lease_released 0", "stable 1", "quiesced 3", "stable 2"),
		},
		"releases although the flush fails": {
			fail:    map[string]int{"quiesce": 1, "append lease_released 0": 1},
			actions: []lease.Action{won, lease.Quiesce{Term: 3, Successor: "b"}},
			want:    append(slices.Clone(opened), "unschedule 3", "no members", "quiesced 3"),
		},
		"says why a term was released, and that it is over only once": {
			actions: []lease.Action{won, lease.Quiesce{Term: 3, Reason: "draining"}, lease.Lost{Term: 3, Reason: "draining"}},
			want:    append(slices.Clone(opened), "quiesce", "unschedule 3", "no members", "append lease_released 0", "stable 1", "quiesced 3", "stable 2"),
		},
		"passes every change of the publishing duty on, and notes those of this host": {
			actions: []lease.Action{
				lease.Duty{Publisher: "b"},
				lease.Duty{Publisher: "a", Publishing: true},
				lease.Duty{Publisher: "a", Publishing: true, ByLease: true, Term: 3},
				lease.Duty{Publisher: "b", ByLease: true, Term: 4},
			},
			want: []string{
				"duty false 0", "duty true 0", "note publishing {true 0 a no lease visible}", "duty true 3",
				"duty false 4", "note publishing {false 4 b lease}",
			},
		},
		"asks all voters that are up before available mode ends, and again until they answer": {
			fail: map[string]int{"catch up 3 need 3": 2},
			actions: []lease.Action{
				lease.Acquired{Term: 3, Config: cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"a", "b"}, Mode: cluster.ModeAvailable}},
				lease.ConfigStable{Term: 3, Config: cluster.VoterConfig{Epoch: 2, Voters: []cluster.NodeID{"a", "b"}, Mode: cluster.ModeAvailable}},
				lease.ConfigStable{Term: 3, Config: leaving},
			},
			want: []string{
				"catch up 3 need 2", "append term_start 3", "stable 1", "members", "ready 3/1", "schedule 3",
				"append config_changed 3", "stable 2", "ready 3/2",
				"catch up 3 need 3", "append config_changed 3", "stable 3", "ready 3/3", "unschedule 3", "no members",
			},
		},
		"answers a release of a term that it does not serve": {
			actions: []lease.Action{lease.Quiesce{Term: 2}},
			want:    []string{"quiesced 2"},
		},
		"logs voters that became stable and confirms them": {
			actions: []lease.Action{won, lease.ConfigStable{Term: 3, Config: won.Config}},
			want:    append(slices.Clone(opened), "append config_changed 3", "stable 2", "ready 3/1", "unschedule 3", "no members"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := perform(t, c.fail, !c.waiting, c.actions...); !slices.Equal(got, c.want) {
				t.Errorf("did\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}
