package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// fake is a Monitor's surroundings.
type fake struct {
	now    time.Duration
	others []cluster.NodeID
	lease  lease.Status
	probed map[cluster.NodeID]bool
	news   []member.Transition
}

func (f *fake) monitor(t *testing.T, others int) *Monitor {
	t.Helper()
	f.now, f.probed = time.Hour, make(map[cluster.NodeID]bool)
	timing, err := lease.TimingFor(cluster.ProfileLAN)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{
		Self: "self", Boot: 1, Timing: timing, Now: func() time.Duration { return f.now },
		Others: func(yield func(cluster.NodeID, bool) bool) {
			for _, n := range f.others {
				if !yield(n, true) {
					return
				}
			}
		},
		Lease: func() lease.Status { return f.lease }, Send: func(a swim.Send) { f.probed[a.To] = true },
		Changed:  func(t member.Transition) { f.news = append(f.news, t) },
		Informed: func(cluster.NodeID, bool) {}, Answered: func(cluster.NodeID, time.Duration, time.Duration) {},
		Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range others {
		n := cluster.NodeID(fmt.Sprintf("host-%03d", i))
		f.others = append(f.others, n)
		m.Add(n, f.now)
	}
	return m
}

// hear has all others send a heartbeat.
func (f *fake) hear(m *Monitor) {
	inc := uint64(1)
	for _, n := range f.others {
		m.Heartbeat(n, 1, &wire.Heartbeat{Inc: &inc, Eligible: true}, true)
		m.Heard(n, f.now)
	}
}

// TestSilence: in a small cluster silence makes a host suspect and then dead, and
// a sign of life of a dead one is told from others.
func TestSilence(t *testing.T) {
	f := &fake{}
	m := f.monitor(t, 1)
	f.hear(m)
	for _, want := range []cluster.Health{cluster.Alive, cluster.Suspect, cluster.Dead} {
		if got := m.Of("host-000"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if want != cluster.Dead {
			f.now = m.Deadline(f.now)
			for m.Silence(f.now); m.Of("host-000") == want; m.Silence(f.now) {
				f.now = m.Deadline(f.now)
			}
		}
	}
	if !m.Heard("host-000", f.now) || m.Heard("host-000", f.now) {
		t.Error("only the first sign of life revives a dead host")
	}
	if len(f.news) != 4 || m.Large() || len(f.probed) != 0 {
		t.Errorf("changes %v, probed %v", f.news, f.probed)
	}
}

// TestLargeCluster: with more than MaxDirect others swim judges, but for the
// holder and a voter, and for a host that was removed.
func TestLargeCluster(t *testing.T) {
	f := &fake{lease: lease.Status{Holder: "self", Config: cluster.VoterConfig{Voters: []cluster.NodeID{"host-000", "self"}}}}
	m := f.monitor(t, MaxDirect+1)
	m.Due(f.now, MaxDirect+1, false)
	if m.Large() {
		t.Fatalf("swim is at work among %d hosts", MaxDirect+1)
	}
	m.Due(f.now, MaxDirect+2, false)
	if !m.Large() || !m.Settling(f.now) {
		t.Fatal("swim is not at work")
	}
	f.hear(m)
	m.Round(f.now, true, false)
	if !m.Probes("host-000") || !m.Probes("host-001") {
		t.Fatal("swim does not look after a host that it was told of")
	}
	for end := f.now + time.Minute; f.now < end && m.Of("host-000") == cluster.Alive; m.Silence(f.now) {
		f.now += time.Second
	}
	if m.Of("host-000") != cluster.Suspect || m.Of("host-001") != cluster.Alive {
		t.Errorf("voter %s, other %s: silence counts between holder and voter alone", m.Of("host-000"), m.Of("host-001"))
	}
	if m.Due(f.now, MaxDirect+2, true); m.Large() {
		t.Error("swim is at work in a host that was removed")
	}
}
