package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		ours, peer float64
		target     Target
		want       bool
	}{
		{1, 2, Want("ratio", "<=", 0.5), true},
		{1.1, 2, Want("ratio", "<=", 0.5), false},
		{1, 0, Want("ratio", "<=", 1), false}, // nothing to compare with
		{0, 0, Want("ours", "<=", 0), true},
		{1, 0, Want("ours", "<=", 0), false},
		{9, 10, Want("ratio", ">=", 0.8), true},
		{7, 10, Want("ratio", ">=", 0.8), false},
		{7, 0, Target{}, true},
	} {
		s := Series{Target: c.target, Digest: Median, Ours: []float64{c.ours}, Peer: []float64{c.peer}}
		if r := s.result(); r.OK != c.want {
			t.Errorf("%+v is ok=%t, want %t", r, r.OK, c.want)
		}
	}
}

func TestStatistics(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	if m := Median(v); m != 3 {
		t.Errorf("median %v", m)
	}
	if m := Median(v[:4]); m != 3 {
		t.Errorf("median of four %v", m)
	}
	if p := P99(v); p != 5 {
		t.Errorf("p99 of five %v", p)
	}
	if p := percentile(v, 50); p != 3 {
		t.Errorf("p50 %v", p)
	}
	if r := round(123456); r != 123500 {
		t.Errorf("rounded %v", r)
	}
	if s := number(122_712_345); s != "122700000" {
		t.Errorf("printed %s", s)
	}
	if s := number(0.000123456); s != "0.0001235" {
		t.Errorf("printed %s", s)
	}
}

// TestKeep: what a run of some groups did not measure stays, with when it was measured.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	first, second := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	row := func(name string, v float64) Series {
		return Series{Name: name, Unit: "ms", Digest: Median, Ours: []float64{v}}
	}
	r := NewReport(Header{Date: first, LoadBefore: "0.1"}, []Series{row("a", 1), row("b", 2)}, nil)
	if err := errors.Join(r.Keep(file), r.Write(file)); err != nil {
		t.Fatal(err)
	}
	r = NewReport(Header{Date: second, LoadBefore: "0.2"}, []Series{row("b", 3), row("c", 4)}, nil)
	if err := r.Keep(file); err != nil {
		t.Fatal(err)
	}
	got := ""
	for i, d := range r.Details {
		got += fmt.Sprintf("%s %g %d %s, ", r.Results[i].Name, r.Results[i].Ours, d.Date.Unix(), d.LoadBefore)
	}
	if want := "b 3 2000 0.2, c 4 2000 0.2, a 1 1000 0.1, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.Keep(file) == nil {
		t.Error("a file that is none is kept")
	}
}
