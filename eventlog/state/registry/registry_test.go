package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// said is one event, as it is folded.
type said struct {
	e    event.Event
	body any
}

func (s said) fold(r *Registry) bool {
	switch b := s.body.(type) {
	case event.WorkerEnrolled:
		return r.Enrol(&s.e, b)
	case event.WorkerRevoked:
		return r.Revoke(&s.e, b)
	case event.AccessSet:
		return r.Access(&s.e, b)
	case event.GatewayOpened:
		return r.Open(&s.e, b)
	}
	panic("another body")
}

func enrolled(n int) event.WorkerEnrolled {
	key := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return event.WorkerEnrolled{Worker: cluster.OutsideID(key[:]), Key: key[:], Owner: "user:ann"}
}

// history is what a few hosts said, each event with a key of its own.
func history(rng *rand.Rand, n int) (out []said) {
	for i := range n {
		node := cluster.NodeID([]string{"a", "b", "c"}[rng.IntN(3)])
		e := event.Event{Source: event.SourceID{Node: node, Inc: 1}, Seq: uint64(i + 1), HLC: cluster.HLC(rng.IntN(n))}
		var body any
		switch rng.IntN(4) {
		case 0:
			b := enrolled(rng.IntN(5))
			b.Trusted, b.Name, b.Actor = rng.IntN(2) == 0, fmt.Sprint("n", rng.IntN(4)), fmt.Sprint(i)
			body = b
		case 1:
			body = event.WorkerRevoked{Worker: enrolled(rng.IntN(20)).Worker, Actor: fmt.Sprint(i)}
		case 2:
			body = event.AccessSet{
				ID: fmt.Sprintf("aaaaaaaaaaaaaaa%c", 'a'+rng.IntN(4)), Hash: cluster.Hash{1, byte(i)}, Owner: "user:ann",
				Roles: []string{"submit", "work"}[:rng.IntN(3)], Expires: 1 + int64(rng.IntN(9)), Actor: fmt.Sprint(i),
			}
		default:
			body = event.GatewayOpened{URL: "https://gw", KID: fmt.Sprint("k", rng.IntN(5)), Key: bytes.Repeat([]byte{byte(i)}, 32), Store: "memory", Until: 9}
		}
		out = append(out, said{e, body})
	}
	return out
}

func bytesOf(r *Registry) []byte {
	w := canon.NewWriter(nil)
	r.Write(w)
	return w.Written()
}

