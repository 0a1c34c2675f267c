package membership

import (
	"context"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// rotating is a host n1 whose view of n2 and n3 a test sets.
type rotating struct {
	own *Own
	id  *join.Identity

	mu    sync.Mutex
	view  *coord.View // guarded by mu
	keys  [][32]byte  // guarded by mu: that the device got
	notes int         // guarded by mu
}

func (r *rotating) View() *coord.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

func (r *rotating) WithTable(context.Context, func(*member.Table)) error {
	return context.DeadlineExceeded // there is no certificate to renew
}

// AddRecords shows what this host announces in its view.
func (r *rotating) AddRecords(_ context.Context, rs member.Records) error {
	a, err := member.ParseAnn(rs.Anns[0])
	if err != nil {
		return err
	}
	r.set(func(v *coord.View) {
		v.Members[0].WGPub, v.Members[0].NextWG, v.Members[0].NextAt = a.WGPub[:], nil, a.NextAt
		if a.NextAt != 0 {
			v.Members[0].NextWG = a.Next[:]
		}
	})
	return nil
}

func (r *rotating) Leave(context.Context, member.Signed) error { return nil }

func (r *rotating) Note(event.Kind, any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes++
}
func (r *rotating) Append(context.Context, event.Kind, any) (uint64, error) { return 0, nil }
func (r *rotating) Record(context.Context, event.Kind, any)                 {}

// set makes the next view.
func (r *rotating) set(change func(*coord.View)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.view
	next.Members = append([]coord.MemberView(nil), next.Members...)
	change(&next)
	r.view = &next
}

// others sets what this host sees of both others.
func (r *rotating) others(h cluster.Health, synced bool) {
	r.set(func(v *coord.View) {
		for i := range v.Members[1:] {
			v.Members[i+1].Health, v.Members[i+1].Synced = h, synced
		}
	})
}

func (r *rotating) changed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys) > 0
}

// rotatingRun calls f beside the owner of the records, with the clock of a bubble.
func rotatingRun(t *testing.T, f func(t *testing.T, r *rotating)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "n1")
	if err := join.Init(dir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &rotating{id: id, view: &coord.View{Self: "n1"}}
		for _, n := range []cluster.NodeID{"n1", "n2", "n3"} {
			r.view.Members = append(r.view.Members, coord.MemberView{Member: cluster.Member{Node: n}, Health: cluster.Alive})
		}
		r.own = NewOwn(OwnOptions{
			Identity: id, StateDir: dir, Roster: NewRoster(id, member.Roster{}), Coord: r, Journal: r,
			About:      func() (join.About, error) { return join.About{}, nil },
			Advertised: func() bool { return true },
			Alive: func() []cluster.NodeID {
				var out []cluster.NodeID
				for _, m := range r.View().Members[1:] {
					if m.Health == cluster.Alive {
						out = append(out, m.Node)
					}
				}
				return out
			},
			SetKey: func(_ context.Context, id *join.Identity) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.keys = append(r.keys, id.WGPub)
				return nil
			},
			Heartbeat: time.Second, Rand: func() float64 { return 0 }, Logger: zerolog.Nop(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.own.Run(ctx) })
		f(t, r)
		cancel()
		running.Wait()
	})
}

// TestRotateWaitsOutSilence: all others fall silent for a moment, and for minutes,
// and the change goes on as soon as one is known to have the next key.
func TestRotateWaitsOutSilence(t *testing.T) {
	for name, silence := range map[string]time.Duration{"a moment": 3 * time.Second, "minutes": 4 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			rotatingRun(t, func(t *testing.T, r *rotating) {
				if _, err := r.own.RotateKey(t.Context(), "uid:0@n1"); err != nil {
					t.Fatal(err)
				}
				r.others(cluster.Suspect, false)
				time.Sleep(silence)
				if r.changed() {
					t.Fatal("changed, and nobody knows the key")
				}
				r.others(cluster.Suspect, true) // the last word before it falls silent again
				time.Sleep(15 * time.Second)
				if !r.changed() {
					t.Error("the change was given up")
				}
			})
		})
	}
}

// TestRotateRemembersWhoKnows: a host that had the announcement once has it, also
// when it is not heard any more.
func TestRotateRemembersWhoKnows(t *testing.T) {
	rotatingRun(t, func(t *testing.T, r *rotating) {
		if _, err := r.own.RotateKey(t.Context(), "uid:0@n1"); err != nil {
			t.Fatal(err)
		}
		r.set(func(v *coord.View) { v.Members[1].Synced = true })
		time.Sleep(2 * time.Second)
		if r.changed() {
			t.Fatal("n3 is alive, and was not waited for")
		}
		r.others(cluster.Suspect, false)
		time.Sleep(10 * time.Second)
		if !r.changed() {
			t.Error("not changed, though n2 knows the key")
		}
	})
}

// TestRotateGivesUp when nobody is known to have the key for all that time, says so,
// and can be asked again.
func TestRotateGivesUp(t *testing.T) {
	rotatingRun(t, func(t *testing.T, r *rotating) {
		r.others(cluster.Suspect, false)
		got, err := r.own.RotateKey(t.Context(), "uid:0@n1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(got.Until) - time.Second)
		if r.own.RotateError() != "" || r.View().Members[0].NextWG == nil {
			t.Fatal("given up before its time")
		}
		time.Sleep(3 * time.Second)
		if r.changed() || r.own.RotateError() == "" || r.View().Members[0].NextWG != nil {
			t.Fatalf("changed %t, %q, announced %v", r.changed(), r.own.RotateError(), r.View().Members[0].NextWG)
		}
		if _, err := r.own.RotateKey(t.Context(), "uid:0@n1"); err != nil || r.own.RotateError() != "" {
			t.Errorf("asked again: %v, %q", err, r.own.RotateError())
		}
		r.others(cluster.Alive, true)
		time.Sleep(2 * time.Second)
		if !r.changed() {
			t.Error("not changed the second time")
		}
	})
}

// TestRotateTrustsNoOldView: hosts that are level with the records of before the
// announcement do not have it.
func TestRotateTrustsNoOldView(t *testing.T) {
	r := &rotation{key: [32]byte{1}, at: time.Unix(10, 0), until: time.Unix(20, 0), knows: map[cluster.NodeID]bool{}}
	level := []coord.MemberView{{Member: cluster.Member{Node: "n1"}}, {Member: cluster.Member{Node: "n2"}, Health: cluster.Alive, Synced: true}}
	if s, _ := r.next("n1", level, time.Unix(0, 0)); s != stay {
		t.Errorf("step %d before the announcement is in the view", s)
	}
	level[0].NextWG = r.key[:]
	if s, _ := r.next("n1", level, time.Unix(0, 0)); s != change {
		t.Errorf("step %d when all know", s)
	}
}
