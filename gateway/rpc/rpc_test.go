package rpc

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
)

func FuzzDecode(f *testing.F) {
	for _, x := range []any{api.WorkAttach{Slots: 1, Running: []job.Attempt{{Job: "j", Number: 1}}}, api.WorkBeat{Have: []api.WorkProgress{{Attempt: job.Attempt{Job: "j", Number: 1}}}}, api.WorkResults{Results: []api.WorkResult{{Attempt: job.Attempt{Job: "j", Number: 1}, Output: `{"iterations":1,"metrics":{}}`}}}} {
		text, err := json.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, into := range []any{&api.WorkAttach{}, &api.WorkBeat{}, &api.WorkSession{}, &api.WorkResults{}} {
			if Decode(text, into) != nil {
				continue
			}
			first, err := json.Marshal(into)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if values(first) > maxValues {
				continue // what was left out is written out
			}
			again := reflect.New(reflect.TypeOf(into).Elem()).Interface()
			if err := Decode(first, again); err != nil || !reflect.DeepEqual(into, again) {
				t.Fatalf("%s is read as %+v, which is read as %+v: %v", text, into, again, err)
			}
			if r, ok := into.(*api.WorkResults); ok {
				for _, x := range r.Results {
					if out, invalid := resultOf(x); (out.Error == "") == (out.Result == nil) || invalid && out.Error == "" {
						t.Fatalf("%q is %+v", x.Output, out)
					}
				}
			}
		}
	})
}

// TestClosed: whoever attaches when the service has ended is refused, and has no session.
func TestClosed(t *testing.T) {
	c, err := crew.New(crew.Options{Now: func() time.Duration { return time.Hour }, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Crew: InMemory(c), Owner: func(cluster.NodeID) (string, error) { return "user:ann", nil }, Push: func(cluster.NodeID, api.WorkPush) {}, Wall: time.Now})
	text, err := json.Marshal(api.WorkAttach{Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}, Client: api.GatewayClient})
	if err != nil {
		t.Fatal(err)
	}
	by := Caller{Worker: cluster.OutsideID([]byte("a")), Conn: "1"}
	if _, err := s.Call(by, api.RPCAttach, text); err != nil || c.Stats().Attached != 1 {
		t.Fatalf("%v, %+v", err, c.Stats())
	}
	s.Gone("1")
	s.Close()
	if _, err := s.Call(by, api.RPCAttach, text); !api.IsCode(err, api.CodeNotReady) || c.Stats().Attached != 0 {
		t.Errorf("%v, %+v", err, c.Stats())
	}
}

// roamer is a seat of a crew of several gateways, which notes who may listen elsewhere.
type roamer struct {
	desk.Seat
	attached, seated []bool
	apart            bool
}

func (r *roamer) Apart() desk.Seat { r.apart = true; return r }

func (r *roamer) Bye() error {
	r.seated = append(r.seated, r.apart)
	return nil
}

// rover is the crew of a roamer.
type rover struct{ at *roamer }

func (r rover) Why() error                              { return nil }
func (r rover) Stats() desk.Stats                       { return desk.Stats{} }
func (r rover) Names(cluster.NodeID, cluster.Hash) bool { return false }

func (r rover) Attach(a desk.Attach) (desk.Seat, desk.State, error) {
	r.at.attached = append(r.at.attached, a.Apart)
	return r.at, desk.State{Session: 1}, nil
}

func (r rover) Seat(cluster.NodeID, uint64) (desk.Seat, error) {
	r.at.apart = false
	return r.at, nil
}

// TestApart: who asks by HTTP may listen at another gateway, unless all gateways tell workers
// things alike.
func TestApart(t *testing.T) {
	text, err := json.Marshal(api.WorkAttach{Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}, Client: api.GatewayClient})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		conn           string
		anywhere, want bool
	}{{"", false, true}, {"1", false, false}, {"", true, false}} {
		r := &roamer{}
		s := New(Options{
			Crew: rover{r}, Anywhere: tc.anywhere, Owner: func(cluster.NodeID) (string, error) { return "user:ann", nil }, Push: func(cluster.NodeID, api.WorkPush) {}, Wall: time.Now,
		})
		by := Caller{Worker: cluster.OutsideID([]byte("a")), Conn: tc.conn}
		_, errA := s.Call(by, api.RPCAttach, text)
		_, errB := s.Call(by, api.RPCBye, []byte(`{"session":"1"}`))
		if errA != nil || errB != nil || !slices.Equal(r.attached, []bool{tc.want}) || !slices.Equal(r.seated, []bool{tc.want}) {
			t.Errorf("over %q, anywhere %t: attached %v, seated %v; %v, %v", tc.conn, tc.anywhere, r.attached, r.seated, errA, errB)
		}
		s.Close()
	}
}

// TestDecodeIsBounded: what is read of a long body takes not much more room than the body.
func TestDecodeIsBounded(t *testing.T) {
	many := func(before, each string, n int) []byte {
		return []byte(before + strings.Repeat(each+",", n-1) + each + "]}")
	}
	full := `{"job":"jaaaaaaaaaaaaaaaaaaaaaaaaaa","chunk":1,"attempt":1,"done":"1"}`
	var beat api.WorkBeat
	if err := Decode(many(`{"session":"1","kept":256,"ready":true,"have":[`, full, desk.MaxRefs), &beat); err != nil || len(beat.Have) != desk.MaxRefs {
		t.Errorf("a beat of a worker that is full: %v", err)
	}
	var results api.WorkResults
	long := `{"output":"{\"a\":[1` + strings.Repeat(",1", 40<<10) + `]}"}`
	if err := Decode(many(`{"session":"1","results":[`, long, 2), &results); err != nil || len(results.Results) != 2 {
		t.Errorf("long outputs: %v", err)
	}
	const size = 3 << 20
	for name, bad := range map[string]struct {
		text []byte
		into any
	}{
		"results": {many(`{"session":"1","results":[`, "{}", size/3), &api.WorkResults{}},
		"have":    {many(`{"session":"1","have":[`, "{}", size/3), &api.WorkBeat{}},
		"running": {many(`{"client":1,"running":[`, "{}", size/3), &api.WorkAttach{}},
		"many":    {[]byte("{" + strings.Repeat(`"have":[{}],`, size/12) + `"kept":1}`), &api.WorkBeat{}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Decode(bad.text, bad.into)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > size {
			t.Errorf("%s: %d bytes for a body of %d; %v", name, took, len(bad.text), err)
		}
	}
}