// TestOrderDoesNotMatter folds histories in several orders, and holds the result against
// what a reader would say who has all events before him.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := history(rng, 5+rng.IntN(60))
		var want []byte
		for range 3 {
			r := New()
			for _, s := range all {
				if !s.fold(&r) {
					t.Fatalf("seed %d: %+v was refused", seed, s.body)
				}
			}
			got := bytesOf(&r)
			if want == nil {
				want = got
				plain(t, &r, all)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("seed %d: another order gives another registry", seed)
			}
			copied := r.Clone()
			before := bytesOf(&copied)
			for _, s := range history(rng, 10) {
				s.e.HLC += 1000
				s.fold(&r)
			}
			if !bytes.Equal(bytesOf(&copied), before) {
				t.Fatalf("seed %d: a copy changes with what it is a copy of", seed)
			}
			again, in := New(), canon.NewReader(want)
			again.Read(in)
			if in.Err() != nil || in.Len() != 0 || !bytes.Equal(bytesOf(&again), want) {
				t.Fatalf("seed %d: %v, or not the same when it is read again", seed, in.Err())
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// plain says who is let in by looking at all events, the latest first.
func plain(t *testing.T, r *Registry, all []said) {
	t.Helper()
	all = slices.SortedFunc(slices.Values(all), func(a, b said) int { return canon.KeyOf(&b.e).Compare(canon.KeyOf(&a.e)) })
	workers, revoked, tokens := map[cluster.NodeID]event.WorkerEnrolled{}, map[cluster.NodeID]string{}, map[string]event.AccessSet{}
	kids := map[cluster.NodeID][]string{}
	for _, s := range all {
		switch b := s.body.(type) {
		case event.WorkerEnrolled:
			if _, later := workers[b.Worker]; !later {
				workers[b.Worker] = b
			}
		case event.WorkerRevoked:
			revoked[b.Worker] = b.Actor // the first is seen last
		case event.AccessSet:
			if _, later := tokens[b.ID]; !later {
				tokens[b.ID] = b
			}
		case event.GatewayOpened:
			if n := s.e.Source.Node; len(kids[n]) < maxKeys && !slices.Contains(kids[n], b.KID) {
				kids[n] = append(kids[n], b.KID)
			}
		}
	}
	seen := 0
	for w := range r.Workers("") {
		b := workers[w.Worker]
		by, ended := revoked[w.Worker]
		if w.Actor != b.Actor || w.Trusted != b.Trusted || w.Revoked != ended || w.RevokedBy != by {
			t.Fatalf("%+v, want %+v, revoked by %q", w, b, by)
		}
		seen++
	}
	for id := range revoked {
		if !r.Revoked(id) {
			t.Fatalf("%s is not revoked", id)
		}
	}
	for id, b := range tokens {
		if x, ok := r.Token(id); !ok || x.Hash != b.Hash || x.Actor != b.Actor {
			t.Fatalf("%+v, want %+v", x, b)
		}
	}
	for _, g := range r.Gateways() {
		if !slices.Contains(kids[g.Node], g.KID) {
			t.Fatalf("%s has key %s, want those of %v", g.Node, g.KID, kids[g.Node])
		}
		kids[g.Node] = slices.DeleteFunc(kids[g.Node], func(k string) bool { return k == g.KID })
	}
	if left := slices.Concat(slices.Collect(maps.Values(kids))...); seen != len(workers) || len(left) > 0 {
		t.Fatalf("%d workers, want %d; keys %v are missing", seen, len(workers), left)
	}
}

// TestRefused: what cannot be what it says changes nothing.
func TestRefused(t *testing.T) {
	r := New()
	for _, body := range []any{
		event.WorkerEnrolled{Worker: "n1", Key: make([]byte, 32), Owner: "user:ann"},
		event.WorkerRevoked{Worker: "n1"},
		event.AccessSet{ID: "a"},
		event.GatewayOpened{URL: "x"},
	} {
		if (said{event.Event{Seq: 1}, body}).fold(&r) {
			t.Errorf("%+v was taken", body)
		}
	}
	if !r.Empty() {
		t.Errorf("%+v", r)
	}
}

// TestMost fills the registry: what all that may be let in take.
func TestMost(t *testing.T) {
	workers := cluster.MaxOutsideWorkers / 10
	if os.Getenv("SKEIN_PROVE") == "1" {
		workers = cluster.MaxOutsideWorkers
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := New()
	for i := range workers {
		b := enrolled(i)
		b.Name, b.Actor = fmt.Sprint("pc-", i), "uid:0@n1"
		r.Enrol(&event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: uint64(i + 1), HLC: cluster.HLC(i + 1)}, b)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	start := time.Now()
	b := bytesOf(&r)
	wrote := time.Since(start)
	start = time.Now()
	again, in := New(), canon.NewReader(b)
	again.Read(in)
	if n, _ := again.Counts(); in.Err() != nil || n != workers {
		t.Fatalf("%d workers, %v", n, in.Err())
	}
	t.Logf("%d workers: %d bytes of memory each, %d bytes written in %v, read in %v",
		workers, (after.HeapAlloc-before.HeapAlloc)/uint64(workers), len(b), wrote, time.Since(start))
	if per := len(b) / workers; per > 160 {
		t.Errorf("%d bytes each", per)
	}
	runtime.KeepAlive(&r)
}
